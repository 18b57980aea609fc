package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq"
)

const (
	readyTimeout = 2 * time.Second // of one database
	readyFor     = time.Second     // how long an answer of a database is reused
)

// readiness is whether a database answers. It is safe for concurrent use.
type readiness struct {
	mu    sync.Mutex
	ready bool
	at    time.Time
}

// readyz answers whether the database of the path can be reached or, without one, any of them: one that is away takes
// the others away from nobody. The log says which one it is.
func (s *server) readyz(w http.ResponseWriter, r *http.Request) {
	var ready atomic.Bool
	var all sync.WaitGroup
	for name, c := range s.clients {
		if only := r.PathValue("database"); only == "" || only == name {
			all.Go(func() {
				if s.isReady(r.Context(), name, c) {
					ready.Store(true)
				}
			})
		}
	}
	all.Wait()
	if s.stopping.Load() || !ready.Load() {
		http.Error(w, "not ready", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ready")
}

// isReady reports whether a database answers, or has answered just now.
func (s *server) isReady(ctx context.Context, name string, c *dbq.Client) bool {
	s.readyMu.Lock()
	if s.ready == nil {
		s.ready = map[string]*readiness{}
	}
	r := s.ready[name]
	if r == nil {
		r = &readiness{}
		s.ready[name] = r
	}
	s.readyMu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.at) < readyFor {
		return r.ready
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyTimeout)
	defer cancel()
	_, err := c.Now(ctx)
	if err != nil {
		s.logger.Error("serve: the database does not answer", "database", name, "err", err)
	}
	r.ready, r.at = err == nil, time.Now()
	return r.ready
}

package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/dbq-go/dbq"
)

const (
	readyTimeout = 2 * time.Second // of one database
	readyFor     = time.Second     // how long an answer of a database is reused
)

// readiness is whether the databases answer. It is safe for concurrent use.
type readiness struct {
	mu        sync.Mutex
	answered  sync.Cond // with mu
	databases map[string]*answer
	asking    sync.WaitGroup
}

// answer is whether a database answered when it was last asked.
type answer struct {
	asking bool
	ready  bool
	at     time.Time
}

// readyz answers whether the database of the path can be reached or, without one, any of them: one that is away takes
// the others away from nobody. The log says which one it is.
func (s *server) readyz(w http.ResponseWriter, r *http.Request) {
	if !s.answers(r.PathValue("database")) || s.stopping.Load() {
		http.Error(w, "not ready", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ready")
}

// answers reports whether a database, or any of them without a name, answers or has answered just now. It returns with
// the first answer. A database is asked by one goroutine at a time, however many requests wait.
func (s *server) answers(only string) bool {
	oldest, r := time.Now().Add(-readyFor), &s.ready
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.databases == nil {
		r.databases, r.answered.L = map[string]*answer{}, &r.mu
	}
	for {
		waits := false
		for name, c := range s.clients {
			if only != "" && only != name {
				continue
			}
			a := r.databases[name]
			if a == nil {
				a = &answer{}
				r.databases[name] = a
			}
			if !a.asking && !a.at.After(oldest) {
				a.asking = true
				r.asking.Go(func() { s.ask(name, c, a) })
			}
			if a.ready && !a.asking {
				return true
			}
			waits = waits || a.asking
		}
		if !waits {
			return false
		}
		r.answered.Wait()
	}
}

// ask asks a database.
func (s *server) ask(name string, c *dbq.Client, a *answer) {
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	_, err := c.Now(ctx)
	if err != nil {
		s.logger.Error("serve: the database does not answer", "database", name, "err", err)
	}
	s.ready.mu.Lock()
	defer s.ready.mu.Unlock()
	*a = answer{ready: err == nil, at: time.Now()}
	s.ready.answered.Broadcast()
}

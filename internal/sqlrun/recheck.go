package sqlrun

import (
	"context"
	"database/sql"
	"sync"
	"time"

	"github.com/dbq-go/dbq/dialect"
)

// recheckTimeout is how long an idle connection has for its answer in recheck.
const recheckTimeout = time.Second

// rechecks has the recheck that is under way.
type rechecks struct {
	mu      sync.Mutex
	running chan struct{} // nil is none
}

// recheck discards the idle connections of the pools that do not answer, in the background. The result is closed when
// that is done. Calls share one recheck.
func (s *Session) recheck() (done <-chan struct{}) {
	s.rechecks.mu.Lock()
	defer s.rechecks.mu.Unlock()
	if s.rechecks.running != nil {
		return s.rechecks.running
	}
	running := make(chan struct{})
	s.rechecks.running = running
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), recheckTimeout)
		defer cancel()
		var all sync.WaitGroup
		for _, db := range []*sql.DB{s.Pool.Write, s.Pool.Caller} {
			if db != nil {
				all.Go(func() { s.recheckIdle(ctx, db) })
			}
		}
		all.Wait()
		s.rechecks.mu.Lock()
		defer s.rechecks.mu.Unlock()
		s.rechecks.running = nil
		close(running)
	}()
	return running
}

// recheckIdle takes all idle connections out of a pool at once, and returns those that answer.
func (s *Session) recheckIdle(ctx context.Context, db *sql.DB) {
	if r, ok := db.Driver().(dialect.OuterPool); ok {
		r.Recheck(ctx)
	}
	conns := make([]*sql.Conn, db.Stats().Idle)
	var all sync.WaitGroup
	for i := range conns {
		all.Go(func() {
			if conn, err := db.Conn(ctx); err == nil {
				s.ping(ctx, conn)
				conns[i] = conn
			}
		})
	}
	all.Wait()
	for _, conn := range conns {
		if conn != nil {
			_ = conn.Close()
		}
	}
}

// ping discards a connection that does not answer.
func (s *Session) ping(ctx context.Context, conn *sql.Conn) {
	if conn.PingContext(ctx) != nil {
		s.discard(conn)
	}
}

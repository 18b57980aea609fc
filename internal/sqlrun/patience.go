package sqlrun

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/kit"
)

// The bounds of every wait for a server. They count from the start of a try, or from the last answer, so a transaction
// of many statements has as long as it needs.
const (
	// answerTimeout is for all statements but slow ones.
	answerTimeout = 10 * time.Second
	// leastPatience keeps a short lease from making a slow server look like a dead one.
	leastPatience = 2 * time.Second
	// suspectAfter is how long a try must have taken to be a sign of dead connections when its caller's deadline ends:
	// a healthy server often misses a shorter one, and a recheck takes the idle connections away for a moment.
	suspectAfter = 500 * time.Millisecond
	// slowTimeout is for Slow: a migration may build an index for a while.
	slowTimeout = 10 * time.Minute
)

type patienceKey struct{}

// WithPatience makes each try of a call wait for the server for the time that most returns: at least 2 seconds, and at
// most 10. A worker that has a lease of 6 seconds cannot wait for 10.
func WithPatience(ctx context.Context, most func() time.Duration) context.Context {
	return context.WithValue(ctx, patienceKey{}, func() time.Duration {
		return min(max(most(), leastPatience), answerTimeout)
	})
}

// Slow is for statements that may take minutes: migrations, cleaning, and queries that read many rows.
func Slow(ctx context.Context) context.Context {
	return context.WithValue(ctx, patienceKey{}, func() time.Duration { return slowTimeout })
}

func patience(ctx context.Context) time.Duration {
	if most, ok := ctx.Value(patienceKey{}).(func() time.Duration); ok {
		return most()
	}
	return answerTimeout
}

// try is the context of one try of a call. It ends when the server has not answered, and no part of an answer has
// arrived, for as long as the call's patience.
type try struct {
	context.Context
	session *Session
	begun   time.Time
	cancel  context.CancelCauseFunc
	timer   *time.Timer
	most    time.Duration
	line    atomic.Pointer[kit.TrackedConn] // of the connection that was taken last; nil if it is not known
}

type tryKey struct{}

// Value returns the try itself for tryKey.
func (t *try) Value(key any) any {
	if key == (tryKey{}) {
		return t
	}
	return t.Context.Value(key)
}

// try begins a try. Its end must be called. An engine with one writer has no server that could fall silent, and a
// statement may wait for the writer of another process.
func (s *Session) try(ctx context.Context) *try {
	t := &try{session: s, begun: time.Now(), most: slowTimeout}
	if !s.Server.OneWriter {
		t.most = patience(ctx)
	}
	t.Context, t.cancel = context.WithCancelCause(kit.WithTracking(ctx, t.line.Store))
	t.timer = time.AfterFunc(t.most, t.expire)
	return t
}

// expire ends the patience, unless an answer is under way.
func (t *try) expire() {
	if line := t.line.Load(); line != nil && t.Err() == nil {
		if rest := t.most - time.Since(line.Arrived()); rest > 0 {
			t.timer.Reset(rest)
			return
		}
	}
	t.cancel(&silentError{t.most})
}

// tryOf returns the try of a context, or nil.
func tryOf(ctx context.Context) *try {
	t, _ := ctx.Value(tryKey{}).(*try)
	return t
}

// answered restarts the patience of a try.
func (t *try) answered() {
	if t != nil {
		t.timer.Reset(t.most)
	}
}

// acquires makes a try wait longer if it has to wait for a connection of a pool that others use, and not for the
// server. answered ends that.
func (t *try) acquires(db *sql.DB) {
	if t != nil && busy(db) {
		t.timer.Reset(slowTimeout)
	}
}

func busy(db *sql.DB) bool {
	if p, ok := db.Driver().(dialect.OuterPool); ok && p.Busy() {
		return true
	}
	s := db.Stats()
	return s.MaxOpenConnections > 0 && s.InUse >= s.MaxOpenConnections
}

// sends adds to a try the time to send that many bytes at 1 MB a second.
func (t *try) sends(bytes int) {
	if t != nil && bytes > 1<<20 {
		t.timer.Reset(t.most + time.Duration(bytes)*time.Microsecond)
	}
}

// end ends a try with its error. If the server was silent, it returns that error, and does not trust the idle
// connections either: they may have died together.
func (t *try) end(err error) error {
	t.timer.Stop()
	ended, cause := t.Err(), context.Cause(t)
	t.cancel(nil)
	switch {
	case err == nil || t.session.Server.OneWriter:
		return err
	case errors.Is(ended, context.DeadlineExceeded): // the caller's, who does not wait any longer
		if time.Since(t.begun) > suspectAfter {
			t.session.recheck()
		}
		return err
	case !Silent(cause):
		return err
	}
	<-t.session.recheck()
	var tx *TxError
	if errors.As(err, &tx) {
		return &TxError{Committing: tx.Committing, Err: cause}
	}
	return cause
}

// silentError means that the server did not answer in time. It is a net.Error, so a dialect takes it for a lost
// connection.
type silentError struct{ most time.Duration }

func (e *silentError) Error() string {
	return fmt.Sprintf("the server did not answer within %v", e.most)
}
func (*silentError) Timeout() bool   { return true }
func (*silentError) Temporary() bool { return true }

// Silent reports whether err means that the server did not answer within the patience of a call.
func Silent(err error) bool {
	var silent *silentError
	return errors.As(err, &silent)
}

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
				if conn.PingContext(ctx) != nil {
					s.discard(conn)
				}
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

package sqlrun

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dbq-go/dbq/dialect"
)

// mortal is a server whose connections can die. Their driver reports it to the pool, as drivers do.
type mortal struct{ server }

func (m *mortal) Connect(context.Context) (driver.Conn, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.opened++
	return &mortalConn{serverConn{&m.server}, m.opened}, nil
}

type mortalConn struct {
	serverConn
	number int
}

func (c *mortalConn) dead() bool {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return c.s.fail["dead"] != nil && c.number <= 1
}

func (c *mortalConn) IsValid() bool { return !c.dead() }
func (c *mortalConn) ResetSession(context.Context) error {
	if c.dead() {
		return driver.ErrBadConn
	}
	return nil
}

func bounded(t *testing.T, m *mortal, conns int) *Session {
	t.Helper()
	db := sql.OpenDB(m)
	db.SetMaxOpenConns(conns)
	t.Cleanup(func() { db.Close() })
	return NewSession(
		fake{classify: dialect.ClassifyConn},
		dialect.Pool{Write: db, Read: db},
		dialect.Server{},
		dialect.Names{},
	)
}

// exhaust takes all that a pool has left, and reports how much it was.
func exhaust(t *testing.T, s *Session) (n int) {
	t.Helper()
	for {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		conn, err := s.Pool.Write.Conn(ctx)
		cancel()
		if err != nil {
			return n
		}
		t.Cleanup(func() { conn.Close() })
		n++
	}
}

func TestReservedConnectionsAreNotUsedByOthers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ limit, kept int }{{2, 1}, {4, 2}, {5, 2}, {16, 4}} {
		synctest.Test(t, func(t *testing.T) {
			s := bounded(t, &mortal{}, c.limit)
			ctx, kept, release := s.Reserve(t.Context())
			defer release()
			if left := exhaust(t, s); kept != c.kept || left != c.limit-c.kept {
				t.Errorf("a pool of %d: %d kept and %d left to others, want %d kept", c.limit, kept, left, c.kept)
			}
			for range 3 * kept {
				if err := s.Do(ctx, run("WORK")); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Reading(ctx, func(context.Context, dialect.Conn) error { return nil }); err != nil {
				t.Error(err)
			}
			others, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := s.Do(others, run("WORK")); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("without the reserve's context: got %v, want it to wait for the others", err)
			}
		})
	}
}

func TestSmallPoolReservesNothing(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]int{"without a limit": 0, "of one connection": 1} {
		s := bounded(t, &mortal{}, limit)
		ctx, kept, release := s.Reserve(t.Context())
		if kept != 0 || ctx != t.Context() {
			t.Errorf("a pool %s: %d are kept, want none", name, kept)
		}
		release()
	}
	s := bounded(t, &mortal{}, 8)
	s.Pool.Caller = sql.OpenDB(&server{})
	defer s.Pool.Caller.Close()
	if _, kept, _ := s.Reserve(t.Context()); kept != 0 {
		t.Errorf("callers have a pool of their own: %d are kept, want none", kept)
	}
}

func TestReserveIsSharedUntilItsLastRelease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := bounded(t, &mortal{}, 4)
		first, _, releaseFirst := s.Reserve(t.Context())
		second, _, releaseSecond := s.Reserve(t.Context())
		if n := s.Pool.Write.Stats().InUse; n != 2 {
			t.Errorf("two users keep %d connections, want 2 together", n)
		}
		releaseFirst()
		releaseFirst() // counts once
		if n := s.Pool.Write.Stats().InUse; n != 2 {
			t.Errorf("one user keeps %d connections, want 2", n)
		}
		err := s.Do(second, func(ctx context.Context, c dialect.Conn) error {
			releaseSecond() // while it is in use
			return run("WORK")(ctx, c)
		})
		if err != nil {
			t.Error(err)
		}
		if err := s.Do(first, run("WORK")); err != nil { // a context that outlives the reserve
			t.Error(err)
		}
		if n := s.Pool.Write.Stats().InUse; n != 0 {
			t.Errorf("%d connections are in use after the last user's end, want 0", n)
		}
	})
}

func TestDeadReservedConnectionIsReplaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &mortal{}
		s := bounded(t, m, 2)
		ctx, _, release := s.Reserve(t.Context())
		defer release()
		m.mu.Lock()
		m.fail = map[string]error{"dead": driver.ErrBadConn}
		m.mu.Unlock()
		for range 2 {
			if err := s.Do(ctx, run("WORK")); err != nil {
				t.Fatal(err)
			}
		}
		if m.opened != 2 || m.closed != 1 {
			t.Errorf("%d connections were made and %d closed, want 2 and 1", m.opened, m.closed)
		}
	})
}

func TestExpiredReservedConnectionIsReplaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &mortal{}
		s := bounded(t, m, 2)
		s.Pool.Write.SetConnMaxLifetime(reserveLife)
		ctx, _, release := s.Reserve(t.Context())
		defer release()
		time.Sleep(2 * reserveLife)
		if err := s.Do(ctx, run("WORK")); err != nil {
			t.Fatal(err)
		}
		if m.opened != 2 || m.closed != 1 {
			t.Errorf("%d connections were made and %d closed, want the old one closed by its pool", m.opened, m.closed)
		}
		time.Sleep(2 * reserveLife)
		if exhaust(t, s) != 1 {
			t.Error("want the pool to be exhausted")
		}
		if err := s.Do(ctx, run("WORK")); err != nil {
			t.Errorf("with no other to be had: %v", err)
		}
	})
}

// While the pool has no other connection to spare, that is asked now and then, and does not hold up each call.
func TestReserveSparesBusyPool(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := bounded(t, &mortal{}, 2)
		ctx, _, release := s.Reserve(t.Context())
		defer release()
		exhaust(t, s)
		time.Sleep(2 * reserveLife)
		began := time.Now()
		for range 100 {
			if err := s.Do(ctx, run("WORK")); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took > freshWait {
			t.Errorf("100 calls waited %v for connections, want %v at most", took, freshWait)
		}
	})
}

func TestReserveWaitIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := bounded(t, &mortal{}, 4)
		busy, err := s.Pool.Write.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		exhaust(t, s)
		began := time.Now()
		ctx, kept, release := s.Reserve(t.Context())
		defer release()
		if took := time.Since(began); kept != 2 || took != reserveWait {
			t.Errorf("of a busy pool it kept %d after %v", kept, took)
		}
		busy.Close()
		if err := s.Do(ctx, run("WORK")); err != nil { // it is kept from now on
			t.Error(err)
		}
		if n := s.Pool.Write.Stats().InUse; n != 4 {
			t.Errorf("%d connections are in use, want all", n)
		}
	})
}

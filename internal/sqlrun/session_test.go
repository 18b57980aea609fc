package sqlrun

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/kit"
	"github.com/dbq-go/dbq/internal/check"
)

// server is a database that records its statements and fails where a test requires it.
type server struct {
	mu     sync.Mutex
	log    []string
	fail   map[string]error         // by statement
	slow   map[string]time.Duration // by statement; ends early with its context
	opened int
	closed int
}

func (s *server) pool(t *testing.T) dialect.Pool {
	db := sql.OpenDB(s)
	t.Cleanup(func() { db.Close() })
	return dialect.Pool{Write: db, Read: db}
}

func (s *server) said() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.log)
}

func (s *server) Connect(context.Context) (driver.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opened++
	return &serverConn{s}, nil
}
func (s *server) Driver() driver.Driver { return nil }

type serverConn struct{ s *server }

func (c *serverConn) Prepare(string) (driver.Stmt, error) {
	return nil, errors.New("not prepared here")
}
func (c *serverConn) Begin() (driver.Tx, error) { return nil, errors.New("begun by a statement") }
func (c *serverConn) Close() error {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.s.closed++
	return nil
}

func (c *serverConn) ExecContext(
	ctx context.Context,
	query string,
	_ []driver.NamedValue,
) (driver.Result, error) {
	c.s.mu.Lock()
	c.s.log = append(c.s.log, query)
	slow, err := c.s.slow[query], c.s.fail[query]
	c.s.mu.Unlock()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(slow):
	}
	return driver.RowsAffected(1), err
}

func session(t *testing.T, s *server, sv dialect.Server) *Session {
	f := fake{
		statements: dialect.Statements{Begin: []string{"SET", "BEGIN"}},
		classify:   kit.ClassifyConn,
	}
	return NewSession(f, s.pool(t), sv, dialect.Names{})
}

func run(text string) func(context.Context, dialect.Conn) error {
	return func(ctx context.Context, c dialect.Conn) error {
		_, err := c.Exec(ctx, text)
		return err
	}
}

var lock = dialect.Lock{Take: "LOCK", Free: "UNLOCK"}

func TestTxReportsItsOutcome(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	for _, c := range []struct {
		name      string
		fail      map[string]error
		do        func(*Session) error
		want      []string
		class     dialect.Class
		discarded int
	}{
		{"all well", nil, tx,
			[]string{"SET", "BEGIN", "WORK", "COMMIT"}, dialect.Unknown, 0},
		{"the work fails", map[string]error{"WORK": boom}, tx,
			[]string{"SET", "BEGIN", "WORK", "ROLLBACK"}, dialect.Unknown, 0},
		{"the work loses its connection", map[string]error{"WORK": io.EOF, "ROLLBACK": io.EOF}, tx,
			[]string{"SET", "BEGIN", "WORK", "ROLLBACK"}, dialect.Unavailable, 1},
		{"begin fails", map[string]error{"BEGIN": boom}, tx, []string{"SET", "BEGIN"}, dialect.Unknown, 1},
		{"commit is refused", map[string]error{"COMMIT": boom}, tx,
			[]string{"SET", "BEGIN", "WORK", "COMMIT"}, dialect.Unknown, 1},
		{"commit is lost", map[string]error{"COMMIT": io.EOF}, tx,
			[]string{"SET", "BEGIN", "WORK", "COMMIT"}, dialect.Ambiguous, 1},
		{"locked", nil, lockedTx, []string{"LOCK", "SET", "BEGIN", "WORK", "COMMIT", "UNLOCK"}, dialect.Unknown, 0},
		{"no lock to be had", map[string]error{"LOCK": boom}, lockedTx, []string{"LOCK"}, dialect.Unknown, 1},
		{"locked, the work fails", map[string]error{"WORK": boom}, lockedTx,
			[]string{"LOCK", "SET", "BEGIN", "WORK", "ROLLBACK", "UNLOCK"}, dialect.Unknown, 0},
		{"the lock cannot be freed", map[string]error{"UNLOCK": boom}, lockedTx,
			[]string{"LOCK", "SET", "BEGIN", "WORK", "COMMIT", "UNLOCK"}, dialect.Unknown, 1},
		{"one statement", nil, one, []string{"SET", "WORK"}, dialect.Unknown, 0},
		{"one statement fails", map[string]error{"WORK": boom}, one, []string{"SET", "WORK"}, dialect.Unknown, 1},
		{"one statement is not begun", map[string]error{"SET": boom}, one, []string{"SET"}, dialect.Unknown, 1},
		{"a write is its own transaction", nil, do, []string{"WORK"}, dialect.Unknown, 0},
		{"a write that is lost", map[string]error{"WORK": io.EOF}, do, []string{"WORK"}, dialect.Ambiguous, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db := &server{fail: c.fail}
			s := session(t, db, dialect.Server{})
			err := c.do(s)
			if got := db.said(); !slices.Equal(got, c.want) {
				t.Errorf("the server was told %q, want %q", got, c.want)
			}
			if failed := len(c.fail) > 0 && c.fail["UNLOCK"] == nil; (err != nil) != failed {
				t.Errorf("got error %v", err)
			}
			if got := s.Class(err); got != c.class {
				t.Errorf("got %v for %v, want %v", got, err, c.class)
			}
			if db.closed != c.discarded {
				t.Errorf("%d connections were thrown away, want %d", db.closed, c.discarded)
			}
		})
	}
}

func tx(s *Session) error       { return s.Tx(context.Background(), run("WORK")) }
func lockedTx(s *Session) error { return s.LockedTx(context.Background(), lock, run("WORK")) }
func one(s *Session) error      { return s.OneStatement(context.Background(), run("WORK")) }
func do(s *Session) error       { return s.Do(context.Background(), run("WORK")) }

func lockedWithin(s *Session) error {
	return s.LockedTx(context.Background(), dialect.Lock{Take: lock.Take}, run("WORK"))
}

func TestExplicitTxWrapsEachWrite(t *testing.T) {
	t.Parallel()
	db := &server{}
	check.OK(t, do(session(t, db, dialect.Server{ExplicitTx: true})))
	if got, want := db.said(), []string{"SET", "BEGIN", "WORK", "COMMIT"}; !slices.Equal(got, want) {
		t.Errorf("the server was told %q, want %q", got, want)
	}
}

func TestPanicRollsBack(t *testing.T) {
	t.Parallel()
	db := &server{}
	s := session(t, db, dialect.Server{})
	func() {
		defer func() { _ = recover() }()
		_ = s.Tx(t.Context(), func(context.Context, dialect.Conn) error { panic("boom") })
	}()
	if got, want := db.said(), []string{"SET", "BEGIN", "ROLLBACK"}; !slices.Equal(got, want) {
		t.Errorf("the server was told %q, want %q", got, want)
	}
	if stats := s.Pool.Write.Stats(); stats.InUse != 0 {
		t.Errorf("%d connections were not given back", stats.InUse)
	}
}

func TestCommitIsNotCutOffByItsCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := &server{slow: map[string]time.Duration{"COMMIT": 3 * time.Second}}
		s := session(t, db, dialect.Server{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.Tx(ctx, run("WORK")); err != nil {
			t.Errorf("got %v", err)
		}
	})
}

func TestStatementInATransactionEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := &server{slow: map[string]time.Duration{"WORK": time.Hour}}
		s := session(t, db, dialect.Server{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.Tx(ctx, run("WORK")); !errors.Is(err, context.DeadlineExceeded) ||
			s.Class(err) != dialect.Unknown {
			t.Errorf("got %v", err)
		}
		if got, want := db.said(), []string{"SET", "BEGIN", "WORK", "ROLLBACK"}; !slices.Equal(
			got,
			want,
		) {
			t.Errorf("the server was told %q, want %q", got, want)
		}
	})
}

func TestWriteCutOffByItsCallerMayHaveHappened(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := &server{slow: map[string]time.Duration{"WORK": time.Hour}}
		s := session(t, db, dialect.Server{})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		begin := time.Now()
		err := s.Do(ctx, run("WORK"))
		if s.Class(err) != dialect.Ambiguous {
			t.Errorf("got %v, class %v", err, s.Class(err))
		}
		if took := time.Since(begin); took != time.Second+grace {
			t.Errorf("ended after %v, want %v", took, time.Second+grace)
		}
	})
}

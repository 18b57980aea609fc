package sqlrun

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/kit"
)

// beginner is a server whose driver begins transactions by itself.
type beginner struct{ server }

func (b *beginner) Connect(context.Context) (driver.Conn, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.opened++
	return &beginnerConn{serverConn{&b.server}}, nil
}

type beginnerConn struct{ serverConn }

func (c *beginnerConn) BeginTx(ctx context.Context, _ driver.TxOptions) (driver.Tx, error) {
	_, err := c.ExecContext(ctx, "begin", nil)
	return &beginnerTx{c, ctx}, err
}

type beginnerTx struct {
	c   *beginnerConn
	ctx context.Context
}

func (t *beginnerTx) Commit() error   { return t.say("commit") }
func (t *beginnerTx) Rollback() error { return t.say("rollback") }
func (t *beginnerTx) say(text string) error {
	ctx := t.ctx
	if text == "rollback" {
		ctx = context.WithoutCancel(ctx)
	}
	_, err := t.c.ExecContext(ctx, text, nil)
	return err
}

func beginnerSession(t *testing.T, b *beginner) *Session {
	db := sql.OpenDB(b)
	t.Cleanup(func() { db.Close() })
	return NewSession(
		fake{classify: kit.ClassifyConn},
		dialect.Pool{Write: db, Read: db},
		dialect.Server{ExplicitTx: true},
		dialect.Names{},
	)
}

func TestWithoutBeginTheDriverBeginsAndEnds(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	lost := map[string]error{"WORK": io.EOF, "rollback": io.EOF}
	for _, c := range []struct {
		name      string
		fail      map[string]error
		do        func(*Session) error
		want      []string
		class     dialect.Class
		discarded int
	}{
		{"all well", nil, tx, []string{"begin", "WORK", "commit"}, dialect.Unknown, 0},
		{"each write", nil, do, []string{"begin", "WORK", "commit"}, dialect.Unknown, 0},
		{"the work fails", map[string]error{"WORK": boom}, tx, []string{"begin", "WORK", "rollback"}, dialect.Unknown, 0},
		{"the work loses its connection", lost, tx, []string{"begin", "WORK", "rollback"}, dialect.Unavailable, 1},
		{"begin fails", map[string]error{"begin": boom}, tx, []string{"begin"}, dialect.Unknown, 1},
		{"commit is refused", map[string]error{"commit": boom}, tx, []string{"begin", "WORK", "commit"}, dialect.Unknown, 1},
		{"commit is lost", map[string]error{"commit": io.EOF}, tx, []string{"begin", "WORK", "commit"}, dialect.Ambiguous, 1},
		{"locked", nil, lockedTx, []string{"LOCK", "begin", "WORK", "commit", "UNLOCK"}, dialect.Unknown, 0},
		{"locked within", nil, lockedWithin, []string{"begin", "LOCK", "WORK", "commit"}, dialect.Unknown, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db := &beginner{server{fail: c.fail}}
			s := beginnerSession(t, db)
			err := c.do(s)
			if got := db.said(); !slices.Equal(got, c.want) {
				t.Errorf("the server was told %q, want %q", got, c.want)
			}
			if (err != nil) != (len(c.fail) > 0) || s.Class(err) != c.class {
				t.Errorf("got %v, class %v, want %v", err, s.Class(err), c.class)
			}
			if db.closed != c.discarded {
				t.Errorf("%d connections were thrown away, want %d", db.closed, c.discarded)
			}
			if stats := s.Pool.Write.Stats(); stats.InUse != 0 {
				t.Errorf("%d connections were not given back", stats.InUse)
			}
		})
	}
}

func TestDriverCommitOutlivesItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := &beginner{server{slow: map[string]time.Duration{"commit": time.Second}}}
		s := beginnerSession(t, db)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(500*time.Millisecond, cancel) // in the middle of the commit
		if err := s.Tx(ctx, run("WORK")); err != nil {
			t.Errorf("got %v", err)
		}
		if got, want := db.said(), []string{"begin", "WORK", "commit"}; !slices.Equal(got, want) {
			t.Errorf("the server was told %q, want %q", got, want)
		}
	})
}

func TestDriverCommitHasItsOwnTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := &beginner{server{slow: map[string]time.Duration{"commit": time.Hour}}}
		s := beginnerSession(t, db)
		begin := time.Now()
		err := s.Tx(t.Context(), run("WORK"))
		if s.Class(err) != dialect.Ambiguous || time.Since(begin) != commitTimeout {
			t.Errorf("got %v, class %v, after %v", err, s.Class(err), time.Since(begin))
		}
	})
}

func TestStatementInADriverTransactionEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := &beginner{server{slow: map[string]time.Duration{"WORK": time.Hour}}}
		s := beginnerSession(t, db)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.Tx(ctx, run("WORK")); !errors.Is(err, context.DeadlineExceeded) || s.Class(err) != dialect.Unknown {
			t.Errorf("got %v", err)
		}
		if got, want := db.said(), []string{"begin", "WORK", "rollback"}; !slices.Equal(got, want) {
			t.Errorf("the server was told %q, want %q", got, want)
		}
	})
}

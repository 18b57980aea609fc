package sqlite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"modernc.org/sqlite"
)

// sharers is a file whose changes are shared, with a table for them.
type sharers struct {
	t       *testing.T
	path    string
	pool    dialect.Pool
	all     *together
	commits atomic.Int64
	refuse  atomic.Int64 // so many commits are refused
	inserts atomic.Int64
	during  func(insert int64) // runs in the middle of each insert; set before there is one
	callers sync.WaitGroup
}

func newSharers(t *testing.T) *sharers {
	t.Helper()
	t.Parallel()
	s := &sharers{t: t, path: filepath.Join(t.TempDir(), "shared.db")}
	s.pool = openFile(t, s.path, "")
	s.all = &together{pool: s.pool}
	s.exec("CREATE TABLE t (id TEXT PRIMARY KEY, size INTEGER) STRICT")
	one, err := s.pool.Write.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	err = one.Raw(func(on any) error {
		hooks := on.(*conn).driverConn.(sqlite.HookRegisterer)
		hooks.RegisterPreUpdateHook(func(sqlite.SQLitePreUpdateData) {
			if n := s.inserts.Add(1); s.during != nil {
				s.during(n)
			}
		})
		hooks.RegisterCommitHook(func() int32 {
			if s.refuse.Add(-1) >= 0 {
				return 1
			}
			s.commits.Add(1)
			return 0
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *sharers) exec(text string) {
	s.t.Helper()
	if _, err := s.pool.Write.ExecContext(s.t.Context(), text); err != nil {
		s.t.Fatalf("%v\n%s", err, text)
	}
}

// answers are the errors of callers, by the ids that they insert.
type answers struct {
	mu  sync.Mutex
	all map[string]error
}

func (a *answers) of(id string) (err error, there bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	err, there = a.all[id]
	return err, there
}

// call has a caller for each id insert it, in order: each has joined before the next one comes.
func (s *sharers) call(ctx context.Context, a *answers, ids ...string) {
	s.t.Helper()
	for _, id := range ids {
		before := s.joined()
		s.callers.Go(func() {
			args := []any{id, strings.Repeat("x", sizeIn(id))}
			touched, ok, err := s.all.share(ctx, "INSERT INTO t VALUES (?, length(?))", args)
			if err == nil && (touched != 1 || !ok) {
				err = fmt.Errorf("touched %d rows, %t", touched, ok)
			}
			a.mu.Lock()
			defer a.mu.Unlock()
			a.all[id] = err
		})
		eventually(s.t, id+" joins", func() bool { return s.joined() == before+1 })
	}
}

// sizeIn is the size of a value that an id asks for, as in "a 1000".
func sizeIn(id string) (n int) {
	_, size, _ := strings.Cut(id, " ")
	_, _ = fmt.Sscan(size, &n) // most ask for none
	return n
}

// joined is how many lead or wait.
func (s *sharers) joined() int {
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	n := len(s.all.waiting)
	if s.all.led {
		n++
	}
	return n
}

// held has the writing connection, until it is let go.
func (s *sharers) held() (letGo func()) {
	s.t.Helper()
	one, err := s.pool.Write.Conn(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return func() { one.Close() }
}

// shareOneCommit lets callers who wait go on, and fails unless all of them are done by a single commit.
func (s *sharers) shareOneCommit(a *answers, letGo func(), ids ...string) {
	s.t.Helper()
	before := s.commits.Load()
	letGo()
	s.callers.Wait()
	a.allGood(s.t, ids...)
	s.has(ids...)
	if n := s.commits.Load() - before; n != 1 {
		s.t.Errorf("%d commits instead of 1", n)
	}
}

// has fails unless the table has just these ids.
func (s *sharers) has(want ...string) {
	s.t.Helper()
	count := func(query string, args ...any) (n int) {
		if err := s.pool.Write.QueryRowContext(s.t.Context(), query, args...).Scan(&n); err != nil {
			s.t.Error(err)
		}
		return n
	}
	for _, id := range want {
		if n := count("SELECT count(*) FROM t WHERE id = ?", id); n != 1 {
			s.t.Errorf("%s is there %d times", id, n)
		}
	}
	if n := count("SELECT count(*) FROM t"); n != len(want) {
		s.t.Errorf("%d rows are there instead of %d", n, len(want))
	}
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !f(); time.Sleep(100 * time.Microsecond) {
		if time.Now().After(end) {
			t.Error("it never happened: " + what) // in any goroutine
			return
		}
	}
}

func numbered(n int, form string) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprintf(form, i))
	}
	return ids
}

func (a *answers) allGood(t *testing.T, ids ...string) {
	t.Helper()
	for _, id := range ids {
		if err, there := a.of(id); err != nil || !there {
			t.Errorf("%s: %v, answered: %t", id, err, there)
		}
	}
}

func newAnswers() *answers { return &answers{all: map[string]error{}} }

// callAlone has one caller, and waits for it.
func (s *sharers) callAlone(a *answers, id string) {
	_, _, err := s.all.share(s.t.Context(), "INSERT INTO t VALUES (?, 0)", []any{id})
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all[id] = err
}

func (s *sharers) onConn(f func(on *conn)) {
	s.t.Helper()
	one, err := s.pool.Write.Conn(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	defer one.Close()
	if err := one.Raw(func(on any) error { f(on.(*conn)); return nil }); err != nil {
		s.t.Fatal(err)
	}
}

// isCommitting says that what failed may have happened.
func isCommitting(err error) bool {
	var tx *dialect.TxError
	return errors.As(err, &tx) && tx.Committing
}

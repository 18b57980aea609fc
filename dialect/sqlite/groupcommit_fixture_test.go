package sqlite

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/check"
	"modernc.org/sqlite"
)

// groupFixture is a database file with a table, whose changes are committed in groups.
type groupFixture struct {
	t       *testing.T
	path    string
	pool    dialect.Pool
	group   *groupCommit
	commits atomic.Int64
	refuse  atomic.Int64 // how many of the next commits are refused
	inserts atomic.Int64
	during  func(insert int64) // runs in the middle of each insert; set before there is one
	callers sync.WaitGroup
}

func newGroup(t *testing.T) *groupFixture {
	t.Helper()
	t.Parallel()
	s := &groupFixture{t: t, path: filepath.Join(t.TempDir(), "shared.db")}
	s.pool = openFile(t, s.path, "")
	s.group = &groupCommit{timeout: s.pool.WriterTimeout}
	s.exec("CREATE TABLE t (id TEXT PRIMARY KEY, size INTEGER) STRICT")
	one, err := s.pool.Write.Conn(t.Context())
	check.OK(t, err)
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
	check.OK(t, err)
	return s
}

func (s *groupFixture) exec(text string) {
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

// call starts a caller for each id, which inserts it. Each has joined before the next one starts.
func (s *groupFixture) call(ctx context.Context, a *answers, ids ...string) {
	s.t.Helper()
	for _, id := range ids {
		before := s.joined()
		s.callers.Go(func() {
			args := []any{id, strings.Repeat("x", sizeIn(id))}
			touched, ok, err := s.group.exec(ctx, s.pool.Write.Conn, "INSERT INTO t VALUES (?, length(?))", args)
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

// sizeIn returns the size of the value that an id asks for, as in "a 1000".
func sizeIn(id string) (n int) {
	_, size, _ := strings.Cut(id, " ")
	_, _ = fmt.Sscan(size, &n) // most ask for none
	return n
}

// joined returns the number of callers that lead or wait.
func (s *groupFixture) joined() int {
	s.group.mu.Lock()
	defer s.group.mu.Unlock()
	n := len(s.group.waiting)
	if s.group.led {
		n++
	}
	return n
}

// holdConn takes the writing connection until it is released.
func (s *groupFixture) holdConn() (release func()) {
	s.t.Helper()
	one, err := s.pool.Write.Conn(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return func() { one.Close() }
}

// wantOneCommit releases the connection, and fails unless a single commit completes all waiting callers.
func (s *groupFixture) wantOneCommit(a *answers, release func(), ids ...string) {
	s.t.Helper()
	before := s.commits.Load()
	release()
	s.callers.Wait()
	a.allGood(s.t, ids...)
	s.wantRows(ids...)
	if n := s.commits.Load() - before; n != 1 {
		s.t.Errorf("%d commits instead of 1", n)
	}
}

// wantRows fails unless the table has exactly these ids.
func (s *groupFixture) wantRows(want ...string) {
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

// callAlone inserts an id and waits for the result.
func (s *groupFixture) callAlone(a *answers, id string) {
	_, _, err := s.group.exec(s.t.Context(), s.pool.Write.Conn, "INSERT INTO t VALUES (?, 0)", []any{id})
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all[id] = err
}

func (s *groupFixture) onConn(f func(on *conn)) {
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

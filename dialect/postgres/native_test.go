package postgres

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/sqlrun"
)

// TestPipeline checks that statements of ExecLater and QueryLater run in order, before the next statement or the
// commit, in its transaction, and that an error of one rolls all of them back.
func TestPipeline(t *testing.T) {
	onEachServer(t, func(t *testing.T, dsn string) {
		s := migrated(t, dsn)
		put := func(ctx context.Context, c dialect.Conn, name string) *int64 {
			touched, err := s.ExecLater(ctx, c, s.Texts.AddKV, dialect.Args{"namespace": "pipeline", "name": name,
				"value": "", "ttl": (*int64)(nil)})
			must(t, err)
			return touched
		}
		names := func(ctx context.Context, c dialect.Conn) string {
			rows, err := sqlrun.QueryAs[sqlrun.KVRow](ctx, s, c, s.Texts.ListKV,
				dialect.Args{"namespace": "pipeline", "limit": 10})
			must(t, err)
			var out []string
			for _, row := range rows {
				out = append(out, row.Name)
			}
			return strings.Join(out, " ")
		}
		stop := errors.New("stop")
		for name, f := range map[string]func(ctx context.Context, c dialect.Conn) error{
			"nothing is run": func(context.Context, dialect.Conn) error { return stop },
			"the caller fails": func(ctx context.Context, c dialect.Conn) error {
				if first, again := put(ctx, c, "x"), put(ctx, c, "x"); names(ctx, c) != "x" || *first != 1 || *again != 0 {
					t.Errorf("rows affected: %d and %d, want 1 and 0", *first, *again)
				}
				return stop
			},
			"rows are read later": func(ctx context.Context, c dialect.Conn) error {
				put(ctx, c, "z")
				rows, err := sqlrun.QueryLater[sqlrun.KVRow](ctx, s, c, s.Texts.ListKV,
					dialect.Args{"namespace": "pipeline", "limit": 10})
				must(t, err)
				put(ctx, c, "zz")
				if got := names(ctx, c); got != "z zz" || len(*rows) != 1 || (*rows)[0].Name != "z" {
					t.Errorf("the records are %q and were %v, want z zz and z", got, *rows)
				}
				return stop
			},
			"a later statement fails": func(ctx context.Context, c dialect.Conn) error {
				put(ctx, c, "y")
				_, err := s.ExecLater(ctx, c, "SELECT 1 / 0", nil)
				must(t, err)
				return nil // the commit has the error
			},
		} {
			if err := s.Tx(t.Context(), f); err == nil || s.Class(err) == dialect.Ambiguous {
				t.Errorf("%s: got %v of class %v, want an error of which nothing has happened", name, err, s.Class(err))
			}
		}
		must(t, s.Tx(t.Context(), func(context.Context, dialect.Conn) error { return nil }))
		must(t, s.Tx(t.Context(), func(ctx context.Context, c dialect.Conn) error {
			put(ctx, c, "a")
			if _, err := s.Exec(ctx, c, s.Texts.DropKV, dialect.Args{"namespace": "pipeline", "name": "a"}); err != nil {
				return err
			}
			put(ctx, c, "b")
			return nil // it is sent with the commit
		}))
		must(t, s.Do(t.Context(), func(ctx context.Context, c dialect.Conn) error {
			if got := names(ctx, c); got != "b" {
				t.Errorf("the records are %q, want those of the transaction that was committed", got)
			}
			return nil
		}))
	})
}

// TestCommitWithNext checks that a statement that is sent with COMMIT commits if it succeeds, rolls back if it fails,
// and is the last one.
func TestCommitWithNext(t *testing.T) {
	onEachServer(t, func(t *testing.T, dsn string) {
		s := migrated(t, dsn)
		args := func(name string) dialect.Args {
			return dialect.Args{"namespace": "last", "name": name, "value": "", "ttl": (*int64)(nil)}
		}
		last := func(c dialect.Conn) {
			if !c.(dialect.Pipeline).CommitWithNext() {
				t.Error("the connection of pgx commits by a request of its own")
			}
		}
		failed, stop := "SELECT 1 / CAST(:name AS integer)", errors.New("stop")
		for name, test := range map[string]struct {
			end       func(ctx context.Context, c dialect.Conn) error
			committed bool
			err       error
		}{
			"a change": {committed: true, end: func(ctx context.Context, c dialect.Conn) error {
				_, err := s.Exec(ctx, c, s.Texts.AddKV, args("end"))
				return err
			}},
			"a query": {committed: true, end: func(ctx context.Context, c dialect.Conn) error {
				_, err := s.Query(ctx, c, s.Texts.ReadNow(), nil)
				return err
			}},
			"the caller fails later": {committed: true, err: stop, end: func(ctx context.Context, c dialect.Conn) error {
				_, err := s.Exec(ctx, c, s.Texts.AddKV, args("end"))
				must(t, err)
				return stop
			}},
			"another statement follows": {committed: true, err: errEnded,
				end: func(ctx context.Context, c dialect.Conn) error {
					_, err := s.Query(ctx, c, s.Texts.ReadNow(), nil)
					must(t, err)
					_, err = s.Exec(ctx, c, s.Texts.AddKV, args("after"))
					return err
				}},
			"the statement fails": {end: func(ctx context.Context, c dialect.Conn) error {
				_, err := s.Exec(ctx, c, failed, dialect.Args{"name": "0"})
				if err == nil {
					t.Error("the statement did not fail")
				}
				return err
			}},
		} {
			err := s.Tx(t.Context(), func(ctx context.Context, c dialect.Conn) error {
				_, err := s.ExecLater(ctx, c, s.Texts.AddKV, args(name))
				must(t, err)
				last(c)
				return test.end(ctx, c)
			})
			if test.err != nil && !errors.Is(err, test.err) || err == nil != (test.committed && test.err == nil) {
				t.Errorf("%s: the error is %v, want %v", name, err, test.err)
			}
			found := false
			must(t, s.Do(t.Context(), func(ctx context.Context, c dialect.Conn) error {
				rows, err := sqlrun.QueryAs[sqlrun.KVRow](ctx, s, c, s.Texts.ListKV,
					dialect.Args{"namespace": "last", "limit": 100})
				for _, row := range rows {
					found = found || row.Name == name
					if row.Name == "after" {
						t.Errorf("%s: a statement ran after the end of the transaction", name)
					}
				}
				return err
			}))
			if found != test.committed {
				t.Errorf("%s: committed is %v, want %v", name, found, test.committed)
			}
		}
	})
}

// TestCallWaitsForWhatFollowsCommit: what a statement changes that is sent with COMMIT can be seen while another one
// behind COMMIT waits for a lock, and the call returns when that has ended. If it fails, what has happened is unknown.
func TestCallWaitsForWhatFollowsCommit(t *testing.T) {
	onEachServer(t, func(t *testing.T, dsn string) {
		s := migrated(t, dsn)
		record := func(name string) dialect.Args {
			return dialect.Args{"namespace": "after", "name": name, "value": "", "ttl": (*int64)(nil)}
		}
		runThen := func(text, name, after string) error {
			return s.Tx(t.Context(), func(ctx context.Context, c dialect.Conn) error {
				n := c.(*nativeConn)
				n.CommitWithNext()
				if _, err := s.Exec(ctx, afterCommit{n}, after, record("held")); err != nil {
					return err
				}
				_, err := s.Exec(ctx, c, text, record(name))
				return err
			})
		}
		there := func(name string) (yes bool) {
			must(t, s.Do(t.Context(), func(ctx context.Context, c dialect.Conn) error {
				rows, err := sqlrun.QueryAs[sqlrun.KVRow](ctx, s, c, s.Texts.ListKV,
					dialect.Args{"namespace": "after", "limit": 100})
				yes = slices.ContainsFunc(rows, func(r sqlrun.KVRow) bool { return r.Name == name })
				return err
			}))
			return yes
		}
		must(t, s.Do(t.Context(), func(ctx context.Context, c dialect.Conn) error {
			_, err := s.Exec(ctx, c, s.Texts.AddKV, record("held"))
			return err
		}))
		done := make(chan error, 1)
		must(t, s.Tx(t.Context(), func(ctx context.Context, c dialect.Conn) error {
			if _, err := s.Exec(ctx, c, s.Texts.LockKV, record("held")); err != nil {
				return err
			}
			go func() { done <- runThen(s.Texts.AddKV, "early", s.Texts.LockKV) }()
			for end := time.Now().Add(30 * time.Second); !there("early"); time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					return errors.New("the change cannot be seen")
				}
			}
			select {
			case err := <-done:
				t.Errorf("the call has returned before the statement behind COMMIT: %v", err)
			case <-time.After(50 * time.Millisecond):
			}
			return nil
		}))
		must(t, <-done)
		err := runThen(s.Texts.AddKV, "failed", "SELECT 1 / 0")
		if class := s.Class(err); err == nil || class != dialect.Ambiguous || !there("failed") {
			t.Errorf("a failure behind COMMIT is %v of class %v, and the change is there: %v", err, class, there("failed"))
		}
		err = runThen("SELECT 1 / 0", "none", "SELECT 1")
		if class := s.Class(err); err == nil || class == dialect.Ambiguous {
			t.Errorf("a failure before COMMIT is %v of class %v", err, class)
		}
	})
}

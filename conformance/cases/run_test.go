package cases

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/dialect"
	_ "github.com/dbq-go/dbq/dialect/sqlite"
)

// onSQLite runs a case of a test's own.
func onSQLite(ctx context.Context, t *testing.T, parameters string, run func(t *test)) Result {
	dsn := "sqlite:" + filepath.Join(t.TempDir(), "q.db") + parameters
	return Case{Group: "Own", Name: "Case", run: run}.Run(ctx, Env{DSN: dsn, Prefix: "c_", Strategy: dialect.CAS, Load: 1})
}

// What cannot be removed after a case is the case's failure, and is in its result.
func TestLeftoversAreFailures(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	r := onSQLite(ctx, t, "", func(c *test) {
		for _, name := range []string{"one", "other"} {
			c.drops(Object{name, func(ctx context.Context) error {
				if ctx.Err() != nil {
					t.Errorf("%s is to be removed with a context that has ended", name)
				}
				return errors.New("stuck")
			}})
		}
		cancel()
	})
	if text := strings.Join(r.Failures, "\n"); text != "cleaning up one: stuck\ncleaning up other: stuck" {
		t.Errorf("the case's failures are %q", text)
	}
	if len(r.Left) != 2 || r.Left[1].Name != "other" {
		t.Errorf("left are %v, want both objects", r.Left)
	}
}

// Fatalf and Skipf end a case wherever they are called, also in a worker; any other panic is a failure.
func TestFatalAndSkipEndACase(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		run  func(t *test)
		want string
	}{
		"fatal": {func(t *test) { t.Fatalf("no"); t.Errorf("goes on") }, "no"},
		"panic": {func(*test) { panic("oops") }, "panic: oops"},
		"worker": {func(t *test) {
			t.concurrently(2, func(ctx context.Context, i int) {
				if i == 0 {
					t.Fatalf("no")
				}
				<-ctx.Done() // the failure of one ends the others
			})
		}, "no"},
	} {
		r := onSQLite(t.Context(), t, "", c.run)
		if len(r.Failures) != 1 || !strings.HasPrefix(r.Failures[0], c.want) {
			t.Errorf("%s: got failures %q, want one that begins with %q", name, r.Failures, c.want)
		}
	}
	if r := onSQLite(t.Context(), t, "", func(t *test) { t.Skipf("not here") }); r.Skipped != "not here" ||
		len(r.Failures) > 0 {
		t.Errorf("skipped: got %+v", r)
	}
}

// A case's result has the conflicts of its clients.
func TestConflictsAreCounted(t *testing.T) {
	t.Parallel()
	var retried int64
	r := onSQLite(t.Context(), t, "?busy_timeout=0", func(t *test) {
		c, other := t.open(), t.open()
		tx := must(other.DB().BeginTx(t.ctx, nil))
		go func() {
			for c.Stats().Retried == 0 && t.ctx.Err() == nil {
				time.Sleep(time.Millisecond)
			}
			_ = tx.Rollback()
		}()
		must(c.Queue("q").Enqueue(t.ctx, dbq.NewTask{}))
		retried = c.Stats().Retried
		if c.Stats().Conflicts != retried || other.Stats().Conflicts != 0 {
			t.Errorf("%d conflicts of %d retries, and %d of the client that was in the way", c.Stats().Conflicts, retried,
				other.Stats().Conflicts)
		}
	})
	if len(r.Failures) > 0 || retried == 0 || r.Conflicts != retried {
		t.Errorf("%d conflicts are reported, %d were met; failures %q", r.Conflicts, retried, r.Failures)
	}
}

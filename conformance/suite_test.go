package conformance

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/dialect"
)

// What cannot be removed after a case is the case's failure, is tried again at the end, and is named when that fails, too.
func TestLeftoversAreSweptOrNamed(t *testing.T) {
	t.Parallel()
	dsn := "sqlite:" + filepath.Join(t.TempDir(), "q.db")
	s := newSuite(Harness{DSN: func(string) string { return dsn }})
	stuck := func(name string, times int) made {
		return made{name, func(ctx context.Context) error {
			if ctx.Err() != nil {
				t.Errorf("%s is to be removed with a context that has ended", name)
			}
			if times--; times >= 0 {
				return errors.New("stuck")
			}
			return nil
		}}
	}
	ctx, cancel := context.WithCancel(t.Context())
	r := s.run(ctx, Case{Group: "Own", Name: "Case", run: func(t *T) {
		t.makes(stuck("once", 1))
		t.makes(stuck("always", 9))
		cancel()
	}}, dialect.CAS, t.TempDir(), nil)
	if text := strings.Join(r.Failures, "\n"); text != "cleaning up once: stuck\ncleaning up always: stuck" {
		t.Errorf("the case's failures are %q", text)
	}
	if left := s.sweep(ctx); len(left) != 1 || left[0] != "always" {
		t.Errorf("left are %q, want only always", left)
	}
}

// A case's result has the conflicts of its clients.
func TestConflictsAreCounted(t *testing.T) {
	t.Parallel()
	dsn := "sqlite:" + filepath.Join(t.TempDir(), "q.db") + "?busy_timeout=0"
	s := newSuite(Harness{DSN: func(string) string { return dsn }})
	var retried int64
	r := s.run(t.Context(), Case{Group: "Own", Name: "Case", run: func(t *T) {
		c, other := t.Open(), t.Open()
		tx, err := other.DB().BeginTx(t.ctx, nil)
		t.Must(err)
		time.AfterFunc(50*time.Millisecond, func() { _ = tx.Rollback() })
		_, err = c.Queue("q").Enqueue(t.ctx, dbq.NewTask{})
		t.Must(err)
		retried = c.Retried()
		if c.Conflicts() != retried || other.Conflicts() != 0 {
			t.Errorf("%d conflicts of %d retries, and %d of the client that was in the way", c.Conflicts(), retried, other.Conflicts())
		}
	}}, dialect.CAS, t.TempDir(), nil)
	if len(r.Failures) > 0 || retried == 0 || r.Conflicts != retried {
		t.Errorf("%d conflicts are reported, %d were met; failures %q", r.Conflicts, retried, r.Failures)
	}
}

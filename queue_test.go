package dbq_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/sqlite"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/state"
)

// speechless is a dialect whose server stops serving after an insert, as one does that is shut down: it refuses to
// answer what is there.
type speechless struct{ sqlite.Dialect }

func (d speechless) Statements(n dialect.Names) dialect.Statements {
	s := d.Dialect.Statements(n)
	s.Peek.SQL = strings.Replace(s.Peek.SQL, n.Table("task"), "server_is_shutting_down", 1)
	return s
}

func (d speechless) Classify(err error) dialect.Class {
	if strings.Contains(err.Error(), "server_is_shutting_down") {
		return dialect.Unavailable
	}
	return d.Dialect.Classify(err)
}

// An enqueue that was done, and whose question about a duplicate is not answered any more, is not said not to have
// happened.
func TestEnqueueWithUnknownDuplicatesMayHaveHappened(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	dsn := "sqlite:" + filepath.Join(t.TempDir(), "queue.db")
	c, err := dbq.Open(ctx, dsn, dbq.WithMigrate())
	check.OK(t, err)
	defer c.Close()
	if _, err := c.Queue("q").Enqueue(ctx, dbq.NewTask{Reference: "taken"}); err != nil {
		t.Fatal(err)
	}
	broken, err := dbq.New(ctx, c.DB(), speechless{})
	check.OK(t, err)
	_, err = broken.Queue("q").EnqueueMany(ctx, []dbq.NewTask{{Reference: "new"}, {Reference: "taken"}})
	if !errors.Is(err, dbq.ErrMayHaveHappened) || errors.Is(err, dbq.ErrUnavailable) {
		t.Errorf("got %v, want ErrMayHaveHappened", err)
	}
	if _, err := c.Queue("q").Enqueue(ctx, dbq.NewTask{Reference: "new"}); !errors.Is(err, dbq.ErrDuplicate) {
		t.Errorf("the task is not there, so this test shows nothing: %v", err)
	}
}

// A call that is made again, after an answer that was lost, knows its own work.
func TestRepeatedSettlementRecognizesItsOwnChange(t *testing.T) {
	q := fileQueue(t)
	ends := map[string]dbq.Outcome{
		"completed": dbq.Completed(nil),
		"deleted":   dbq.Deleted(),
		"failed":    dbq.RetryIn(time.Hour, errors.New("no")),
		"poisoned":  dbq.Poisoned(errors.New("never")),
	}
	for name, end := range ends {
		if _, err := q.Enqueue(t.Context(), dbq.NewTask{}); err != nil {
			t.Fatal(err)
		}
		tasks, err := q.Checkout(t.Context(), 1, time.Minute)
		check.OK(t, err)
		settle := func(s dbq.Settlement) dbq.Settled {
			out, err := q.SettleMany(t.Context(), []dbq.Settlement{s})
			check.OK(t, err)
			return out[0]
		}
		s := dbq.Settlement{Lease: tasks[0].Lease, Outcome: end}
		first := settle(s)
		again := access.Settlement(s.Lease, end, access.SettleOptions{Again: true})
		if out := settle(again); out != first || out.Err != nil {
			t.Errorf("%s: %v, and again %v", name, first, out)
		}
		if twice := settle(s); !errors.Is(twice.Err, dbq.ErrLeaseLost) {
			t.Errorf("%s twice: %v", name, twice)
		}
		other := again
		other.Lease.Fence++
		if out := settle(other); first.State != state.None && out.Err == nil {
			t.Errorf("%s under a fence that nobody had: %v", name, out)
		}
	}
}

func TestNextOfATaskDueIn9999(t *testing.T) {
	q := fileQueue(t)
	if _, err := q.Enqueue(t.Context(), dbq.NewTask{RunAt: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}); err != nil {
		t.Fatal(err)
	}
	wait, ok, err := access.Of(q.Client()).Wake.Next(t.Context(), "q")
	if err != nil || !ok || wait < 290*365*24*time.Hour {
		t.Errorf("got %v %v %v", wait, ok, err)
	}
}

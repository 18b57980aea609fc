package access_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	_ "github.com/dbq-go/dbq/dialect/sqlite"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/state"
)

// queue opens a queue on a database in memory.
func queue(t *testing.T) *dbq.Queue {
	t.Helper()
	c, err := dbq.Open(t.Context(), "sqlite::memory:", dbq.WithMigrate())
	check.OK(t, err)
	t.Cleanup(func() { c.Close() })
	return c.Queue("q")
}

// leased enqueues n tasks and leases them.
func leased(t *testing.T, q *dbq.Queue, n int, lease time.Duration) []dbq.Lease {
	t.Helper()
	_, err := q.EnqueueMany(t.Context(), make([]dbq.NewTask, n))
	check.OK(t, err)
	tasks, err := q.Checkout(t.Context(), n, lease)
	check.OK(t, err)
	if len(tasks) != n {
		t.Fatalf("leased %d tasks, want %d", len(tasks), n)
	}
	ls := make([]dbq.Lease, n)
	for i, task := range tasks {
		ls[i] = task.Lease
	}
	return ls
}

func TestLostReportsLeasesEndedByOthers(t *testing.T) {
	t.Parallel()
	q := queue(t)
	operator := admin.New(q.Client())
	operate := func(l dbq.Lease, event state.Event, opts ...admin.Option) {
		t.Helper()
		check.OK(t, operator.Operate(t.Context(), event, l.TaskID, opts...))
	}
	taken := leased(t, q, 1, time.Millisecond)[0]
	time.Sleep(5 * time.Millisecond)
	again, err := q.Checkout(t.Context(), 1, time.Minute)
	check.OK(t, err)
	if len(again) != 1 || again[0].ID != taken.TaskID {
		t.Fatalf("the expired lease was not taken over: %v", again)
	}
	ls := leased(t, q, 5, time.Minute)
	held, completed, removed, revoked, gone := ls[0], ls[1], ls[2], ls[3], ls[4]
	check.OK(t, q.Complete(t.Context(), completed, nil))
	check.OK(t, q.Settle(t.Context(), removed, dbq.Deleted()))
	operate(revoked, admin.Revoke, admin.By("ann"), admin.Reason("a wrong address"))
	operate(gone, admin.Revoke)
	operate(gone, admin.Reenqueue)

	got, err := access.Lost(t.Context(), q, []dbq.Lease{gone, held, removed, completed, revoked, taken})
	want := []access.LostLease{
		{Lease: gone}, {Lease: removed, Removed: true},
		{Lease: revoked, Revoked: "revoked by ann: a wrong address"}, {Lease: taken},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("lost are %+v, %v, want %+v", got, err, want)
	}
}

func TestStillHeldPreservesOrder(t *testing.T) {
	t.Parallel()
	q := queue(t)
	ls := leased(t, q, 3, time.Millisecond)
	check.OK(t, q.Complete(t.Context(), ls[1], nil))
	time.Sleep(5 * time.Millisecond) // a lease that has expired is held until somebody takes it over
	got, err := access.StillHeld(t.Context(), q, []dbq.Lease{ls[2], ls[1], ls[0]})
	if want := []dbq.Lease{ls[2], ls[0]}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("held are %v, %v, want %v", got, err, want)
	}
}

func TestCallsWithLeasesAreBounded(t *testing.T) {
	t.Parallel()
	q := queue(t)
	many := make([]dbq.Lease, dbq.MaxBulk+1)
	for name, call := range map[string]func(ls []dbq.Lease) (int, error){
		"StillHeld": func(ls []dbq.Lease) (int, error) {
			held, err := access.StillHeld(t.Context(), q, ls)
			return len(held), err
		},
		"Lost": func(ls []dbq.Lease) (int, error) {
			lost, err := access.Lost(t.Context(), q, ls)
			return len(lost), err
		},
		"MarkStarted": func(ls []dbq.Lease) (int, error) {
			marked, lost, err := access.MarkStarted(t.Context(), q, ls)
			return len(marked) + len(lost), err
		},
	} {
		if n, err := call(nil); n != 0 || err != nil {
			t.Errorf("%s of no leases: %d, %v", name, n, err)
		}
		if n, err := call(many); n != 0 || !errors.Is(err, dbq.ErrCount) {
			t.Errorf("%s of too many leases: %d, %v, want ErrCount", name, n, err)
		}
	}
}

func TestCheckoutReturnsWhatItMovedToPoison(t *testing.T) {
	t.Parallel()
	q := queue(t)
	_, err := q.Enqueue(t.Context(), dbq.NewTask{MaxAttempts: 1})
	check.OK(t, err)
	first, err := access.Checkout(t.Context(), q, 1, time.Millisecond)
	check.OK(t, err)
	if len(first.Tasks) != 1 || len(first.Exhausted) != 0 || first.More {
		t.Fatalf("got %+v, want one task", first)
	}
	time.Sleep(5 * time.Millisecond)
	got, err := access.Checkout(t.Context(), q, 1, time.Minute)
	if err != nil || len(got.Tasks) != 0 || len(got.Exhausted) != 1 || got.Exhausted[0].State != dbq.StatePoison {
		t.Errorf("got %+v, %v, want one task in POISON", got, err)
	}
}

func TestWorkerIDIsCheckedByCheckout(t *testing.T) {
	t.Parallel()
	q := queue(t)
	for id, want := range map[string]error{
		strings.Repeat("ü", dbq.MaxWorkerID):   nil,
		strings.Repeat("ü", dbq.MaxWorkerID+1): dbq.ErrOption,
		"a\nb":                                 dbq.ErrOption,
	} {
		if _, err := access.Checkout(t.Context(), access.ForWorker(q, id), 1, time.Minute); !errors.Is(err, want) {
			t.Errorf("%q: got %v, want %v", id, err, want)
		}
	}
}

func TestResultInATransaction(t *testing.T) {
	t.Parallel()
	q := queue(t)
	ls := leased(t, q, 2, time.Minute)
	l, other := ls[0], ls[1]
	old := l
	old.Fence--
	long := bytes.Repeat([]byte("x"), dbq.MaxResult+1)
	inTx(t, q, func(ctx context.Context, tx *sql.Tx) {
		if err := access.SetResultTx(ctx, q, tx, l, long); !errors.Is(err, dbq.ErrLeaseLost) {
			t.Errorf("a result before the completion: got %v, want ErrLeaseLost", err)
		}
		if settled, err := access.SettledTx(ctx, q, tx, l); settled || err != nil {
			t.Errorf("settled before the completion: %v, %v", settled, err)
		}
		check.OK(t, q.CompleteTx(ctx, tx, l, nil))
		check.OK(t, access.SetResultTx(ctx, q, tx, l, long))
		if err := access.SetResultTx(ctx, q, tx, old, nil); !errors.Is(err, dbq.ErrLeaseLost) {
			t.Errorf("a result under an earlier fence: got %v, want ErrLeaseLost", err)
		}
		for _, held := range []dbq.Lease{l, other} {
			if settled, err := access.SettledTx(ctx, q, tx, held); settled != (held.TaskID == l.TaskID) || err != nil {
				t.Errorf("settled: %v, %v", settled, err)
			}
		}
	})
	task, err := q.Client().Get(t.Context(), l.TaskID)
	check.OK(t, err)
	if len(task.Result) > dbq.MaxResult || !bytes.HasSuffix(task.Result, []byte("[cut from 4001 bytes]")) {
		t.Errorf("the result has %d bytes and ends with %q", len(task.Result), task.Result[max(0, len(task.Result)-30):])
	}
	for name, err := range map[string]error{
		"SetResultTx": access.SetResultTx(t.Context(), q, nil, l, nil),
		"SettledTx":   second(access.SettledTx(t.Context(), q, nil, l)),
	} {
		if !errors.Is(err, dbq.ErrTx) {
			t.Errorf("%s without a transaction: got %v, want ErrTx", name, err)
		}
	}
}

// inTx runs f in a transaction, and commits it.
func inTx(t *testing.T, q *dbq.Queue, f func(ctx context.Context, tx *sql.Tx)) {
	t.Helper()
	tx, err := q.Client().DB().BeginTx(t.Context(), nil)
	check.OK(t, err)
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	f(t.Context(), tx)
	check.OK(t, tx.Commit())
}

func second(_ bool, err error) error { return err }

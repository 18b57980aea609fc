package cases

import (
	"slices"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/google/uuid"
)

// redrive reenqueues some of the tasks in POISON, some at a time.
func redrive(t *test) {
	c := t.open()
	q, ops := c.Queue("q"), admin.New(c)
	poison := func(kind string, n int) []uuid.UUID {
		ids := t.enqueueMany(q, n, func(_ int, nt *dbq.NewTask) { nt.Kind = kind })
		for _, task := range t.checkout(q, n, long) {
			t.must(q.Settle(t.ctx, task.Lease, dbq.Poisoned(errBoom)))
		}
		return ids
	}
	poison("mail", 2) // before the time
	since := t.now(c)
	t.eventually("time passes", func() bool { return t.now(c).Sub(since) > 300*time.Millisecond })
	since = t.now(c)
	want := poison("mail", 5)
	poison("other", 2)
	cancelled := t.enqueue(q, dbq.NewTask{Kind: "mail", Delay: long})
	t.must(ops.Operate(t.ctx, admin.Cancel, cancelled))
	f := admin.Filter{Queue: "q", Kind: "mail", States: []dbq.State{dbq.StatePoison}, NotCancelled: true, Limit: 100}
	// On a slow machine a window ends too late for some, and never begins early enough for those before the time.
	window := func() { f.EnteredWithin = t.now(c).Sub(since) + 150*time.Millisecond }
	t.eventually("a dry run counts what a reenqueue would change", func() bool {
		window()
		done, err := ops.OperateMany(t.ctx, admin.Reenqueue, f, admin.DryRun())
		n := done.Changed
		if err != nil || n > len(want) {
			t.Fatalf("a dry run counts %d tasks with error %v, want %d", n, err, len(want))
		}
		return n == len(want)
	})
	t.wantNone("after a dry run", q)
	f.Limit = 3
	total := 0
	t.eventually("calls reenqueue all, and each goes on where the last one stopped", func() bool {
		window()
		done, err := ops.OperateMany(t.ctx, admin.Reenqueue, f)
		n := done.Changed
		if total += n; err != nil || n > f.Limit || total > len(want) {
			t.Fatalf("reenqueued %d tasks with error %v, want %d, %d at most in a call", total, err, len(want), f.Limit)
		}
		return total == len(want)
	})
	var got []uuid.UUID
	for _, task := range t.checkout(q, 100, long) {
		got = append(got, task.ID)
	}
	slices.SortFunc(got, byBytes)
	if slices.SortFunc(want, byBytes); !slices.Equal(got, want) {
		t.Errorf("reenqueued %v, want %v", got, want)
	}
	f.CancelledOnly = true
	_, err := ops.OperateMany(t.ctx, admin.Reenqueue, f)
	t.wantErr("a filter that selects nothing", err, dbq.ErrInvalid)
	_, err = ops.List(t.ctx, admin.Filter{EnteredWithin: -1})
	t.wantErr("a negative time", err, dbq.ErrInvalid)
}

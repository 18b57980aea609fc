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
	f := admin.Filter{Queue: "q", Kind: "mail", States: []dbq.State{dbq.StatePoison}, NotCancelled: true, Limit: 100,
		EnteredWithin: t.now(c).Sub(since) + 150*time.Millisecond}
	n, err := ops.OperateMany(t.ctx, admin.Reenqueue, f, admin.DryRun())
	if n != len(want) || err != nil {
		t.Errorf("a dry run counts %d tasks with error %v, want %d", n, err, len(want))
	}
	t.wantNone("after a dry run", q)
	f.EnteredWithin = t.now(c).Sub(since) + 150*time.Millisecond // a slow machine
	f.Limit = 3
	for _, wantN := range []int{3, 2, 0} { // it goes on where it stopped
		if n, err = ops.OperateMany(t.ctx, admin.Reenqueue, f); n != wantN || err != nil {
			t.Errorf("reenqueued %d tasks with error %v, want %d", n, err, wantN)
		}
	}
	var got []uuid.UUID
	for _, task := range t.checkout(q, 100, long) {
		got = append(got, task.ID)
	}
	slices.SortFunc(got, byBytes)
	if slices.SortFunc(want, byBytes); !slices.Equal(got, want) {
		t.Errorf("reenqueued %v, want %v", got, want)
	}
	f.CancelledOnly = true
	_, err = ops.OperateMany(t.ctx, admin.Reenqueue, f)
	t.wantErr("a filter that selects nothing", err, dbq.ErrInvalid)
	_, err = ops.List(t.ctx, admin.Filter{EnteredWithin: -1})
	t.wantErr("a negative time", err, dbq.ErrInvalid)
}

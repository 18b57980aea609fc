package cases

import (
	"slices"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/google/uuid"
)

// operateCancelled cancels a task from each state that allows it, beside a task that went to POISON by itself.
func operateCancelled(t *test) {
	c := t.open()
	q, ops := c.Queue("q"), admin.New(c)
	waiting := t.enqueue(q, dbq.NewTask{Delay: long})
	running := t.takeNew(q, dbq.NewTask{}, long)
	retried := t.takeNew(q, dbq.NewTask{}, long)
	t.must(q.Settle(t.ctx, retried.Lease, dbq.RetryIn(long, errBoom)))
	parked := t.takeNew(q, dbq.NewTask{}, long)
	t.must(q.Settle(t.ctx, parked.Lease, dbq.Parked(errBoom)))
	poison := t.takeNew(c.Queue("other"), dbq.NewTask{}, long)
	t.must(c.Queue("other").Settle(t.ctx, poison.Lease, dbq.Poisoned(errBoom)))
	completed := t.takeNew(c.Queue("other"), dbq.NewTask{}, long)
	t.must(c.Queue("other").Complete(t.ctx, completed.Lease, nil))

	all := []uuid.UUID{waiting, running.ID, retried.ID, parked.ID}
	for _, id := range all {
		t.must(ops.Operate(t.ctx, admin.Cancel, id, admin.By("ops"), admin.Reason("no longer wanted")))
		now := t.get(c, id)
		if now.State != dbq.StatePoison || !now.Cancelled || string(now.Result) != "cancelled by ops: no longer wanted" {
			t.Errorf("got %s with result %q, want it cancelled", show(now), now.Result)
		}
		t.wantErr("cancelling again", ops.Operate(t.ctx, admin.Cancel, id), dbq.ErrWrongState)
	}
	for _, id := range []uuid.UUID{poison.ID, completed.ID} {
		t.wantErr("cancelling an ended task", ops.Operate(t.ctx, admin.Cancel, id), dbq.ErrWrongState)
		if t.get(c, id).Cancelled {
			t.Errorf("task %s is cancelled after a refused call", id)
		}
	}
	t.wantErr("settling a cancelled task", q.Complete(t.ctx, running.Lease, nil), dbq.ErrLeaseLost)
	t.wantNone("after the cancelling", q)

	var listed []uuid.UUID
	for _, task := range t.list(c, admin.Filter{CancelledOnly: true}) {
		listed = append(listed, task.ID)
	}
	if slices.SortFunc(all, byBytes); !slices.Equal(listed, all) {
		t.Errorf("the cancelled tasks are listed as %v, want %v", listed, all)
	}
	for _, opts := range [][]admin.StatsOption{nil, {admin.CountAll()}} {
		stats, err := ops.Stats(t.ctx, opts...)
		t.must(err)
		want := map[string]int64{"q": 4, "other": 0}
		for _, s := range stats {
			if s.Cancelled != want[s.Queue] {
				t.Errorf("%s: %d tasks are counted as cancelled, want %d", s.Queue, s.Cancelled, want[s.Queue])
			}
		}
	}
	as, err := ops.Attempts(t.ctx, running.ID)
	if t.must(err); len(as) != 1 || as[0].Outcome != dbq.AttemptCancelled {
		t.Errorf("the history has %+v, want one attempt, cancelled", as)
	}
	if as, err = ops.Attempts(t.ctx, parked.ID); err != nil || len(as) == 0 || as[len(as)-1].Error != errBoom.Error() {
		t.Errorf("the history of a cancelled failed task has %+v and error %v, want its failure", as, err)
	}
	done, err := ops.OperateMany(t.ctx, admin.Reenqueue, admin.Filter{CancelledOnly: true, Limit: 10})
	if done.Changed != 4 || err != nil {
		t.Errorf("reenqueued %d tasks with error %v, want 4", done.Changed, err)
	}
	if now := t.get(c, running.ID); now.Cancelled || now.State != dbq.StateCreated {
		t.Errorf("got %s, want it CREATED and not cancelled", show(now))
	}
	n := done.Changed
	for _, task := range t.checkout(q, 10, long) {
		if n--; task.Attempt != 1 || task.Cancelled {
			t.Errorf("took %s, want it at attempt 1", show(task))
		}
	}
	if n != 0 {
		t.Errorf("%d of the reenqueued tasks were not handed out", n)
	}
}

func byBytes(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) }

package conformance

import (
	"time"

	"github.com/dbq-go/dbq"
)

// leaseEarlierLife removes tasks and enqueues their ids again, as fast as it can: also an engine whose clock is coarse must not begin a
// fence where an earlier one has been.
func leaseEarlierLife(t *T) {
	c := t.Open()
	q := c.Queue("q")
	id := dbq.NewID()
	enqueue := []func(nt dbq.NewTask) error{
		func(nt dbq.NewTask) error { _, err := q.Enqueue(t.ctx, nt); return err },
		func(nt dbq.NewTask) error {
			_, err := q.EnqueueMany(t.ctx, []dbq.NewTask{nt, {Delay: long}, {ID: nt.ID}})
			return err
		},
		func(nt dbq.NewTask) error {
			tx, err := c.DB().BeginTx(t.ctx, nil)
			t.Must(err)
			defer tx.Rollback()
			if _, err := q.EnqueueTx(t.ctx, tx, nt); err != nil {
				return err
			}
			return tx.Commit()
		},
	}
	const lives = 12
	var leases []dbq.Lease
	next := func(task dbq.Task) {
		if n := len(leases); n > 0 && task.Fence <= leases[n-1].Fence {
			t.Errorf("lease %d of the id has the fence %d, want more than %d, which the one before had", n+1, task.Fence, leases[n-1].Fence)
		}
		leases = append(leases, task.Lease)
	}
	for life := range lives {
		t.Must(enqueue[life%len(enqueue)](dbq.NewTask{ID: id}))
		task := t.take(q, long)
		next(task)
		if life%2 > 0 {
			t.Must(q.Release(t.ctx, task.Lease, 0))
			task = t.take(q, long)
			next(task)
		}
		t.Must(q.Record(t.ctx, []dbq.Attempt{{Task: id, Queue: "q", Attempt: task.Attempt, Fence: task.Fence, Outcome: dbq.OutcomeCompleted,
			Started: time.Now(), Ended: time.Now(), Worker: "w"}}))
		old := leases[:len(leases)-1]
		lost, err := q.CompleteMany(t.ctx, old)
		if err != nil || len(lost) != len(old) {
			t.Errorf("of %d leases of earlier lives %d are lost, error %v; want all", len(old), len(lost), err)
		}
		if life == 0 || life == lives-1 {
			for _, l := range old {
				t.wantLost("in a later life", q, l)
			}
		}
		t.Must(q.CompleteAndDelete(t.ctx, task.Lease))
	}
	attempts, err := c.Attempts(t.ctx, id)
	t.Must(err)
	if len(attempts) != lives {
		t.Errorf("the history has %d attempts of %d lives, want one of each", len(attempts), lives)
	}
}

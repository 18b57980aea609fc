package cases

import (
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
)

// leaseEarlierLife removes tasks and enqueues their ids again, as fast as it can: also an engine whose clock is coarse
// must not begin a fence where an earlier one has been.
func leaseEarlierLife(t *test) {
	c := t.open()
	q := c.Queue("q")
	id := dbq.NewID()
	enqueue := t.waysToEnqueue(q)
	const lives = 12
	var leases []dbq.Lease
	next := func(task dbq.Task) {
		if n := len(leases); n > 0 && task.Fence <= leases[n-1].Fence {
			t.Errorf("lease %d of the id has the fence %d, want more than %d, which the one before had", n+1, task.Fence,
				leases[n-1].Fence)
		}
		leases = append(leases, task.Lease)
	}
	for life := range lives {
		t.must(enqueue[life%len(enqueue)](dbq.NewTask{ID: id}))
		task := t.take(q, long)
		next(task)
		if life%2 > 0 {
			t.must(q.Settle(t.ctx, task.Lease, dbq.Released(0)))
			task = t.take(q, long)
			next(task)
		}
		t.record(q, dbq.Attempt{Task: id, Attempt: task.Attempt, Fence: task.Fence, Outcome: dbq.AttemptCompleted,
			Taken: time.Now(), Ended: time.Now(), Worker: "w"})
		old := leases[:len(leases)-1]
		lost, err := completeAll(t.ctx, q, old)
		if err != nil || len(lost) != len(old) {
			t.Errorf("of %d leases of earlier lives %d are lost, error %v; want all", len(old), len(lost), err)
		}
		if life == 0 || life == lives-1 {
			for _, l := range old {
				t.wantLost("in a later life", q, l)
			}
		}
		t.must(q.Settle(t.ctx, task.Lease, dbq.Deleted()))
	}
	attempts, err := admin.New(c).Attempts(t.ctx, id)
	t.must(err)
	if want := lives + lives/2; len(attempts) != want { // every second life had one that was released
		t.Errorf("the history has %d attempts of %d lives, want %d", len(attempts), lives, want)
	}
}

// waysToEnqueue returns each way to enqueue a task: by itself, in a batch, and in a transaction.
func (t *test) waysToEnqueue(q *dbq.Queue) []func(nt dbq.NewTask) error {
	return []func(nt dbq.NewTask) error{
		func(nt dbq.NewTask) error { _, err := q.Enqueue(t.ctx, nt); return err },
		func(nt dbq.NewTask) error {
			_, err := q.EnqueueMany(t.ctx, []dbq.NewTask{nt, {Delay: long}, {ID: nt.ID}})
			return err
		},
		func(nt dbq.NewTask) error {
			tx, err := q.Client().DB().BeginTx(t.ctx, nil)
			t.must(err)
			defer tx.Rollback()
			if _, err := q.EnqueueTx(t.ctx, tx, nt); err != nil {
				return err
			}
			return tx.Commit()
		},
	}
}

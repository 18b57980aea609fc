package conformance

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/dbq-go/dbq"
)

// lockRows locks the tasks with these references in a transaction of a stranger's, which is rolled back after the case, as a person's
// session that was left open does. Where a transaction that writes keeps out all other writers, the case is skipped.
func (t *T) lockRows(references ...string) *sql.Tx {
	stranger := t.Open()
	tx := t.begin(stranger)
	for _, reference := range references {
		_, err := tx.ExecContext(t.ctx, fmt.Sprintf("UPDATE %stask SET kind = kind WHERE reference = '%s'", t.prefix, reference))
		t.Must(err)
	}
	t.oneWriter(tx)
	return tx
}

func checkoutPassesLocked(t *T) {
	c := t.Open()
	q := c.Queue("q")
	t.enqueue(q, dbq.NewTask{Reference: "ran out"})
	t.abandon(q)
	t.enqueue(q, dbq.NewTask{Reference: "due"})
	free := t.enqueueMany(q, 5, nil)
	tx := t.lockRows("ran out", "due")

	// The client is new, so that it looks for leases that ran out first. A server gives up waiting for a lock much later.
	q = t.Open().Queue("q")
	ctx, cancel := context.WithTimeout(t.ctx, patience/2)
	defer cancel()
	got := map[string]int{}
	take := func(n int) error {
		tasks, err := q.Checkout(ctx, n, long)
		for _, task := range tasks {
			got[task.ID.String()]++
		}
		return err
	}
	t.Must(take(1)) // not even the first one waits
	t.eventually("the tasks that are not locked are handed out", func() bool {
		t.Must(take(10))
		return len(got) >= len(free)
	})
	for _, id := range free {
		if got[id.String()] != 1 {
			t.Errorf("task %s, which nobody had locked, was handed out %d times, want once", id, got[id.String()])
		}
	}
	t.Must(tx.Rollback())
	t.eventually("the other two are handed out when they are not locked any more", func() bool {
		t.Must(take(10))
		return len(got) == len(free)+2
	})
}

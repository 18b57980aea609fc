package cases

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/dbq-go/dbq"
)

// lockRows locks the tasks with these references in another transaction, which is rolled back after the case, as an
// operator's forgotten session does. It skips the case where a transaction that writes blocks all other writers.
func (t *test) lockRows(references ...string) *sql.Tx {
	other := t.open()
	tx := t.beginTx(other)
	for _, reference := range references {
		_, err := tx.ExecContext(t.ctx, fmt.Sprintf("UPDATE %stask SET kind = kind WHERE reference = '%s'", t.Prefix,
			reference))
		t.must(err)
	}
	t.skipOneWriter(tx)
	return tx
}

func checkoutPassesLocked(t *test) {
	c := t.open()
	q := c.Queue("q")
	t.enqueue(q, dbq.NewTask{Reference: "expired"})
	t.abandon(q)
	locked := []string{"expired"}
	t.enqueueMany(q, 4, func(i int, nt *dbq.NewTask) {
		nt.Reference = fmt.Sprint("due ", i)
		locked = append(locked, nt.Reference)
	})
	free := t.enqueueMany(q, 5, nil)
	tx := t.lockRows(locked...)

	// The client is new, so that it looks for expired leases first. A server gives up waiting for a lock much later.
	q = t.open().Queue("q")
	ctx, cancel := context.WithTimeout(t.ctx, t.Patience/2)
	defer cancel()
	got := map[string]int{}
	take := func(n int) error {
		tasks, err := q.Checkout(ctx, n, long)
		for _, task := range tasks {
			got[task.ID.String()]++
		}
		return err
	}
	for range free { // not even the first one waits, or finds nothing
		t.must(take(1))
	}
	for _, id := range free {
		if got[id.String()] != 1 {
			t.Errorf("task %s, which nobody had locked, was handed out %d times, want once", id, got[id.String()])
		}
	}
	t.must(tx.Rollback())
	t.eventually("the others are handed out when they are not locked any more", func() bool {
		t.must(take(10))
		return len(got) == len(free)+len(locked)
	})
}

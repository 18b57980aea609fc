package cases

import (
	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/state"
)

// operateTx applies each event to a task in a transaction, reads the task there, and ends the transaction both ways.
func operateTx(t *test) {
	c, other := t.open(), t.open() // nothing else of c may be used while its transaction is open
	steps := []struct {
		event state.Event
		to    dbq.State
	}{
		{admin.Reject, dbq.StateError},
		{admin.Quarantine, dbq.StatePoison},
		{admin.Restore, dbq.StateError},
		{admin.Reenqueue, dbq.StateCreated},
		{admin.Revoke, dbq.StateError},
		{admin.Purge, state.None},
	}
	q := c.Queue("q")
	id := t.enqueue(q, dbq.NewTask{Payload: []byte("x")})
	for _, step := range steps {
		if step.event == admin.Revoke {
			t.take(q, long)
		}
		before := t.get(other, id)
		for _, commit := range []bool{false, true} {
			tx := t.beginTx(c)
			t.must(admin.New(c).OperateTx(t.ctx, tx, step.event, id, admin.By("ann")))
			task, err := c.GetTx(t.ctx, tx, id)
			if step.to == state.None {
				t.wantErr("GetTx after a purge in the transaction", err, dbq.ErrNotFound)
			} else if err != nil || task.State != step.to || string(task.Payload) != "x" {
				t.Errorf("%s: the transaction sees %s, %v; want it in %v", step.event, show(task), err, step.to)
			}
			t.wantUnchanged(string(step.event)+" in an open transaction", other, before)
			if commit {
				t.must(tx.Commit())
			} else {
				t.must(tx.Rollback())
			}
		}
		if step.to == state.None {
			t.wantGone(other, id)
		} else {
			t.wantState(other, id, step.to)
		}
	}
	tx := t.beginTx(c)
	t.wantErr("an event on a task that is gone", admin.New(c).OperateTx(t.ctx, tx, admin.Purge, id), dbq.ErrNotFound)
	t.must(tx.Rollback())
	id = t.enqueue(q, dbq.NewTask{})
	tx = t.beginTx(c)
	t.wantErr("an event that the state does not allow", admin.New(c).OperateTx(t.ctx, tx, admin.Revoke, id),
		dbq.ErrWrongState)
	t.must(tx.Rollback())
}

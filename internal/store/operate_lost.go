package store

import (
	"context"
	"errors"
	"maps"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// operateTx is the transaction of an operation, with its retries. If the answer to a commit is lost, the next try must
// not mistake another operator's identical change for its own, and must not repeat its change after later ones. The
// time of a task's last change decides: before its commit, each try reads the time of its own change.
type operateTx struct {
	s     *Store
	op    Operation
	ids   []uuid.UUID
	moved []dialect.Row // as they were before
	audit *Audit        // nil for none

	tries []operateTry // those that moved something and may have been committed
}

// operateTry is the change of one try, if it was committed.
type operateTry struct {
	moved         []dialect.Row
	before, after map[uuid.UUID]dialect.Row // their versions; after is empty for an event that removes them
}

// errChangedSince means that a task is neither as before an earlier try nor as after it.
var errChangedSince = errors.New("the task has changed since")

// run is a changeFunc. It sets moved.
func (o *operateTx) run(ctx context.Context, conn dialect.Conn, again bool) error {
	if again {
		if done, err := o.resolve(ctx, conn); done || err != nil {
			return err
		}
	} else {
		o.tries = nil // what was tried so far was rolled back
	}
	tried, err := o.try(ctx, conn)
	if err != nil {
		return err
	}
	if len(o.moved) == 0 {
		if again { // the commit of an earlier try may have been under way during resolve
			_, err = o.resolve(ctx, conn)
		}
		return err
	}
	if !o.asBefore(tried.before) { // it was during resolve
		return errChangedSince
	}
	o.tries = append(o.tries, tried)
	return nil
}

// try applies the operation once.
func (o *operateTx) try(ctx context.Context, conn dialect.Conn) (tried operateTry, err error) {
	removes := o.op.Transition.To == state.None
	if removes { // its statement returns only ids
		if tried.before, err = o.s.Peek(ctx, conn, o.ids); err != nil {
			return tried, err
		}
	}
	if o.moved, err = o.s.operate(ctx, conn, o.op, o.ids); err != nil || len(o.moved) == 0 {
		return tried, err
	}
	tried.moved = o.moved
	if removes {
		removed := byID(o.moved)
		maps.DeleteFunc(tried.before, func(id uuid.UUID, _ dialect.Row) bool { _, ok := removed[id]; return !ok })
		return tried, o.s.auditMoved(ctx, conn, o.audit, o.op, o.moved, tried.before)
	}
	tried.before = byID(o.moved)
	if tried.after, err = o.s.Peek(ctx, conn, idsOf(o.moved)); err != nil {
		return tried, err
	}
	return tried, o.s.auditMoved(ctx, conn, o.audit, o.op, o.moved, nil)
}

// resolve determines whether one of the earlier tries was committed. Each was committed as a whole or not at all.
func (o *operateTx) resolve(ctx context.Context, conn dialect.Conn) (done bool, err error) {
	rows, err := o.s.Peek(ctx, conn, o.ids)
	if err != nil {
		return false, err
	}
	for _, tried := range o.tries {
		for id, after := range tried.after {
			if row, ok := rows[id]; ok && sameVersion(row, after) {
				o.moved = tried.moved
				return true, nil
			}
		}
	}
	if !o.asBefore(rows) {
		return false, errChangedSince
	}
	return false, nil
}

// asBefore reports whether each earlier try has a task that is still as before, so that none was committed.
func (o *operateTx) asBefore(rows map[uuid.UUID]dialect.Row) bool {
	for _, tried := range o.tries {
		still := false
		for _, was := range tried.before {
			row, ok := rows[was.ID]
			still = still || ok && sameVersion(row, was)
		}
		if !still {
			return false
		}
	}
	return true
}

// sameVersion reports whether a row is unchanged, except for a renewal of its lease.
func sameVersion(a, b dialect.Row) bool {
	return a.State == b.State && a.Fence == b.Fence && a.Updated == b.Updated
}

func byID(rows []dialect.Row) map[uuid.UUID]dialect.Row {
	out := make(map[uuid.UUID]dialect.Row, len(rows))
	for _, r := range rows {
		out[r.ID] = r
	}
	return out
}

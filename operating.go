package dbq

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// operating is one transaction of an operator's event, and its repetitions. The answer to its commit may be lost; then the next try must not take
// the same move by somebody else for its own, and not do again what has been done and has gone on from there. The time of a task's last change
// tells: within the transaction, before the commit, each try reads what time its own move has left.
type operating struct {
	c     *Client
	op    Operation
	t     state.Transition
	ids   []uuid.UUID
	moved []dialect.Row // as they were before

	tries []triedMove // those that moved something, and were not rolled back for sure
}

// triedMove is what one try did, if it was committed.
type triedMove struct {
	moved         []dialect.Row
	before, after map[uuid.UUID]dialect.Row // their versions; none after an event that removes them
}

// errGoneOn says that a task is neither as it was before an earlier try nor as that try left it.
var errGoneOn = errors.New("the task has gone on since")

// run is a change; see write. Afterwards moved has what it moved.
func (o *operating) run(ctx context.Context, conn dialect.Conn, again bool) error {
	if again {
		if done, err := o.resolve(ctx, conn); done || err != nil {
			return err
		}
	} else {
		o.tries = nil // what was tried so far was rolled back
	}
	tried, err := o.move(ctx, conn)
	if err != nil {
		return err
	}
	if len(o.moved) == 0 {
		if again { // the commit of an earlier try may have been under way when resolve looked
			_, err = o.resolve(ctx, conn)
		}
		return err
	}
	if !o.asBefore(tried.before) { // it was when resolve looked
		return errGoneOn
	}
	o.tries = append(o.tries, tried)
	return nil
}

// move does the event once.
func (o *operating) move(ctx context.Context, conn dialect.Conn) (tried triedMove, err error) {
	removes := o.t.To == state.None
	if removes { // it tells only the ids
		if tried.before, err = o.c.peek(ctx, conn, o.ids); err != nil {
			return tried, err
		}
	}
	if o.moved, err = o.c.operate(ctx, conn, o.op, o.t, o.ids); err != nil || len(o.moved) == 0 {
		return tried, err
	}
	tried.moved = o.moved
	if removes {
		removed := byID(o.moved)
		maps.DeleteFunc(tried.before, func(id uuid.UUID, _ dialect.Row) bool { _, ok := removed[id]; return !ok })
		return tried, nil
	}
	tried.before = byID(o.moved)
	tried.after, err = o.c.peek(ctx, conn, idsOf(o.moved))
	return tried, err
}

// resolve finds out whether one of the earlier tries happened: each happened as a whole or not at all.
func (o *operating) resolve(ctx context.Context, conn dialect.Conn) (done bool, err error) {
	rows, err := o.c.peek(ctx, conn, o.ids)
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
		return false, errGoneOn
	}
	return false, nil
}

// asBefore reports whether a task that an earlier try moved is still as it was before, so that this try did not happen.
func (o *operating) asBefore(rows map[uuid.UUID]dialect.Row) bool {
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

// sameVersion reports whether nothing has happened to a row but renewals of its lease.
func sameVersion(a, b dialect.Row) bool {
	return a.State == b.State && a.Fence == b.Fence && a.Updated == b.Updated
}

// refusal says why an event has not moved a task.
func (o *operating) refusal(ctx context.Context, conn dialect.Conn, id uuid.UUID) error {
	rows, err := o.c.peek(ctx, conn, []uuid.UUID{id})
	if err != nil {
		return err
	}
	row, exists := rows[id]
	if !exists {
		return ErrNotFound
	}
	return fmt.Errorf("%w: it is %v, %s takes %s", ErrWrongState, row.State, o.op.Event, sources(o.t))
}

func byID(rows []dialect.Row) map[uuid.UUID]dialect.Row {
	out := make(map[uuid.UUID]dialect.Row, len(rows))
	for _, r := range rows {
		out[r.ID] = r
	}
	return out
}

func idsOf(rows []dialect.Row) []uuid.UUID {
	ids := make([]uuid.UUID, len(rows))
	for i, r := range rows {
		ids[i] = r.ID
	}
	return ids
}

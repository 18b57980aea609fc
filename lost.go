package dbq

import (
	"bytes"
	"context"
	"errors"

	"github.com/dbq-go/dbq/dialect"
	"github.com/google/uuid"
)

// LostLease is a lease that is not valid any more.
type LostLease struct {
	Lease Lease
	// Revoked says who revoked the task and why, as the task has it: "revoked by ...". It is empty for a lease that was lost in
	// another way, and when the task has gone on since.
	Revoked string
}

// Lost reads which of some leases are lost, since others took the tasks over or an operator revoked them. A lease whose holder has ended
// the attempt is not among them, but that of a task that is not there any more is. It locks and changes nothing. At most MaxBulk at once.
func (q *Queue) Lost(ctx context.Context, ls []Lease) ([]LostLease, error) {
	if err := checkQueueName(q.name); err != nil || len(ls) == 0 {
		return nil, q.c.wrap("lost", q.name, uuid.Nil, err)
	}
	if err := checkCount(len(ls), MaxBulk); err != nil {
		return nil, q.c.wrap("lost", q.name, uuid.Nil, err)
	}
	ids := make([]uuid.UUID, len(ls))
	for i, l := range ls {
		if err := q.checkLease(l); err != nil {
			return nil, q.c.wrap("lost", q.name, l.Task, err)
		}
		ids[i] = l.Task
	}
	var rows map[uuid.UUID]dialect.Row
	err := q.c.read(ctx, func(ctx context.Context, conn dialect.Conn) (err error) {
		rows, err = q.c.peek(ctx, conn, ids)
		return err
	})
	var lost []LostLease
	for i := 0; i < len(ls) && err == nil; i++ {
		l := ls[i]
		row, exists := rows[l.Task]
		if exists && row.Fence == l.Fence {
			continue
		}
		gone := LostLease{Lease: l}
		if exists && row.State == StateError && row.Fence == l.Fence+1 {
			var t Task
			if t, err = q.c.Get(ctx, l.Task); err == nil && t.Fence == row.Fence && bytes.HasPrefix(t.Result, []byte("revoked by ")) {
				gone.Revoked = string(t.Result)
			} else if errors.Is(err, ErrNotFound) {
				err = nil
			}
		}
		lost = append(lost, gone)
	}
	return lost, q.c.wrap("lost", q.name, uuid.Nil, err)
}

package dbq

import (
	"context"
	"slices"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/google/uuid"
)

// Extend sets a lease to end a time (MinLease to MaxLease) from the database's now, and returns it with its new Until. The fence
// stays. A lease that is not valid any more is ErrLeaseLost; one that ran out but was not taken over is renewed.
func (q *Queue) Extend(ctx context.Context, l Lease, d time.Duration) (Lease, error) {
	renewed, lost, err := q.ExtendMany(ctx, []Lease{l}, d)
	if err == nil && len(lost) > 0 {
		err = ErrLeaseLost
	}
	if outer, ok := err.(*Error); ok {
		outer.Task = l.Task
	}
	if err != nil {
		return l, q.c.wrap("extend", q.name, l.Task, err)
	}
	return renewed[0], nil
}

// ExtendMany extends all leases that a worker holds, in one statement where the engine allows, and tells those that were renewed
// from those that are lost, each in the order given.
func (q *Queue) ExtendMany(ctx context.Context, ls []Lease, d time.Duration) (renewed, lost []Lease, err error) {
	defer func(start time.Time) { q.c.observed("extend", q.name, len(ls), start, err) }(time.Now())
	if err := q.checkExtend(ls, d); err != nil || len(ls) == 0 {
		return nil, nil, q.c.wrap("extend", q.name, uuid.Nil, err)
	}
	sorted := slices.Clone(ls)
	slices.SortFunc(sorted, func(x, y Lease) int { return slices.Compare(x.Task[:], y.Task[:]) })
	id, fence := make(dialect.Col[uuid.UUID], len(ls)), make(dialect.Col[int64], len(ls))
	for i, l := range sorted {
		id[i], fence[i] = l.Task, l.Fence
	}
	s := q.c.s
	write := q.c.write
	if len(ls) > s.Statements.Extend.Max {
		write = q.c.writeTx
	}
	var rows []dialect.Row
	var until time.Time
	err = write(ctx, func(ctx context.Context, conn dialect.Conn, _ bool) (err error) {
		until = time.Now().Add(d - s.Server.Precision)
		args := dialect.Args{"id": id, "fence": fence, "lease": d.Microseconds()}
		rows, err = s.QueryBatch(ctx, conn, s.Statements.Extend, args, len(ls))
		return err
	})
	if err != nil {
		return nil, nil, q.c.wrap("extend", q.name, uuid.Nil, err)
	}
	still := make(map[held]bool, len(rows))
	for _, r := range rows {
		still[held{r.ID, r.Fence}] = true
	}
	for _, l := range ls {
		if still[held{l.Task, l.Fence}] {
			l.Until = until
			renewed = append(renewed, l)
		} else {
			lost = append(lost, l)
		}
	}
	return renewed, lost, nil
}

func (q *Queue) checkExtend(ls []Lease, d time.Duration) error {
	if err := checkQueueName(q.name); err != nil {
		return err
	}
	if err := checkLeaseTime(d); err != nil {
		return err
	}
	if len(ls) > MaxBulk {
		return checkCount(len(ls), MaxBulk)
	}
	for _, l := range ls {
		if err := q.checkLease(l); err != nil {
			return err
		}
	}
	return nil
}

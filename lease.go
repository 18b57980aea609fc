package dbq

import (
	"context"
	"time"

	"github.com/dbq-go/dbq/internal/limits"
	"github.com/dbq-go/dbq/internal/store"
	"github.com/google/uuid"
)

// Extend sets a lease to end a time (MinLease to MaxLease) from the database's now, and returns it with its new Until.
// The fence stays. A lease that is not valid any more is ErrLeaseLost; one that expired but was not taken over is
// renewed. It does not wait for a transaction that has locked the task's row, and on servers does not disturb one that
// completes the task, at any isolation level.
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

// ExtendMany extends up to MaxBulk leases, in one statement where the engine allows, and returns those that were
// renewed and those that are lost, each in the order given. Unlike other writes it is cut off when ctx ends: repeating
// it does no harm.
func (q *Queue) ExtendMany(ctx context.Context, ls []Lease, d time.Duration) (renewed, lost []Lease, err error) {
	defer func(start time.Time) { q.c.observed("extend", q.name, len(ls), start, err) }(time.Now())
	if err := q.checkExtend(ls, d); err != nil || len(ls) == 0 {
		return nil, nil, q.c.wrap("extend", q.name, uuid.Nil, err)
	}
	valid, until, err := q.c.store.ExtendLeases(ctx, storedLeases(ls), d)
	if err != nil {
		return nil, nil, q.c.wrap("extend", q.name, uuid.Nil, err)
	}
	renewed, lost = partition(ls, valid)
	for i := range renewed {
		renewed[i].Until, renewed[i].Renewed = until, q.c.store.RecordsRenewals()
	}
	return renewed, lost, nil
}

// partition returns the leases that are valid, and those that are not.
func partition(ls []Lease, valid []bool) (yes, no []Lease) {
	for i, l := range ls {
		if valid[i] {
			yes = append(yes, l)
		} else {
			no = append(no, l)
		}
	}
	return yes, no
}

func storedLeases(ls []Lease) []store.LeaseKey {
	out := make([]store.LeaseKey, len(ls))
	for i, l := range ls {
		out[i] = l.stored()
	}
	return out
}

func (q *Queue) checkExtend(ls []Lease, d time.Duration) error {
	if err := limits.QueueName(q.name); err != nil {
		return err
	}
	if err := limits.Lease(d); err != nil {
		return err
	}
	if len(ls) > MaxBulk {
		return limits.Count(len(ls), MaxBulk)
	}
	for _, l := range ls {
		if err := q.checkLease(l); err != nil {
			return err
		}
	}
	return nil
}

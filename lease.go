package dbq

import (
	"context"
	"time"

	"github.com/dbq-go/dbq/internal/bounds"
	"github.com/dbq-go/dbq/internal/store"
)

// Extend moves the end of a lease to d (MinLease to MaxLease) after the database's current time. It returns the lease
// with its new Until and the same fence, or ErrLeaseLost if the lease is no longer valid. A lease that has expired
// but was not taken over is renewed. Extend does not wait for a transaction that has locked the task's row. Except on
// SQLite, it also does not conflict with a transaction that completes the task, at any isolation level.
//
// Extend stores l.Progress, unless it is empty, in the same statement.
func (q *Queue) Extend(ctx context.Context, l Lease, d time.Duration) (Lease, error) {
	renewed, lost, err := q.ExtendMany(ctx, []Lease{l}, d)
	if err == nil && len(lost) > 0 {
		err = ErrLeaseLost
	}
	if outer, ok := err.(*Error); ok {
		outer.TaskID = l.TaskID
	}
	if err != nil {
		return l, q.c.wrap("extend", q.name, l.TaskID, err)
	}
	return renewed[0], nil
}

// ExtendMany extends up to MaxBulk leases, in one statement where the engine allows. It returns the renewed leases
// and the lost leases, each in the order given. Unlike other writes, it is interrupted when ctx ends, because it is
// safe to repeat.
func (q *Queue) ExtendMany(ctx context.Context, ls []Lease, d time.Duration) (renewed, lost []Lease, err error) {
	defer q.end("extend", len(ls), time.Now(), &err)
	if err = bounds.Lease(d); err != nil {
		return nil, nil, err
	}
	var until time.Time
	progress := make([][]byte, len(ls))
	for i, l := range ls {
		if err = bounds.Progress(l.Progress); err != nil {
			return nil, nil, err
		}
		progress[i] = l.Progress
	}
	renewed, lost, err = q.onLeases(ls, func(keys []store.LeaseKey) (valid []bool, err error) {
		valid, until, err = q.c.store.ExtendLeases(ctx, keys, progress, d)
		return valid, err
	})
	for i := range renewed {
		renewed[i].Until, renewed[i].Renewed = until, q.c.store.RecordsRenewals()
	}
	return renewed, lost, err
}

// onLeases checks leases and runs an operation on them, which reports for each lease whether it was valid. It returns
// the valid leases and the lost ones, each in the order given.
func (q *Queue) onLeases(ls []Lease, do func([]store.LeaseKey) ([]bool, error)) (valid, lost []Lease, err error) {
	if err := q.check(len(ls)); err != nil || len(ls) == 0 {
		return nil, nil, err
	}
	keys := make([]store.LeaseKey, len(ls))
	for i, l := range ls {
		if err := q.checkLease(l); err != nil {
			return nil, nil, err
		}
		keys[i] = l.key()
	}
	found, err := do(keys)
	if err != nil {
		return nil, nil, err
	}
	for i, l := range ls {
		if found[i] {
			valid = append(valid, l)
		} else {
			lost = append(lost, l)
		}
	}
	return valid, lost, nil
}

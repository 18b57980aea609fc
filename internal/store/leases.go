package store

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// LeaseKey identifies a lease by task and fence. The task alone is not enough: a worker may lease a task again before
// it gives up its earlier lease.
type LeaseKey struct {
	TaskID uuid.UUID
	Fence  int64
}

// HeldBy reports whether a task's row, as Peek reads it, is leased under the lease.
func (l LeaseKey) HeldBy(r dialect.Row) bool {
	return r.ID == l.TaskID && r.Fence == l.Fence && r.State == state.Processing
}

// ExtendLeases sets leases to end a time from the database's now, and stores the progress of those that have some. If a
// lease is given twice, the last progress counts. valid reports for each lease whether it was still valid. until is
// this process's estimate of the new end, never later than the database's. The end of ctx interrupts the call.
func (s *Store) ExtendLeases(ctx context.Context, ls []LeaseKey, progress [][]byte, d time.Duration) (
	valid []bool, until time.Time, err error,
) {
	reported := map[LeaseKey][]byte{}
	for i, p := range progress {
		if len(p) > 0 {
			reported[ls[i]] = p
		}
	}
	columns := func(sorted []LeaseKey, args dialect.Args) {
		col, size := make(dialect.Col[[]byte], len(sorted)), make(dialect.Col[*int64], len(sorted))
		for i, l := range sorted {
			col[i] = reported[l]
			size[i] = sizeOf(col[i])
		}
		args["lease"], args["progress"], args["progress_size"] = d.Microseconds(), col, size
	}
	valid, err = s.onLeases(ctx, dialect.Extend, columns, ls, func() {
		until = time.Now().Add(d - s.sql.Server.Precision)
	})
	if err == nil {
		s.expireRenewals(ctx)
	}
	return valid, until, err
}

// MarkStarted marks the attempts of leases as started, and reports for each lease whether it was still valid. The end
// of ctx interrupts the call.
func (s *Store) MarkStarted(ctx context.Context, ls []LeaseKey) (valid []bool, err error) {
	return s.onLeases(ctx, dialect.Start, func([]LeaseKey, dialect.Args) {}, ls, func() {})
}

// onLeases applies an operation to the tasks of leases, and reports for each lease whether the task was leased under
// its fence. more returns further values for the sorted leases. The end of ctx interrupts the call, so the operation
// must be safe to repeat. try is called before each try.
func (s *Store) onLeases(
	ctx context.Context, op dialect.Op, more func(sorted []LeaseKey, args dialect.Args), ls []LeaseKey, try func(),
) ([]bool, error) {
	sorted := sortLeases(ls)
	args, n := leaseArgs(sorted), len(sorted)
	more(sorted, args)
	var changed dialect.Changed
	err := s.writeBy(sqlrun.WithoutGrace(ctx), s.runFor(op, args, n),
		func(ctx context.Context, conn dialect.Conn, _ bool) (err error) {
			try()
			changed, err = s.sql.RunBatch(ctx, conn, op, args, n)
			return err
		})
	if err != nil {
		return nil, err
	}
	found := make(map[LeaseKey]bool, len(changed.Rows))
	for _, r := range changed.Rows {
		found[LeaseKey{r.ID, r.Fence}] = true
	}
	valid := make([]bool, len(ls))
	for i, l := range ls {
		valid[i] = changed.All || found[l]
	}
	return valid, nil
}

// sortLeases returns the leases without duplicates, ordered by id, so that two renewals never deadlock.
func sortLeases(ls []LeaseKey) []LeaseKey {
	sorted := slices.Clone(ls)
	slices.SortFunc(sorted, func(x, y LeaseKey) int {
		return cmp.Or(compareIDs(x.TaskID, y.TaskID), cmp.Compare(x.Fence, y.Fence))
	})
	return slices.Compact(sorted)
}

// leaseArgs are the ids and fences of leases.
func leaseArgs(ls []LeaseKey) dialect.Args {
	id, fence := make(dialect.Col[uuid.UUID], len(ls)), make(dialect.Col[int64], len(ls))
	for i, l := range ls {
		id[i], fence[i] = l.TaskID, l.Fence
	}
	return dialect.Args{"id": id, "fence": fence}
}

// On some engines, renewals are rows of their own. Settle removes the renewals of its tasks. SettleTx leaves them,
// because the caller's transaction must not touch them, and a takeover leaves a row, too. Clients that renew
// leases or take tasks over remove these rows some time after they ended.
const (
	expireRenewalsAfter = 10 * time.Minute
	expireRenewalsEvery = 10 * time.Second // for a client
	expireRenewalsMost  = 5000             // at once
	removeTimeout       = 5 * time.Second
	// expireTimeout limits each delay of a checkout that took tasks over. A short lease limits it, too.
	expireTimeout = time.Second
)

// RecordsRenewals reports whether renewals are rows of their own, which must be removed when their leases end.
func (s *Store) RecordsRenewals() bool { return s.sql.Texts.DropLeases.SQL != "" }

// expireRenewalsAfterTakeover removes the rows of earlier takeovers. If tasks are shorter than their leases, no other
// call removes them.
func (s *Store) expireRenewalsAfterTakeover(ctx context.Context, lease time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, min(expireTimeout, lease/6))
	defer cancel()
	s.expireRenewals(ctx)
}

// expireRenewals removes renewals that ended some time ago. It ignores errors.
func (s *Store) expireRenewals(ctx context.Context) {
	now := time.Now().UnixNano()
	last := s.renewalsExpired.Load()
	if s.sql.Texts.ExpireLeases == "" || now-last < int64(expireRenewalsEvery) ||
		!s.renewalsExpired.CompareAndSwap(last, now) {
		return
	}
	args := dialect.Args{"age": expireRenewalsAfter.Microseconds(), "limit": expireRenewalsMost}
	err := s.sql.OneStatement(sqlrun.WithoutGrace(ctx), func(ctx context.Context, conn dialect.Conn) error {
		_, err := s.sql.Exec(ctx, conn, s.sql.Texts.ExpireLeases, args)
		return err
	})
	if err != nil {
		s.Logger.Debug("dbq: cannot remove expired renewals", "error", s.Scrub(err))
	}
}

// removeRenewals removes the renewals of settled leases. It ignores errors.
func (s *Store) removeRenewals(ctx context.Context, ls []LeaseKey) {
	if len(ls) == 0 || !s.RecordsRenewals() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	sorted := sortLeases(ls)
	args, n := leaseArgs(sorted), len(sorted)
	err := s.sql.OneStatement(sqlrun.WithoutGrace(ctx), func(ctx context.Context, conn dialect.Conn) error {
		_, err := s.sql.ExecBatch(ctx, conn, s.sql.Texts.DropLeases, args, n)
		return err
	})
	if err != nil {
		s.Logger.Debug("dbq: cannot remove renewals of settled leases", "leases", n, "error", s.Scrub(err))
	}
}

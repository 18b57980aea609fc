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

// LeaseKey is a task under one fence. A worker may lease a task anew whose earlier lease it has not given up yet.
type LeaseKey struct {
	Task  uuid.UUID
	Fence int64
}

// HeldBy reports whether a task's row, as Peek reads it, is leased under the lease.
func (l LeaseKey) HeldBy(r dialect.Row) bool {
	return r.ID == l.Task && r.Fence == l.Fence && r.State == state.Processing
}

// ExtendLeases sets leases to end a time from the database's now, and stores the progress of those that have some. Of a
// lease that comes twice, the last progress counts. valid says of each whether it was still valid, and until is this
// process's own estimate of the new end, never later than the database's. It is cut off when ctx ends.
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

// MarkStarted marks the attempts of leases as started, and says of each lease whether it was still valid. It is cut off
// when ctx ends.
func (s *Store) MarkStarted(ctx context.Context, ls []LeaseKey) (valid []bool, err error) {
	return s.onLeases(ctx, dialect.Start, func([]LeaseKey, dialect.Args) {}, ls, func() {})
}

// onLeases does an operation to the tasks of leases, and says of each whether it found the task leased under the
// fence. more adds values for the leases, as they are sorted. It ends with ctx, so it must do no harm to repeat the
// batch. try is called before each try.
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

// sortLeases returns the leases, each once and in the order of the ids, so that two renewals never deadlock.
func sortLeases(ls []LeaseKey) []LeaseKey {
	sorted := slices.Clone(ls)
	slices.SortFunc(sorted, func(x, y LeaseKey) int {
		return cmp.Or(slices.Compare(x.Task[:], y.Task[:]), cmp.Compare(x.Fence, y.Fence))
	})
	return slices.Compact(sorted)
}

// leaseArgs are the ids and fences of leases.
func leaseArgs(ls []LeaseKey) dialect.Args {
	id, fence := make(dialect.Col[uuid.UUID], len(ls)), make(dialect.Col[int64], len(ls))
	for i, l := range ls {
		id[i], fence[i] = l.Task, l.Fence
	}
	return dialect.Args{"id": id, "fence": fence}
}

// Where renewals are rows of their own, those of leases that have ended are of no use. Settle removes those of its
// tasks. What is left, as by SettleTx, whose transaction must not meet them, and the rows of takeovers are removed some
// time after they ended, by the clients that renew leases or take tasks over.
const (
	expireRenewalsAfter = 10 * time.Minute
	expireRenewalsEvery = 10 * time.Second // for a client
	expireRenewalsMost  = 5000             // at once
	removeTimeout       = 5 * time.Second
	// expireTimeout bounds how long a checkout that took tasks over is held up by it; a short lease does so, too.
	expireTimeout = time.Second
)

// RecordsRenewals reports whether renewals are rows of their own, which are to be removed when their leases end.
func (s *Store) RecordsRenewals() bool { return s.sql.Texts.DropLeases.SQL != "" }

// expireRenewalsAfterTakeover removes what earlier takeovers have left: where tasks are shorter than their leases, no
// other call may do it.
func (s *Store) expireRenewalsAfterTakeover(ctx context.Context, lease time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, min(expireTimeout, lease/6))
	defer cancel()
	s.expireRenewals(ctx)
}

// expireRenewals is best effort.
func (s *Store) expireRenewals(ctx context.Context) {
	now := time.Now().UnixNano()
	last := s.renewalsExpired.Load()
	if s.sql.Texts.ExpireLeases == "" || now-last < int64(expireRenewalsEvery) ||
		!s.renewalsExpired.CompareAndSwap(last, now) {
		return
	}
	args := dialect.Args{"age": expireRenewalsAfter.Microseconds(), "limit": expireRenewalsMost}
	err := s.sql.Do(sqlrun.WithoutGrace(ctx), func(ctx context.Context, conn dialect.Conn) error {
		_, err := s.sql.Exec(ctx, conn, s.sql.Texts.ExpireLeases, args)
		return err
	})
	if err != nil {
		s.Logger.Debug("dbq: cannot remove expired renewals", "error", s.Scrub(err))
	}
}

// removeRenewals removes the renewals of leases that were settled, best effort.
func (s *Store) removeRenewals(ctx context.Context, ls []LeaseKey) {
	if len(ls) == 0 || !s.RecordsRenewals() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	sorted := sortLeases(ls)
	args, n := leaseArgs(sorted), len(sorted)
	err := s.sql.Do(sqlrun.WithoutGrace(ctx), func(ctx context.Context, conn dialect.Conn) error {
		_, err := s.sql.ExecBatch(ctx, conn, s.sql.Texts.DropLeases, args, n)
		return err
	})
	if err != nil {
		s.Logger.Debug("dbq: cannot remove renewals of settled leases", "leases", n, "error", s.Scrub(err))
	}
}

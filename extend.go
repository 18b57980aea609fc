package dbq

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/google/uuid"
)

// Extend sets a lease to end a time (MinLease to MaxLease) from the database's now, and returns it with its new Until. The fence
// stays. A lease that is not valid any more is ErrLeaseLost; one that ran out but was not taken over is renewed. It does not wait for a
// transaction that has locked the task's row, and on servers does not disturb one that completes the task, at any isolation level.
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

// ExtendMany extends up to MaxBulk leases, in one statement where the engine allows, and returns those that were renewed and those that
// are lost, each in the order given. Unlike other writes it is cut off when ctx ends: repeating it does no harm.
func (q *Queue) ExtendMany(ctx context.Context, ls []Lease, d time.Duration) (renewed, lost []Lease, err error) {
	defer func(start time.Time) { q.c.observed("extend", q.name, len(ls), start, err) }(time.Now())
	if err := q.checkExtend(ls, d); err != nil || len(ls) == 0 {
		return nil, nil, q.c.wrap("extend", q.name, uuid.Nil, err)
	}
	var until time.Time
	s := q.c.s
	renewed, lost, err = q.byLeases(ctx, s.Statements.Extend, dialect.Args{"lease": d.Microseconds()}, ls, func() {
		until = time.Now().Add(d - s.Server.Precision)
	})
	if err != nil {
		return nil, nil, q.c.wrap("extend", q.name, uuid.Nil, err)
	}
	for i := range renewed {
		renewed[i].Until, renewed[i].renewed = until, s.Statements.DropLeases.SQL != ""
	}
	q.c.expireLeases(ctx)
	return renewed, lost, nil
}

// byLeases runs a batch on the tasks of leases, and returns those that it found in work under their fence and those that it did not, each in
// the order given. It ends with ctx, so it must do no harm to repeat it. try is called before each try.
func (q *Queue) byLeases(ctx context.Context, b dialect.Batch, more dialect.Args, ls []Lease, try func()) (done, lost []Lease, err error) {
	args, n := extendArgs(ls)
	maps.Copy(args, more)
	write := q.c.write
	if n > b.Max {
		write = q.c.writeTx
	}
	var rows []dialect.Row
	err = write(dialect.WithoutGrace(ctx), func(ctx context.Context, conn dialect.Conn, _ bool) (err error) {
		try()
		rows, err = q.c.s.QueryBatch(ctx, conn, b, args, n)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	still := heldBy(rows)
	for _, l := range ls {
		if still[held{l.Task, l.Fence}] {
			done = append(done, l)
		} else {
			lost = append(lost, l)
		}
	}
	return done, lost, nil
}

// StillHeld returns those of up to MaxBulk leases whose tasks are in work under their fence: nobody has settled, revoked or taken them
// over. It reads without locks, so that it has an answer also while renewals have to wait. A lease that has run out may be taken over at
// any moment.
func (q *Queue) StillHeld(ctx context.Context, ls []Lease) (still []Lease, err error) {
	err = q.checkExtend(ls, MinLease)
	if err != nil || len(ls) == 0 {
		return nil, q.c.wrap("peek", q.name, uuid.Nil, err)
	}
	ids := make([]uuid.UUID, len(ls))
	for i, l := range ls {
		ids[i] = l.Task
	}
	var rows map[uuid.UUID]dialect.Row
	err = q.c.read(ctx, func(ctx context.Context, conn dialect.Conn) (err error) {
		rows, err = q.c.peek(ctx, conn, ids)
		return err
	})
	if err != nil {
		return nil, q.c.wrap("peek", q.name, uuid.Nil, err)
	}
	for _, l := range ls {
		if row, ok := rows[l.Task]; ok && row.State == StateProcessing && row.Fence == l.Fence {
			still = append(still, l)
		}
	}
	return still, nil
}

// extendArgs are the ids and fences of leases, each once and in the order of the ids, so that two renewals never wait for each other in a
// circle.
func extendArgs(ls []Lease) (args dialect.Args, n int) {
	sorted := slices.Clone(ls)
	slices.SortFunc(sorted, func(x, y Lease) int {
		return cmp.Or(slices.Compare(x.Task[:], y.Task[:]), cmp.Compare(x.Fence, y.Fence))
	})
	sorted = slices.CompactFunc(sorted, func(x, y Lease) bool { return x.Task == y.Task && x.Fence == y.Fence })
	id, fence := make(dialect.Col[uuid.UUID], len(sorted)), make(dialect.Col[int64], len(sorted))
	for i, l := range sorted {
		id[i], fence[i] = l.Task, l.Fence
	}
	return dialect.Args{"id": id, "fence": fence}, len(sorted)
}

func heldBy(rows []dialect.Row) map[held]bool {
	out := make(map[held]bool, len(rows))
	for _, r := range rows {
		out[held{r.ID, r.Fence}] = true
	}
	return out
}

// Renewals of leases that have ended are of no use. Settle drops those of its tasks; what is left, as by CompleteTx, whose transaction
// must not meet them, and the rows of takeovers are removed some time after they ended, by the clients that renew leases or take tasks over.
const (
	expireLeasesAfter = 10 * time.Minute
	expireLeasesEvery = 10 * time.Second // for a client
	expireLeasesMost  = 5000             // at once
	dropTimeout       = 5 * time.Second
	// expireTimeout bounds how long a checkout that took tasks over holds them up for it; a short lease does so, too.
	expireTimeout = time.Second
)

// expireAfterTakeover removes what earlier takeovers have left: where tasks are shorter than their leases, nobody else may do it.
func (c *Client) expireAfterTakeover(ctx context.Context, lease time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, min(expireTimeout, lease/6))
	defer cancel()
	c.expireLeases(ctx)
}

// expireLeases is best effort.
func (c *Client) expireLeases(ctx context.Context) {
	now := time.Now().UnixNano()
	last := c.expired.Load()
	if c.s.Statements.ExpireLeases == "" || now-last < int64(expireLeasesEvery) || !c.expired.CompareAndSwap(last, now) {
		return
	}
	args := dialect.Args{"age": expireLeasesAfter.Microseconds(), "limit": expireLeasesMost}
	err := c.s.Do(dialect.WithoutGrace(ctx), func(ctx context.Context, conn dialect.Conn) error {
		_, err := c.s.Exec(ctx, conn, c.s.Statements.ExpireLeases, args)
		return err
	})
	if err != nil {
		c.cfg.logger.Debug("dbq: cannot remove renewals of leases that have ended", "error", c.scrub(err))
	}
}

// dropLeases removes the renewals of leases that were settled, best effort.
func (c *Client) dropLeases(ctx context.Context, ls []Lease) {
	if len(ls) == 0 || c.s.Statements.DropLeases.SQL == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, dropTimeout)
	defer cancel()
	args, n := extendArgs(ls)
	err := c.s.Do(dialect.WithoutGrace(ctx), func(ctx context.Context, conn dialect.Conn) error {
		_, err := c.s.ExecBatch(ctx, conn, c.s.Statements.DropLeases, args, n)
		return err
	})
	if err != nil {
		c.cfg.logger.Debug("dbq: cannot remove renewals of leases that were settled", "leases", n, "error", c.scrub(err))
	}
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

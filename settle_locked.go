package dbq

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/google/uuid"
)

// A row that another transaction has locked holds up the statement that settles it, with all others of its batch. So a
// batch waits for it a moment only. When that is over, or while this client has met a locked row lately, it first locks
// the rows that nobody else has locked, and settles these alone.
const (
	// lockWait is how long a batch waits for a locked row, where a statement can say so. It is longer than two batches
	// that touch the same rows hold each other up, and shorter than anybody notices.
	lockWait = 100 * time.Millisecond
	// lockedFor is how long a client asks which rows are free before it settles, after it met one that was not.
	lockedFor = 10 * time.Second
)

// write settles, in as few round trips as the try allows.
func (b *settling) write(ctx context.Context) error {
	c, again, waited := b.q.c, false, false
	passing := c.s.Statements.Unlocked.SQL != "" && !b.patient
	return c.repeat(ctx, func() (bool, error) {
		// After a lost answer it waits: the row may be locked by what this very call has sent before.
		b.passes = passing && !again && (waited || c.meetsLocked())
		by := c.s.Do
		if b.passes || b.statements() > 1 {
			by = c.s.Tx
		}
		err := by(ctx, func(ctx context.Context, conn dialect.Conn) error { return b.run(ctx, conn, again) })
		class := c.s.Class(err)
		again = again || class == dialect.Ambiguous
		waited = waited || class == dialect.Conflict
		if len(b.locked) > 0 {
			c.lockedUntil.Store(time.Now().Add(lockedFor).UnixNano())
		}
		return again, err
	})
}

// meetsLocked reports whether a batch is to find out first which rows are free.
func (c *Client) meetsLocked() bool {
	return c.s.Server.LongLockWaits || time.Now().UnixNano() < c.lockedUntil.Load()
}

// unlocked locks the rows of the batch that no other transaction has locked, and returns them. The others are in
// b.locked, unless they show without a lock that their leases are lost.
func (b *settling) unlocked(ctx context.Context, conn dialect.Conn) (parts, error) {
	s := b.q.c.s
	ids := make(dialect.Col[uuid.UUID], 0, len(b.ss))
	for i, st := range b.ss {
		if !b.twice[i] {
			ids = append(ids, st.Lease.Task)
		}
	}
	slices.SortFunc(ids, func(x, y uuid.UUID) int { return slices.Compare(x[:], y[:]) })
	ids = slices.Compact(ids)
	rows, err := s.QueryBatch(ctx, conn, s.Statements.Unlocked, dialect.Args{"id": ids}, len(ids))
	if err != nil || len(rows) == len(ids) {
		return b.parts, err
	}
	free := make(map[uuid.UUID]bool, len(rows))
	for _, r := range rows {
		free[r.ID] = true
	}
	others := slices.DeleteFunc([]uuid.UUID(ids), func(id uuid.UUID) bool { return free[id] })
	now, err := b.q.c.peek(ctx, conn, others)
	if err != nil {
		return parts{}, err
	}
	b.locked = map[int]bool{}
	for i, st := range b.ss {
		row, exists := now[st.Lease.Task]
		if exists && !b.twice[i] && row.State == StateProcessing && row.Fence == st.Lease.Fence {
			b.locked[i] = true
		}
	}
	return b.keep(func(i int) bool { return free[b.ss[i].Lease.Task] }), nil
}

// keep is the parts without some settlements.
func (p parts) keep(ok func(i int) bool) parts {
	some := func(index []int) (out []int) {
		for _, i := range index {
			if ok(i) {
				out = append(out, i)
			}
		}
		return out
	}
	out := parts{update: some(p.update), remove: some(p.remove), alike: maps.Clone(p.alike)}
	for k, index := range p.alike {
		out.alike[k] = some(index)
	}
	return out
}

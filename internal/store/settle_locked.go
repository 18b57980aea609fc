package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/errs"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/google/uuid"
)

// A row that another transaction has locked delays the statement that settles it, and so the whole batch. A batch
// waits for it only briefly. After that, or if this store has recently found a locked row, it first locks the rows
// that no other transaction has locked, and settles only these.
const (
	// lockWait is how long a batch waits for a locked row, if the statement can limit its wait. It is longer than one
	// batch delays another, and too short to be noticed.
	lockWait = 100 * time.Millisecond
	// longLockWait is how long a call for one task waits for a locked row before it tries again. A longer wait would look
	// like a silent server.
	longLockWait = time.Second
	// lockedFor is how long a store locks the free rows first, after it has found a locked one.
	lockedFor = 10 * time.Second
)

var errRowLocked = fmt.Errorf("%w: another transaction has locked the task's row", errs.ErrConflict)

// write settles, in as few round trips as the try allows.
func (b *settleBatch) write(ctx context.Context) error {
	s, again, waited, silent := b.s, false, false, false
	maySkip := s.sql.Texts.LockFree.SQL != "" && !b.wait
	return s.repeat(ctx, func() (bool, error) {
		// After a lost answer it waits: an earlier try of this call may hold the lock.
		b.skipLocked = maySkip && !again && (waited || s.meetsLocked()) || silent
		run := s.sql.Tx
		if !b.skipLocked && len(b.steps) == 1 && !b.more() && !b.mayPoison() && !b.advances() {
			only := b.steps[0]
			run = s.runFor(only.op, only.args, len(only.index))
		}
		err := run(ctx, func(ctx context.Context, conn dialect.Conn) error { return b.run(ctx, conn, again) })
		class := s.sql.Class(err)
		// Where a statement's wait has no bound, the row may have been locked: the call polls it.
		silent = silent || b.wait && s.sql.Server.LongLockWaits && sqlrun.Silent(err)
		if err == nil && b.wait && len(b.locked) > 0 {
			err = errRowLocked
		}
		again = again || class == dialect.Ambiguous
		waited = waited || class == dialect.Conflict
		if len(b.locked) > 0 {
			s.lockedUntil.Store(time.Now().Add(lockedFor).UnixNano())
		}
		return again, err
	})
}

// meetsLocked reports whether a batch must lock the free rows first.
func (s *Store) meetsLocked() bool {
	return s.sql.Server.LongLockWaits || time.Now().UnixNano() < s.lockedUntil.Load()
}

// unlocked locks the rows of the batch that no other transaction has locked, and returns the steps for them. The others
// are in b.locked, unless they show without a lock that their leases are lost.
func (b *settleBatch) unlocked(ctx context.Context, conn dialect.Conn) ([]settleStep, error) {
	s := b.s
	ids := make(dialect.Col[uuid.UUID], 0, len(b.ss))
	for l := range b.index {
		ids = append(ids, l.Task)
	}
	slices.SortFunc(ids, func(x, y uuid.UUID) int { return slices.Compare(x[:], y[:]) })
	ids = slices.Compact(ids)
	rows, err := s.sql.QueryBatch(ctx, conn, s.sql.Texts.LockFree, dialect.Args{"id": ids}, len(ids))
	if err != nil || len(rows) == len(ids) {
		return b.steps, err
	}
	free := make(map[uuid.UUID]bool, len(rows))
	for _, r := range rows {
		free[r.ID] = true
	}
	others := slices.DeleteFunc([]uuid.UUID(ids), func(id uuid.UUID) bool { return free[id] })
	now, err := s.Peek(ctx, conn, others)
	if err != nil {
		return nil, err
	}
	b.locked = map[int]bool{}
	for i := range b.ss {
		if !b.duplicate(i) && b.ss[i].HeldBy(now[b.ss[i].Task]) {
			b.locked[i] = true
		}
	}
	return b.stepsOf(func(i int) bool { return !b.duplicate(i) && free[b.ss[i].Task] }), nil
}

package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/kit"
	"github.com/dbq-go/dbq/internal/bounds"
	"github.com/dbq-go/dbq/internal/errs"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// SettleRow is how one attempt ends. It has been validated.
type SettleRow struct {
	LeaseKey
	Until  time.Time // this process's own estimate of the lease's end
	Event  state.Event
	Remove bool           // the task is removed
	After  *time.Duration // due that long from now, unless nil
	At     time.Time      // due then, unless zero; with neither the task is parked
	Result []byte         // nil is none; a long one is cut
	Again  bool           // an earlier call may have settled it
	// Progress is kept for the next attempt, unless it is empty or the task is completed.
	Progress []byte
	// Unrecorded leaves the attempt out of the history, where another one follows it. Cause is why the task was
	// released, for the history.
	Unrecorded bool
	Cause      []byte
	// AttemptsLeft reports that the task certainly has attempts left, so a failure does not lead to POISON.
	AttemptsLeft bool
	// Renewed reports that the lease was extended, so its renewal may have to be removed. SettleTx leaves it.
	Renewed bool
}

// SettleResult is the outcome of one SettleRow.
type SettleResult struct {
	State state.State // where the task is now; state.None when it was removed
	Err   error       // nil, ErrLeaseLost, ErrLocked or ErrMayHaveHappened
}

// settleBatch is one call that settles. Its statements take their rows by id, so that two batches never deadlock.
type settleBatch struct {
	s     *Store
	queue string
	ss    []SettleRow
	index map[LeaseKey]int // of ss; of a lease that comes twice in one call, the first
	parts []settlePart
	out   []SettleResult
	added FollowUp // of those that ended

	callersTx  bool         // it is part of a caller's transaction
	wait       bool         // it waits for locked rows
	skipLocked bool         // this try skips locked rows
	locked     map[int]bool // indexes of ss that it skipped
}

// settlePart has the settlements of a batch that one operation makes.
type settlePart struct {
	op    dialect.Op
	index []int // of ss, in the order of the ids
	args  dialect.Args
}

// Settle ends attempts in one transaction, and returns the outcome of each, in order. With wait, it waits for locked
// rows as long as ctx allows; otherwise it skips them after a moment, with ErrLocked. On an error, nothing was settled,
// unless it is ErrMayHaveHappened. All are of one queue; tasks that went to POISON have their notices in the same
// transaction.
func (s *Store) Settle(ctx context.Context, queue string, ss []SettleRow, wait bool) (
	[]SettleResult, FollowUp, error) {
	b := s.newSettleBatch(queue, ss, wait, false)
	if err := b.write(ctx); err != nil {
		return nil, FollowUp{}, err
	}
	s.removeRenewals(ctx, b.renewed())
	return b.out, b.added, nil
}

// renewed returns the ended leases that had been extended.
func (b *settleBatch) renewed() (ls []LeaseKey) {
	for i := range b.ss {
		if b.ss[i].Renewed && b.out[i].Err == nil {
			ls = append(ls, b.ss[i].LeaseKey)
		}
	}
	return ls
}

func (s *Store) newSettleBatch(queue string, ss []SettleRow, wait, callersTx bool) *settleBatch {
	b := &settleBatch{s: s, queue: queue, ss: ss, wait: wait, callersTx: callersTx,
		index: make(map[LeaseKey]int, len(ss))}
	for i := range ss {
		// Only the first of two settlements of one lease is sent: engines differ in which one they would apply.
		if _, duplicate := b.index[ss[i].LeaseKey]; !duplicate {
			b.index[ss[i].LeaseKey] = i
		}
	}
	b.parts = b.partsOf(func(i int) bool { return !b.duplicate(i) })
	return b
}

// duplicate reports whether the lease of ss[i] came before in the same call.
func (b *settleBatch) duplicate(i int) bool { return b.index[b.ss[i].LeaseKey] != i }

// partsOf returns the parts that settle some of ss.
func (b *settleBatch) partsOf(some func(i int) bool) (parts []settlePart) {
	var update, remove []int
	for i := range b.ss {
		switch {
		case !some(i):
		case b.ss[i].Remove:
			remove = append(remove, i)
		default:
			update = append(update, i)
		}
	}
	if len(update) > 0 {
		b.sort(update)
		parts = append(parts, settlePart{dialect.Settle, update, b.updateArgs(update)})
	}
	if len(remove) > 0 {
		b.sort(remove)
		parts = append(parts, settlePart{dialect.Remove, remove, b.leaseArgs(remove)})
	}
	return parts
}

// sort sorts settlements by id.
func (b *settleBatch) sort(index []int) {
	slices.SortStableFunc(index, func(x, y int) int { return compareIDs(b.ss[x].TaskID, b.ss[y].TaskID) })
}

// run settles on conn. again reports that an earlier try may have happened. A row that already has the intended state,
// under the lease's fence, was then settled by that try. SettleRow.Again reports the same of an earlier call.
func (b *settleBatch) run(ctx context.Context, conn dialect.Conn, again bool) error {
	parts := b.parts
	b.out, b.locked = make([]SettleResult, len(b.ss)), nil
	if b.skipLocked {
		var err error
		if parts, err = b.unlocked(ctx, conn); err != nil {
			return err
		}
	}
	for i := range b.out { // until a statement finds the row
		b.out[i].Err = errs.ErrLeaseLost
	}
	for i := range b.locked {
		b.out[i].Err = errs.ErrLocked
	}
	for _, part := range parts {
		if err := b.runPart(ctx, conn, part); err != nil {
			return err
		}
	}
	var missing []int // of which an earlier try may have settled some
	for i := range b.ss {
		if (again || b.ss[i].Again) && !b.duplicate(i) && b.out[i].Err == errs.ErrLeaseLost {
			missing = append(missing, i)
		}
	}
	if err := b.keepProgress(ctx, conn); err != nil {
		return err
	}
	if err := b.record(ctx, conn); err != nil {
		return err
	}
	if err := b.notice(ctx, conn); err != nil {
		return err
	}
	if err := b.change(ctx, conn); err != nil || len(missing) == 0 {
		return err
	}
	return b.resolve(ctx, conn, missing)
}

// runPart runs the statements of a part, and records which leases they ended, with the new states of their tasks.
func (b *settleBatch) runPart(ctx context.Context, conn dialect.Conn, part settlePart) error {
	changed, err := b.s.sql.RunBatch(ctx, conn, part.op, part.args, len(part.index))
	if err != nil {
		return err
	}
	if changed.All {
		for _, i := range part.index {
			b.out[i] = SettleResult{State: b.ss[i].target()}
		}
	}
	for _, r := range changed.Rows {
		to := r.State
		if part.op == dialect.Remove {
			to = state.None
		}
		b.out[b.index[LeaseKey{r.ID, r.Fence}]] = SettleResult{State: to}
	}
	return nil
}

// reports reports whether the settlement has progress to keep.
func (x *SettleRow) reports() bool {
	return len(x.Progress) > 0 && !x.Remove && x.Event != state.Complete
}

// keepProgress stores the progress of the tasks that the batch has settled, and replaces the progress of their
// renewals: a heartbeat may have been later than the settlement's caller.
func (b *settleBatch) keepProgress(ctx context.Context, conn dialect.Conn) error {
	var rows []dialect.Row
	for i := range b.ss {
		if x := &b.ss[i]; x.reports() && b.out[i].Err == nil && !b.duplicate(i) {
			rows = append(rows, dialect.Row{ID: x.TaskID, Progress: x.Progress})
		}
	}
	return kit.KeepProgress(ctx, &b.s.sql.Session, conn, rows)
}

// resolve determines whether settlements that found no row had happened in an earlier try.
func (b *settleBatch) resolve(ctx context.Context, conn dialect.Conn, missing []int) error {
	ids := make([]uuid.UUID, len(missing))
	for k, i := range missing {
		ids[k] = b.ss[i].TaskID
	}
	rows, err := b.s.Peek(ctx, conn, ids)
	if err != nil {
		return err
	}
	for _, i := range missing {
		row, exists := rows[b.ss[i].TaskID]
		b.out[i] = b.ss[i].resolve(row, exists)
	}
	return nil
}

// resolve returns the outcome of a settlement that found no row under its lease, from the task's current row.
func (x *SettleRow) resolve(row dialect.Row, exists bool) SettleResult {
	complete, ours := x.Event == state.Complete, exists && row.Fence == x.Fence
	switch {
	case (x.Remove || complete) && !exists && time.Now().Before(x.Until):
		return SettleResult{State: state.None} // while the lease is valid, only its holder could have removed it
	case x.Remove && !exists:
		return SettleResult{Err: errs.ErrMayHaveHappened}
	case ours && !x.Remove && (row.State == x.target() || x.Event == state.Fail && row.State == state.Poison):
		return SettleResult{State: row.State}
	case ours && complete && row.State != state.Processing:
		return SettleResult{State: row.State} // the lease's holder has ended the attempt in another way
	case !complete || !x.Remove && !exists:
		return SettleResult{Err: errs.ErrMayHaveHappened} // it may have been done, and the task has gone on from there
	}
	return SettleResult{Err: errs.ErrLeaseLost}
}

// target returns the state that the settlement leads to, unless the attempts are exhausted.
func (x *SettleRow) target() state.State {
	if x.Remove {
		return state.None
	}
	t, _ := state.Find(x.Event, state.Holder)
	return t.To
}

// leaseArgs returns the ids and fences of settlements.
func (b *settleBatch) leaseArgs(index []int) dialect.Args {
	id, fence := make(dialect.Col[uuid.UUID], len(index)), make(dialect.Col[int64], len(index))
	for k, i := range index {
		id[k], fence[k] = b.ss[i].TaskID, b.ss[i].Fence
	}
	args := dialect.Args{"id": id, "fence": fence, "lock_wait": nil, "callers_tx": int64(0)}
	if b.callersTx {
		args["callers_tx"] = int64(1)
	}
	switch {
	case !b.wait:
		args["lock_wait"] = lockWait.Milliseconds()
	case !b.callersTx: // it waits again
		args["lock_wait"] = longLockWait.Milliseconds()
	}
	return args
}

// updateArgs returns the columns of settlements that do not remove their tasks.
func (b *settleBatch) updateArgs(index []int) dialect.Args {
	n := len(index)
	to, uncount := make(dialect.Col[int64], n), make(dialect.Col[int64], n)
	at, after := make(dialect.Col[*int64], n), make(dialect.Col[*int64], n)
	result, size := make(dialect.Col[[]byte], n), make(dialect.Col[*int64], n)
	for k, i := range index {
		x := &b.ss[i]
		t, _ := state.Find(x.Event, state.Holder)
		to[k], result[k] = int64(t.To), bounds.CutResult(x.Result)
		size[k] = sizeOf(result[k])
		if t.Attempts == state.Uncount {
			uncount[k] = 1
		}
		if x.After != nil {
			us := x.After.Microseconds()
			after[k] = &us
		}
		at[k] = micros(x.At)
	}
	args := b.leaseArgs(index)
	args["state"], args["uncount"], args["at"], args["after"] = to, uncount, at, after
	args["result"], args["result_size"] = result, size
	return args
}

// A row that another transaction has locked delays the statement that settles it, and so the whole batch. A batch
// waits for it only briefly. After that, or if this store has recently found a locked row, it first locks the rows
// that no other transaction has locked, and settles only these.
const (
	// lockWait is how long a batch waits for a locked row, if the statement can limit its wait. It is longer than one
	// batch delays another, and too short to be noticed.
	lockWait = 100 * time.Millisecond
	// longLockWait is how long a call for one task waits for a locked row before it tries again. A longer wait would
	// look like a silent server.
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
		if !b.skipLocked && len(b.parts) == 1 && !b.more() && !b.mayPoison() && !b.advances() {
			only := b.parts[0]
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

// unlocked locks the rows of the batch that no other transaction has locked, and returns the parts for them. The others
// are in b.locked, unless they show without a lock that their leases are lost.
func (b *settleBatch) unlocked(ctx context.Context, conn dialect.Conn) ([]settlePart, error) {
	s := b.s
	ids := make([]uuid.UUID, 0, len(b.ss))
	for l := range b.index {
		ids = append(ids, l.TaskID)
	}
	slices.SortFunc(ids, compareIDs)
	ids = slices.Compact(ids)
	rows, err := queryIDs[dialect.Row](ctx, s, conn, s.sql.Texts.LockFree, ids)
	if err != nil || len(rows) == len(ids) {
		return b.parts, err
	}
	free := setOf(rows)
	others := slices.DeleteFunc(ids, func(id uuid.UUID) bool { return free[id] })
	now, err := s.Peek(ctx, conn, others)
	if err != nil {
		return nil, err
	}
	b.locked = map[int]bool{}
	for i := range b.ss {
		if !b.duplicate(i) && b.ss[i].HeldBy(now[b.ss[i].TaskID]) {
			b.locked[i] = true
		}
	}
	return b.partsOf(func(i int) bool { return !b.duplicate(i) && free[b.ss[i].TaskID] }), nil
}

// SettleTx is Settle in the caller's transaction. It tries once, and waits for locked rows as long as the transaction's
// settings allow.
func (s *Store) SettleTx(ctx context.Context, tx sqlrun.Tx, queue string, ss []SettleRow) (
	[]SettleResult, FollowUp, error) {
	conn, err := s.txConn(tx)
	if err != nil {
		return nil, FollowUp{}, err
	}
	b := s.newSettleBatch(queue, ss, true, true)
	if err := b.run(ctx, conn, false); err != nil {
		return nil, FollowUp{}, err
	}
	return b.out, b.added, nil
}

// LeasedTx reports whether a task is leased under a lease, as the caller's transaction sees it.
func (s *Store) LeasedTx(ctx context.Context, tx sqlrun.Tx, l LeaseKey) (bool, error) {
	_, row, err := s.peekTx(ctx, tx, l)
	return l.HeldBy(row), err
}

// SetResultTx replaces the result of a task that the caller's transaction has completed under a lease. If it has not,
// SetResultTx returns ErrLeaseLost.
func (s *Store) SetResultTx(ctx context.Context, tx sqlrun.Tx, l LeaseKey, result []byte) error {
	conn, row, err := s.peekTx(ctx, tx, l)
	if err != nil {
		return err
	}
	if row.State != state.Completed || row.Fence != l.Fence {
		return errs.ErrLeaseLost
	}
	cut := bounds.CutResult(result)
	_, err = s.sql.ExecBatch(ctx, conn, s.sql.Texts.SetResult, dialect.Args{
		"id":          dialect.Col[uuid.UUID]{l.TaskID},
		"result":      dialect.Col[[]byte]{cut},
		"result_size": dialect.Col[*int64]{sizeOf(cut)},
	}, 1)
	return err
}

// peekTx reads the task of a lease as the caller's transaction sees it. The zero row means that there is none.
func (s *Store) peekTx(ctx context.Context, tx sqlrun.Tx, l LeaseKey) (conn dialect.Conn, row dialect.Row, err error) {
	if conn, err = s.txConn(tx); err != nil {
		return nil, row, err
	}
	rows, err := s.Peek(ctx, conn, []uuid.UUID{l.TaskID})
	return conn, rows[l.TaskID], err
}

// isFollowed reports whether another attempt may follow the one that the settlement ends. The task's row then does not
// keep this attempt, so the history must.
func (x *SettleRow) isFollowed() bool {
	again := x.Event == state.Release || x.Event == state.Fail && (x.After != nil || !x.At.IsZero())
	return again && !x.Unrecorded
}

// more reports whether the batch may need further statements: for the history, or for progress.
func (b *settleBatch) more() bool {
	return slices.ContainsFunc(b.ss, func(x SettleRow) bool { return x.isFollowed() || x.reports() })
}

// mayPoison reports whether the batch may move tasks to POISON.
func (b *settleBatch) mayPoison() bool {
	return slices.ContainsFunc(b.ss, func(x SettleRow) bool {
		return x.Event == state.PoisonEvent || x.Event == state.Fail && !x.AttemptsLeft && (x.After != nil || !x.At.IsZero())
	})
}

// notice adds the notices of the tasks that the batch has moved to POISON on conn.
func (b *settleBatch) notice(ctx context.Context, conn dialect.Conn) (err error) {
	var ids []uuid.UUID
	for i := range b.ss {
		if b.out[i].Err == nil && b.out[i].State == state.Poison {
			ids = append(ids, b.ss[i].TaskID)
		}
	}
	settings := b.s.deadLetterQueue
	if b.callersTx {
		settings = b.s.deadLetterQueueApart
	}
	b.added.Notices, err = b.s.enqueueNotices(ctx, conn, b.queue, ids, settings)
	return err
}

// endsInWorkflow reports whether the settlement may affect other tasks of a workflow that wait for the task.
func (x *SettleRow) endsInWorkflow() bool {
	return InWorkflow(x.TaskID) && x.Event != state.Release && (x.Remove || isNeeded(x.TaskID))
}

// advances reports whether the batch may have to record changes of workflows.
func (b *settleBatch) advances() bool {
	return slices.ContainsFunc(b.ss, func(x SettleRow) bool { return x.endsInWorkflow() })
}

// change records the changes of workflows for the tasks that the batch has ended on conn.
func (b *settleBatch) change(ctx context.Context, conn dialect.Conn) (err error) {
	var ids []uuid.UUID
	for i := range b.ss {
		to := b.out[i].State
		ended := to == state.Completed || to == state.Poison || to == state.None
		if b.out[i].Err == nil && ended && !b.duplicate(i) && b.ss[i].endsInWorkflow() {
			ids = append(ids, b.ss[i].TaskID)
		}
	}
	b.added.Changes, err = b.s.addChanges(ctx, conn, ids)
	return err
}

// record adds the ended attempts to the history that others may follow. A task that went to POISON keeps its last
// attempt in its row.
func (b *settleBatch) record(ctx context.Context, conn dialect.Conn) error {
	var index []int
	for i := range b.ss {
		if b.out[i].Err == nil && b.out[i].State != state.Poison && b.ss[i].isFollowed() {
			index = append(index, i)
		}
	}
	b.sort(index)
	ids, causes := make([]uuid.UUID, len(index)), make([][]byte, len(index))
	for k, i := range index {
		ids[k], causes[k] = b.ss[i].TaskID, bounds.CutResult(b.ss[i].Cause)
	}
	return b.s.recordLast(ctx, conn, ids, causes)
}

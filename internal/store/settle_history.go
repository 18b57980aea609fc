package store

import (
	"context"
	"slices"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/limits"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

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
		return x.Event == state.PoisonIt || x.Event == state.Fail && !x.AttemptsLeft && (x.After != nil || !x.At.IsZero())
	})
}

// notice adds the notices of the tasks that the batch has moved to POISON on conn.
func (b *settleBatch) notice(ctx context.Context, conn dialect.Conn) (err error) {
	var ids []uuid.UUID
	for i := range b.ss {
		if b.out[i].Err == nil && b.out[i].State == state.Poison {
			ids = append(ids, b.ss[i].Task)
		}
	}
	settings := b.s.deadLetterQueue
	if b.callersTx {
		settings = b.s.deadLetterQueueApart
	}
	b.added.Notices, err = b.s.enqueueNotices(ctx, conn, b.queue, ids, settings)
	return err
}

// endsInWorkflow reports whether the settlement may change what other tasks of a workflow wait for.
func (x *SettleRow) endsInWorkflow() bool {
	return InWorkflow(x.Task) && x.Event != state.Release && (x.Remove || isNeeded(x.Task))
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
			ids = append(ids, b.ss[i].Task)
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
	slices.SortFunc(index, func(x, y int) int { return slices.Compare(b.ss[x].Task[:], b.ss[y].Task[:]) })
	ids, causes := make([]uuid.UUID, len(index)), make([][]byte, len(index))
	for k, i := range index {
		ids[k], causes[k] = b.ss[i].Task, limits.CutResult(b.ss[i].Cause)
	}
	return b.s.recordLast(ctx, conn, ids, causes)
}

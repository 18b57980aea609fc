package worker

import (
	"bytes"
	"context"
	"fmt"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/bounds"
	"github.com/google/uuid"
)

// SetProgress stores the progress of a handler, so that a later attempt can resume there: up to dbq.MaxProgress bytes
// of any form, in place of the previous report. ctx is the handler's, or derived from it. Empty progress changes
// nothing.
//
// SetProgress only keeps a copy in memory. The next renewal of the task's lease stores it, without a statement of its
// own: within a third of Lease, when operators see it in dbq.Task. If the attempt ends and the task does not, its last
// progress is stored with the outcome. So the next attempt has all progress of an attempt that failed or was released.
// After a crash, it lacks at most the reports since the last renewal.
//
// It returns dbq.ErrProgress for longer progress, and ErrConfig if ctx is not a handler's, or if values are remembered
// with the task (see Do). In a BatchHandler, use the context of ForTask.
func SetProgress(ctx context.Context, progress []byte) error {
	l, err := reporting(ctx)
	if err == nil {
		err = bounds.Progress(progress)
	}
	if err != nil || len(progress) == 0 {
		return err
	}
	l.in.mu.Lock()
	defer l.in.mu.Unlock()
	if bytes.HasPrefix(l.reported(), []byte(rememberedPrefix)) {
		return fmt.Errorf("%w: the task has remembered values: a handler either remembers values or sets progress",
			ErrConfig)
	}
	l.progress, l.unsaved = bytes.Clone(progress), true
	return nil
}

// Progress returns the last progress that SetProgress has reported for the task: in this attempt or, before that, in an
// earlier one. It returns nil if there is nothing, or if ctx is not a handler's.
func Progress(ctx context.Context) []byte {
	l, err := reporting(ctx)
	if err != nil {
		return nil
	}
	l.in.mu.Lock()
	defer l.in.mu.Unlock()
	return bytes.Clone(l.reported())
}

// ForTask returns a context for SetProgress and Progress of one of the tasks of a BatchHandler, whose context is ctx.
func ForTask(ctx context.Context, t dbq.Task) context.Context {
	return context.WithValue(ctx, taskKey{}, t.ID)
}

// Client returns the client of the worker that called the handler, to enqueue tasks or read results with. It returns
// nil if ctx is not a handler's, or if the worker has no access to the database; see client.FromContext.
func Client(ctx context.Context) *dbq.Client {
	if e := envOf(ctx); e != nil && e.db != nil {
		return e.db.Client()
	}
	return nil
}

// QueueOf returns the Queue of the worker that called the handler. It returns nil if ctx is not a handler's.
func QueueOf(ctx context.Context) Queue {
	if e := envOf(ctx); e != nil {
		return e.cfg.Queue
	}
	return nil
}

// envOf returns the shared state of the run that called the handler, or nil if ctx is not a handler's.
func envOf(ctx context.Context) *env {
	if inv, _ := ctx.Value(invocationKey{}).(*invocation); inv != nil {
		return inv.in.env
	}
	return nil
}

// taskKey is the key of the task that ForTask selects, a uuid.UUID.
type taskKey struct{}

// invocationKey is the key of the invocation in a handler's context.
type invocationKey struct{}

// handlerContext is the parent of a handler's context: it adds the invocation, without an allocation.
type handlerContext struct {
	context.Context
	invocation *invocation
}

// Value returns the invocation, or a value of the parent.
func (c *handlerContext) Value(key any) any {
	if key == (invocationKey{}) {
		return c.invocation
	}
	return c.Context.Value(key)
}

// reporting returns the task that a handler's context is about.
func reporting(ctx context.Context) (*leased, error) {
	inv, _ := ctx.Value(invocationKey{}).(*invocation)
	if inv == nil {
		return nil, fmt.Errorf("%w: progress needs the context that a Worker passes to its handler", ErrConfig)
	}
	if inv.in.cfg.BatchHandler == nil {
		return inv.tasks[0], nil
	}
	id, _ := ctx.Value(taskKey{}).(uuid.UUID)
	for _, l := range inv.tasks {
		if l.task.ID == id {
			return l, nil
		}
	}
	return nil, fmt.Errorf("%w: progress in a BatchHandler needs ForTask with one of its tasks", ErrConfig)
}

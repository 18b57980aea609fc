package workflow_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/workflow"
	"github.com/google/uuid"
)

// TestTasksAfterAWorkflowHaveHigherIDs: the tasks of a key run in the order of their ids, which is that in which one
// client has enqueued them, whether they belong to a workflow or not.
func TestTasksAfterAWorkflowHaveHigherIDs(t *testing.T) {
	t.Parallel()
	c, ctx := open(t), t.Context()
	steps := []workflow.Step{{Name: "a", Queue: "q", Task: dbq.NewTask{Key: "k"}}}
	compare := func(how string, enqueue func(context.Context) (step, plain uuid.UUID, err error)) {
		for i := range 100 {
			step, plain, err := enqueue(ctx)
			check.OK(t, err)
			if bytes.Compare(plain[:], step[:]) < 0 {
				t.Fatalf("%s, try %d: the plain task %s comes before %s, which was enqueued first", how, i, plain, step)
			}
		}
	}
	compare("in a transaction", func(ctx context.Context) (step, plain uuid.UUID, err error) {
		tx, err := c.DB().BeginTx(ctx, nil)
		if err != nil {
			return step, plain, err
		}
		defer tx.Rollback()
		w, err := workflow.EnqueueTx(ctx, tx, c, steps)
		if err != nil {
			return step, plain, err
		}
		if plain, err = c.Queue("q").EnqueueTx(ctx, tx, dbq.NewTask{Key: "k"}); err != nil {
			return step, plain, err
		}
		return w.TaskIDs[0], plain, tx.Commit()
	})
	compare("by calls", func(ctx context.Context) (step, plain uuid.UUID, err error) {
		w, err := workflow.Enqueue(ctx, c, steps)
		if err != nil {
			return step, plain, err
		}
		plain, err = c.Queue("q").Enqueue(ctx, dbq.NewTask{Key: "k"})
		return w.TaskIDs[0], plain, err
	})
}

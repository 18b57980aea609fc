package workflow_test

import (
	"bytes"
	"testing"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/workflow"
)

// TestAdvOrderOfAWorkflowAndATask: one client enqueues a workflow and then a plain task, in one transaction. By
// docs/limits.md the tasks of a key run in the order in which one client has enqueued them, which is that of their ids.
func TestAdvOrderOfAWorkflowAndATask(t *testing.T) {
	c, ctx := open(t), t.Context()
	wrong := 0
	for range 200 {
		tx, err := c.DB().BeginTx(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		w, err := workflow.EnqueueTx(ctx, tx, c, []workflow.Step{{Name: "a", Queue: "q", Task: dbq.NewTask{Key: "k"}}})
		if err != nil {
			t.Fatal(err)
		}
		id, err := c.Queue("q").EnqueueTx(ctx, tx, dbq.NewTask{Key: "k"})
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Compare(id[:], w.Tasks[0][:]) < 0 {
			wrong++
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	apart := 0
	for range 200 {
		w, err := workflow.Enqueue(ctx, c, []workflow.Step{{Name: "a", Queue: "q", Task: dbq.NewTask{Key: "k"}}})
		if err != nil {
			t.Fatal(err)
		}
		id, err := c.Queue("q").Enqueue(ctx, dbq.NewTask{Key: "k"})
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Compare(id[:], w.Tasks[0][:]) < 0 {
			apart++
		}
	}
	t.Logf("in calls of their own: %d of 200", apart)
	if wrong > 0 {
		t.Errorf("%d of 200 plain tasks would run before the workflow's task that was enqueued before them", wrong)
	}
}

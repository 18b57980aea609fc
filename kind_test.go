package dbq_test

import (
	"errors"
	"testing"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/check"
)

func TestKindEnqueuesWithOptions(t *testing.T) {
	q := fileQueue(t)
	c := q.Client()
	count := dbq.Kind[int]{Name: "count", Queue: q.Name(),
		Defaults: func(n *dbq.NewTask) { n.Priority, n.MaxAttempts = 8, 2 }}
	third := func(n *dbq.NewTask) { n.Priority = 3 }
	one, err := count.Enqueue(t.Context(), c, 1, third, func(n *dbq.NewTask) { n.Reference = "one" })
	check.OK(t, err)
	many, err := count.EnqueueMany(t.Context(), c, []int{2, 3}, third)
	if err != nil || len(many) != 2 {
		t.Fatalf("got %v, %v, want two tasks", many, err)
	}
	tx, err := c.DB().BeginTx(t.Context(), nil)
	check.OK(t, err)
	inTx, err := count.EnqueueManyTx(t.Context(), tx, c, []int{4}, third)
	check.OK(t, err)
	check.OK(t, tx.Commit())
	for want, e := range append([]dbq.Enqueued{{ID: one}}, append(many, inTx...)...) {
		task, err := c.Get(t.Context(), e.ID)
		check.OK(t, err)
		if v, err := count.Decode(task); err != nil || v != want+1 || task.Priority != 3 || task.MaxAttempts != 2 {
			t.Errorf("got %d at priority %d with %d attempts, %v; want %d at 3 with 2", v, task.Priority, task.MaxAttempts, err,
				want+1)
		}
	}
	if _, err := count.Enqueue(t.Context(), c, 5, func(n *dbq.NewTask) { n.Reference = "one" }); !errors.Is(err,
		dbq.ErrDuplicate) {
		t.Errorf("a reference that is taken: got %v, want ErrDuplicate", err)
	}
	if _, err := (dbq.Kind[int]{Name: "count"}).Enqueue(t.Context(), c, 6); !errors.Is(err, dbq.ErrQueueName) {
		t.Errorf("a kind without a queue: got %v, want ErrQueueName", err)
	}
	unnamed := dbq.Kind[int]{Queue: q.Name()}
	if _, err := unnamed.Enqueue(t.Context(), c, 7); !errors.Is(err, dbq.ErrKind) {
		t.Errorf("a kind without a name: got %v, want ErrKind", err)
	}
	if _, err := unnamed.Decode(dbq.Task{Payload: []byte("7")}); !errors.Is(err, dbq.ErrKind) {
		t.Errorf("a task for a kind without a name: got %v, want ErrKind", err)
	}
	never := dbq.Kind[func()]{Name: "never"}
	if _, err := never.EnqueueMany(t.Context(), c, []func(){nil}); !errors.Is(err, dbq.ErrPayload) {
		t.Errorf("a value that JSON cannot hold: got %v, want ErrPayload", err)
	}
}

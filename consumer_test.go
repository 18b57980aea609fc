package dbq_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
)

func TestConsumerWaitsForTasks(t *testing.T) {
	q := fileQueue(t)
	c := q.Consumer()
	defer c.Close()
	checkout := func(what string, t0 dbq.NewTask) {
		t.Helper()
		time.AfterFunc(20*time.Millisecond, func() {
			if _, err := q.Enqueue(context.Background(), t0); err != nil {
				t.Error(err)
			}
		})
		tasks, err := c.Checkout(t.Context(), 10, time.Minute)
		if err != nil || len(tasks) != 1 {
			t.Errorf("%s: got %d tasks, %v", what, len(tasks), err)
		}
	}
	checkout("a task", dbq.NewTask{})
	checkout("a task that is due later", dbq.NewTask{Delay: 100 * time.Millisecond})
}

func TestConsumerEndsWithItsContext(t *testing.T) {
	q := fileQueue(t)
	c := q.Consumer()
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if tasks, err := c.Checkout(ctx, 10, time.Minute); len(tasks) > 0 || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, %v", tasks, err)
	}
	if _, err := c.Checkout(t.Context(), 0, time.Minute); !errors.Is(err, dbq.ErrInvalid) {
		t.Errorf("no tasks: %v", err)
	}
	q.Client().Close()
	if _, err := c.Checkout(t.Context(), 1, time.Minute); !errors.Is(err, dbq.ErrClosed) {
		t.Errorf("a closed client: %v", err)
	}
}

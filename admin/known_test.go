package admin_test

import (
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/dbqtest"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/schedule"
)

// A queue is known by any trace of it, and from the moment that there is one.
func TestAQueueIsKnownByAnyTrace(t *testing.T) {
	t.Parallel()
	client := dbqtest.New(t).Client
	ops, ctx := admin.New(client), t.Context()
	enqueue := func(queue string, n int) error {
		_, err := client.Queue(queue).EnqueueMany(ctx, make([]dbq.NewTask, n))
		return err
	}
	done := func(queue string) error {
		q := client.Queue(queue)
		if err := enqueue(queue, 1); err != nil {
			return err
		}
		leased, err := q.Checkout(ctx, 1, time.Minute)
		if err != nil || len(leased) != 1 {
			t.Fatal(leased, err)
		}
		return q.Complete(ctx, leased[0].Lease, nil)
	}
	for _, c := range []struct {
		queue string
		trace func(queue string) error
	}{
		{"tasks", func(queue string) error { return enqueue(queue, 1) }},
		{"paused", func(queue string) error { return ops.PauseQueue(ctx, queue) }},
		{"set", func(queue string) error {
			return ops.ConfigureQueue(ctx, queue, func(s *admin.QueueSettings) { s.Concurrency = 3 })
		}},
		{"limited", func(queue string) error {
			return ops.ConfigureLimits(ctx, queue, func(l *admin.QueueLimits) { l.Concurrency = 3 })
		}},
		{"scheduled", func(queue string) error {
			return schedule.New(client).Put(ctx, schedule.Schedule{Name: "s", Queue: queue, Every: time.Hour})
		}},
		{"worked", func(string) error {
			_, err := client.DB().ExecContext(ctx, `INSERT INTO dbq_kv (namespace, name, version, value, updated)
				SELECT 'worker', 'w', 1, '{"id": "w", "queue": "worked"}', updated FROM dbq_kv LIMIT 1`)
			return err
		}},
		{"old", func(queue string) error { // a COMPLETED task without statistics, which Stats omits
			err := ops.ConfigureQueue(ctx, queue, func(s *admin.QueueSettings) { s.NoStatistics = true })
			if err == nil {
				err = done(queue)
			}
			if err == nil {
				err = ops.ConfigureQueue(ctx, queue, func(s *admin.QueueSettings) { *s = admin.QueueSettings{} })
			}
			if err == nil {
				err = enqueue("tasks", 10_001)
			}
			return err
		}},
	} {
		if known, err := ops.Known(ctx, c.queue); known || err != nil {
			t.Errorf("%s, without a trace: %t, %v", c.queue, known, err)
		}
		if err := c.trace(c.queue); err != nil {
			t.Fatalf("%s: %v", c.queue, err)
		}
		if known, err := ops.Known(ctx, c.queue); !known || err != nil {
			t.Errorf("%s: %t, %v", c.queue, known, err)
		}
	}
	stats, err := ops.Stats(ctx)
	check.OK(t, err)
	for _, q := range stats {
		if q.Queue == "old" {
			t.Error("Stats finds the queue old, so this test does not show that its task is found")
		}
	}
}

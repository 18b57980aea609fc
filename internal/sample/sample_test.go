package sample

import (
	"context"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/dbqtest"
	"github.com/dbq-go/dbq/internal/check"
)

// TestSampleData fills a database, and has its workers work until each of their queues has a newly completed task.
func TestSampleData(t *testing.T) {
	t.Parallel()
	c := dbqtest.New(t).Client
	check.OK(t, Fill(t.Context(), c))
	ops := admin.New(c)
	count := func(queue string) map[dbq.State]int64 {
		t.Helper()
		s, err := ops.StatsOf(t.Context(), queue)
		check.OK(t, err)
		return s.Count
	}
	before := map[string]int64{}
	for queue, want := range map[string]map[dbq.State]int64{
		mail:     {dbq.StateCompleted: 120, dbq.StatePoison: 7, dbq.StateError: 5},
		images:   {dbq.StateCompleted: 25, dbq.StatePoison: 3, dbq.StateCreated: 2},
		webhooks: {dbq.StateCompleted: 60, dbq.StateError: 10, dbq.StateCreated: backlog + 5},
		orders:   {dbq.StateCreated: 16, dbq.StatePoison: 1}, // what needs that one is cancelled
		reports:  {dbq.StateCreated: 3},
	} {
		got := count(queue)
		for _, state := range []dbq.State{dbq.StateCompleted, dbq.StatePoison, dbq.StateError, dbq.StateCreated} {
			if got[state] != want[state] {
				t.Errorf("queue %s has %d tasks in %s, want %d", queue, got[state], state, want[state])
			}
		}
		before[queue] = got[dbq.StateCompleted]
	}
	now := time.Now()
	week, err := ops.SeriesOf(t.Context(), nil, now.Add(-7*24*time.Hour+time.Hour), now, time.Hour)
	if err != nil || len(week) != len(loads) {
		t.Fatalf("%d queues have statistics, want %d: %v", len(week), len(loads), err)
	}
	for _, q := range week {
		for i, p := range q.Points[:len(q.Points)-1] {
			if p.Completed == 0 {
				t.Errorf("queue %s has no statistics of the hour %d", q.Queue, i)
			}
		}
	}

	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, c) }()
	Await(ctx, c)
	workers, err := ops.Workers(ctx)
	check.OK(t, err)
	alive := map[string]bool{}
	for _, w := range workers {
		alive[w.Queue] = alive[w.Queue] || !w.Dead
	}
	for queue := range handlers {
		if !alive[queue] {
			t.Errorf("queue %s has no worker after Await", queue)
		}
		for began := time.Now(); count(queue)[dbq.StateCompleted] == before[queue]; time.Sleep(50 * time.Millisecond) {
			if time.Since(began) > time.Minute {
				t.Fatalf("no task of queue %s was completed", queue)
			}
		}
	}
	stop()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("the workers have not ended")
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/control"
	"github.com/dbq-go/dbq/internal/series"
	"github.com/dbq-go/dbq/workflow"
	"github.com/google/uuid"
)

// What there is besides tasks.
const (
	consoleWorkers   = 200
	consoleSchedules = 100
	smallFlow        = 100   // steps of a workflow
	largeFlow        = 5_000 // and of a large one
	seriesMinutes    = 24 * 60
)

// The queues whose pages are measured.
const (
	halfQueue  = "q1000" // has half of all tasks
	mixedQueue = "q1001" // has many tasks in each state
)

// consoleIDs are what the pages show that are measured.
type consoleIDs struct {
	task, poisoned, step dbq.Task
	smallFlow, largeFlow uuid.UUID
	middle               uuid.UUID // half of all tasks have a lower id
	reference            string
}

// filled opens a client on the tables, and fills them unless they are filled and kept.
func (f consoleFill) filled(ctx context.Context, group string, kept bool) (c *dbq.Client, ids consoleIDs, err error) {
	if !kept {
		if err := phase(ctx, f.place.Clear); err != nil {
			return nil, ids, err
		}
	}
	if c, err = f.place.Open(ctx, dbq.WithMigrate()); err != nil {
		return nil, ids, err
	}
	some, err := admin.New(c).List(ctx, admin.Filter{Limit: 1})
	if err == nil && len(some) == 0 {
		f.at = time.Now().UnixMicro()
		if err = f.fill(ctx, group); err == nil {
			err = f.furnish(ctx, c)
		}
		if err == nil {
			err = f.tidy(ctx)
		}
	}
	if err == nil {
		ids, err = findIDs(ctx, c)
	}
	if err != nil {
		return nil, ids, errors.Join(err, c.Close())
	}
	return c, ids, nil
}

// furnish adds what else the console shows.
func (f consoleFill) furnish(ctx context.Context, c *dbq.Client) error {
	ops, parts := admin.New(c), access.Of(c)
	limit := func(l *admin.QueueLimits) { l.Leased, l.KeyLeased = 1000, 2 }
	if err := ops.ConfigureLimits(ctx, mixedQueue, limit); err != nil {
		return err
	}
	for i := range consoleWorkers {
		w := control.Worker{ID: fmt.Sprintf("worker-%d", 100+i), Queue: queueName(i % consoleQueues), Host: "host",
			PID: 1000 + i, Started: time.Now(), State: control.WorkerRunning, Concurrency: 10, Holding: 5}
		if _, err := parts.Control.Report(ctx, w, 240*time.Hour); err != nil {
			return err
		}
	}
	if err := putSchedules(ctx, c, "nightly", consoleSchedules, time.Now().Add(240*time.Hour)); err != nil {
		return err
	}
	for _, n := range []int{smallFlow, min(largeFlow, f.n/10)} { // findIDs expects the small one first
		if _, err := workflow.Enqueue(ctx, c, fanOf(n)); err != nil {
			return err
		}
	}
	return f.addSeries(ctx, c)
}

// fanOf are the steps of a workflow in which a first step is followed by many at once, and these by a last one.
func fanOf(n int) []workflow.Step {
	kind := dbq.Kind[int]{Name: "step", Queue: "flow"}
	steps, names := []workflow.Step{workflow.NewStep("first", kind, 0)}, []string{}
	for i := range n - 2 {
		names = append(names, fmt.Sprintf("part %d", i))
		steps = append(steps, workflow.NewStep(names[i], kind, i, "first"))
	}
	return append(steps, workflow.NewStep("last", kind, n, names...))
}

func queueName(i int) string { return fmt.Sprintf("q%d", 1000+i) }

// addSeries adds the statistics of a day, or of a part of it if there are few tasks.
func (f consoleFill) addSeries(ctx context.Context, c *dbq.Client) error {
	now, err := c.Now(ctx)
	if err != nil {
		return err
	}
	last := now.Truncate(time.Minute)
	for i := min(seriesMinutes, f.n/500); i > 0; i-- {
		var all []series.Period
		for q := range consoleQueues {
			all = append(all, series.Period{
				Queue: queueName(q), Since: last.Add(-time.Duration(i) * time.Minute).UnixMicro(),
				Counts: series.Counts{Enqueued: 60, Started: 60, Completed: 59, Failed: 1,
					Latency: series.Histogram{0, 0, 20, 30, 10}, RunTime: series.Histogram{0, 0, 0, 0, 50, 10}},
				Depth: series.Depth{Created: 500, Due: 100, Error: 10},
			})
		}
		if err := access.Of(c).Store.AddReports(ctx, "worker-100", all); err != nil {
			return err
		}
	}
	return access.Of(c).Store.RollUp(ctx, now.UnixMicro())
}

// findIDs finds what the pages show.
func findIDs(ctx context.Context, c *dbq.Client) (ids consoleIDs, err error) {
	ops := admin.New(c)
	for _, want := range []struct {
		to *dbq.Task
		admin.Filter
	}{
		{&ids.task, admin.Filter{Queue: halfQueue, States: []dbq.State{dbq.StateCompleted}}},
		{&ids.poisoned, admin.Filter{Queue: mixedQueue, States: []dbq.State{dbq.StatePoison}}},
		{&ids.step, admin.Filter{Queue: "flow", NewestFirst: true}},
	} {
		want.Limit = 10
		page, err := ops.ListPage(ctx, want.Filter)
		if err != nil || len(page.Tasks) == 0 {
			return ids, fmt.Errorf("there is no task of %s (%v)", want.Queue, err)
		}
		*want.to = page.Tasks[len(page.Tasks)-1]
	}
	if ids.largeFlow, _, err = workflow.Of(ctx, c, ids.step.ID); err != nil {
		return ids, err
	}
	first, err := ops.ListPage(ctx, admin.Filter{Queue: "flow", After: timeID(ids.step.Created.Add(-24 * time.Hour)),
		Limit: 1})
	for err == nil && first.Stopped && len(first.Tasks) == 0 {
		first, err = ops.ListPage(ctx, admin.Filter{Queue: "flow", After: first.Next, Limit: 1})
	}
	if err != nil || len(first.Tasks) == 0 {
		return ids, fmt.Errorf("there is no workflow (%v)", err)
	}
	ids.smallFlow, _, err = workflow.Of(ctx, c, first.Tasks[0].ID)
	ids.middle = timeID(ids.step.Created.Add(-consoleSpan / 2))
	ids.reference = "ref-1000000001"
	return ids, err
}

// timeID returns an id of a task that was enqueued at a time.
func timeID(at time.Time) (id uuid.UUID) {
	ms := at.UnixMilli()
	for i := range 6 {
		id[i] = byte(ms >> (40 - 8*i))
	}
	id[6], id[8] = 0x70, 0x80
	return id
}

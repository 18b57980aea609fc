package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/internal/wire"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
	"github.com/spf13/cobra"
)

const defaultPage = 50

func newList(a *app) *cobra.Command {
	var f filterFlags
	var after uuid.UUID
	var oldest bool
	var every time.Duration
	run := func(ctx context.Context, _ []string) error {
		filter, err := f.filter()
		if err != nil {
			return err
		}
		order := ""
		if filter.NewestFirst = !oldest; oldest {
			filter.After, order = after, "--oldest-first "
		} else {
			filter.Before = after
		}
		return a.use(ctx, false, func(c *dbq.Client) error {
			return a.watch(ctx, every, func() error {
				tasks, next, err := listUpTo(ctx, admin.New(c), filter)
				if err == nil {
					err = mustBeKnownIfEmpty(ctx, c, filter.Queue, len(tasks))
				}
				if err == nil {
					err = taskListing.print(ctx, a, c, tasks)
				}
				if err == nil && !a.json && next != uuid.Nil {
					a.note("there may be more: add %s--after %s", order, next)
				}
				return err
			})
		})
	}
	cmd := a.command("dbq list", noArgs("use --queue NAME, or `dbq show ID` for one task"), run)
	f.add(a, cmd, state.All())
	l := cmd.Flags()
	l.Var(intWithin(&f.Limit, defaultPage, 1, dbq.MaxBulk), "limit", "list at most `N` tasks")
	l.Func("after", "start after the task with this `ID`, in the order of the list", func(text string) (err error) {
		after, err = parseID(text)
		return err
	})
	l.BoolVar(&oldest, "oldest-first", false, "list the oldest tasks first")
	addWatch(cmd, &every)
	return cmd
}

// listUpTo reads pages until it has f.Limit tasks or the list ends. If it may go on, next is the id to go on after.
func listUpTo(ctx context.Context, ops *admin.Admin, f admin.Filter) (tasks []dbq.Task, next uuid.UUID, err error) {
	for {
		page, err := ops.List(ctx, f)
		tasks = append(tasks, page.Tasks...)
		if f.Limit -= len(page.Tasks); err != nil || !page.More || f.Limit <= 0 {
			return tasks, page.Next, err
		}
		f = f.From(page.Next)
	}
}

var taskListing = listing[dbq.Task]{
	none:      "no tasks",
	columns:   []string{"ID", "QUEUE", "STATE", "ATTEMPT", "WHEN", "KIND", "REFERENCE", "RESULT"},
	rightFrom: 8,
	row: func(t dbq.Task, now time.Time) []string {
		return []string{t.ID.String(), t.Queue, t.State.String(), fmt.Sprintf("%d/%d", t.Attempt, t.MaxAttempts),
			when(t, now), cmp.Or(t.Kind, "-"), cmp.Or(brief(t.Reference, 30), "-"), cmp.Or(brief(string(t.Result), 40), "-")}
	},
	json: func(t dbq.Task) any { return wire.TaskOf(t) },
}

// when describes a task's times relative to now.
func when(t dbq.Task, now time.Time) string {
	switch {
	case t.State == dbq.StateProcessing && t.LeaseUntil.After(now):
		return "lease ends in " + span(t.LeaseUntil.Sub(now))
	case t.State == dbq.StateProcessing:
		return "lease expired " + span(now.Sub(t.LeaseUntil)) + " ago"
	case t.Parked():
		return "parked " + span(now.Sub(t.Updated)) + " ago"
	case t.Cancelled:
		return "cancelled " + span(now.Sub(t.Updated)) + " ago"
	case t.Blocked:
		return "blocked"
	case t.Due.IsZero():
		return span(now.Sub(t.Updated)) + " ago"
	case t.Due.After(now):
		return "due in " + span(t.Due.Sub(now))
	}
	return "due for " + span(now.Sub(t.Due))
}

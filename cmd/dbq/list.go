package main

import (
	"context"
	"fmt"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
	"github.com/spf13/cobra"
)

const defaultPage = 50

func newList(a *app) *cobra.Command {
	var f filterFlags
	var after string
	var oldest bool
	var every time.Duration
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List tasks, the newest first, a page at a time",
		Long: `List tasks, the newest first, one page at a time. When there may be more, the last line says how to get the
next page: --after takes the last id of this one. Every page costs the same. --oldest-first reverses the order.

With --json each task is a line, without its payload (see "dbq show").`,
		Example: `  dbq list --queue mail
  dbq list --state error,poison --limit 1000
  dbq list --parked --older-than 1d --oldest-first
  dbq list --state processing --watch
  dbq list --state poison --json | jq -r .result`,
		Args: noArgs("use --queue NAME, or `dbq show ID` for one task"),
		RunE: a.verb(func(ctx context.Context, _ []string) error {
			filter, err := f.filter()
			var from uuid.UUID
			if err == nil && after != "" {
				from, err = parseID(after)
			}
			if err != nil {
				return err
			}
			filter.NewestFirst = !oldest
			if oldest {
				filter.After = from
			} else {
				filter.Before = from
			}
			c, err := a.open(ctx)
			if err != nil {
				return err
			}
			defer c.Close()
			return a.watch(ctx, every, func() error { return a.list(ctx, c, filter) })
		}),
	}
	f.add(a, cmd, state.All())
	cmd.Flags().IntVar(&f.Limit, "limit", defaultPage, "list at most `N` tasks")
	cmd.Flags().StringVar(&after, "after", "", "begin behind the task with this `ID`, in the order of the list")
	cmd.Flags().BoolVar(&oldest, "oldest-first", false, "list the oldest tasks first")
	addWatch(cmd, &every)
	return cmd
}

func (a *app) list(ctx context.Context, c *dbq.Client, f admin.Filter) error {
	tasks, err := admin.New(c).List(ctx, f)
	if err != nil {
		return err
	}
	err = taskListing.print(ctx, a, c, tasks)
	if err == nil && !a.json && len(tasks) == f.Limit {
		order := ""
		if !f.NewestFirst {
			order = "--oldest-first "
		}
		a.note("there may be more: add %s--after %s", order, tasks[len(tasks)-1].ID)
	}
	return err
}

var taskListing = listing[dbq.Task]{
	none:      "no tasks",
	columns:   []string{"ID", "QUEUE", "STATE", "TRIES", "WHEN", "KIND", "REFERENCE", "RESULT"},
	rightFrom: 8,
	row: func(t dbq.Task, now time.Time) []string {
		return []string{t.ID.String(), t.Queue, t.State.String(), fmt.Sprintf("%d/%d", t.Attempt, t.MaxAttempts),
			when(t, now), dash(t.Kind), dash(brief(t.Reference, 30)), dash(brief(string(t.Result), 40))}
	},
	json: func(t dbq.Task) any { return viewOf(t) },
}

// when says what a task's times mean now.
func when(t dbq.Task, now time.Time) string {
	switch {
	case t.State == dbq.StateProcessing && t.LeaseUntil.After(now):
		return "lease ends in " + span(t.LeaseUntil.Sub(now))
	case t.State == dbq.StateProcessing:
		return "lease ran out " + span(now.Sub(t.LeaseUntil)) + " ago"
	case t.Parked():
		return "parked " + span(now.Sub(t.Updated)) + " ago"
	case t.Due.IsZero():
		return span(now.Sub(t.Updated)) + " ago"
	case t.Due.After(now):
		return "due in " + span(t.Due.Sub(now))
	}
	return "due for " + span(now.Sub(t.Due))
}

// span is a duration in one or two units.
func span(d time.Duration) string {
	d = max(d, 0)
	days, hours := int(d/day), int(d/time.Hour)%24
	minutes, seconds := int(d/time.Minute)%60, int(d/time.Second)%60
	switch {
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", seconds)
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", minutes, seconds)
	case d < day:
		return fmt.Sprintf("%dh%02dm", hours, minutes)
	case days < 10:
		return fmt.Sprintf("%dd%02dh", days, hours)
	}
	return fmt.Sprintf("%dd", days)
}

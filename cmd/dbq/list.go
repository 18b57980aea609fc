package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/state"
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
		Long: `List tasks, the newest first, one page at a time. When there may be more, the last line says how to get the next page: --after takes the
last id of this one. Every page costs the same. --oldest-first reverses the order.

With --json each task is a line, without its payload (see "dbq show").`,
		Example: `  dbq list --queue mail
  dbq list --state error,poison --limit 1000
  dbq list --parked --older-than 1d --oldest-first
  dbq list --state processing --watch
  dbq list --state poison --json | jq -r .result`,
		Args: noArgs("use --queue NAME, or `dbq show ID` for one task"),
		RunE: a.verb(func(ctx context.Context, _ []string) error {
			filter, err := f.filter()
			if err != nil {
				return err
			}
			if f.limit < 1 {
				return usagef("--limit %d: it must be between 1 and %d", f.limit, dbq.MaxBulk)
			}
			filter.NewestFirst = !oldest
			if after != "" {
				id, err := parseID(after)
				if err != nil {
					return err
				}
				if oldest {
					filter.After = id
				} else {
					filter.Before = id
				}
			}
			c, err := a.open(ctx)
			if err != nil {
				return err
			}
			defer c.Close()
			return a.watch(ctx, every, func() error { return a.list(ctx, c, filter) })
		}),
	}
	f.add(cmd, state.All())
	cmd.Flags().IntVar(&f.limit, "limit", defaultPage, "list at most `N` tasks")
	cmd.Flags().StringVar(&after, "after", "", "begin behind the task with this `ID`, in the order of the list")
	cmd.Flags().BoolVar(&oldest, "oldest-first", false, "list the oldest tasks first")
	addWatch(cmd, &every)
	a.completeQueueFlag(cmd)
	return cmd
}

func (a *app) list(ctx context.Context, c *dbq.Client, f dbq.Filter) error {
	tasks, err := c.List(ctx, f)
	if err != nil {
		return err
	}
	if a.json {
		for _, t := range tasks {
			if err := a.printJSON(viewOf(t)); err != nil {
				return err
			}
		}
		return nil
	}
	if len(tasks) == 0 {
		a.note("no tasks")
		return nil
	}
	now, err := c.Now(ctx)
	if err != nil {
		return err
	}
	tab := table{colour: a.colour, rightFrom: 8}
	tab.add("ID", "QUEUE", "STATE", "TRIES", "WHEN", "KIND", "REFERENCE", "RESULT")
	for _, t := range tasks {
		tab.add(t.ID.String(), t.Queue, t.State.String(), fmt.Sprintf("%d/%d", t.Attempt, t.MaxAttempts), when(t, now),
			dash(t.Kind), dash(brief(t.Reference, 30)), dash(brief(string(t.Result), 40)))
	}
	if err := tab.write(a.out); err != nil {
		return err
	}
	if len(tasks) == f.Limit {
		more := "--after "
		if !f.NewestFirst {
			more = "--oldest-first --after "
		}
		a.note("there may be more: add %s%s", more, tasks[len(tasks)-1].ID)
	}
	return nil
}

// dash shows an empty cell.
func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// brief is the beginning of a text on one line.
func brief(text string, most int) string {
	line := []rune(oneLine(strings.TrimSpace(text)))
	if len(line) <= most {
		return string(line)
	}
	return string(line[:most-1]) + "…"
}

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/spf13/cobra"
)

func newWait(a *app) *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "wait ID",
		Short: "Wait until a task has ended, and print its result",
		Long: `Wait until a task has ended and write its result to stdout. The exit code is 0 when the task is COMPLETED, and 1 when it is POISON or parked or
the --timeout has passed.

With --json the task is one document, as "dbq show" prints it.`,
		Example: `  dbq wait $(dbq enqueue --queue sums --payload '1+1')`,
		Args:    exactlyOneID,
		RunE: a.verb(func(ctx context.Context, args []string) error {
			id, err := parseID(args[0])
			if err != nil {
				return err
			}
			c, err := a.open(ctx)
			if err != nil {
				return err
			}
			defer c.Close()
			waitCtx := ctx
			if timeout > 0 {
				var cancel context.CancelFunc
				waitCtx, cancel = context.WithTimeout(ctx, timeout)
				defer cancel()
			}
			t, err := c.Wait(waitCtx, id)
			if errors.Is(err, context.DeadlineExceeded) {
				if t, err := c.Get(ctx, id); err == nil {
					return failedf("task %s has not ended after %s: it is %v", id, formatDuration(timeout), t.State)
				}
			}
			if err != nil {
				return err
			}
			return a.printEnd(t)
		}),
	}
	durationVar(cmd.Flags(), &timeout, "timeout", 0, "give up after this `TIME` (default never)")
	return cmd
}

// printEnd writes what became of a task that has ended.
func (a *app) printEnd(t dbq.Task) error {
	if a.json {
		if err := a.printJSON(viewOf(t)); err != nil {
			return err
		}
	} else if t.State == dbq.StateCompleted {
		return writeBytes(a.out, t.Result)
	}
	if t.State == dbq.StateCompleted {
		return nil
	}
	text := fmt.Sprintf("task %s is %v", t.ID, t.State)
	if t.Parked() {
		text += ", parked"
	}
	if len(t.Result) > 0 {
		text += ": " + string(t.Result)
	}
	return failedf("%s", text)
}

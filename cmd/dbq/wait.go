package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/google/uuid"
	"github.com/spf13/cobra"
)

func newWait(a *app) *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "wait ID",
		Short: "Wait until a task has ended, and print its result",
		Long: `Wait until a task has ended and write its result to stdout. The exit code is 0 when the task is COMPLETED,
and 1 when it is POISON or parked or the --timeout has passed.

With --json the task is one document, as "dbq show" prints it.`,
		Example: `  dbq wait $(dbq enqueue --queue sums --payload '1+1')`,
		Args:    oneID,
		RunE: a.withClient(func(ctx context.Context, c *dbq.Client, args []string) error {
			id := uuid.MustParse(args[0])
			waitCtx, cancel := ctx, context.CancelFunc(func() {})
			if timeout > 0 {
				waitCtx, cancel = context.WithTimeout(ctx, timeout)
			}
			defer cancel()
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

// printEnd prints the result of a task that has ended. It is an error when the task is not COMPLETED.
func (a *app) printEnd(t dbq.Task) error {
	completed := t.State == dbq.StateCompleted
	if completed && !a.json {
		return writeBytes(a.out, t.Result)
	}
	if a.json {
		if err := a.printJSON(viewOf(t)); err != nil || completed {
			return err
		}
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

package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/spf13/cobra"
)

func newWorker(a *app) *cobra.Command {
	cmds := []*cobra.Command{newWorkerList(a)}
	for _, command := range []dbq.Command{dbq.CommandPause, dbq.CommandResume, dbq.CommandStop} {
		run := func(ctx context.Context, c *dbq.Client, args []string) error {
			if err := admin.New(c).CommandWorker(ctx, args[0], command); err != nil {
				return err
			}
			return a.result(nil, "sent %[2]s to %[1]s", args[0], command)
		}
		one := oneArg("worker's id (see `dbq worker list`)")
		cmd := a.command("dbq worker "+string(command), one, a.withClient(run))
		cmd.ValidArgsFunction = firstArg(a.completeBy(workerNames))
		cmds = append(cmds, a.addNote(cmd))
	}
	return parent("dbq worker", cmds...)
}

// workerNames lists the workers in the registry.
func workerNames(ctx context.Context, c *dbq.Client) (names []string, err error) {
	workers, err := admin.New(c).Workers(ctx)
	for _, w := range workers {
		names = append(names, w.ID)
	}
	return names, err
}

func newWorkerList(a *app) *cobra.Command {
	var queue string
	var every time.Duration
	run := func(ctx context.Context, c *dbq.Client, _ []string) error {
		return workerListing.watch(ctx, a, c, every, func() ([]admin.WorkerInfo, error) {
			workers, err := admin.New(c).Workers(ctx)
			workers = slices.DeleteFunc(workers, func(w admin.WorkerInfo) bool { return queue != "" && w.Queue != queue })
			if err == nil {
				err = mustBeKnownIfEmpty(ctx, c, queue, len(workers))
			}
			return workers, err
		})
	}
	cmd := a.command("dbq worker list", noArgs(""), a.withClient(run))
	a.addQueueFlag(cmd, &queue, "only those of this `QUEUE`")
	addWatch(cmd, &every)
	return cmd
}

// quoted returns names in quotes, with commas between.
func quoted(names []string) string {
	var out []string
	for _, name := range names {
		out = append(out, strconv.Quote(name))
	}
	return strings.Join(out, ", ")
}

var workerListing = listing[admin.WorkerInfo]{
	none:      "no workers",
	columns:   []string{"WORKER", "QUEUE", "STATE", "SEEN", "TASKS", "OF", "LONGEST", "DONE", "FAILED", "UP"},
	rightFrom: 4,
	row: func(w admin.WorkerInfo, now time.Time) []string {
		state, longest, of := w.State, "-", fmt.Sprint(w.Concurrency)
		if w.Remote { // it is not known
			of = "-"
		}
		if w.Dead {
			state = "dead"
		}
		if len(w.NoHandler) > 0 && !w.Dead {
			state += ", no handler for " + quoted(w.NoHandler)
		}
		if !w.OldestSince.IsZero() {
			longest = span(now.Sub(w.OldestSince))
		}
		return []string{w.ID, w.Queue, state, span(now.Sub(w.Seen)) + " ago", fmt.Sprint(w.Holding),
			of, longest, fmt.Sprint(w.Done), fmt.Sprint(w.Failed), span(now.Sub(w.Started))}
	},
	json: func(w admin.WorkerInfo) any { return w },
}

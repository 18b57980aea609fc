package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/internal/duration"
	"github.com/dbq-go/dbq/internal/wire"
	"github.com/dbq-go/dbq/schedule"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func newSchedule(a *app) *cobra.Command {
	return parent("dbq schedule", newSchedulePut(a), newSchedulePreview(a), newScheduleList(a), newScheduleShow(a),
		a.scheduleChange("dbq schedule pause", "paused", (*schedule.Schedules).Pause),
		a.scheduleChange("dbq schedule resume", "resumed", (*schedule.Schedules).Resume),
		newScheduleRun(a), newScheduleDelete(a))
}

// onSchedule makes a command on the schedule named by its argument.
func (a *app) onSchedule(name string, f func(ctx context.Context, c *dbq.Client, name string) error) *cobra.Command {
	cmd := a.command(name, oneArg("schedule's name"), a.withClient(
		func(ctx context.Context, c *dbq.Client, args []string) error {
			err := f(ctx, c, args[0])
			if errors.Is(err, dbq.ErrNotFound) {
				err = &exitError{exitNotFound, fmt.Errorf("there is no schedule %q (see `dbq schedule list`)", args[0])}
			}
			return err
		}))
	cmd.ValidArgsFunction = firstArg(a.completeBy(scheduleNames))
	return cmd
}

func scheduleNames(ctx context.Context, c *dbq.Client) (names []string, err error) {
	all, err := schedule.New(c).List(ctx)
	for _, i := range all {
		names = append(names, i.Name)
	}
	return names, err
}

// timesFlags adds the flags for the times of a schedule.
func timesFlags(l *pflag.FlagSet, d *schedule.Schedule, at *string) {
	l.StringVar(&d.Cron, "cron", "", "fire at the times of a cron `EXPRESSION`: five fields, or a name such as @daily")
	l.StringVar(&d.Zone, "zone", "", "the time `ZONE` of --cron, such as Europe/Berlin (default UTC)")
	durationVar(l, &d.Every, "every", 0, "fire once in this `TIME`, such as 15m or 1d")
	l.StringVar(at, "at", "", "fire once at this `TIME`, such as 2030-01-31T08:00:00Z")
}

// readTime reads the time of a flag, if it is given.
func readTime(flag, text string, to *time.Time) (err error) {
	if text != "" {
		if *to, err = time.Parse(time.RFC3339, text); err != nil {
			return usagef("--%s: write a time such as 2030-01-31T08:00:00Z", flag)
		}
	}
	return nil
}

func newSchedulePut(a *app) *cobra.Command {
	var (
		d                        schedule.Schedule
		at, payload, payloadFile string
		headers                  []string
		l                        *pflag.FlagSet
	)
	cmd := a.onSchedule("dbq schedule put", func(ctx context.Context, c *dbq.Client, name string) error {
		line := enqueueFlags{headers: headers}
		err := cmp.Or(clash(l, "payload", "payload-file"), readTime("at", at, &d.At), line.readHeaders())
		if err == nil && d.Queue == "" {
			err = usagef("--queue is missing: dbq schedule put NAME --queue QUEUE")
		}
		if err == nil {
			d.Task.Payload, err = a.readPayload(l.Changed("payload"), payload, payloadFile)
		}
		if err != nil {
			return err
		}
		d.Name, d.Task.Headers = name, line.line.Headers
		s := schedule.New(c)
		if err := s.Put(ctx, d); err != nil {
			return err
		}
		i, err := s.Get(ctx, name)
		if err != nil {
			return err
		}
		paused, err := pausedQueues(ctx, c)
		if err != nil {
			return err
		}
		if paused[i.Queue] {
			a.note("queue %s is paused: the schedule fires, and its tasks wait until `dbq queue resume %[1]s`", i.Queue)
		}
		return a.result(scheduleViewOf(i, paused), "%s %s", name, nextText(i))
	})
	l = cmd.Flags()
	l.SortFlags = false
	timesFlags(l, &d, &at)
	a.addQueueFlag(cmd, &d.Queue, "the queue's `NAME`")
	l.StringVar(&d.Task.Kind, "kind", "", "the tasks' `KIND`")
	l.StringVar(&d.Task.Key, "key", "", "the tenant, customer or account of the tasks: their `KEY` for limits per key")
	l.StringVar(&payload, "payload", "", "the payload as `TEXT`")
	l.StringVar(&payloadFile, "payload-file", "", "read the payload from `FILE` (- is stdin)")
	l.IntVar(&d.Task.Priority, "priority", 0, fmt.Sprintf("priority `P` from 0 (first) to %d", dbq.MaxPriority))
	l.IntVar(&d.Task.MaxAttempts, "max-attempts", 0, fmt.Sprintf("try `N` times (default %d)", dbq.DefaultMaxAttempts))
	l.StringArrayVar(&headers, "header", nil, "a header as `KEY=VALUE`; repeatable")
	l.IntVar(&d.CatchUp, "catch-up", 1, "make up for the last `N` missed times (-1: none)")
	l.BoolVar(&d.NoOverlap, "no-overlap", false,
		"skip a time if the task of an earlier time, or of dbq schedule run, has not ended")
	durationVar(l, &d.Jitter, "jitter", 0, "delay each task by a random part of this `TIME`")
	return a.addNote(cmd)
}

func newSchedulePreview(a *app) *cobra.Command {
	var d schedule.Schedule
	var at string
	n := 10
	cmd := a.command("dbq schedule preview", noArgs(""), func(context.Context, []string) error {
		if err := readTime("at", at, &d.At); err != nil {
			return err
		}
		times, err := schedule.Preview(d, time.Now(), n)
		if err != nil {
			return err
		}
		return a.printTimes(d, times)
	})
	cmd.Flags().SortFlags = false
	timesFlags(cmd.Flags(), &d, &at)
	cmd.Flags().VarP(intWithin(&n, 10, 1, 1000), "times", "n", "print `N` times")
	return cmd
}

// printTimes prints times, each on a line, in the schedule's time zone.
func (a *app) printTimes(d schedule.Schedule, times []time.Time) error {
	if a.json {
		return a.printJSON(map[string]any{"times": times})
	}
	zone, err := time.LoadLocation(d.Zone)
	if err != nil {
		return err
	}
	for _, t := range times {
		if err := a.say("%s", t.In(zone).Format("Mon 2006-01-02 15:04:05 MST")); err != nil {
			return err
		}
	}
	return nil
}

func newScheduleList(a *app) *cobra.Command {
	var queue, prefix string
	cmd := a.command("dbq schedule list", noArgs(""), a.withClient(
		func(ctx context.Context, c *dbq.Client, _ []string) error {
			all, err := schedule.New(c).List(ctx)
			if err != nil {
				return err
			}
			paused, err := pausedQueues(ctx, c)
			if err != nil {
				return err
			}
			all = slices.DeleteFunc(all, func(i schedule.Info) bool {
				return queue != "" && i.Queue != queue || !strings.HasPrefix(i.Name, prefix)
			})
			if err := mustBeKnownIfEmpty(ctx, c, queue, len(all)); err != nil {
				return err
			}
			return scheduleListing(queue+prefix == "", paused).print(ctx, a, c, all)
		}))
	cmd.Flags().SortFlags = false
	a.addQueueFlag(cmd, &queue, "list only the schedules of the queue `NAME`")
	cmd.Flags().StringVar(&prefix, "name-prefix", "", "list only the schedules whose names begin with `TEXT`")
	return cmd
}

func newScheduleShow(a *app) *cobra.Command {
	return a.onSchedule("dbq schedule show", func(ctx context.Context, c *dbq.Client, name string) error {
		i, err := schedule.New(c).Get(ctx, name)
		if err != nil {
			return err
		}
		paused, err := pausedQueues(ctx, c)
		if err != nil {
			return err
		}
		if a.json {
			return a.printJSON(scheduleViewOf(i, paused))
		}
		for _, line := range [][2]string{
			{"schedule", i.Name}, {"when", whenText(i.Schedule)}, {"queue", queueText(i, paused)}, {"kind", i.Task.Kind},
			{"key", i.Task.Key}, {"payload", string(i.Task.Payload)}, {"owner", i.Owner}, {"problem", i.Problem},
			{"next", nextText(i)},
		} {
			if line[1] == "" {
				continue
			}
			if err := a.say("%-11s %s", line[0], visible(line[1])); err != nil {
				return err
			}
		}
		if !i.Last.IsZero() {
			if err := a.say("%-11s %s, task %s", "last", i.Last.Format(timeFormat), i.LastTaskID); err != nil {
				return err
			}
		}
		if i.Next.IsZero() {
			return nil
		}
		times, err := schedule.Preview(i.Schedule, i.Next.Add(-1), 10)
		if i.Every > 0 { // counted from its last time
			times, err = schedule.Preview(i.Schedule, i.Next.Add(-i.Every), 10)
		}
		if err != nil {
			return err
		}
		return errors.Join(a.say("then"), a.printTimes(i.Schedule, times))
	})
}

// scheduleChange makes a command that changes the schedule named by its argument, and prints it.
func (a *app) scheduleChange(use, past string,
	change func(*schedule.Schedules, context.Context, string, ...schedule.Option) error) *cobra.Command {
	return a.addNote(a.onSchedule(use, func(ctx context.Context, c *dbq.Client, name string) error {
		if err := change(schedule.New(c), ctx, name); err != nil {
			return err
		}
		return a.changedSchedule(ctx, c, name, past)
	}))
}

// changedSchedule prints that a schedule was changed, or with --json the schedule as it is now.
func (a *app) changedSchedule(ctx context.Context, c *dbq.Client, name, past string) error {
	if !a.json {
		return a.say("%s %s", past, name)
	}
	i, err := schedule.New(c).Get(ctx, name)
	if err != nil {
		return err
	}
	paused, err := pausedQueues(ctx, c)
	if err != nil {
		return err
	}
	return a.printJSON(scheduleViewOf(i, paused))
}

func newScheduleDelete(a *app) *cobra.Command {
	return a.addNote(a.onSchedule("dbq schedule delete", func(ctx context.Context, c *dbq.Client, name string) error {
		if err := schedule.New(c).Delete(ctx, name); err != nil {
			return err
		}
		return a.result(map[string]any{"name": name, "deleted": true}, "deleted %s", name)
	}))
}

func newScheduleRun(a *app) *cobra.Command {
	return a.addNote(a.onSchedule("dbq schedule run", func(ctx context.Context, c *dbq.Client, name string) error {
		id, err := schedule.New(c).RunNow(ctx, name)
		if err != nil {
			return err
		}
		return a.result(map[string]any{"task_id": id}, "%s", id)
	}))
}

// pausedQueues returns the queues that are paused: tasks of a schedule wait there.
func pausedQueues(ctx context.Context, c *dbq.Client) (map[string]bool, error) {
	queues, err := admin.New(c).Queues(ctx)
	paused := map[string]bool{}
	for _, q := range queues {
		if q.Paused {
			paused[q.Queue] = true
		}
	}
	return paused, err
}

// scheduleListing lists all schedules, or those that filter flags select.
func scheduleListing(all bool, paused map[string]bool) listing[schedule.Info] {
	none := "no schedule matches"
	if all {
		none = "there are no schedules"
	}
	return listing[schedule.Info]{
		none: none, columns: []string{"SCHEDULE", "WHEN", "QUEUE", "NEXT", "LAST"}, rightFrom: 5,
		row: func(i schedule.Info, now time.Time) []string {
			last := "-"
			switch {
			case i.Problem != "":
				last = i.Problem
			case !i.Last.IsZero():
				last = span(now.Sub(i.Last)) + " ago"
			}
			return []string{i.Name, whenText(i.Schedule), cmp.Or(queueText(i, paused), "-"), nextText(i), last}
		},
		json: func(i schedule.Info) any { return scheduleViewOf(i, paused) },
	}
}

// queueText returns a schedule's queue, and whether its tasks wait because the queue is paused.
func queueText(i schedule.Info, paused map[string]bool) string {
	if paused[i.Queue] {
		return i.Queue + " (paused)"
	}
	return i.Queue
}

// whenText returns the times of a schedule as flags.
func whenText(d schedule.Schedule) string {
	switch {
	case d.Every > 0:
		return "every " + duration.Format(d.Every)
	case !d.At.IsZero():
		return "once"
	case d.Zone != "":
		return d.Cron + " " + d.Zone
	}
	return cmp.Or(d.Cron, "-")
}

// nextText returns the next time of a schedule, as text.
func nextText(i schedule.Info) string {
	switch {
	case i.Paused:
		return strings.TrimSuffix("paused by "+i.By+": "+i.Reason, ": ")
	case i.Next.IsZero():
		return "never again"
	}
	next := i.Next
	if zone, err := time.LoadLocation(i.Zone); err == nil {
		next = next.In(zone)
	}
	return "fires at " + next.Format(time.RFC3339)
}

// scheduleView is a schedule as --json shows it.
type scheduleView struct {
	wire.Schedule
	QueuePaused bool `json:"queue_paused,omitempty"`
}

func scheduleViewOf(i schedule.Info, paused map[string]bool) scheduleView {
	return scheduleView{wire.ScheduleOf(i), paused[i.Queue]}
}

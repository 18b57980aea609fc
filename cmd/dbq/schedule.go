package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/schedule"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func newSchedule(a *app) *cobra.Command {
	return parent("dbq schedule", newSchedulePut(a), newSchedulePreview(a), newScheduleList(a), newScheduleShow(a),
		newSchedulePause(a),
		a.scheduleCommand("dbq schedule resume", "resumed %s", (*schedule.Schedules).Resume),
		newScheduleRun(a),
		a.scheduleCommand("dbq schedule delete", "deleted %s", (*schedule.Schedules).Delete),
	)
}

// scheduleCommand makes a command that runs do on the schedule named by its argument and then prints done.
func (a *app) scheduleCommand(name, done string,
	f func(s *schedule.Schedules, ctx context.Context, name string) error) *cobra.Command {
	return a.onSchedule(name, func(ctx context.Context, c *dbq.Client, name string) error {
		if err := f(schedule.New(c), ctx, name); err != nil {
			return err
		}
		return a.result(nil, done, name)
	})
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

// readAt reads --at.
func readAt(d *schedule.Schedule, at string) (err error) {
	if at != "" {
		if d.At, err = time.Parse(time.RFC3339, at); err != nil {
			return usagef("--at %s is not a time such as 2030-01-31T08:00:00Z", at)
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
		err := cmp.Or(clash(l, "payload", "payload-file"), readAt(&d, at), line.readHeaders())
		if err == nil && d.Queue == "" {
			err = usagef("--queue is missing: dbq schedule put %s --queue QUEUE", name)
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
		return a.result(scheduleViewOf(i), "%s %s", name, nextText(i))
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
	return cmd
}

func newSchedulePreview(a *app) *cobra.Command {
	var d schedule.Schedule
	var at string
	n := 10
	cmd := a.command("dbq schedule preview", noArgs(""), func(context.Context, []string) error {
		if err := readAt(&d, at); err != nil {
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
		return a.printJSON(times)
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
	return a.command("dbq schedule list", noArgs(""), a.withClient(
		func(ctx context.Context, c *dbq.Client, _ []string) error {
			return scheduleListing.watch(ctx, a, c, 0, func() ([]schedule.Info, error) { return schedule.New(c).List(ctx) })
		}))
}

var scheduleListing = listing[schedule.Info]{
	none: "there are no schedules", columns: []string{"SCHEDULE", "WHEN", "QUEUE", "NEXT", "LAST"}, rightFrom: 5,
	row: func(i schedule.Info, now time.Time) []string {
		last := "-"
		switch {
		case i.Problem != "":
			last = i.Problem
		case !i.Last.IsZero():
			last = span(now.Sub(i.Last)) + " ago"
		}
		return []string{i.Name, whenText(i.Schedule), cmp.Or(i.Queue, "-"), nextText(i), last}
	},
	json: func(i schedule.Info) any { return scheduleViewOf(i) },
}

// whenText returns the times of a schedule as flags.
func whenText(d schedule.Schedule) string {
	switch {
	case d.Every > 0:
		return "every " + formatDuration(d.Every)
	case !d.At.IsZero():
		return "once"
	case d.Zone != "":
		return d.Cron + " " + d.Zone
	}
	return cmp.Or(d.Cron, "-")
}

// nextText returns when a schedule fires next, as text.
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

func newScheduleShow(a *app) *cobra.Command {
	return a.onSchedule("dbq schedule show", func(ctx context.Context, c *dbq.Client, name string) error {
		i, err := schedule.New(c).Get(ctx, name)
		if err != nil {
			return err
		}
		if a.json {
			return a.printJSON(scheduleViewOf(i))
		}
		for _, line := range [][2]string{
			{"schedule", i.Name}, {"when", whenText(i.Schedule)}, {"queue", i.Queue}, {"kind", i.Task.Kind},
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
			if err := a.say("%-11s %s, task %s", "last", i.Last.Format(timeFormat), i.LastTask); err != nil {
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

func newSchedulePause(a *app) *cobra.Command {
	var reason, by string
	cmd := a.onSchedule("dbq schedule pause", func(ctx context.Context, c *dbq.Client, name string) error {
		if err := schedule.New(c).Pause(ctx, name, schedule.Reason(reason), schedule.By(by)); err != nil {
			return err
		}
		return a.result(nil, "paused %s", name)
	})
	cmd.Flags().StringVar(&reason, "reason", "", "`WHY`, shown to other operators")
	cmd.Flags().StringVar(&by, "by", operatorName(), "`WHO`, shown to other operators")
	cmd.Flags().Lookup("by").DefValue = "user@host"
	return cmd
}

func newScheduleRun(a *app) *cobra.Command {
	return a.onSchedule("dbq schedule run", func(ctx context.Context, c *dbq.Client, name string) error {
		id, err := schedule.New(c).RunNow(ctx, name)
		if err != nil {
			return err
		}
		return a.result(map[string]any{"id": id}, "%s", id)
	})
}

// scheduleView is a schedule as --json shows it.
type scheduleView struct {
	Name      string            `json:"name"`
	Cron      string            `json:"cron,omitempty"`
	Zone      string            `json:"zone,omitempty"`
	Every     float64           `json:"every_seconds,omitempty"`
	At        time.Time         `json:"at,omitzero"`
	Queue     string            `json:"queue"`
	Kind      string            `json:"kind,omitempty"`
	Key       string            `json:"key,omitempty"`
	Payload   []byte            `json:"payload_base64,omitempty"`
	Priority  int               `json:"priority,omitempty"`
	Attempts  int               `json:"max_attempts,omitempty"`
	Headers   map[string]string `json:"headers,omitempty"`
	CatchUp   int               `json:"catch_up"`
	NoOverlap bool              `json:"no_overlap,omitempty"`
	Jitter    float64           `json:"jitter_seconds,omitempty"`
	Owner     string            `json:"owner,omitempty"`
	Next      time.Time         `json:"next,omitzero"`
	Last      time.Time         `json:"last,omitzero"`
	LastTask  string            `json:"last_task,omitempty"`
	Problem   string            `json:"problem,omitempty"`
	Paused    bool              `json:"paused"`
	By        string            `json:"by,omitempty"`
	Reason    string            `json:"reason,omitempty"`
}

func scheduleViewOf(i schedule.Info) scheduleView {
	v := scheduleView{
		Name: i.Name, Cron: i.Cron, Zone: i.Zone, Every: i.Every.Seconds(), At: i.At, Queue: i.Queue, Kind: i.Task.Kind,
		Key: i.Task.Key, Payload: i.Task.Payload, Priority: i.Task.Priority, Attempts: i.Task.MaxAttempts,
		Headers: i.Task.Headers, CatchUp: i.CatchUp, NoOverlap: i.NoOverlap, Jitter: i.Jitter.Seconds(), Owner: i.Owner,
		Next: i.Next, Last: i.Last, Problem: i.Problem, Paused: i.Paused, By: i.By, Reason: i.Reason,
	}
	if !i.Last.IsZero() {
		v.LastTask = i.LastTask.String()
	}
	return v
}

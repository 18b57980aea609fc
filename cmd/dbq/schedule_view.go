package main

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/internal/duration"
	"github.com/dbq-go/dbq/internal/wire"
	"github.com/dbq-go/dbq/schedule"
)

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

// scheduleView is a schedule as --json shows it.
type scheduleView struct {
	wire.Schedule
	QueuePaused bool `json:"queue_paused,omitempty"`
}

func scheduleViewOf(i schedule.Info, paused map[string]bool) scheduleView {
	return scheduleView{wire.ScheduleOf(i), paused[i.Queue]}
}

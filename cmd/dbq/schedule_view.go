package main

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
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

// scheduleView is a schedule as --json shows it.
type scheduleView struct {
	Name        string            `json:"name"`
	Cron        string            `json:"cron,omitempty"`
	Zone        string            `json:"zone,omitempty"`
	Every       float64           `json:"every_seconds,omitempty"`
	At          time.Time         `json:"at,omitzero"`
	Queue       string            `json:"queue"`
	QueuePaused bool              `json:"queue_paused,omitempty"`
	Kind        string            `json:"kind,omitempty"`
	Key         string            `json:"key,omitempty"`
	Payload     []byte            `json:"payload_base64,omitempty"`
	Priority    int               `json:"priority,omitempty"`
	Attempts    int               `json:"max_attempts,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	CatchUp     int               `json:"catch_up"`
	NoOverlap   bool              `json:"no_overlap,omitempty"`
	Jitter      float64           `json:"jitter_seconds,omitempty"`
	Owner       string            `json:"owner,omitempty"`
	Next        time.Time         `json:"next,omitzero"`
	Last        time.Time         `json:"last,omitzero"`
	LastTask    string            `json:"last_task,omitempty"`
	Problem     string            `json:"problem,omitempty"`
	Paused      bool              `json:"paused"`
	By          string            `json:"by,omitempty"`
	Reason      string            `json:"reason,omitempty"`
}

func scheduleViewOf(i schedule.Info, paused map[string]bool) scheduleView {
	v := scheduleView{
		Name: i.Name, Cron: i.Cron, Zone: i.Zone, Every: i.Every.Seconds(), At: i.At, Queue: i.Queue, Kind: i.Task.Kind,
		QueuePaused: paused[i.Queue],
		Key:         i.Task.Key, Payload: i.Task.Payload, Priority: i.Task.Priority, Attempts: i.Task.MaxAttempts,
		Headers: i.Task.Headers, CatchUp: i.CatchUp, NoOverlap: i.NoOverlap, Jitter: i.Jitter.Seconds(), Owner: i.Owner,
		Next: i.Next, Last: i.Last, Problem: i.Problem, Paused: i.Paused, By: i.By, Reason: i.Reason,
	}
	if !i.Last.IsZero() {
		v.LastTask = i.LastTask.String()
	}
	return v
}

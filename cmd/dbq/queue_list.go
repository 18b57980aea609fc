package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/spf13/cobra"
)

func newQueueList(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the queues that are paused or have something set",
		Long: `List the queues that are paused or have something set; dbq stats lists those with tasks.

With --json each queue is a line.`,
		Example: "  dbq queue list",
		Args:    noArgs(""),
		RunE: a.verb(func(ctx context.Context, _ []string) error {
			c, err := a.open(ctx)
			if err != nil {
				return err
			}
			defer c.Close()
			queues, err := c.Queues(ctx)
			if err != nil {
				return err
			}
			now, err := c.Now(ctx)
			if err != nil {
				return err
			}
			return a.printQueues(queues, now)
		}),
	}
}

func (a *app) printQueues(queues []dbq.QueueInfo, now time.Time) error {
	if a.json {
		for _, q := range queues {
			if err := a.printJSON(viewOfQueue(q)); err != nil {
				return err
			}
		}
		return nil
	}
	if len(queues) == 0 {
		a.note("no queue is paused or has anything set")
		return nil
	}
	tab := table{colour: a.colour, rightFrom: 4}
	tab.add("QUEUE", "PAUSED", "SETTINGS")
	for _, q := range queues {
		paused := "-"
		if q.Paused {
			paused = "for " + span(now.Sub(q.Since))
			if q.Reason != "" {
				paused += ": " + q.Reason
			}
		}
		settings := settingsLine(q.Settings)
		if settings == "" {
			settings = "-"
		}
		tab.add(q.Queue, paused, settings)
	}
	return tab.write(a.out)
}

// queueView is a queue as --json shows it. Durations are in seconds, and what is not set is left out.
type queueView struct {
	Queue    string       `json:"queue"`
	Paused   bool         `json:"paused"`
	Since    time.Time    `json:"since,omitzero"`
	Reason   string       `json:"reason,omitempty"`
	By       string       `json:"by,omitempty"`
	Settings settingsView `json:"settings"`
}

type settingsView struct {
	Concurrency   int         `json:"concurrency,omitempty"`
	Batch         int         `json:"batch,omitempty"`
	Poll          float64     `json:"poll_seconds,omitempty"`
	Lease         float64     `json:"lease_seconds,omitempty"`
	MaxAttempts   int         `json:"max_attempts,omitempty"`
	History       dbq.History `json:"history,omitempty"`
	KeepCompleted float64     `json:"keep_completed_seconds,omitempty"`
	KeepPoison    float64     `json:"keep_poison_seconds,omitempty"`
	KeepParked    float64     `json:"keep_parked_seconds,omitempty"`
	KeepAttempts  float64     `json:"keep_attempts_seconds,omitempty"`
	Archive       bool        `json:"archive,omitempty"`
}

func viewOfQueue(q dbq.QueueInfo) queueView {
	s, r := q.Settings, q.Settings.Retention
	return queueView{q.Queue, q.Paused, q.Since, q.Reason, q.By, settingsView{
		s.Concurrency, s.Batch, s.Poll.Seconds(), s.Lease.Seconds(), s.MaxAttempts, s.History,
		keepSeconds(r.Completed), keepSeconds(r.Poison), keepSeconds(r.Parked), keepSeconds(r.Attempts), r.Archive,
	}}
}

// settingsLine are settings as the flags of `dbq queue set` that make them.
func settingsLine(s dbq.QueueSettings) string {
	var parts []string
	number := func(name string, n int) {
		if n != 0 {
			parts = append(parts, fmt.Sprintf("--%s %d", name, n))
		}
	}
	time := func(name string, d time.Duration) {
		if d != 0 {
			parts = append(parts, fmt.Sprintf("--%s %s", name, formatKeep(d)))
		}
	}
	number("concurrency", s.Concurrency)
	number("batch", s.Batch)
	time("poll", s.Poll)
	time("lease", s.Lease)
	number("max-attempts", s.MaxAttempts)
	if s.History != "" {
		parts = append(parts, "--history "+string(s.History))
	}
	time("keep-completed", s.Retention.Completed)
	time("keep-poison", s.Retention.Poison)
	time("keep-parked", s.Retention.Parked)
	time("keep-attempts", s.Retention.Attempts)
	if s.Retention.Archive {
		parts = append(parts, "--archive")
	}
	return strings.Join(parts, " ")
}

// keepSeconds is a retention in seconds; -1 is forever.
func keepSeconds(d time.Duration) float64 {
	if d == dbq.Forever {
		return -1
	}
	return d.Seconds()
}

package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"
)

// The parts that have goals.
const (
	partThroughput = "throughput"
	partPickup     = "pickup"
	partGrowth     = "growth"
)

// A partKind is a part of a run: how it is measured, and what the page says about it.
type partKind struct {
	name, title, note string
	measure           func(s samples, ctx context.Context, o options, on *servers) ([]*entry, error)
	flags             func(o options) string // further ones that repeat it
}

// parts are in the order of the page.
var parts = []partKind{
	{name: partThroughput, title: "Throughput", measure: samples.throughput},
	{name: "cost", title: "What a task costs", measure: samples.costs,
		note: `What the server wrote to its WAL or redo log during a bulk enqueue and its drain, divided by the number of
tasks. Enqueues are in batches of 5,000.`},
	{name: partPickup, title: "Pick-up latency", measure: samples.pickups,
		note: `The time from the acknowledgement of an enqueue to the start of its handler. Half load is the same rate for
all contenders on a server: half of what the slowest of them keeps up with, enqueued one by one by 4 producers. With "by
notification", another client than the worker's enqueues. "Enqueue and pick-up" starts at the call that enqueues.`},
	{name: partGrowth, title: "Growth", measure: samples.growth,
		flags: func(o options) string {
			return fmt.Sprintf(" -grown %d,%d -held %v", o.grownDone, o.grownFuture, o.held)
		},
		note: `Beside ended and future tasks, as many of them as -grown says, and while another transaction that has read
the table stays open for as long as -held says.`},
	{name: "schedules", title: "Schedules", measure: samples.schedules,
		flags: func(o options) string { return fmt.Sprintf(" -schedules %d", o.schedules) },
		note: `A tenth of the schedules are put for one time, and one process fires them, or three together. "From a
schedule's time to its task" is how late the tasks of schedules are that are due one after the other. River's leader
keeps periodic jobs in memory and inserts those that are due together at once; times without a leader are lost. dbq's
schedules are in the database, and each time fires once.`},
	{name: "limits", title: "Limits", measure: samples.limits,
		note: `Four loops take and settle 50 tasks at a time; the worker has batches of 50, too. The limits are of leased
tasks of each key.`},
	{name: "http", title: "HTTP", measure: samples.http,
		note: `Four loops enqueue, and four take and settle, one task or 100 with each request. The server of the HTTP API
runs in the same process, over loopback and without TLS, so the clients' part of the work counts too.`},
}

// run measures a part.
func (k partKind) run(ctx context.Context, o options, on *servers) (part, error) {
	p := part{
		Name: k.name, When: time.Now().UTC().Format("2006-01-02"),
		Machine: fmt.Sprintf("%d cores, %s", runtime.NumCPU(), runtime.Version()),
		Command: fmt.Sprintf("go run . -part %s -n %d -rounds %d", k.name, o.n, o.rounds),
	}
	if k.flags != nil {
		p.Command += k.flags(o)
	}
	if only := o.only.String(); only != "" {
		p.Command += fmt.Sprintf(" -only '%s'", only)
	}
	engines, err := on.settings(ctx)
	if err != nil {
		return p, err
	}
	p.Engines = engines
	taken := samples{}
	entries, err := k.measure(taken, ctx, o, on)
	if err != nil {
		return p, fmt.Errorf("%s: %w", k.name, err)
	}
	p.Results = taken.results(entries)
	return p, nil
}

// matching returns the contenders that -only matches.
func (o options) matching(entries []*entry) []*entry {
	return slices.DeleteFunc(entries, func(e *entry) bool { return !o.only.MatchString(e.key()) })
}

package api

import (
	"context"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/bounds"
	"github.com/dbq-go/dbq/internal/callers"
	"github.com/dbq-go/dbq/internal/control"
	"github.com/google/uuid"
)

const (
	// maxCallers is how many workers over HTTP one server lists for a database, and maxCounted how many of their leases
	// it counts: their names come from clients. The queues share them, so that one queue gets half of them.
	maxCallers = 2000
	maxCounted = 200_000
	// reportTimeout limits the reports of all workers of a database together.
	reportTimeout = 30 * time.Second
)

// reportEvery is how often a server reports the workers that call it. A worker that is silent and holds nothing is
// removed after silentAfter. A server that ends without removing its workers leaves them to be listed as dead.
const (
	reportEvery = 10 * time.Second
	silentAfter = 6 * reportEvery
)

// workers keeps the registry's records of the workers that check out over HTTP. Requests only record their effects in
// memory; run writes the records. It is safe for concurrent use.
type workers struct {
	control *control.Control
	log     *slog.Logger

	mu      sync.Mutex
	callers map[string]*caller // by id
	places  *callers.Places    // of callers, by queue
	counted *callers.Places    // of their leases, by queue
	full    bool               // the log has a line that there are too many
}

// caller is a worker over HTTP.
type caller struct {
	control.Worker
	last time.Time // its last request
	open int       // its checkouts under way
	held map[uuid.UUID]lent
}

// lent is a lease that a caller holds.
type lent struct {
	until, started time.Time
}

func newWorkers(c *control.Control, log *slog.Logger) *workers {
	return &workers{
		control: c, log: log, callers: map[string]*caller{}, places: callers.NewPlaces(maxCallers),
		counted: callers.NewPlaces(maxCounted),
	}
}

// workerID returns the registry's id of a worker over HTTP. It differs from the id of every other queue's worker, so
// that a client cannot replace the record of a worker of a queue that it may not work on.
func workerID(queue, name string) string { return "http/" + url.PathEscape(queue) + "/" + name }

// record registers a request of a worker, with mu held, and returns the worker; nil if it has no name, its id is too
// long, or there are too many.
func (w *workers) record(queue, name string, now time.Time) *caller {
	id := workerID(queue, name)
	if name == "" || bounds.Text(id, 1, bounds.MaxReference, dbq.ErrOption, "worker's id") != nil {
		return nil
	}
	c := w.callers[id]
	if c == nil {
		if !w.places.Take(queue, 1) {
			if !w.full {
				w.log.Warn("dbq: too many workers over HTTP; the others are not listed", "queue", queue, "max", maxCallers)
			}
			w.full = true
			return nil
		}
		c = &caller{held: map[uuid.UUID]lent{}, Worker: control.Worker{
			ID: id, Queue: queue, Started: now.UTC(), State: control.WorkerRunning, Remote: true}}
		w.callers[id] = c
	}
	c.last = now
	return c
}

// checksOut records that a worker begins to check out. The caller must call done with the tasks that the worker gets.
func (w *workers) checksOut(queue, name string) (done func([]dbq.Task)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.record(queue, name, time.Now())
	if c == nil {
		return func([]dbq.Task) {}
	}
	c.open++
	return func(tasks []dbq.Task) {
		w.mu.Lock()
		defer w.mu.Unlock()
		c.open--
		c.last = time.Now()
		for _, t := range tasks {
			w.lend(c, t.Lease, c.last)
		}
	}
}

// lend counts a lease, with mu held.
func (w *workers) lend(c *caller, l dbq.Lease, started time.Time) {
	if _, known := c.held[l.TaskID]; !known {
		if !w.counted.Take(c.Queue, 1) {
			return
		}
	}
	c.held[l.TaskID] = lent{l.Until, started}
}

// extended records that a worker has extended a lease, perhaps one that another server has handed out.
func (w *workers) extended(l held) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c := w.record(l.Queue, l.worker, time.Now()); c != nil {
		w.lend(c, l.Lease, l.started)
	}
}

// settled records that an attempt has ended.
func (w *workers) settled(l held, failed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.record(l.Queue, l.worker, time.Now())
	if c == nil {
		return
	}
	w.drop(c, l.TaskID)
	c.Done++
	if failed {
		c.Failed++
	}
}

// drop forgets a lease, with mu held.
func (w *workers) drop(c *caller, task uuid.UUID) {
	if _, known := c.held[task]; known {
		delete(c.held, task)
		w.counted.Release(c.Queue, 1)
	}
}

// take returns the records to write, and the ids of the workers that are gone, which it forgets.
func (w *workers) take(now time.Time) (live []control.Worker, gone []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, c := range w.callers {
		c.OldestSince = time.Time{}
		for task, l := range c.held {
			if now.After(l.until) {
				w.drop(c, task)
			} else if c.OldestSince.IsZero() || l.started.Before(c.OldestSince) {
				c.OldestSince = l.started.UTC()
			}
		}
		c.Holding, c.Held = len(c.held), longest(c.held)
		if c.open == 0 && c.Holding == 0 && now.Sub(c.last) > silentAfter {
			delete(w.callers, id)
			w.places.Release(c.Queue, 1)
			gone, w.full = append(gone, id), false
			continue
		}
		live = append(live, c.Worker)
	}
	return live, gone
}

// longest returns the tasks that a worker has held for longest, as many as its record has.
func longest(held map[uuid.UUID]lent) []uuid.UUID {
	ids := slices.Collect(maps.Keys(held))
	slices.SortFunc(ids, func(a, b uuid.UUID) int { return held[a].started.Compare(held[b].started) })
	return ids[:min(len(ids), control.MaxHeld)]
}

// report writes the records as of now.
func (w *workers) report(ctx context.Context, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	live, gone := w.take(now)
	for _, id := range gone {
		if _, err := w.control.Deregister(ctx, id); err != nil {
			return err
		}
	}
	for _, me := range live {
		if err := w.control.Announce(ctx, me, silentAfter); err != nil {
			return err
		}
	}
	return nil
}

// run reports until ctx ends. An error is logged once until reports succeed again.
func (w *workers) run(ctx context.Context) {
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(reportEvery):
		}
		err := w.report(ctx, time.Now())
		if err != nil && !failing && ctx.Err() == nil {
			w.log.Error("dbq: workers over HTTP are not listed; trying again", "error", err)
		}
		failing = err != nil
	}
}

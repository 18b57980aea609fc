package control

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/dbq-go/dbq/internal/bounds"
	"github.com/dbq-go/dbq/internal/errs"
	"github.com/dbq-go/dbq/internal/store"
	"github.com/google/uuid"
)

// Worker is the last report of a worker to the registry.
type Worker struct {
	ID          string    `json:"id"` // unique among all workers: 1 to bounds.MaxReference characters
	Queue       string    `json:"queue"`
	Host        string    `json:"host"`
	PID         int       `json:"pid"`
	Started     time.Time `json:"started"`
	State       string    `json:"state"` // one of the constants
	Concurrency int       `json:"concurrency"`
	Holding     int       `json:"holding"`
	OldestSince time.Time `json:"oldest_since,omitzero"`
	Done        int64     `json:"done"`
	Failed      int64     `json:"failed"`
	NoHandler   []string  `json:"no_handler,omitempty"` // kinds that it has met lately and cannot handle
	// Held are the ids of the tasks that it runs, up to MaxHeld, those that it has run for longest first.
	Held    []uuid.UUID `json:"held,omitempty" nullable:"false"`
	Program string      `json:"program,omitempty"`
	Remote  bool        `json:"remote,omitempty"` // it works over HTTP, and a server reports it
	// Seen is when it last reported, by the database's clock. Dead is set when it has missed the time by which it was
	// to report again.
	Seen time.Time `json:"seen"`
	Dead bool      `json:"dead"`
}

// MaxHeld is how many tasks a worker names in its report. A record has space for some thousand bytes.
const MaxHeld = 20

// The states of a worker.
const (
	WorkerRunning    = "running"
	WorkerPaused     = "paused"     // it takes no more tasks
	WorkerStopping   = "stopping"   // it drains
	WorkerUnreadable = "unreadable" // its record cannot be read
)

const (
	deadWorkerAge = 24 * time.Hour // how long the registry keeps a dead worker
	purgeInterval = time.Hour      // how often a client that has workers removes dead ones
)

// Report records that a worker is alive for the next ttl, and returns the command that an operator has sent it, or
// "". Each command is returned once. Call Report again well before ttl has passed.
func (c *Control) Report(ctx context.Context, w Worker, ttl time.Duration) (string, error) {
	command, err := c.report(ctx, w, ttl)
	return command, c.wrap("report worker", w.Queue, err)
}

// Announce is Report for a worker over HTTP, which takes no commands.
func (c *Control) Announce(ctx context.Context, w Worker, ttl time.Duration) error {
	return c.wrap("report worker", w.Queue, c.write(ctx, w, ttl))
}

func (c *Control) report(ctx context.Context, w Worker, ttl time.Duration) (string, error) {
	if err := c.write(ctx, w, ttl); err != nil {
		return "", err
	}
	return c.takeCommand(ctx, w.ID)
}

// write writes a worker's record, and removes the records of workers that have long been dead.
func (c *Control) write(ctx context.Context, w Worker, ttl time.Duration) error {
	if err := bounds.Text(w.ID, 1, bounds.MaxReference, errs.ErrOption, "worker's id"); err != nil {
		return err
	}
	if ttl < time.Millisecond {
		return fmt.Errorf("%w: a worker's time to live of %v", errs.ErrOption, ttl)
	}
	value, err := json.Marshal(w)
	if len(value) > store.MaxValue { // the names of kinds and of the host can be long
		w.Held = nil
		value, err = json.Marshal(w)
	}
	if err != nil {
		return err
	}
	if err := c.register(ctx, w.ID, string(value), ttl); err != nil {
		return err
	}
	return c.purgeDead(ctx)
}

// register writes a worker's record, without reading it first while no other client has written it.
func (c *Control) register(ctx context.Context, id, value string, ttl time.Duration) error {
	if v, ok := c.versions.Load(id); ok {
		last := store.Record{Version: v.(int64)}
		if done, err := c.store.SwapKV(ctx, last, true, namespaceWorker, id, value, ttl); done || err != nil {
			c.versions.Store(id, last.Version+1)
			return err
		}
	}
	if err := c.store.PutKV(ctx, namespaceWorker, id, value, ttl); err != nil {
		return err
	}
	r, exists, err := c.store.GetKV(ctx, namespaceWorker, id)
	if exists {
		c.versions.Store(id, r.Version)
	}
	return err
}

// purgeDead removes expired commands and workers that have been dead for a day, once in purgeInterval.
func (c *Control) purgeDead(ctx context.Context) error {
	now, last := time.Now().UnixNano(), c.purged.Load()
	if now-last < int64(purgeInterval) || !c.purged.CompareAndSwap(last, now) {
		return nil
	}
	if err := c.store.DeleteExpiredKV(ctx, namespaceWorker, deadWorkerAge); err != nil {
		return err
	}
	return c.store.DeleteExpiredKV(ctx, namespaceCommand, 0)
}

// dead reports whether a worker has missed the time by which it was to report again, or has not reported since the
// database's clock was set back by more than that.
func dead(r store.Record) bool {
	return r.Expired() || r.Expires != nil && r.Updated-r.Now > *r.Expires-r.Updated
}

// Deregister removes a worker from the registry, and returns the command that was sent to it since its last report, or
// "". It is not an error if the worker is not registered.
func (c *Control) Deregister(ctx context.Context, id string) (command string, err error) {
	c.versions.Delete(id)
	if err = c.store.DeleteKV(ctx, namespaceWorker, id); err == nil { // first, so that no more commands are sent to it
		command, err = c.takeCommand(ctx, id)
	}
	return command, c.wrap("deregister", "", err)
}

// Workers returns the workers that have reported within the last day, ordered by id.
func (c *Control) Workers(ctx context.Context) ([]Worker, error) {
	records, err := c.store.ListKV(ctx, namespaceWorker)
	if err != nil {
		return nil, c.wrap("workers", "", err)
	}
	out := make([]Worker, 0, len(records))
	for _, r := range records {
		var w Worker
		if err := json.Unmarshal([]byte(r.Value), &w); err != nil {
			w = Worker{ID: r.Name, State: WorkerUnreadable}
		}
		w.Seen, w.Dead = time.UnixMicro(r.Updated).UTC(), dead(r)
		out = append(out, w)
	}
	return out, nil
}

package admin

import (
	"context"
	"slices"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/control"
	"github.com/dbq-go/dbq/internal/store"
	"github.com/google/uuid"
)

// The states of a worker.
const (
	WorkerRunning    = control.WorkerRunning
	WorkerPaused     = control.WorkerPaused     // it takes no more tasks
	WorkerStopping   = control.WorkerStopping   // it waits for its running handlers, then ends
	WorkerUnreadable = control.WorkerUnreadable // its entry in the registry cannot be read
)

// WorkerInfo is the last report of a worker to the registry. No task depends on it: a task belongs to the holder of its
// lease.
type WorkerInfo struct {
	ID          string    `json:"id"`    // unique among all workers
	Queue       string    `json:"queue"` // the queue that it works on
	Host        string    `json:"host"`
	PID         int       `json:"pid"`
	Started     time.Time `json:"started"`
	State       string    `json:"state"`                 // such as WorkerRunning
	Concurrency int       `json:"concurrency"`           // tasks that it runs at once
	Holding     int       `json:"holding"`               // leases that it holds
	OldestSince time.Time `json:"oldest_since,omitzero"` // when its longest running handler started
	Done        int64     `json:"done"`                  // attempts that have ended since it started
	Failed      int64     `json:"failed"`                // ended attempts that failed
	NoHandler   []string  `json:"no_handler,omitempty"`  // kinds that it has met lately and has no handler for
	// Held are the ids of the tasks that it runs, up to 20, those that it has run for longest first. Of a Dead worker,
	// they are the tasks of its last report: others may have taken them over.
	Held    []uuid.UUID `json:"held,omitempty" nullable:"false"`
	Program string      `json:"program,omitempty"` // such as the program's version
	Remote  bool        `json:"remote,omitempty"`  // it works over HTTP: it takes no commands
	// Seen is when it last reported, by the database's clock. A worker that misses three reports in a row is Dead.
	Seen time.Time `json:"seen"`
	Dead bool      `json:"dead"`
}

// Workers lists the workers that reported within the last day, ordered by id. Those that are Dead were killed, or
// cannot reach the database.
func (a *Admin) Workers(ctx context.Context) ([]WorkerInfo, error) {
	workers, err := a.core.Control.Workers(ctx)
	var out []WorkerInfo
	for _, w := range workers {
		out = append(out, WorkerInfo(w))
	}
	return out, err
}

// NoHandlers returns the kinds that live workers have met lately without a handler, by queue and sorted. Tasks of these
// kinds wait for a worker that has one.
func NoHandlers(workers []WorkerInfo) map[string][]string {
	kinds := map[string][]string{}
	for _, w := range workers {
		if !w.Dead && len(w.NoHandler) > 0 {
			kinds[w.Queue] = append(kinds[w.Queue], w.NoHandler...)
		}
	}
	for queue, of := range kinds {
		slices.Sort(of)
		kinds[queue] = slices.Compact(of)
	}
	return kinds
}

// CommandWorker sends a worker a command. The worker executes it immediately if it runs in this process or the database
// sends notifications (PostgreSQL), and otherwise at its next report; see worker.Worker.ReportInterval. For a dead
// worker, CommandWorker returns dbq.ErrNotFound. A command that the worker does not read within 10 minutes expires; a
// later one replaces it.
func (a *Admin) CommandWorker(ctx context.Context, id string, command dbq.Command, opts ...Option) error {
	hidden := func(string) string { return "" } // the action has it
	entry := store.Audit{Action: string(command) + " worker", Subject: id, Show: hidden}
	ctx, _, err := a.audited(ctx, opts, entry)
	if err != nil {
		return a.wrap("command", "", err)
	}
	return a.core.Control.SendCommand(ctx, id, string(command))
}

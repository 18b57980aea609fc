package worker

import (
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/control"
)

// EventKind is what an Event is about.
type EventKind string

// The kinds of events.
const (
	Polled    EventKind = "polled"     // a checkout has returned N tasks, 0 if nothing was due, or Err
	Asked     EventKind = "asked"      // an idle worker has queried when the next task is due, perhaps with Err
	Started   EventKind = "started"    // Task goes to its handler, Duration after it was due: the pick-up latency
	Ended     EventKind = "ended"      // Task's handler has returned after Duration; Outcome is what follows
	LeaseLost EventKind = "lease lost" // Task is not this worker's any more
	Stuck     EventKind = "stuck"      // Task's handler ignores the end of its context; the worker goes on without it
	Recorded  EventKind = "recorded"   // Task's end is in the database, where it is in State; or is not, because of Err
	Commanded EventKind = "commanded"  // the worker obeys an operator's Command
)

// Event is something that a worker did, for metrics and traces.
type Event struct {
	Kind     EventKind
	Queue    string
	Task     dbq.Task
	Outcome  string // of Ended: an event of the state table such as "complete"
	State    dbq.State
	Command  control.Command // of Commanded: an admin.Command
	Duration time.Duration
	N        int
	Err      error
}

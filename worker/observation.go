package worker

import (
	"time"

	"github.com/dbq-go/dbq"
)

// ObservationKind is the subject of an Observation.
type ObservationKind string

// The kinds of observations, each with the fields that it has beside Queue.
const (
	// CheckedOut: a checkout returned N tasks after Duration; 0 if nothing was due, or Err.
	CheckedOut ObservationKind = "checked out"
	// Queried: an idle worker queried when the next task is due, which took Duration and may have failed with Err.
	Queried ObservationKind = "queried"
	// Started: Task goes to its handler, Duration after it was due: the pick-up latency.
	Started ObservationKind = "started"
	// Ended: Task's handler returned after Duration. Outcome is the event that follows, and Err the handler's error.
	Ended ObservationKind = "ended"
	// LeaseLost: Task is no longer this worker's.
	LeaseLost ObservationKind = "lease lost"
	// Stuck: Task's handler ignores the end of its context, and the worker continues without it. Err is the cause.
	Stuck ObservationKind = "stuck"
	// Recorded: the database has stored how Task ended, and the task is in State; or it has not, because of Err.
	Recorded ObservationKind = "recorded"
	// Commanded: the worker obeys an operator's Command.
	Commanded ObservationKind = "commanded"
)

// Observation is something that a worker did, for metrics and traces; see Worker.Observe.
type Observation struct {
	Kind     ObservationKind
	Queue    string
	Task     dbq.Task
	Outcome  string // of Ended: an event of the state table such as "complete"
	State    dbq.State
	Command  dbq.Command
	Duration time.Duration
	N        int
	Err      error
}

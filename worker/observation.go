package worker

import (
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/state"
)

// ObservationType says what an Observation is about.
type ObservationType string

// The types of observations. Each lists the fields that are set besides Queue.
const (
	// CheckedOut: a checkout took Duration and returned N tasks, 0 if none was due, or failed with Err.
	CheckedOut ObservationType = "checked out"
	// Queried: an idle worker's query for the next due time took Duration. It may have failed with Err.
	Queried ObservationType = "queried"
	// Started: Task goes to its handler, Duration after it was due. This is the pick-up latency.
	Started ObservationType = "started"
	// Ended: Task's handler returned after Duration. Event follows, and Err is the handler's error.
	Ended ObservationType = "ended"
	// LeaseLost: the worker lost its lease on Task.
	LeaseLost ObservationType = "lease lost"
	// Stuck: Task's handler ignores the end of its context, and the worker continues without it. Err is the context's
	// cause, and Duration is for how long the handler has been running.
	Stuck ObservationType = "stuck"
	// Recorded: the database has stored the end of Task's attempt, and the task is in State; or Err says why it
	// has not.
	Recorded ObservationType = "recorded"
	// Commanded: the worker executes an operator's Command.
	Commanded ObservationType = "commanded"
)

// Observation is something that a worker did, for metrics and traces. See Worker.Observe.
type Observation struct {
	Type     ObservationType
	Queue    string
	Task     dbq.Task
	Event    state.Event // of Ended: what follows in the state table, such as state.Complete
	State    dbq.State
	Command  dbq.Command
	Duration time.Duration
	N        int
	Err      error
}

package worker

import (
	"time"

	"github.com/dbq-go/dbq"
)

// EventKind is what an Event is about.
type EventKind string

// The kinds of events.
const (
	Polled    EventKind = "polled"     // a checkout has returned N tasks, 0 for an empty poll, or Err
	Asked     EventKind = "asked"      // the database has said when the next task is due, as an idle worker asks it, or Err
	Started   EventKind = "started"    // Task goes to its handler, Duration after it was due: the pick-up latency
	Ended     EventKind = "ended"      // Task's handler has returned after Duration; Outcome is to become of the task
	LeaseLost EventKind = "lease lost" // Task is not this worker's any more
	Stuck     EventKind = "stuck"      // Task's handler ignores the end of its context; the worker goes on without it
	Recorded  EventKind = "recorded"   // Task's end is in the database, where it is in State; or is not, because of Err
	Ordered   EventKind = "ordered"    // the worker obeys the Order of an operator
)

// Event is something that a worker did, for metrics and traces.
type Event struct {
	Kind     EventKind
	Queue    string
	Task     dbq.Task
	Outcome  string // of Ended: an event of the state table such as "complete"
	State    dbq.State
	Order    dbq.Order
	Duration time.Duration
	N        int
	Err      error
}

// observed reports whether anybody wants events. Where there is one for each task, it is asked first: an event is large.
func (r *run) observed() bool { return r.cfg.Observe != nil }

func (r *run) observe(e Event) {
	if r.observed() {
		e.Queue = r.cfg.Queue.Name()
		r.cfg.Observe(e)
	}
}

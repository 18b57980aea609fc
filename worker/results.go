package worker

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/bounds"
	"github.com/dbq-go/dbq/state"
)

// results reports how tasks were settled to the log, Observe, OnPoison, and the totals of the run. No method waits,
// and all are safe for concurrent use.
type results struct {
	*env
	poison *poisonHook

	ended    atomic.Int64 // attempts that were settled
	failed   atomic.Int64 // settled attempts that failed
	poisoned atomic.Int64 // tasks that went to POISON
	lost     atomic.Int64 // leases that were lost
}

// settled processes the result of a settlement that was not locked. why is how the lease was lost, if it is known.
func (r *results) settled(st *settlement, out dbq.Settled, why error) {
	t := &st.leased.task
	if r.observed() {
		r.observe(Observation{Type: Recorded, Task: *t, State: out.State, Err: out.Err})
	}
	switch {
	case errors.Is(out.Err, dbq.ErrLeaseLost):
		r.leaseLost(t, cmp.Or(why, dbq.ErrLeaseLost))
		return
	case out.Err != nil:
		r.log.each(lineUnsure, aboutTask(t, "event", string(st.how.Event()), "error", errorText(out.Err))...)
		return
	}
	event := st.how.Event()
	switch {
	case event == state.Complete:
		r.tally.Completed.Add(1)
	case event == state.Fail:
		r.failed.Add(1)
		r.tally.Failed.Add(1)
	case event == state.PoisonEvent:
		r.tally.Failed.Add(1)
	case !st.leased.began.IsZero(): // not a task that was leased ahead
		r.tally.Released.Add(1)
	}
	r.ended.Add(1)
	if event == state.Fail || event == state.PoisonEvent {
		r.logFailure(st, out.State)
	}
	if out.State == dbq.StatePoison {
		r.wentToPoison(*t, st.err)
	}
}

// takenOver processes tasks that a checkout leased, and logs those that other workers had left unfinished.
func (r *results) takenOver(tasks []dbq.Task) {
	for i := range tasks {
		if t := &tasks[i]; t.TakenOver != nil {
			r.log.count(lineTakeover, t.ID, t.TakenOver.Worker, "from", t.TakenOver.Worker)
		}
	}
}

// exhausted processes tasks that a checkout moved to POISON.
func (r *results) exhausted(tasks []dbq.Task) {
	for _, t := range tasks {
		before := ""
		if t.TakenOver != nil {
			before = t.TakenOver.Worker
		}
		r.log.count(lineExhausted, t.ID, before, "from", before)
		r.wentToPoison(t, nil)
	}
}

func (r *results) wentToPoison(t dbq.Task, err error) {
	r.poisoned.Add(1)
	r.tally.Poisoned.Add(1)
	r.poison.add(t, err)
}

// leaseLost counts a task that the worker no longer holds.
func (r *results) leaseLost(t *dbq.Task, cause error) {
	r.lost.Add(1)
	r.observe(Observation{Type: LeaseLost, Task: *t})
	line := lineLost
	if isWithdrawn(cause) {
		line = lineWithdrawn
	}
	r.log.count(line, t.ID, errorText(cause), "cause", errorText(cause))
}

// logLongResult logs that the end of the result of a completed task is not stored.
func (e *env) logLongResult(t *dbq.Task, o dbq.Outcome) {
	if n := len(o.Result()); n > dbq.MaxResult && !o.Deletes() {
		e.logResult(t, fmt.Sprintf("it has %d bytes, and up to %d are stored", n, dbq.MaxResult))
	}
}

func (e *env) logResult(t *dbq.Task, reason string) {
	e.log.each(lineResult, aboutTask(t, "reason", bounds.Brief(reason))...)
}

// logFailure logs a failed attempt. to is the task's state now.
func (r *results) logFailure(st *settlement, to dbq.State) {
	t, line := &st.leased.task, lineFailed
	attrs := []any{"max_attempts", r.maxAttempts(t)}
	switch {
	case to == dbq.StatePoison:
		line = linePoison
	case to != dbq.StateError:
		return
	case !st.how.Retries():
		line = lineParked
	default:
		attrs = append(attrs, "next", strings.TrimPrefix(st.how.String(), "retry "))
	}
	r.log.each(line, aboutTask(t, append(attrs, "error", errorText(st.err))...)...)
}

// ObservationType is the subject of an Observation.
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
	// Recorded: the database has stored the end of Task's attempt, and the task is in State; or Err has the reason why
	// it has not.
	Recorded ObservationType = "recorded"
	// Commanded: the worker executes an operator's Command.
	Commanded ObservationType = "commanded"
)

// Observation is something that a worker did, for metrics and traces. See Worker.Observe.
type Observation struct {
	Type     ObservationType
	Queue    string
	Task     dbq.Task
	Event    state.Event // of Ended: the event of the state table, such as state.Complete
	State    dbq.State
	Command  dbq.Command
	Duration time.Duration
	N        int
	Err      error
}

package state

// Event is what happens to a task. Its text is the verb of the command line and the metric label.
type Event string

// The events, in the order of the table.
const (
	Enqueue    Event = "enqueue"
	Checkout   Event = "checkout"
	Extend     Event = "extend"
	Complete   Event = "complete"
	Fail       Event = "fail"
	PoisonIt   Event = "poison"
	Reject     Event = "reject"
	Revoke     Event = "revoke"
	Release    Event = "release"
	Reenqueue  Event = "reenqueue"
	Quarantine Event = "quarantine"
	Restore    Event = "restore"
	Purge      Event = "purge"
)

// Who may cause an event.
type Who string

const (
	// Anyone may enqueue.
	Anyone Who = "anyone"
	// Worker checks out tasks and gets leases.
	Worker Who = "worker"
	// Holder is a worker that presents the valid fence of its lease.
	Holder Who = "lease holder"
	// Operator is a person or a housekeeping job. It needs no lease.
	Operator Who = "operator"
)

// When is the condition under which an event may start from a state.
type When string

const (
	// Always is no condition.
	Always When = ""
	// IfDue requires that the due time has come, by the database's clock.
	IfDue When = "due"
	// IfExpired requires that the lease has expired, by the database's clock.
	IfExpired When = "lease expired"
	// IfLapsed requires that the lease has expired before the attempt is known to have started.
	IfLapsed When = "lease expired before the start"
	// IfExhausted requires that the lease has expired and that the attempts are exhausted.
	IfExhausted When = "lease expired, attempts exhausted"
	// IfParked requires that the task has no due time, so that it is not retried.
	IfParked When = "parked"
)

// Source is a state that an event may start from, and the condition for it.
type Source struct {
	State State
	When  When
}

// Attempts is what an event does to a task's attempt counter.
type Attempts string

const (
	// Keep leaves the counter unchanged.
	Keep Attempts = ""
	// Count adds one: an attempt begins.
	Count Attempts = "+1"
	// Uncount subtracts one: the attempt that began does not count.
	Uncount Attempts = "-1"
	// Reset sets the counter to 0.
	Reset Attempts = "0"
)

// Transition is one row of the table.
type Transition struct {
	Event    Event
	From     []Source
	To       State
	Who      Who
	Attempts Attempts // what happens to the attempt counter
	Fence    bool     // whether the fence grows: on every change of owner, never on a heartbeat
	Doc      string   // one sentence, for documentation, the command line and failing tests
}

var table = []Transition{
	{Enqueue, []Source{{None, Always}}, Created, Anyone, Reset, false,
		"A new task waits for its due time."},
	{Checkout, []Source{{Created, IfDue}, {Error, IfDue}, {Processing, IfExpired}}, Processing, Worker, Count, true,
		"A due task, or one whose lease expired, is leased to one worker."},
	{Checkout, []Source{{Processing, IfLapsed}}, Processing, Worker, Keep, true,
		"A task whose lease expired before its attempt is known to have started is leased again; " +
			"that attempt does not count."},
	{Extend, []Source{{Processing, Always}}, Processing, Holder, Keep, false,
		"The lease is renewed: a heartbeat."},
	{Complete, []Source{{Processing, Always}}, Completed, Holder, Keep, false,
		"The work is done. The task is stored with its result, or removed in the same step."},
	{Fail, []Source{{Processing, Always}}, Error, Holder, Keep, false,
		"The attempt failed. The task is retried at its new due time, or parked."},
	{PoisonIt, []Source{{Processing, Always}}, Poison, Holder, Keep, false,
		"The attempt failed for good, or was the last one. The task is not handed out again."},
	{PoisonIt, []Source{{Processing, IfExhausted}}, Poison, Worker, Keep, true,
		"The lease of the last attempt expired, and a checkout found it."},
	{Reject, []Source{{Created, Always}}, Error, Operator, Keep, false,
		"A task is parked before it runs."},
	{Revoke, []Source{{Processing, Always}}, Error, Operator, Keep, true,
		"The lease is taken away, the handler's context ends, and the task is parked."},
	{Release, []Source{{Processing, Always}}, Created, Holder, Uncount, false,
		"The task is handed back, for now or for later. The attempt does not count."},
	{Reenqueue, []Source{{Error, Always}, {Poison, Always}}, Created, Operator, Reset, false,
		"A failed task becomes due again, and its attempts start over."},
	{Quarantine, []Source{{Error, Always}}, Poison, Operator, Keep, false,
		"A failed task will not be retried."},
	{Restore, []Source{{Poison, Always}}, Error, Operator, Keep, false,
		"A poisoned task is parked for inspection."},
	{Purge, []Source{{Completed, Always}, {Poison, Always}, {Error, IfParked}}, None, Operator, Keep, false,
		"A finished or parked task is removed."},
}

// Transitions returns a copy of the table.
func Transitions() []Transition {
	t := make([]Transition, len(table))
	for i, row := range table {
		row.From = append([]Source(nil), row.From...)
		t[i] = row
	}
	return t
}

// Find returns the first row for an event that who may cause. If there is none, ok is false.
func Find(e Event, who Who) (t Transition, ok bool) {
	for _, row := range table {
		if row.Event == e && row.Who == who {
			row.From = append([]Source(nil), row.From...)
			return row, true
		}
	}
	return Transition{}, false
}

// ByOperator returns the transitions that operators cause, which are the verbs of the command line.
func ByOperator() []Transition {
	var out []Transition
	for _, row := range Transitions() {
		if row.Who == Operator {
			out = append(out, row)
		}
	}
	return out
}

// Allows reports whether the transition may start from state s; parked is whether the task has no due time. Conditions
// that only the database can decide (IfDue, IfExpired, IfLapsed and IfExhausted) count as met.
func (t Transition) Allows(s State, parked bool) bool {
	for _, src := range t.From {
		if src.State == s && (src.When != IfParked || parked) {
			return true
		}
	}
	return false
}

// FromStates returns the transition's source states.
func (t Transition) FromStates() []State {
	var out []State
	for _, src := range t.From {
		out = append(out, src.State)
	}
	return out
}

package state

import "strings"

// Event is a change of a task. Its text is the verb of the command line and the metric label.
type Event string

// The events, in the order of the table.
const (
	Enqueue     Event = "enqueue"
	Checkout    Event = "checkout"
	Extend      Event = "extend"
	Complete    Event = "complete"
	Fail        Event = "fail"
	PoisonEvent Event = "poison"
	Reject      Event = "reject"
	Revoke      Event = "revoke"
	Cancel      Event = "cancel"
	Release     Event = "release"
	Reenqueue   Event = "reenqueue"
	Finish      Event = "finish"
	Quarantine  Event = "quarantine"
	Restore     Event = "restore"
	Purge       Event = "purge"
)

// Actor is the kind of caller that may cause an event.
type Actor string

const (
	// Anyone may enqueue.
	Anyone Actor = "anyone"
	// Worker checks out tasks and gets leases.
	Worker Actor = "worker"
	// Holder is a worker that presents the valid fence of its lease.
	Holder Actor = "lease holder"
	// Operator is a person or a housekeeping job. It needs no lease.
	Operator Actor = "operator"
)

// Requirement must be true for an event to start from a state.
type Requirement string

const (
	// Always is no requirement.
	Always Requirement = ""
	// IfDue requires that the due time has come, by the database's clock.
	IfDue Requirement = "due"
	// IfExpired requires that the lease has expired, by the database's clock.
	IfExpired Requirement = "lease expired"
	// IfLapsed requires that the lease has expired before the attempt is known to have started.
	IfLapsed Requirement = "lease expired before the start"
	// IfExhausted requires that the lease has expired and that the attempts are exhausted.
	IfExhausted Requirement = "lease expired, attempts exhausted"
	// IfParked requires that the task has no due time, so that it is not retried.
	IfParked Requirement = "parked"
)

// Source is a state that an event may start from, and the requirement for it.
type Source struct {
	State       State
	Requirement Requirement
}

// String returns the state and its requirement, such as "parked ERROR".
func (s Source) String() string {
	return strings.TrimSpace(string(s.Requirement) + " " + s.State.String())
}

// Attempts is the effect of an event on a task's attempt counter.
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

// Due is the effect of an event on a task's due time.
type Due string

const (
	// NotDue clears it: no checkout takes the task until another event sets it.
	NotDue Due = ""
	// DueNow sets it to the database's clock.
	DueNow Due = "now"
	// DueGiven sets it to the caller's time, or clears it.
	DueGiven Due = "given"
)

// Transition is one row of the table.
type Transition struct {
	Event    Event
	From     []Source
	To       State
	Actor    Actor
	Attempts Attempts // the effect on the attempt counter
	Fence    bool     // whether the fence grows: on every change of owner, never on a heartbeat; see GrowsFence
	Due      Due      // the effect on the due time
	Result   bool     // whether the result is replaced: by the holder's, or by a text with the operator's reason
	Cancels  bool     // whether an operator's event marks the task as cancelled; the others remove the mark
	Past     string   // the participle of an operator's event, such as "rejected", for results, the history and messages
	Doc      string   // one sentence, for documentation, the command line and failing tests
}

var table = []Transition{
	{Event: Enqueue, From: always(None), To: Created, Actor: Anyone, Attempts: Reset, Due: DueGiven,
		Doc: "A new task waits for its due time."},
	{Event: Checkout, From: []Source{{Created, IfDue}, {Error, IfDue}, {Processing, IfExpired}}, To: Processing,
		Actor: Worker, Attempts: Count, Fence: true,
		Doc: "A due task, or one whose lease expired, is leased to one worker."},
	{Event: Checkout, From: []Source{{Processing, IfLapsed}}, To: Processing, Actor: Worker, Fence: true,
		Doc: "A task whose lease expired before its attempt is known to have started is leased again; " +
			"that attempt does not count."},
	{Event: Extend, From: always(Processing), To: Processing, Actor: Holder,
		Doc: "The lease is renewed: a heartbeat."},
	{Event: Complete, From: always(Processing), To: Completed, Actor: Holder, Result: true,
		Doc: "The work is done. The task is stored with its result, or removed in the same step."},
	{Event: Fail, From: always(Processing), To: Error, Actor: Holder, Due: DueGiven, Result: true,
		Doc: "The attempt failed. The task is retried at its new due time, or parked."},
	{Event: PoisonEvent, From: always(Processing), To: Poison, Actor: Holder, Result: true,
		Doc: "The attempt failed for good, or was the last one. The task is not handed out again."},
	{Event: PoisonEvent, From: []Source{{Processing, IfExhausted}}, To: Poison, Actor: Worker, Fence: true, Result: true,
		Doc: "The lease of the last attempt expired, and a checkout found it."},
	{Event: Reject, From: always(Created), To: Error, Actor: Operator, Result: true, Past: "rejected",
		Doc: "A task is parked before it runs."},
	{Event: Revoke, From: always(Processing), To: Error, Actor: Operator, Fence: true, Result: true, Past: "revoked",
		Doc: "The lease is taken away, the handler's context ends, and the task is parked."},
	{Event: Cancel, From: always(Created, Processing, Error), To: Poison, Actor: Operator, Fence: true, Result: true,
		Cancels: true, Past: "cancelled", Doc: "A task that is no longer needed goes to POISON, marked as cancelled. " +
			"If it is running, its handler's context ends."},
	{Event: Release, From: always(Processing), To: Created, Actor: Holder, Attempts: Uncount, Due: DueGiven,
		Doc: "The task returns to the queue, due now or later. The attempt does not count."},
	{Event: Reenqueue, From: always(Error, Poison), To: Created, Actor: Operator, Attempts: Reset, Due: DueNow,
		Past: "reenqueued", Doc: "A failed task becomes due again, and its attempts start over."},
	{Event: Finish, From: always(Created, Error, Poison), To: Completed, Actor: Operator, Result: true, Past: "finished",
		Doc: "A task is completed without an attempt, with a result that may be given."},
	{Event: Quarantine, From: always(Error), To: Poison, Actor: Operator, Past: "quarantined",
		Doc: "A failed task will not be retried."},
	{Event: Restore, From: always(Poison), To: Error, Actor: Operator, Past: "restored",
		Doc: "A poisoned task is parked for inspection."},
	{Event: Purge, From: []Source{{Completed, Always}, {Poison, Always}, {Error, IfParked}}, To: None, Actor: Operator,
		Past: "purged", Doc: "An ended or parked task is removed."},
}

// always are states that an event may start from without a condition.
func always(states ...State) (out []Source) {
	for _, s := range states {
		out = append(out, Source{State: s})
	}
	return out
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

// Find returns the first transition for e that the actor may cause. If there is none, ok is false.
func Find(e Event, actor Actor) (t Transition, ok bool) {
	for _, row := range table {
		if row.Event == e && row.Actor == actor {
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
		if row.Actor == Operator {
			out = append(out, row)
		}
	}
	return out
}

// Allows reports whether the transition may start from state s; parked means that the task has no due time. Conditions
// that only the database can decide (IfDue, IfExpired, IfLapsed and IfExhausted) count as met.
func (t Transition) Allows(s State, parked bool) bool {
	for _, src := range t.From {
		if src.State == s && (src.Requirement != IfParked || parked) {
			return true
		}
	}
	return false
}

// GrowsFence reports whether the fence grows when the event starts from state s: the task then gets an owner, or loses
// the one that it had.
func (t Transition) GrowsFence(s State) bool {
	return t.Fence && (t.To == Processing || s == Processing)
}

// TakesLease reports whether the event is an operator's that takes a lease away from its holder.
func (t Transition) TakesLease() bool {
	return t.Actor == Operator && t.Fence && t.Allows(Processing, true)
}

// FromStates returns the transition's source states.
func (t Transition) FromStates() []State {
	var out []State
	for _, src := range t.From {
		out = append(out, src.State)
	}
	return out
}

// Sources returns the transition's source states with their conditions, as text.
func (t Transition) Sources() []string {
	var out []string
	for _, src := range t.From {
		out = append(out, src.String())
	}
	return out
}

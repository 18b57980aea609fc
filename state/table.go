package state

// Event is what happens to a task. Its text is the name of the method, the verb of the command line and the metric label.
type Event string

// The events of a task's life, in the order of the table.
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
	// Worker asks for tasks and gets a lease.
	Worker Who = "worker"
	// Holder is a worker that presents the fence of its lease.
	Holder Who = "lease holder"
	// Operator is a person or a housekeeping job; no lease is needed.
	Operator Who = "operator"
)

// When narrows a source state: the rows of the state that the event takes.
type When string

const (
	// Always takes every row of the state.
	Always When = ""
	// IfDue takes rows whose due time has come, by the database's clock.
	IfDue When = "due"
	// IfExpired takes rows whose lease has run out, by the database's clock.
	IfExpired When = "lease ran out"
	// IfLapsed takes rows whose lease has run out before the attempt is known to have started.
	IfLapsed When = "lease ran out before the start"
	// IfSpent takes rows whose lease has run out and whose attempts are spent.
	IfSpent When = "lease ran out, attempts spent"
	// IfParked takes rows without a due time, which nothing retries by itself.
	IfParked When = "parked"
)

// Source is a state that an event may start from.
type Source struct {
	State State
	When  When
}

// Attempts says what an event does to a task's attempt counter.
type Attempts string

const (
	// Keep leaves the counter alone.
	Keep Attempts = ""
	// Count adds one: an attempt begins.
	Count Attempts = "+1"
	// Uncount takes one off: the attempt that began does not count.
	Uncount Attempts = "-1"
	// Reset starts over at 0.
	Reset Attempts = "0"
)

// Transition is one row of the table.
type Transition struct {
	Event    Event
	From     []Source
	To       State
	Who      Who
	Attempts Attempts // what happens to the attempt counter
	Fence    bool     // whether the fence grows: it does on every change of owner, never on a heartbeat
	Doc      string   // one sentence, shown by documentation, pages and failing tests
}

var table = []Transition{
	{Enqueue, []Source{{None, Always}}, Created, Anyone, Reset, false,
		"A new task waits for its due time."},
	{Checkout, []Source{{Created, IfDue}, {Error, IfDue}, {Processing, IfExpired}}, Processing, Worker, Count, true,
		"A due task, or one whose lease ran out, is leased to one worker."},
	{Checkout, []Source{{Processing, IfLapsed}}, Processing, Worker, Keep, true,
		"A task whose lease ran out before its attempt is known to have started is leased again; that attempt does not count."},
	{Extend, []Source{{Processing, Always}}, Processing, Holder, Keep, false,
		"The lease holder asks for more time: a heartbeat."},
	{Complete, []Source{{Processing, Always}}, Completed, Holder, Keep, false,
		"The work is done; a result may be kept, or the task removed in the same step."},
	{Fail, []Source{{Processing, Always}}, Error, Holder, Keep, false,
		"The attempt failed: retried by itself at its due time, or parked without one."},
	{PoisonIt, []Source{{Processing, Always}}, Poison, Holder, Keep, false,
		"The attempt failed for good, or was the last one: never handed out again by itself."},
	{PoisonIt, []Source{{Processing, IfSpent}}, Poison, Worker, Keep, true,
		"A checkout finds a lease that ran out on the last attempt."},
	{Reject, []Source{{Created, Always}}, Error, Operator, Keep, false,
		"A task is taken out before it runs, and parked."},
	{Revoke, []Source{{Processing, Always}}, Error, Operator, Keep, true,
		"The lease is taken away and the task parked; its worker learns so at its next call."},
	{Release, []Source{{Processing, Always}}, Created, Holder, Uncount, false,
		"The task is handed back, for now or for later; the attempt does not count."},
	{Reenqueue, []Source{{Error, Always}, {Poison, Always}}, Created, Operator, Reset, false,
		"A failed task is due again, and its attempts start over."},
	{Quarantine, []Source{{Error, Always}}, Poison, Operator, Keep, false,
		"A failed task is not to be retried."},
	{Restore, []Source{{Poison, Always}}, Error, Operator, Keep, false,
		"A poisoned task is parked for inspection."},
	{Purge, []Source{{Completed, Always}, {Poison, Always}, {Error, IfParked}}, None, Operator, Keep, false,
		"A finished or parked task is removed."},
}

// Transitions is a copy of the table, in its order.
func Transitions() []Transition {
	t := make([]Transition, len(table))
	for i, row := range table {
		row.From = append([]Source(nil), row.From...)
		t[i] = row
	}
	return t
}

// Find is the row of an event and who causes it, the first where there are several; ok is false when there is none.
func Find(e Event, who Who) (t Transition, ok bool) {
	for _, row := range table {
		if row.Event == e && row.Who == who {
			row.From = append([]Source(nil), row.From...)
			return row, true
		}
	}
	return Transition{}, false
}

// ByOperator lists the transitions that need no lease, for a page's buttons and the command line's verbs.
func ByOperator() []Transition {
	var out []Transition
	for _, row := range Transitions() {
		if row.Who == Operator {
			out = append(out, row)
		}
	}
	return out
}

// Allows reports whether the transition may start from a row of state s. Parked says whether the row has no due time;
// due and expired rows are the database's to tell, so IfDue, IfExpired, IfLapsed and IfSpent count as allowed.
func (t Transition) Allows(s State, parked bool) bool {
	for _, src := range t.From {
		if src.State == s && (src.When != IfParked || parked) {
			return true
		}
	}
	return false
}

// FromStates lists the transition's source states, for guards and messages.
func (t Transition) FromStates() []State {
	var out []State
	for _, src := range t.From {
		out = append(out, src.State)
	}
	return out
}

package cases

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// transitionGroup is the group of the generated cases.
const transitionGroup = "Transitions"

// errBoom is the error of this suite's failed attempts.
var errBoom = errors.New("boom")

// A situation is the state of a task before an event, and the requirements of the state table that it meets. Public
// calls alone lead to each.
type situation struct {
	name  string
	state state.State
	holds []state.Requirement // the requirements of the table's sources that are met here
	spent bool                // no attempt is left
	reach func(t *test, q *dbq.Queue, nt dbq.NewTask) uuid.UUID
}

func situations() []situation {
	// settled takes a new task and settles it.
	settled := func(settle dbq.Outcome) func(*test, *dbq.Queue, dbq.NewTask) uuid.UUID {
		return func(t *test, q *dbq.Queue, nt dbq.NewTask) uuid.UUID {
			return t.settleNew(q, nt, settle).ID
		}
	}
	leased := func(attempts int, lease time.Duration) func(*test, *dbq.Queue, dbq.NewTask) uuid.UUID {
		return func(t *test, q *dbq.Queue, nt dbq.NewTask) uuid.UUID {
			nt.MaxAttempts = attempts
			task := t.takeNew(q, nt, lease)
			if lease == short {
				t.awaitExpiry(q.Client(), task.ID)
			}
			return task.ID
		}
	}
	return []situation{
		{"absent", state.None, nil, false, settled(dbq.Deleted())},
		{"CREATED-due", state.Created, []state.Requirement{state.IfDue}, false,
			func(t *test, q *dbq.Queue, nt dbq.NewTask) uuid.UUID {
				return t.enqueue(q, nt)
			}},
		{"CREATED-future", state.Created, nil, false, func(t *test, q *dbq.Queue, nt dbq.NewTask) uuid.UUID {
			nt.Delay = long
			return t.enqueue(q, nt)
		}},
		{"PROCESSING-leased", state.Processing, nil, false, leased(0, long)},
		{"PROCESSING-last-attempt", state.Processing, nil, true, leased(1, long)},
		{"PROCESSING-expired", state.Processing, []state.Requirement{state.IfExpired}, false, leased(0, short)},
		{"PROCESSING-expired-exhausted", state.Processing, []state.Requirement{state.IfExhausted}, true, leased(1, short)},
		{"PROCESSING-lapsed", state.Processing, []state.Requirement{state.IfLapsed}, false,
			func(t *test, q *dbq.Queue, nt dbq.NewTask) uuid.UUID {
				return leased(0, short)(t, access.ForWorker(q, "w"), nt)
			}},
		{"COMPLETED", state.Completed, nil, false, settled(dbq.Completed([]byte("done")))},
		{"ERROR-due", state.Error, []state.Requirement{state.IfDue}, false, settled(dbq.RetryIn(0, errBoom))},
		{"ERROR-future", state.Error, nil, false, settled(dbq.RetryIn(long, errBoom))},
		{"ERROR-parked", state.Error, []state.Requirement{state.IfParked}, false, settled(dbq.Parked(errBoom))},
		{"POISON", state.Poison, nil, false, settled(dbq.Poisoned(errBoom))},
	}
}

func (s situation) meets(t state.Transition) bool {
	return slices.ContainsFunc(t.From, func(src state.Source) bool {
		return src.State == s.state && (src.Requirement == state.Always || slices.Contains(s.holds, src.Requirement))
	})
}

// due describes a task's due time after an event.
type due string

const (
	never  due = "no due time"
	atOnce due = "a due time that has come"
	later  due = "a due time to come"
)

// An action is one way to cause an event.
type action struct {
	name  string
	event state.Event
	actor state.Actor
	due   due
	to    func(s situation, to state.State) state.State // nil: as the table says
	do    func(t *test, q *dbq.Queue, before dbq.Task) error
}

// actions returns every way to cause the events of the state table.
func actions() []action {
	settle := func(name string, e state.Event, d due, f dbq.Outcome) action {
		return action{name: name, event: e, actor: state.Holder, due: d,
			do: func(t *test, q *dbq.Queue, before dbq.Task) error {
				out, err := q.SettleMany(t.ctx, []dbq.Settlement{settlement(leaseOn(before), f)})
				if err != nil {
					return err
				}
				return out[0].Err
			}}
	}
	remove := settle("complete-and-delete", state.Complete, never, dbq.Deleted())
	remove.to = func(situation, state.State) state.State { return state.None }
	retry := settle("fail-and-retry", state.Fail, later, dbq.RetryIn(long, errBoom))
	retry.to = func(s situation, to state.State) state.State {
		if s.spent {
			return state.Poison
		}
		return to
	}
	list := []action{
		{name: "enqueue", event: state.Enqueue, actor: state.Anyone, due: atOnce,
			do: func(t *test, q *dbq.Queue, before dbq.Task) error {
				_, err := q.Enqueue(t.ctx, dbq.NewTask{ID: before.ID})
				return err
			}},
		{name: "checkout", event: state.Checkout, actor: state.Worker, due: never}, // see checkoutFrom
		{name: "extend", event: state.Extend, actor: state.Holder, due: never,
			do: func(t *test, q *dbq.Queue, before dbq.Task) error {
				_, err := q.Extend(t.ctx, leaseOn(before), 2*long)
				return err
			}},
		settle("complete", state.Complete, never, dbq.Completed([]byte("new"))),
		remove,
		settle("fail", state.Fail, never, dbq.Parked(errBoom)),
		retry,
		settle("poison", state.PoisonEvent, never, dbq.Poisoned(errBoom)),
		settle("release", state.Release, atOnce, dbq.Released(0)),
		settle("release-for-later", state.Release, later, dbq.Released(long)),
	}
	for _, tr := range state.ByOperator() {
		a := action{name: string(tr.Event), event: tr.Event, actor: state.Operator, due: never,
			do: func(t *test, q *dbq.Queue, before dbq.Task) error {
				return admin.New(q.Client()).Operate(t.ctx, tr.Event, before.ID)
			}}
		if tr.To == state.Created {
			a.due = atOnce
		}
		list = append(list, a)
	}
	return list
}

// leaseOn returns a lease with the fence that the row has now, so that only the task's state can make a call with it
// fail.
func leaseOn(before dbq.Task) dbq.Lease {
	return dbq.Lease{TaskID: before.ID, Queue: before.Queue, Fence: before.Fence, Until: time.Now().Add(long)}
}

// transitionCases are a case for each action in each situation.
func transitionCases() []Case {
	var cases []Case
	known := map[state.Event]bool{}
	for _, a := range actions() {
		known[a.event] = true
		for _, s := range situations() {
			cases = append(cases, transitionCase(a, s))
		}
	}
	for _, tr := range state.Transitions() {
		if !known[tr.Event] { // a new event must not go untested in silence
			cases = append(cases, Case{Name: string(tr.Event), Law: tr.Doc, Once: true, run: func(t *test) {
				t.Fatalf("this suite does not know how to cause %q", tr.Event)
			}})
		}
	}
	return inGroup(transitionGroup, cases...)
}

// from returns the row of the state table that the action follows in a situation, and where it leads. allowed is false
// if there is no such row.
func (a action) from(s situation) (tr state.Transition, to state.State, allowed bool) {
	tr, ok := state.Find(a.event, a.actor)
	for _, row := range state.Transitions() { // an event may have several rows
		if row.Event == a.event && row.Actor == a.actor && s.meets(row) {
			tr = row
		}
	}
	if poisoned, _ := state.Find(state.PoisonEvent, state.Worker); a.event == state.Checkout && s.meets(poisoned) {
		tr = poisoned // the effect of a checkout on such a row
	}
	to = tr.To
	if a.to != nil {
		to = a.to(s, to)
	}
	return tr, to, ok && s.meets(tr)
}

func transitionCase(a action, s situation) Case {
	tr, to, allowed := a.from(s)
	c := Case{Name: a.name + "/" + s.name, Once: a.event != state.Checkout, SharedTables: true}
	if allowed {
		c.Law = fmt.Sprintf("From %s, %s does what the state table says: %s", s.name, a.name, tr.Doc)
	} else {
		c.Law = fmt.Sprintf("From %s, %s is refused and leaves the row unchanged.", s.name, a.name)
	}
	c.run = func(t *test) {
		q := t.open().Queue(string(t.Strategy) + " " + c.Name)
		id := s.reach(t, q, dbq.NewTask{Payload: []byte("payload"), Reference: "ref", Kind: "kind", Priority: 3})
		before, err := q.Client().Get(t.ctx, id)
		if s.state == state.None {
			t.wantErr("get of the absent task", err, dbq.ErrNotFound)
			before = dbq.Task{ID: id, Queue: q.Name(), Fence: 1, State: state.None}
		} else {
			t.must(err)
		}
		if before.State != s.state {
			t.Fatalf("the task is %v, want it in %s", before.State, s.name)
		}
		switch {
		case a.event == state.Checkout:
			err = checkoutFrom(t, before, allowed && tr.Event == state.Checkout)
		default:
			err = a.do(t, q, before)
		}
		if !allowed {
			wantRefused(t, a, before, err)
			if s.state != state.None {
				t.wantUnchanged("the refused "+a.name, q.Client(), before)
			} else {
				t.wantGone(q.Client(), id)
			}
			return
		}
		t.must(err)
		wantMoved(t, q.Client(), a, tr, to, before)
	}
	return c
}

// checkoutFrom checks out with a new client, whose first checkout looks for expired leases, and compares the tasks with
// those expected.
func checkoutFrom(t *test, before dbq.Task, want bool) error {
	tasks, err := t.open().Queue(before.Queue).Checkout(t.ctx, 10, long)
	if err != nil {
		return err
	}
	if got := len(tasks) == 1 && tasks[0].ID == before.ID; len(tasks) > 1 || got != want {
		t.Errorf("checkout returned %d tasks, want the task: %v", len(tasks), want)
	}
	for _, task := range tasks {
		if l := task.Lease; l.TaskID != task.ID || l.Queue != before.Queue || l.Fence != task.Fence {
			t.Errorf("the lease is %+v, want that of task %s with fence %d", l, task.ID, task.Fence)
		}
	}
	return nil
}

func wantRefused(t *test, a action, before dbq.Task, err error) {
	switch {
	case a.actor == state.Holder:
		t.wantErr(a.name, err, dbq.ErrLeaseLost)
	case a.actor == state.Operator && before.State == state.None:
		t.wantErr(a.name, err, dbq.ErrNotFound)
	case a.actor == state.Operator:
		t.wantErr(a.name, err, dbq.ErrWrongState)
	case a.actor == state.Anyone:
		t.wantErr(a.name, err, dbq.ErrDuplicate)
	case err != nil:
		t.Errorf("%s: got error %v, want none and no task", a.name, err)
	}
}

// wantMoved compares the row with the event's transition in the state table.
func wantMoved(t *test, c *dbq.Client, a action, tr state.Transition, to state.State, before dbq.Task) {
	if to == state.None {
		t.wantGone(c, before.ID)
		return
	}
	after := t.wantState(c, before.ID, to)
	attempt, fence := before.Attempt, before.Fence
	switch tr.Attempts {
	case state.Count:
		attempt++
	case state.Uncount:
		attempt--
	case state.Reset:
		attempt = 0
	}
	t.failIf(after.Attempt != attempt, "attempt is %d after %d, want %d", after.Attempt, before.Attempt, attempt)
	if tr.GrowsFence(before.State) {
		fence++
	}
	// the id was used before: the fence begins where it has not been
	if before.State == state.None && after.Fence > before.Fence {
		fence = after.Fence
	}
	t.failIf(after.Fence != fence, "fence is %d after %d, want %d", after.Fence, before.Fence, fence)
	wantDue(t, c, a, after)
	if leased := after.State == state.Processing; leased == after.LeaseUntil.IsZero() {
		t.Errorf("the lease of a task in %v ends at %v", after.State, after.LeaseUntil)
	} else if leased && !after.LeaseUntil.After(before.LeaseUntil) {
		t.Errorf("the lease ends at %v, want it after the old end, %v", after.LeaseUntil, before.LeaseUntil)
	}
	if tr.Event == state.Enqueue {
		return
	}
	if after.Reference != before.Reference || after.Kind != before.Kind || after.Priority != before.Priority ||
		string(after.Payload) != string(before.Payload) || after.Created != before.Created ||
		after.MaxAttempts != before.MaxAttempts {
		t.Errorf("%s changed what it should keep:\nbefore %s\nafter  %s", a.name, show(before), show(after))
	}
}

func wantDue(t *test, c *dbq.Client, a action, after dbq.Task) {
	want := a.due
	if after.State == state.Poison || after.State == state.Processing || after.State == state.Completed {
		want = never
	}
	got := never
	switch now := t.now(c); {
	case after.Due.After(now):
		got = later
	case !after.Due.IsZero():
		got = atOnce
	}
	t.failIf(got != want, "the task has %s (%v), want %s", got, after.Due, want)
	t.failIf(after.Parked() != (after.State == state.Error && want == never),
		"parked is %v for a task in %v with %s", after.Parked(), after.State, want)
}

package cases

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/conformance/internal/transcript"
	"github.com/dbq-go/dbq/internal/store"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// A faultRun is one disturbed call, with a queue of its own: all tasks in that queue are the call's.
type faultRun struct {
	queue  string
	test   *test
	direct *dbq.Client // an undisturbed client, for calls that change more than tasks
	tasks  []dbq.Task  // taken before, by an undisturbed client
	before []uuid.UUID

	// What the call answered.
	err   error
	ids   []uuid.UUID
	added []dbq.Enqueued
	got   []dbq.Task
}

// A faultCall is a call that is disturbed. None of its parts may assume where it was disturbed.
type faultCall struct {
	name    string
	prepare func(t *test, q *dbq.Queue, s *faultRun)
	call    func(ctx context.Context, q *dbq.Queue, s *faultRun) error
	// did says whether the call did its work, by what is in the queue, and what is wrong if it did half of it, did it
	// twice, or answered something else than what it did.
	did func(in []dbq.Task, s *faultRun) (bool, string)
	// after demands what must be true once the requests of the call have ended, whatever it answered; it may be nil.
	after func(t *test, direct *dbq.Client, s *faultRun)
	// once says that the call does not repeat what may have happened: when it did not happen, it may say so also when the
	// server is there.
	once bool
	// many says that the call makes many requests: each is cut either on a new connection or on an old one, and is either
	// a little late or very late.
	many bool
}

// patienceOfCall bounds a disturbed call that has no deadline of its own.
const patienceOfCall = 30 * time.Second

var subjects atomic.Int64

// callDisturbed prepares a run through direct and makes the call through the disturbed client. The server must be
// reachable again when heal returns.
func (t *test) callDisturbed(direct, disturbed *dbq.Client, f faultCall,
	when func(ctx context.Context) (context.Context, func()), heal func()) *faultRun {
	s := t.newFaultRun(direct, f)
	ctx, cancel := context.WithTimeout(store.WithoutPauses(t.ctx), patienceOfCall)
	defer cancel()
	ctx, done := when(ctx)
	s.err = f.call(ctx, disturbed.Queue(s.queue), s)
	done()
	heal()
	return s
}

// newFaultRun prepares what a call works on.
func (t *test) newFaultRun(direct *dbq.Client, f faultCall) *faultRun {
	s := &faultRun{queue: fmt.Sprintf("fault %d", subjects.Add(1)), test: t, direct: direct}
	if f.prepare != nil {
		f.prepare(t, direct.Queue(s.queue), s)
	}
	return s
}

// checkCall compares what a call reported with what is in its queue. It returns whether the call did its work.
func (t *test) checkCall(what string, direct *dbq.Client, f faultCall, s *faultRun) bool {
	did, wrong := f.did(t.list(direct, admin.Filter{Queue: s.queue}), s)
	switch {
	case wrong != "":
		t.Errorf("%s, %s: %s (it answered %v)", f.name, what, wrong, s.err)
	case s.err == nil && !did:
		t.Errorf("%s, %s: it answered that it was done, and it was not", f.name, what)
	case s.err != nil && did && !errors.Is(s.err, dbq.ErrMayHaveHappened):
		t.Errorf("%s, %s: it was done, although the error means that it was not: %v", f.name, what, s.err)
	case errors.Is(s.err, dbq.ErrMayHaveHappened) &&
		(errors.Is(s.err, dbq.ErrUnavailable) || errors.Is(s.err, dbq.ErrConflict)):
		t.Errorf("%s, %s: the error means both that it may have happened and that nothing happened: %v", f.name, what, s.err)
	case s.err != nil && !errors.Is(s.err, dbq.ErrMayHaveHappened) && !errors.Is(s.err, dbq.ErrUnavailable) &&
		!ctxEnded(s.err):
		t.Errorf("%s, %s: got error %v, want one that says that the database cannot be reached", f.name, what, s.err)
	}
	return did
}

// checkAfter demands what must be true once the requests of a call have ended.
func (t *test) checkAfter(direct *dbq.Client, f faultCall, s *faultRun) {
	if f.after != nil {
		f.after(t, direct, s)
	}
}

func ctxEnded(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// faultCalls returns the calls that change something, each kind at least once.
func faultCalls() []faultCall {
	return slices.Concat([]faultCall{
		// An enqueue whose answer is lost is not repeated: its task may be done and gone. See EnqueuedAndGone.
		{name: "Enqueue", call: callEnqueue, did: didEnqueue, once: true},
		{name: "EnqueueMany", prepare: prepareDuplicate, call: callEnqueueMany, did: didEnqueueMany, once: true},
		{name: "EnqueueUnique", prepare: prepareUnique, call: callEnqueueUnique, did: didEnqueueUnique, once: true},
		{name: "Checkout", prepare: prepareReady, call: callCheckout, did: didCheckout, after: afterCheckout, once: true},
		{name: "Complete", prepare: prepareLeased(1), did: movedState(state.Processing, state.Completed),
			call: func(ctx context.Context, q *dbq.Queue, s *faultRun) error {
				return q.Complete(ctx, s.tasks[0].Lease, []byte("done"))
			}},
		{name: "Deleted", prepare: prepareLeased(1), did: movedState(state.Processing, state.None),
			call: func(ctx context.Context, q *dbq.Queue, s *faultRun) error {
				return q.Settle(ctx, s.tasks[0].Lease, dbq.Deleted())
			}},
		{name: "Fail", prepare: prepareLeased(1), did: movedState(state.Processing, state.Error),
			call: func(ctx context.Context, q *dbq.Queue, s *faultRun) error {
				return q.Settle(ctx, s.tasks[0].Lease, dbq.RetryIn(long, errors.New("it failed")))
			}},
		{name: "Release", prepare: prepareLeased(1), did: movedState(state.Processing, state.Created),
			call: func(ctx context.Context, q *dbq.Queue, s *faultRun) error {
				return q.Settle(ctx, s.tasks[0].Lease, dbq.Released(long))
			}},
		{name: "Settle", prepare: prepareLeased(3), call: callSettle, did: didSettle},
		{name: "Extend", prepare: prepareLeased(1), call: callExtend, did: didExtend},
		{name: "Operate", prepare: prepareParked, did: movedState(state.Error, state.Created),
			call: func(ctx context.Context, q *dbq.Queue, s *faultRun) error {
				return admin.New(q.Client()).Operate(ctx, admin.Reenqueue, s.tasks[0].ID)
			}},
	}, scheduleFaults(), limitedCalls(), workflowCalls())
}

// faultCallNamed returns one of faultCalls.
func faultCallNamed(name string) faultCall {
	calls := faultCalls()
	return calls[slices.IndexFunc(calls, func(f faultCall) bool { return f.name == name })]
}

func callEnqueue(ctx context.Context, q *dbq.Queue, s *faultRun) error {
	id, err := q.Enqueue(ctx, dbq.NewTask{Payload: []byte("payload")})
	s.ids = []uuid.UUID{id}
	return err
}

func didEnqueue(in []dbq.Task, s *faultRun) (bool, string) {
	switch {
	case len(in) > 1:
		return true, fmt.Sprintf("there are %d tasks of one enqueue", len(in))
	case len(in) == 1 && s.err == nil && in[0].ID != s.ids[0]:
		return true, "the task has another id than the one that was answered"
	}
	return len(in) == 1, ""
}

// prepareDuplicate enqueues a task whose reference the call will find in use, so that the call has to find that task.
func prepareDuplicate(t *test, q *dbq.Queue, s *faultRun) {
	s.before = []uuid.UUID{t.enqueue(q, dbq.NewTask{Reference: "taken"})}
}

func callEnqueueMany(ctx context.Context, q *dbq.Queue, s *faultRun) (err error) {
	s.ids = []uuid.UUID{dbq.NewID()}
	s.added, err = q.EnqueueMany(ctx, severalTasks(s))
	return err
}

func severalTasks(s *faultRun) []dbq.NewTask {
	return []dbq.NewTask{{Reference: "a"}, {ID: s.ids[0]}, {Reference: "taken"}, {Reference: "z"}}
}

func didEnqueueMany(in []dbq.Task, s *faultRun) (bool, string) {
	if len(in) != 1 && len(in) != 4 {
		return true, fmt.Sprintf("of 3 new tasks %d are there", len(in)-1)
	}
	if s.err != nil {
		return len(in) == 4, ""
	}
	for i, a := range s.added {
		taken := i == 2
		switch {
		case a.Duplicate != taken:
			return true, fmt.Sprintf("task %d: answered that it was a duplicate: %v, want %v", i, a.Duplicate, taken)
		case taken && a.ID != s.before[0]:
			return true, fmt.Sprintf("answered id %s for the duplicate of %s", a.ID, s.before[0])
		case !slices.Contains(idsOf(in), a.ID):
			return true, fmt.Sprintf("answered an id, %s, that is not there", a.ID)
		}
	}
	return len(in) == 4, ""
}

// prepareReady enqueues enough tasks for a second try while the rows of the first one are still locked.
func prepareReady(t *test, q *dbq.Queue, _ *faultRun) { t.enqueueMany(q, 5, nil) }

func callCheckout(ctx context.Context, q *dbq.Queue, s *faultRun) (err error) {
	s.got, err = q.Checkout(ctx, 2, long)
	return err
}

func didCheckout(in []dbq.Task, s *faultRun) (bool, string) {
	held := map[uuid.UUID]int64{}
	for _, task := range in {
		if task.State == state.Processing {
			held[task.ID] = task.Fence
		}
		if want := len(held); task.State != state.Processing && task.Attempt != 0 {
			return want > 0, fmt.Sprintf("task %s counts attempt %d, though nobody took it", task.ID, task.Attempt)
		}
	}
	if len(held) > 2 {
		return true, fmt.Sprintf("a checkout of 2 took %d", len(held))
	}
	if s.err == nil {
		for _, task := range s.got {
			if fence, ok := held[task.ID]; !ok || fence != task.Lease.Fence {
				return true, fmt.Sprintf("task %s was returned under fence %d, and is not held under it", task.ID, task.Lease.Fence)
			}
		}
		if len(s.got) != len(held) {
			return true, fmt.Sprintf("%d tasks are held, and %d were returned", len(held), len(s.got))
		}
		if len(held) == 0 { // it may be fewer than 2: rows that a request still under way has locked are passed by
			return true, "a checkout of 2 took none of 5"
		}
		return true, ""
	}
	return len(held) > 0, ""
}

// afterCheckout takes what the checkout did not. Rows that it skipped, because an earlier request of its own still had
// them locked, must be free when that request has ended.
func afterCheckout(t *test, direct *dbq.Client, s *faultRun) {
	q := direct.Queue(s.queue)
	t.eventually("all tasks of "+s.queue+" are handed out, and none stays locked", func() bool {
		t.checkout(q, 5, long)
		in := t.list(direct, admin.Filter{Queue: s.queue})
		return !slices.ContainsFunc(in, func(task dbq.Task) bool { return task.State != state.Processing })
	})
	for _, task := range t.list(direct, admin.Filter{Queue: s.queue}) {
		if task.Attempt != 1 {
			t.Errorf("task %s of %s was handed out %d times, want once", task.ID, s.queue, task.Attempt)
		}
	}
}

// prepareLeased enqueues n tasks and checks them out.
func prepareLeased(n int) func(t *test, q *dbq.Queue, s *faultRun) {
	return func(t *test, q *dbq.Queue, s *faultRun) {
		t.enqueueMany(q, n, nil)
		if s.tasks = t.checkout(q, n, long); len(s.tasks) != n {
			t.Fatalf("checkout returned %d tasks, want %d", len(s.tasks), n)
		}
	}
}

func prepareParked(t *test, q *dbq.Queue, s *faultRun) {
	prepareLeased(1)(t, q, s)
	t.must(q.Settle(t.ctx, s.tasks[0].Lease, dbq.Parked(errors.New("parked"))))
}

// stateIn returns the state of a task, or state.None if it is absent.
func stateIn(in []dbq.Task, id uuid.UUID) dbq.State {
	for _, task := range in {
		if task.ID == id {
			return task.State
		}
	}
	return state.None
}

// movedState checks a call on one task that moves it from one state to another.
func movedState(from, to dbq.State) func(in []dbq.Task, s *faultRun) (bool, string) {
	return func(in []dbq.Task, s *faultRun) (bool, string) {
		is := stateIn(in, s.tasks[0].ID)
		if is != to && is != from {
			return true, fmt.Sprintf("the task is %v, want %v or %v", is, to, from)
		}
		return is == to, ""
	}
}

func callSettle(ctx context.Context, q *dbq.Queue, s *faultRun) error {
	out, err := transcript.SettleUnlocked(ctx, q, []dbq.Settlement{
		settlement(s.tasks[0].Lease, dbq.Completed(nil)), settlement(s.tasks[1].Lease, dbq.Deleted()),
		settlement(s.tasks[2].Lease, dbq.Parked(nil))})
	for _, o := range out {
		if err == nil && o.Err != nil {
			err = o.Err
		}
	}
	return err
}

func didSettle(in []dbq.Task, s *faultRun) (bool, string) {
	want := []dbq.State{state.Completed, state.None, state.Error}
	count := 0
	var now []string
	for i, task := range s.tasks {
		is := stateIn(in, task.ID)
		now = append(now, is.String())
		if is == want[i] {
			count++
		} else if is != state.Processing {
			return true, fmt.Sprintf("task %d is %v, want %v", i, is, want[i])
		}
	}
	if count != 0 && count != len(want) {
		return true, "half of it was done: the tasks are " + strings.Join(now, ", ")
	}
	return count > 0, ""
}

func callExtend(ctx context.Context, q *dbq.Queue, s *faultRun) error {
	renewed, err := q.Extend(ctx, s.tasks[0].Lease, 3*long)
	s.got = []dbq.Task{{Lease: renewed}}
	return err
}

func didExtend(in []dbq.Task, s *faultRun) (bool, string) {
	if is := stateIn(in, s.tasks[0].ID); is != state.Processing || in[0].Fence != s.tasks[0].Fence {
		return true, fmt.Sprintf("the task is %v under fence %d, want %v under %d", is, in[0].Fence, state.Processing,
			s.tasks[0].Fence)
	}
	return in[0].LeaseUntil.After(s.tasks[0].LeaseUntil.Add(long)), ""
}

package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// subject is what one disturbed call works on: a queue of its own, so that all that is in it tells what the call did.
type subject struct {
	queue  string
	tasks  []dbq.Task // taken before, by an undisturbed client
	before []uuid.UUID

	// What the call answered.
	err   error
	ids   []uuid.UUID
	added []dbq.Enqueued
	got   []dbq.Task
}

// faultCall is a call that is disturbed. None of its parts may assume where it was disturbed.
type faultCall struct {
	name    string
	prepare func(t *T, q *dbq.Queue, s *subject)
	call    func(ctx context.Context, q *dbq.Queue, s *subject) error
	// did says whether the call did its work, by what is in the queue, and what is wrong if it did half of it, did it twice,
	// or answered something else than what it did.
	did func(in []dbq.Task, s *subject) (bool, string)
	// after demands what must be true once the requests of the call have ended, whatever it answered; it may be nil.
	after func(t *T, direct *dbq.Client, s *subject)
	// once says that the call does not repeat what may have happened: when it did not happen, it may say so also when the server is there.
	once bool
}

// patienceOfCall bounds a disturbed call that has no deadline of its own to obey.
const patienceOfCall = 30 * time.Second

var subjects atomic.Int64

// disturb prepares a subject through direct, makes the call through the disturbed client, and judges what it answered by what
// direct sees afterwards. The world must be healed when heal returns.
func (t *T) disturb(direct, disturbed *dbq.Client, f faultCall, when func(ctx context.Context) (context.Context, func()), heal func()) *subject {
	s := t.subject(direct, f)
	ctx, cancel := context.WithTimeout(t.ctx, patienceOfCall)
	defer cancel()
	ctx, done := when(ctx)
	s.err = f.call(ctx, disturbed.Queue(s.queue), s)
	done()
	heal()
	return s
}

// subject prepares what a call works on.
func (t *T) subject(direct *dbq.Client, f faultCall) *subject {
	s := &subject{queue: fmt.Sprintf("fault %d", subjects.Add(1))}
	if f.prepare != nil {
		f.prepare(t, direct.Queue(s.queue), s)
	}
	return s
}

// judgeCall compares what a call answered with what is there. It returns whether the call did its work.
func (t *T) judgeCall(what string, direct *dbq.Client, f faultCall, s *subject) bool {
	did, wrong := f.did(t.list(direct, dbq.Filter{Queue: s.queue}), s)
	switch {
	case wrong != "":
		t.Errorf("%s, %s: %s (it answered %v)", f.name, what, wrong, s.err)
	case s.err == nil && !did:
		t.Errorf("%s, %s: it answered that it was done, and it was not", f.name, what)
	case s.err != nil && did && !errors.Is(s.err, dbq.ErrMayHaveHappened):
		t.Errorf("%s, %s: it was done, though the error says that it was not: %v", f.name, what, s.err)
	case errors.Is(s.err, dbq.ErrMayHaveHappened) && (errors.Is(s.err, dbq.ErrUnavailable) || errors.Is(s.err, dbq.ErrConflict)):
		t.Errorf("%s, %s: the error says that it may have happened, and that nothing happened: %v", f.name, what, s.err)
	case s.err != nil && !errors.Is(s.err, dbq.ErrMayHaveHappened) && !errors.Is(s.err, dbq.ErrUnavailable) && !ctxEnded(s.err):
		t.Errorf("%s, %s: got error %v, want one that says that the database cannot be reached", f.name, what, s.err)
	}
	return did
}

func ctxEnded(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// faultCalls are the calls that change something, each at least once.
func faultCalls() []faultCall {
	return []faultCall{
		// An enqueue whose answer is lost is not repeated: its task may be done and gone. See EnqueuedAndGone.
		{name: "Enqueue", call: callEnqueue, did: didEnqueue, once: true},
		{name: "EnqueueMany", prepare: prepareDuplicate, call: callEnqueueMany, did: didEnqueueMany, once: true},
		{name: "Checkout", prepare: prepareReady, call: callCheckout, did: didCheckout, after: afterCheckout, once: true},
		{name: "Complete", prepare: prepareHeld(1), did: moved(state.Processing, state.Completed),
			call: func(ctx context.Context, q *dbq.Queue, s *subject) error {
				return q.Complete(ctx, s.tasks[0].Lease, []byte("done"))
			}},
		{name: "CompleteAndDelete", prepare: prepareHeld(1), did: moved(state.Processing, state.None),
			call: func(ctx context.Context, q *dbq.Queue, s *subject) error {
				return q.CompleteAndDelete(ctx, s.tasks[0].Lease)
			}},
		{name: "Fail", prepare: prepareHeld(1), did: moved(state.Processing, state.Error),
			call: func(ctx context.Context, q *dbq.Queue, s *subject) error {
				return q.Fail(ctx, s.tasks[0].Lease, dbq.RetryIn(long), errors.New("it failed"))
			}},
		{name: "Release", prepare: prepareHeld(1), did: moved(state.Processing, state.Created),
			call: func(ctx context.Context, q *dbq.Queue, s *subject) error {
				return q.Release(ctx, s.tasks[0].Lease, long)
			}},
		{name: "Settle", prepare: prepareHeld(3), call: callSettle, did: didSettle},
		{name: "Extend", prepare: prepareHeld(1), call: callExtend, did: didExtend},
		{name: "Operate", prepare: prepareParked, did: moved(state.Error, state.Created),
			call: func(ctx context.Context, q *dbq.Queue, s *subject) error {
				return q.Client().Reenqueue(ctx, s.tasks[0].ID)
			}},
	}
}

// faultCallNamed is one of them.
func faultCallNamed(name string) faultCall {
	calls := faultCalls()
	return calls[slices.IndexFunc(calls, func(f faultCall) bool { return f.name == name })]
}

func callEnqueue(ctx context.Context, q *dbq.Queue, s *subject) error {
	id, err := q.Enqueue(ctx, dbq.NewTask{Payload: []byte("payload")})
	s.ids = []uuid.UUID{id}
	return err
}

func didEnqueue(in []dbq.Task, s *subject) (bool, string) {
	switch {
	case len(in) > 1:
		return true, fmt.Sprintf("there are %d tasks of one enqueue", len(in))
	case len(in) == 1 && s.err == nil && in[0].ID != s.ids[0]:
		return true, "the task has another id than the one that was answered"
	}
	return len(in) == 1, ""
}

// prepareDuplicate puts in a task whose reference the call will find taken, so that it needs to look for it.
func prepareDuplicate(t *T, q *dbq.Queue, s *subject) {
	s.before = []uuid.UUID{t.enqueue(q, dbq.NewTask{Reference: "taken"})}
}

func callEnqueueMany(ctx context.Context, q *dbq.Queue, s *subject) (err error) {
	s.ids = []uuid.UUID{dbq.NewID()}
	s.added, err = q.EnqueueMany(ctx, severalTasks(s))
	return err
}

func severalTasks(s *subject) []dbq.NewTask {
	return []dbq.NewTask{{Reference: "a"}, {ID: s.ids[0]}, {Reference: "taken"}, {Reference: "z"}}
}

// repeatEnqueue repeats an enqueue that may have happened, as the documentation says, through a client that is not disturbed: then each
// task is there once.
func (t *T) repeatEnqueue(what string, direct *dbq.Client, f faultCall, s *subject) {
	q, want := direct.Queue(s.queue), 1
	var err error
	if f.name == "Enqueue" {
		var e *dbq.Error
		if !errors.As(s.err, &e) || e.Task == uuid.Nil {
			t.Errorf("%s, %s: the error does not have the id to repeat it with: %v", f.name, what, s.err)
			return
		}
		if _, err = q.Enqueue(t.ctx, dbq.NewTask{ID: e.Task, Payload: []byte("payload")}); errors.Is(err, dbq.ErrDuplicate) {
			err = nil
		}
	} else {
		want = 4
		_, err = q.EnqueueMany(t.ctx, severalTasks(s))
	}
	if n := t.count(direct, s.queue); err != nil || n != want {
		t.Errorf("%s, %s: repeated, it made %d tasks with error %v, want %d", f.name, what, n, err, want)
	}
}

func didEnqueueMany(in []dbq.Task, s *subject) (bool, string) {
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

// prepareReady makes enough for a second try where the first one, cut off, still has its rows locked.
func prepareReady(t *T, q *dbq.Queue, _ *subject) { t.enqueueMany(q, 5, nil) }

func callCheckout(ctx context.Context, q *dbq.Queue, s *subject) (err error) {
	s.got, err = q.Checkout(ctx, 2, long)
	return err
}

func didCheckout(in []dbq.Task, s *subject) (bool, string) {
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

// afterCheckout takes what the checkout did not: rows that it passed by, as a request of its own that was given up had locked them, are
// free when that request has ended.
func afterCheckout(t *T, direct *dbq.Client, s *subject) {
	q := direct.Queue(s.queue)
	t.eventually("all tasks of "+s.queue+" are handed out, and none stays locked", func() bool {
		t.checkout(q, 5, long)
		in := t.list(direct, dbq.Filter{Queue: s.queue})
		return !slices.ContainsFunc(in, func(task dbq.Task) bool { return task.State != state.Processing })
	})
	for _, task := range t.list(direct, dbq.Filter{Queue: s.queue}) {
		if task.Attempt != 1 {
			t.Errorf("task %s of %s was handed out %d times, want once", task.ID, s.queue, task.Attempt)
		}
	}
}

func prepareHeld(n int) func(t *T, q *dbq.Queue, s *subject) {
	return func(t *T, q *dbq.Queue, s *subject) {
		t.enqueueMany(q, n, nil)
		if s.tasks = t.checkout(q, n, long); len(s.tasks) != n {
			t.Fatalf("checkout returned %d tasks, want %d", len(s.tasks), n)
		}
	}
}

func prepareParked(t *T, q *dbq.Queue, s *subject) {
	prepareHeld(1)(t, q, s)
	t.Must(q.Fail(t.ctx, s.tasks[0].Lease, dbq.Park, errors.New("parked")))
}

// where names the state of a task, or its absence.
func where(in []dbq.Task, id uuid.UUID) dbq.State {
	for _, task := range in {
		if task.ID == id {
			return task.State
		}
	}
	return state.None
}

// moved judges a call on one task that was to bring it from one state to another.
func moved(from, to dbq.State) func(in []dbq.Task, s *subject) (bool, string) {
	return func(in []dbq.Task, s *subject) (bool, string) {
		is := where(in, s.tasks[0].ID)
		if is != to && is != from {
			return true, fmt.Sprintf("the task is %v, want %v or %v", is, to, from)
		}
		return is == to, ""
	}
}

func callSettle(ctx context.Context, q *dbq.Queue, s *subject) error {
	out, err := settleEach(ctx, q, []dbq.Settlement{
		dbq.Completed(s.tasks[0].Lease, nil), dbq.CompletedAndDeleted(s.tasks[1].Lease), dbq.Failed(s.tasks[2].Lease, dbq.Park, nil)})
	for _, o := range out {
		if err == nil && o.Err != nil {
			err = o.Err
		}
	}
	return err
}

func didSettle(in []dbq.Task, s *subject) (bool, string) {
	want := []dbq.State{state.Completed, state.None, state.Error}
	count := 0
	var now []string
	for i, task := range s.tasks {
		is := where(in, task.ID)
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

func callExtend(ctx context.Context, q *dbq.Queue, s *subject) error {
	renewed, err := q.Extend(ctx, s.tasks[0].Lease, 3*long)
	s.got = []dbq.Task{{Lease: renewed}}
	return err
}

func didExtend(in []dbq.Task, s *subject) (bool, string) {
	if is := where(in, s.tasks[0].ID); is != state.Processing || in[0].Fence != s.tasks[0].Fence {
		return true, fmt.Sprintf("the task is %v under fence %d, want %v under %d", is, in[0].Fence, state.Processing, s.tasks[0].Fence)
	}
	return in[0].LeaseUntil.After(s.tasks[0].LeaseUntil.Add(long)), ""
}

package cases

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/conformance/internal/proxy"
	"github.com/dbq-go/dbq/conformance/internal/transcript"
	"github.com/dbq-go/dbq/internal/store"
	"github.com/dbq-go/dbq/state"
	"github.com/dbq-go/dbq/workflow"
	"github.com/google/uuid"
)

// A faultRun is one disturbed call, with a queue of its own: all tasks in that queue are the call's.
type faultRun struct {
	queue  string
	test   *test
	direct *dbq.Client // an undisturbed client, for calls that change more than tasks
	tasks  []dbq.Task  // taken before, by an undisturbed client
	before []uuid.UUID

	fired bool // the proxy's rule was applied

	// What the call returned.
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
	// did reports from the content of the queue whether the call did its work. It also returns an error if the call did
	// half of it, did it twice, or returned something else than it did.
	did func(in []dbq.Task, s *faultRun) (bool, string)
	// after checks the conditions that must be true once the requests of the call have ended, whatever it returned; it
	// may be nil.
	after func(t *test, direct *dbq.Client, s *faultRun)
	// once means that the call does not repeat an effect that may have happened. If it did not happen, the call may
	// report so even if the server is there.
	once bool
	// many means that the call makes many requests: each is cut either on a new connection or on an old one, and is
	// either a little late or very late.
	many bool
}

// patienceOfCall bounds a disturbed call that has no deadline of its own.
const patienceOfCall = 30 * time.Second

var subjects atomic.Int64

// ownQueue returns a queue that nothing else in the case uses.
func ownQueue(c *dbq.Client) *dbq.Queue { return c.Queue(fmt.Sprintf("fault %d", subjects.Add(1))) }

// A disturbance begins when a call does, and may end the call's context. The server is reachable again when the
// returned function, which runs after the call, has returned.
type disturbance func(ctx context.Context, s *faultRun) (context.Context, func())

// callDisturbed prepares a run through direct and makes the call through the disturbed client.
func (t *test) callDisturbed(direct, disturbed *dbq.Client, f faultCall, disturb disturbance) *faultRun {
	s := t.newFaultRun(direct, f)
	ctx, cancel := context.WithTimeout(store.WithoutPauses(t.ctx), patienceOfCall)
	defer cancel()
	ctx, done := disturb(ctx, s)
	s.err = f.call(ctx, disturbed.Queue(s.queue), s)
	done()
	return s
}

// callUndisturbed makes the call through c without a fault.
func (t *test) callUndisturbed(direct, c *dbq.Client, f faultCall) {
	t.checkCall("undisturbed", direct, f, t.callDisturbed(direct, c, f, undisturbed))
}

// newFaultRun prepares the tasks that a call works on.
func (t *test) newFaultRun(direct *dbq.Client, f faultCall) *faultRun {
	s := &faultRun{queue: ownQueue(direct).Name(), test: t, direct: direct}
	if f.prepare != nil {
		f.prepare(t, direct.Queue(s.queue), s)
	}
	return s
}

// checkCall compares the result of a call with the content of its queue. It reports whether the call did its work.
func (t *test) checkCall(what string, direct *dbq.Client, f faultCall, s *faultRun) bool {
	did, wrong := f.did(t.list(direct, admin.Filter{Queue: s.queue}), s)
	switch {
	case wrong != "":
		t.Errorf("%s, %s: %s (it returned %v)", f.name, what, wrong, s.err)
	case s.err == nil && !did:
		t.Errorf("%s, %s: it reported that it was done, and it was not", f.name, what)
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

// checkAfter checks the conditions that must be true once the requests of a call have ended.
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
	settle := func(name string, o dbq.Outcome, to dbq.State) faultCall {
		return faultCall{name: name, prepare: prepareLeased(1), did: movedState(state.Processing, to),
			call: func(ctx context.Context, q *dbq.Queue, s *faultRun) error { return q.Settle(ctx, s.tasks[0].Lease, o) }}
	}
	return slices.Concat([]faultCall{
		// An enqueue whose answer is lost is not repeated: its task may be done and gone. See EnqueuedAndGone.
		{name: "Enqueue", call: callEnqueue, did: didEnqueue, once: true},
		{name: "EnqueueMany", prepare: prepareDuplicate, call: callEnqueueMany, did: didEnqueueMany, once: true},
		{name: "EnqueueUnique", prepare: prepareUnique, call: callEnqueueUnique, did: didEnqueueUnique, once: true},
		{name: "Checkout", prepare: prepareReady, call: callCheckout, did: didCheckout, after: afterCheckout, once: true},
		settle("Complete", dbq.Completed([]byte("done")), state.Completed),
		settle("Deleted", dbq.Deleted(), state.None),
		settle("Fail", dbq.RetryIn(long, errBoom), state.Error),
		settle("Release", dbq.Released(long), state.Created),
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
		return true, "the task has another id than the one that was returned"
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
			return true, fmt.Sprintf("task %d: reported as a duplicate: %v, want %v", i, a.Duplicate, taken)
		case taken && a.ID != s.before[0]:
			return true, fmt.Sprintf("returned id %s for the duplicate of %s", a.ID, s.before[0])
		case !slices.Contains(idsOf(in), a.ID):
			return true, fmt.Sprintf("returned an id, %s, that is not there", a.ID)
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
			return want > 0, fmt.Sprintf("task %s counts attempt %d, though no worker took it", task.ID, task.Attempt)
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

// afterCheckout takes the tasks that the checkout left. Rows that it skipped, because an earlier request of its own
// still had them locked, must be free when that request has ended.
func afterCheckout(t *test, direct *dbq.Client, s *faultRun) {
	q := direct.Queue(s.queue)
	t.eventually("all tasks of "+s.queue+" are handed out, and none stays locked", func() bool {
		t.checkout(q, 5, long)
		in := t.list(direct, admin.Filter{Queue: s.queue})
		return !slices.ContainsFunc(in, func(task dbq.Task) bool { return task.State != state.Processing })
	})
	for _, task := range t.list(direct, admin.Filter{Queue: s.queue}) {
		t.failIf(task.Attempt != 1, "task %s of %s was handed out %d times, want once", task.ID, s.queue, task.Attempt)
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

// prepareUnique enqueues a task that the call replaces.
func prepareUnique(t *test, q *dbq.Queue, s *faultRun) {
	s.before = []uuid.UUID{t.enqueue(q, dbq.NewTask{Delay: long, Priority: 1, Unique: replacing("waits")})}
}

func callEnqueueUnique(ctx context.Context, q *dbq.Queue, s *faultRun) (err error) {
	s.added, err = q.EnqueueMany(ctx, []dbq.NewTask{
		{Delay: long, Priority: 2, Unique: pending("new")},
		{Delay: long, Priority: 2, Unique: replacing("waits")},
	})
	return err
}

func didEnqueueUnique(in []dbq.Task, s *faultRun) (bool, string) {
	added, replaced := 0, false
	for _, task := range in {
		switch {
		case task.ID != s.before[0]:
			added++
			if s.err == nil && s.added[0] != (dbq.Enqueued{ID: task.ID}) {
				return true, fmt.Sprintf("it returned %+v for the new task %s", s.added[0], task.ID)
			}
		case task.Priority == 2:
			replaced = true
			if s.err == nil && s.added[1] != (dbq.Enqueued{ID: task.ID, Replaced: true}) {
				return true, fmt.Sprintf("it returned %+v for the replaced task %s", s.added[1], task.ID)
			}
		}
	}
	switch {
	case added > 1:
		return true, fmt.Sprintf("it added %d tasks with one key", added)
	case (added == 1) != replaced:
		return true, fmt.Sprintf("it did half of its work: added %d, replaced %v", added, replaced)
	}
	return replaced, ""
}

// cutBeforeReplace cuts the connection before each request of an enqueue that adds nothing in turn. Nothing in the
// database proves that a replacement was not committed, or that it was.
func cutBeforeReplace(t *test) {
	p, dsn := t.throughProxy()
	direct := t.open()
	t.eachRequest("the enqueue", proxy.Rule{}, func(r proxy.Rule) bool {
		q := ownQueue(direct)
		id := t.enqueue(q, dbq.NewTask{Delay: long, Priority: 1, Unique: replacing("waits")})
		c := t.oneConnection(dsn)
		var err error
		fired := t.callUnder(p, r, c, func(ctx context.Context) {
			_, err = c.Queue(q.Name()).Enqueue(ctx, dbq.NewTask{Delay: long, Priority: 2, Unique: replacing("waits")})
		}, nil)
		switch replaced := t.get(direct, id).Priority == 2; {
		case err == nil && !replaced:
			t.Errorf("cut at %v, it reported that it replaced the task, and it did not", r)
		case err != nil && replaced && !errors.Is(err, dbq.ErrMayHaveHappened):
			t.Errorf("cut at %v, it replaced the task, and returned %v", r, err)
		}
		return fired
	})
}

// limitedCalls are checkouts of queues with limits.
func limitedCalls() []faultCall {
	return []faultCall{
		limitedCall("CheckoutLimited", admin.QueueLimits{Concurrency: 4, KeyConcurrency: 2,
			Rate:    admin.Rate{Starts: 1, Per: long, Burst: 5},
			KeyRate: admin.Rate{Starts: 1, Per: long, Burst: 3}}),
		limitedCall("CheckoutOrdered", admin.QueueLimits{Concurrency: 2, Order: admin.OrderBlock}),
	}
}

// limitedKeys are the keys of the tasks, in the order in which they are enqueued.
const limitedKeys = "aabacaba"

// limitedCall is a checkout that reads the limits of the queue, followed by one that requests more than they allow.
func limitedCall(name string, l admin.QueueLimits) faultCall {
	return faultCall{name: name, once: true, many: true,
		prepare: func(t *test, q *dbq.Queue, _ *faultRun) {
			t.limit(q.Client(), q.Name(), l)
			t.enqueueMany(q, len(limitedKeys), func(i int, nt *dbq.NewTask) { nt.Key = limitedKeys[i : i+1] })
		},
		call: func(ctx context.Context, q *dbq.Queue, s *faultRun) error {
			for _, n := range []int{1, len(limitedKeys)} {
				got, err := q.Checkout(ctx, n, long)
				if err != nil {
					return err
				}
				s.got = append(s.got, got...)
			}
			return nil
		},
		did:   func(in []dbq.Task, s *faultRun) (bool, string) { return didCheckoutLimited(l, in, s) },
		after: func(t *test, direct *dbq.Client, s *faultRun) { afterLimited(t, l, direct.Queue(s.queue), s) },
	}
}

func didCheckoutLimited(l admin.QueueLimits, in []dbq.Task, s *faultRun) (bool, string) {
	leased := map[uuid.UUID]int64{}
	for _, task := range in {
		if task.State == state.Processing {
			leased[task.ID] = task.Fence
		}
	}
	n := len(leased)
	if wrong := brokenLimit(l, in); wrong != "" {
		return n > 0, wrong
	}
	for _, task := range s.got {
		if fence, ok := leased[task.ID]; !ok || fence != task.Lease.Fence {
			return true, fmt.Sprintf("task %s was returned under fence %d, and is not leased under it", task.ID,
				task.Lease.Fence)
		}
		delete(leased, task.ID)
	}
	switch more := startable(l, in); {
	case s.err == nil && len(leased) > 0:
		return true, fmt.Sprintf("%d tasks are leased, and %d were returned", n, len(s.got))
	case s.err == nil && more > 0:
		return true, fmt.Sprintf("%d tasks were returned, and the limits allow %d more", len(s.got), more)
	case s.err == nil:
		return true, ""
	}
	return len(leased) > 0, ""
}

// afterLimited uses up the rest of the limits, which must be exactly the part that the call has not used, and drains
// the queue within them.
func afterLimited(t *test, l admin.QueueLimits, q *dbq.Queue, s *faultRun) {
	tasks := func(when string) []dbq.Task {
		in := t.list(q.Client(), admin.Filter{Queue: s.queue})
		if wrong := brokenLimit(l, in); wrong != "" {
			t.Fatalf("%s, %s (the call returned %v)", when, wrong, s.err)
		}
		return in
	}
	fill := func(when string) (leased []dbq.Task) {
		var in []dbq.Task
		t.eventually(fmt.Sprintf("%s, what the limits of %s allow starts (the call returned %v)", when, s.queue, s.err),
			func() bool { // its last request may still be under way
				t.checkout(q, len(limitedKeys), long)
				in = tasks(when)
				return startable(l, in) == 0
			})
		return slices.DeleteFunc(in, func(task dbq.Task) bool { return task.State != state.Processing })
	}
	complete := func(leased []dbq.Task) {
		var ss []dbq.Settlement
		for _, task := range leased { // also those whose lease was not returned, since its answer was lost
			ss = append(ss, settlement(dbq.Lease{TaskID: task.ID, Queue: s.queue, Fence: task.Fence}, dbq.Completed(nil)))
		}
		t.settleAll(q, ss)
	}
	complete(fill("after the call"))
	if l.Rate.Burst > 0 {
		fill("after the leased tasks")
		l.Rate = admin.Rate{}
		t.limit(q.Client(), s.queue, l)
		complete(fill("without the rate"))
		l.KeyRate = admin.Rate{}
		t.limit(q.Client(), s.queue, l)
	}
	for range limitedKeys {
		if leased := fill("at last"); len(leased) > 0 {
			complete(leased)
			continue
		}
		break
	}
	for _, task := range tasks("at the end") {
		t.failIf(task.State != state.Completed || task.Attempt != 1,
			"task %s of %s is %v after %d attempts, want it COMPLETED after one", task.ID, s.queue, task.State, task.Attempt)
	}
}

// limitUse is the use of the limits of a queue or a key by tasks. Each attempt is one start.
type limitUse struct {
	leased, starts, waiting int
}

// limitsUsed returns the use of the limits of the queue by tasks, and by key. All waiting tasks must be due.
func limitsUsed(in []dbq.Task) (all limitUse, keys map[string]*limitUse) {
	keys = map[string]*limitUse{}
	for _, task := range in {
		u := keys[task.Key]
		if u == nil {
			u = &limitUse{}
			keys[task.Key] = u
		}
		for _, u := range []*limitUse{&all, u} {
			u.starts += task.Attempt
			switch task.State {
			case state.Processing:
				u.leased++
			case state.Created:
				u.waiting++
			}
		}
	}
	return all, keys
}

// brokenLimit returns the limit that tasks break, if any.
func brokenLimit(l admin.QueueLimits, in []dbq.Task) string {
	over := func(n, most int) bool { return most > 0 && n > most }
	if l.Order != admin.OrderNone {
		l.KeyConcurrency = 1
	}
	all, keys := limitsUsed(in)
	switch {
	case over(all.leased, l.Concurrency):
		return fmt.Sprintf("%d tasks are leased, the limit is %d", all.leased, l.Concurrency)
	case over(all.starts, l.Rate.Burst):
		return fmt.Sprintf("%d tasks have started, the rate allows %d", all.starts, l.Rate.Burst)
	}
	for key, u := range keys {
		switch {
		case over(u.leased, l.KeyConcurrency):
			return fmt.Sprintf("%d tasks of key %q are leased, the limit is %d", u.leased, key, l.KeyConcurrency)
		case over(u.starts, l.KeyRate.Burst):
			return fmt.Sprintf("%d tasks of key %q have started, the rate allows %d", u.starts, key, l.KeyRate.Burst)
		}
	}
	if l.Order == admin.OrderNone {
		return ""
	}
	for _, task := range in {
		for _, earlier := range in {
			if task.Key == earlier.Key && bytes.Compare(earlier.ID[:], task.ID[:]) < 0 && task.Attempt > 0 &&
				earlier.State != state.Completed {
				return fmt.Sprintf("task %s of key %q has started, and task %s before it is %v", task.ID, task.Key, earlier.ID,
					earlier.State)
			}
		}
	}
	return ""
}

// startable is how many tasks the limits allow to start now. Each waiting task must be due.
func startable(l admin.QueueLimits, in []dbq.Task) (n int) {
	if l.Order != admin.OrderNone {
		l.KeyConcurrency = 1
	}
	left := func(n, most, used int) int {
		if most == 0 {
			return n
		}
		return max(0, min(n, most-used))
	}
	all, keys := limitsUsed(in)
	for _, u := range keys {
		n += left(left(u.waiting, l.KeyConcurrency, u.leased), l.KeyRate.Burst, u.starts)
	}
	return left(left(n, l.Concurrency, all.leased), l.Rate.Burst, all.starts)
}

// workflowCalls are the enqueue of a workflow, and an operator's end of a leased task that another one needs.
func workflowCalls() []faultCall {
	return []faultCall{
		{name: "EnqueueWorkflow", call: callEnqueueWorkflow, did: didEnqueueWorkflow, after: afterEnqueueWorkflow,
			once: true},
		{name: "Cancel", prepare: prepareStep, did: didCancel, after: afterCancel,
			call: func(ctx context.Context, q *dbq.Queue, s *faultRun) error {
				return admin.New(q.Client()).Operate(ctx, admin.Cancel, s.tasks[0].ID)
			}},
	}
}

// fourSteps are a workflow whose first step has a reference.
func fourSteps(q *dbq.Queue) []workflow.Step {
	ss := stepsOf(q, []string{"a"}, []string{"b", "a"}, []string{"c", "a"}, []string{"d", "b", "c"})
	ss[0].Task.Reference = "first"
	return ss
}

func callEnqueueWorkflow(ctx context.Context, q *dbq.Queue, s *faultRun) error {
	w, err := workflow.Enqueue(ctx, q.Client(), fourSteps(q))
	s.ids = w.TaskIDs
	return err
}

func didEnqueueWorkflow(in []dbq.Task, s *faultRun) (bool, string) {
	if len(in) != 0 && len(in) != 4 {
		return true, fmt.Sprintf("of 4 steps %d are there", len(in))
	}
	if s.err == nil {
		for _, task := range in {
			if !slices.Contains(s.ids, task.ID) {
				return true, fmt.Sprintf("it returned the ids %v, and task %s is there", s.ids, task.ID)
			}
		}
	}
	return len(in) > 0, ""
}

// afterEnqueueWorkflow makes the enqueue again, which must add the workflow or find all of it there, and runs its
// steps.
func afterEnqueueWorkflow(t *test, direct *dbq.Client, s *faultRun) {
	q := direct.Queue(s.queue)
	_, err := workflow.Enqueue(t.ctx, direct, fourSteps(q))
	if e := (*dbq.Error)(nil); errors.Is(err, dbq.ErrDuplicate) && errors.As(err, &e) {
		id, _, err := workflow.Of(t.ctx, direct, e.TaskID)
		t.must(err)
		info := must(workflow.Get(t.ctx, direct, id, workflow.MaxSteps))
		if len(info.Steps) != 4 || len(info.Needs) != 4 {
			t.Fatalf("%s: the workflow has %d steps and %d needs, want 4 of each", s.queue, len(info.Steps), len(info.Needs))
		}
	} else if err != nil {
		t.Fatalf("%s: the workflow cannot be enqueued again: %v (the call returned %v)", s.queue, err, s.err)
	}
	for _, n := range []int{1, 2, 1} {
		t.endAll(q, t.takeN(q, n, long), dbq.Completed(nil))
	}
	in := t.list(direct, admin.Filter{Queue: s.queue, States: []dbq.State{dbq.StateCompleted}})
	if all := t.count(direct, s.queue); len(in) != 4 || all != 4 {
		t.Errorf("%s: %d of %d tasks are COMPLETED, want 4 of 4", s.queue, len(in), all)
	}
}

// prepareStep enqueues a workflow of two steps, and leases the first.
func prepareStep(t *test, q *dbq.Queue, s *faultRun) {
	t.enqueueSteps(q.Client(), stepsOf(q, []string{"a"}, []string{"b", "a"}))
	s.tasks = []dbq.Task{t.take(q, long)}
}

// second returns the task that needs the first.
func second(in []dbq.Task, s *faultRun) dbq.Task {
	return in[slices.IndexFunc(in, func(task dbq.Task) bool { return task.ID != s.tasks[0].ID })]
}

func didCancel(in []dbq.Task, s *faultRun) (bool, string) {
	did, wrong := movedState(state.Processing, state.Poison)(in, s)
	if b := second(in, s); wrong == "" && b.State != state.Created && (!did || b.State != state.Poison) {
		wrong = fmt.Sprintf("what needs the task is %v; was it cancelled: %v", b.State, did)
	}
	return did, wrong
}

// afterCancel wants the step that needs the task to be cancelled with it, or to run after it.
func afterCancel(t *test, direct *dbq.Client, s *faultRun) {
	q, id := direct.Queue(s.queue), s.tasks[0].ID
	outcome := dbq.AttemptCancelled
	if err := q.Complete(t.ctx, s.tasks[0].Lease, nil); !errors.Is(err, dbq.ErrLeaseLost) {
		outcome = dbq.AttemptCompleted
		t.must(err)
		t.must(q.Complete(t.ctx, t.takeN(q, 1, long)[0].Lease, nil))
	} else {
		t.eventually(s.queue+": what needs the cancelled task is cancelled", func() bool {
			t.must(workflow.Resume(t.ctx, direct))
			b := second(t.list(direct, admin.Filter{Queue: s.queue}), s)
			return b.State == state.Poison && b.Cancelled
		})
	}
	as := t.attemptsOf(direct, id)
	t.failIf(len(as) != 1 || as[0].Outcome != outcome,
		"%s: the attempts of the task are %+v, want one that was %v", s.queue, as, outcome)
}

// throughProxy starts a proxy in front of the server of this case's DSN, or of the node that takes writes, and returns
// the DSN that leads through it.
func (t *test) throughProxy() (*proxy.Proxy, string) {
	dsn := t.DSN
	if t.Cluster != nil {
		dsn = t.nodeDSN(t.writer(0))
	}
	u, err := url.Parse(dsn)
	if err != nil || u.Host == "" {
		t.Skipf("the DSN names no host, so there is no network connection to cut")
	}
	if u.Port() == "" {
		t.Skipf("the DSN names no port, so the suite cannot put itself between client and server")
	}
	own, _, _ := strings.Cut(u.Host, ",") // of several nodes, the first is the one whose DSN this is
	p := must(proxy.New(own))
	t.Cleanup(p.Close)
	u.Host = p.Addr()
	return p, u.String()
}

// oneConnection opens a client whose requests come one after the other: it has one connection, and one for transactions
// that the case begins.
func (t *test) oneConnection(dsn string) *dbq.Client {
	u := must(url.Parse(dsn))
	q := u.Query()
	q.Set("pool_max_conns", "1")
	u.RawQuery = q.Encode()
	c, err := dbq.Open(t.ctx, u.String(), t.options(dbq.WithMigrate())...)
	if errors.Is(err, dbq.ErrDSN) { // a dialect that does not know the parameter
		c = t.openDSN(dsn)
		c.DB().SetMaxOpenConns(1)
		return c
	}
	t.must(err)
	return t.register(c)
}

// callUnder makes a call through c while a rule is set, and closes c. meanwhile runs beside the call, and the proxy
// heals when it returns; if it is nil, the proxy heals when the call has returned. callUnder reports whether the rule
// was applied.
func (t *test) callUnder(p *proxy.Proxy, r proxy.Rule, c *dbq.Client, call func(ctx context.Context),
	meanwhile func(returned <-chan struct{})) bool {
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.ctx, patienceOfCall)
	defer cancel()
	p.Set(r)
	if meanwhile == nil {
		call(ctx)
		return p.Heal()
	}
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		call(ctx)
	}()
	meanwhile(returned)
	fired := p.Heal()
	<-returned
	return fired
}

// awaitFault waits until the rule was applied or the call has returned, which it reports.
func (t *test) awaitFault(p *proxy.Proxy, returned <-chan struct{}) (gone bool) {
	t.eventually("the connection is cut, or the call returns", func() bool {
		select {
		case <-returned:
			gone = true
		default:
		}
		return gone || p.Fired()
	})
	return gone
}

// undisturbed is for calls without a fault.
func undisturbed(ctx context.Context, _ *faultRun) (context.Context, func()) { return ctx, func() {} }

// arm sets a rule when the call begins.
func arm(p *proxy.Proxy, r proxy.Rule) disturbance {
	return func(ctx context.Context, s *faultRun) (context.Context, func()) {
		p.Set(r)
		return ctx, func() { s.fired = p.Heal() }
	}
}

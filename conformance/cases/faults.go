package cases

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/conformance/internal/proxy"
	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/dbq-go/dbq/state"
	"github.com/dbq-go/dbq/worker"
	"github.com/google/uuid"
)

// faultCases cut, stall and cancel calls at the worst moments. Another client, which is not disturbed, checks the
// result of the call.
func faultCases() []Case {
	var out []Case
	for _, f := range faultCalls() {
		once := !strings.HasPrefix(f.name, "Checkout")
		out = append(out,
			Case{Name: "CutBefore" + f.name, Once: once, run: func(t *test) { t.cutRequests(f, false) },
				Law: "When the connection is lost before a request reaches the server, " + f.name + " repeats the request, " +
					"or reports truthfully that nothing happened or that it may have happened."},
			Case{Name: "AnswerLostTo" + f.name, Once: once, run: func(t *test) { t.cutRequests(f, true) },
				Law: "When the answer to a request is lost, " + f.name + " finds out that the change was made, or reports that " +
					"it may have happened; it never makes it twice and never denies it."},
			Case{Name: "LateRequestOf" + f.name, Once: once, run: func(t *test) { t.lateRequests(f) },
				Law: "When a request reaches the server only after its connection was given up, " + f.name + " reports what is " +
					"true after its arrival, or that it may have happened."})
	}
	out = append(out, append(identityFaults(), strandedCases()...)...)
	return inGroup("Faults", append(out,
		Case{Name: "AnswerLostThenTakenOver", Once: true, run: answerLostThenTakenOver,
			Law: "A release or retry whose answer was lost is never reported as not done once another worker has the task."},
		Case{Name: "CutAtEveryByte", Once: true, run: cutAtEveryByte,
			Law: "Wherever a connection is cut within the bytes of a request, Enqueue and Complete report what is true."},
		Case{Name: "CutInsideAnswer", run: cutInsideAnswer,
			Law: "Wherever an answer is cut, Checkout and Complete report what is true, and every leased task is reported."},
		Case{Name: "CutDuringCommit", Once: true, run: cutDuringCommit,
			Law: "When the commit of a change of several statements or its answer is lost, either all of the change is made " +
				"or none, and the call reports which, or that it may have happened."},
		Case{Name: "CutDuringCallersTx", Once: true, run: cutDuringCallersTx,
			Law: "When a caller's transaction loses its connection before its commit, nothing that dbq did in it remains."},
		Case{Name: "CutInCallersTx", Once: true, run: cutInCallersTx,
			Law: "When the connection of a caller's transaction is lost during a call, before the commit, the call reports " +
				"that the database cannot be reached, and never that its change may have happened."},
		Case{Name: "CutBeforeReplace", Once: true, run: cutBeforeReplace,
			Law: "An enqueue that loses its connection before its commit never claims to have replaced a waiting task."},
		Case{Name: "StalledServer", run: stalledServer,
			Law: "When the server stops answering, a call returns within seconds of its deadline and reports what is true."},
		Case{Name: "CancelledWhileRunning", run: cancelMidway,
			Law: "A call whose context ends while it runs reports what is true: done, not done, or possibly done."},
		Case{Name: "ServerGone", Once: true, run: serverGone,
			Law: "When the server cannot be reached, every call reports so within a bounded time, and changes nothing."},
		Case{Name: "ServerReturns", Once: true, run: serverBackAgain,
			Law: "When the server is back, the same client works again without being reopened."},
		Case{Name: "PoolOfOne", run: poolOfOne,
			Law: "Every call works on a pool of one connection."})...)
}

// eachRequest disturbs each request of a call in turn. disturb makes the call under a rule for one of its requests, and
// reports whether the rule was applied: if not, the call makes fewer requests.
func (t *test) eachRequest(call string, r proxy.Rule, disturb func(r proxy.Rule) (fired bool)) {
	const most = 60
	for r.AtRequest = 1; disturb(r); r.AtRequest++ {
		if r.AtRequest == most {
			t.Fatalf("%s makes more than %d requests", call, most)
		}
	}
	t.failIf(r.AtRequest == 1, "%s made no request that could be disturbed", call)
}

// eachRequestAndAnswer disturbs each request of a call in turn, and then each answer.
func (t *test) eachRequestAndAnswer(call string, r proxy.Rule, disturb func(r proxy.Rule) (fired bool)) {
	t.eachRequest(call, r, disturb)
	r.LoseAnswer = true
	t.eachRequest(call, r, disturb)
}

// cutRequests cuts each request of a call in turn: on a new connection and on one that made the call before, with the
// server back at once and with the server gone until the call has returned.
func (t *test) cutRequests(f faultCall, answer bool) {
	p, dsn := t.throughProxy()
	direct := t.open()
	for _, warm := range []bool{false, true} {
		for _, stay := range []bool{false, true} {
			t.eachRequest(f.name, proxy.Rule{LoseAnswer: answer, StayDown: stay}, func(r proxy.Rule) bool {
				if f.many && warm == (r.AtRequest%2 == 0) {
					return true
				}
				c := t.oneConnection(dsn)
				if warm {
					t.callUndisturbed(direct, c, f)
				}
				s := t.callDisturbed(direct, c, f, arm(p, r))
				c.Close()
				if !s.fired {
					return false
				}
				what := fmt.Sprintf("cut at %v", r)
				did := t.checkCall(what, direct, f, s)
				t.checkAfter(direct, f, s)
				t.failIf(s.err != nil && !stay && (did || !f.once || !errors.Is(s.err, dbq.ErrMayHaveHappened)),
					"%s, %s: the server is there, and still: %v", f.name, what, s.err)
				return true
			})
		}
	}
}

// lateRequests closes the client's connection at each request of a call in turn, and lets the request arrive shortly or
// long afterwards, as when a client disappears while its commit is under way.
func (t *test) lateRequests(f faultCall) {
	p, dsn := t.throughProxy()
	direct := t.open()
	lates := []time.Duration{60 * time.Millisecond}
	if f.once { // it does not wait for the locks of its first try: let it give up looking
		lates = append(lates, time.Second)
	}
	for _, late := range lates {
		c := t.oneConnection(dsn)
		t.callUndisturbed(direct, c, f)
		t.eachRequest(f.name, proxy.Rule{Delay: late}, func(r proxy.Rule) bool {
			if f.many && (late == lates[0]) == (r.AtRequest%2 == 0) {
				return true
			}
			r.Arrived = make(chan struct{})
			s := t.callDisturbed(direct, c, f, arm(p, r))
			t.checkCall(fmt.Sprintf("cut at %v", r), direct, f, s)
			t.checkAfter(direct, f, s)
			if s.fired {
				// A server whose client is gone may hold the locks of a transaction for a moment longer; a call that
				// needs them waits.
				t.callUndisturbed(direct, c, f)
			}
			return s.fired
		})
		c.Close()
	}
}

// cutAtEveryByte moves the cut over the bytes of two calls, in steps when there are many. Four clients share the cuts
// of the enqueue, which searches for its task for a while.
func cutAtEveryByte(t *test) {
	const enqueuers = 4
	direct := t.open()
	var proxies [enqueuers + 1]*proxy.Proxy
	var clients [enqueuers + 1]*dbq.Client
	for i := range proxies {
		p, dsn := t.throughProxy()
		proxies[i], clients[i] = p, t.oneConnection(dsn)
	}
	t.concurrently(len(proxies), func(_ context.Context, i int) {
		p, c := proxies[i], clients[i]
		f, first, every := faultCallNamed("Enqueue"), int64(i), int64(enqueuers)
		if i == enqueuers {
			f, first, every = faultCallNamed("Complete"), 0, 1
		}
		// The first call prepares statements, the second shows how many bytes one takes.
		for range 2 {
			p.Set(proxy.Rule{}) // counts from here
			t.callUndisturbed(direct, c, f)
		}
		total := p.Sent()
		step := max(1, total/int64(t.load(50)))
		for n := 1 + first*step; n <= total; n += every * step {
			r := proxy.Rule{AtByte: n}
			s := t.callDisturbed(direct, c, f, arm(p, r))
			t.checkCall(fmt.Sprintf("cut after %v of %d", r, total), direct, f, s)
		}
	})
}

func cutInsideAnswer(t *test) {
	p, dsn := t.throughProxy()
	direct, c := t.open(), t.oneConnection(dsn)
	for _, f := range []faultCall{faultCallNamed("Checkout"), faultCallNamed("Complete")} {
		t.callUndisturbed(direct, c, f)
		step := 1
		for keep := 0; keep < 4096; keep += step {
			r := proxy.Rule{AtRequest: 1, LoseAnswer: true, KeepBytes: keep}
			s := t.callDisturbed(direct, c, f, arm(p, r))
			t.checkCall(fmt.Sprintf("cut at %v", r), direct, f, s)
			step = max(1, keep/6)
		}
	}
}

// manyChunks returns an enqueue of several statements, which therefore is a transaction with a commit.
func manyChunks(c *dbq.Client) faultCall {
	size := min(c.Info().MaxPayload, 5<<20)
	n := 9<<20/size + 1
	return faultCall{
		name: "EnqueueMany of several statements", once: true,
		call: func(ctx context.Context, q *dbq.Queue, s *faultRun) (err error) {
			ts := make([]dbq.NewTask, n)
			payload := make([]byte, size)
			for i := range ts {
				ts[i].Payload = payload
			}
			s.added, err = q.EnqueueMany(ctx, ts)
			return err
		},
		did: func(in []dbq.Task, s *faultRun) (bool, string) {
			if len(in) != 0 && len(in) != n {
				return true, fmt.Sprintf("of %d tasks %d are there", n, len(in))
			}
			for i, a := range s.added {
				if s.err == nil && a.Duplicate {
					return true, fmt.Sprintf("task %d: reported as a duplicate", i)
				}
			}
			return len(in) == n, ""
		},
	}
}

// commitText finds a COMMIT, and not READ COMMITTED.
var commitText = regexp.MustCompile(`COMMIT([^A-Z]|$)`)

func cutDuringCommit(t *test) {
	p, dsn := t.throughProxy()
	direct := t.open()
	seen := false
	for _, f := range []faultCall{faultCallNamed("Settle"), manyChunks(direct)} {
		for _, r := range []proxy.Rule{{}, {StayDown: true}, {LoseAnswer: true}, {LoseAnswer: true, StayDown: true}} {
			r.AtText = commitText
			c := t.oneConnection(dsn)
			s := t.callDisturbed(direct, c, f, arm(p, r))
			c.Close()
			seen = seen || s.fired
			t.checkCall(fmt.Sprintf("cut at %v", r), direct, f, s)
			t.failIf(s.err != nil && !r.StayDown && !(f.once && errors.Is(s.err, dbq.ErrMayHaveHappened)),
				"%s, cut at %v: the server is there, and still: %v", f.name, r, s.err)
		}
	}
	if !seen {
		t.Skipf("no COMMIT was seen in what clients send; it may be encrypted")
	}
}

func cutDuringCallersTx(t *test) {
	p, dsn := t.throughProxy()
	direct, c := t.open(), t.openDSN(dsn)
	const queue = "callers"
	task := t.takeNew(direct.Queue(queue), dbq.NewTask{}, long)
	ctx, cancel := context.WithTimeout(t.ctx, patienceOfCall)
	defer cancel()
	tx := must(c.DB().BeginTx(ctx, nil))
	defer tx.Rollback()
	id := must(c.Queue(queue).EnqueueTx(ctx, tx, dbq.NewTask{}))
	t.must(c.Queue(queue).CompleteTx(ctx, tx, task.Lease, nil))
	p.CutAll()
	if err := tx.Commit(); err == nil {
		t.Errorf("the commit after the cut succeeded, want an error")
	}
	t.wantGone(direct, id)
	// The server may not have noticed yet that its client is gone; the lease is settled as soon as it has.
	t.must(direct.Queue(queue).Complete(t.ctx, task.Lease, nil))
	t.wantState(direct, task.ID, dbq.StateCompleted)
}

// cancelMidway needs no network: it ends contexts at random moments of calls.
func cancelMidway(t *test) {
	direct := t.open()
	c := t.open()
	for _, f := range faultCalls() {
		start := time.Now()
		t.callUndisturbed(direct, c, f)
		usual := max(time.Since(start), 200*time.Microsecond)
		for range t.load(8) {
			after := time.Duration(t.rand.Int64N(int64(usual)))
			s := t.callDisturbed(direct, c, f, func(ctx context.Context, _ *faultRun) (context.Context, func()) {
				ctx, cancel := context.WithCancel(ctx)
				timer := time.AfterFunc(after, cancel)
				return ctx, func() { timer.Stop(); cancel() }
			})
			t.checkCall(fmt.Sprintf("cancelled after %v", after), direct, f, s)
			t.checkAfter(direct, f, s)
		}
	}
}

// identityFaults lose requests and answers where the task, event or name of another client could be mistaken for the
// caller's own.
func identityFaults() []Case {
	return []Case{
		{Name: "CutCheckoutOfTwoClientsWithOneName", Once: true, run: cutCheckoutOfSameName,
			Law: "A checkout whose connection is lost never returns a task that another client of the same name holds."},
		{Name: "CutBetweenPartsOfCheckout", run: cutBetweenParts,
			Law: "A checkout whose connection is lost returns all that it took over or moved to POISON, or took nothing."},
		{Name: "AnswerLostToExhausted", run: answerLostToExhausted,
			Law: "A checkout that moved a task to POISON reports the task even when the answer to its request is lost."},
		{Name: "AnswerLostAndTaskRemoved", Once: true, run: enqueuedAndGone,
			Law: "When the answer to an enqueue is lost and its task is completed and removed meanwhile, the task runs once, " +
				"or the call reports that it may have happened."},
		{Name: "TwoOperatorsLoseAnswers", Once: true, run: operateBesideAnother,
			Law: "When connections are lost while two operators do the same to one task, at most one of their calls " +
				"reports success, and nothing is done twice."},
	}
}

// cutCheckoutOfSameName lets one client take a task by its first checkout, and cuts the first checkout of another
// client with the same name.
func cutCheckoutOfSameName(t *test) {
	p, dsn := t.throughProxy()
	name := dbq.WithName("one name for both")
	t.eachRequestAndAnswer("the checkout", proxy.Rule{}, func(r proxy.Rule) bool {
		holder := t.open(name)
		defer holder.Close()
		q := ownQueue(holder)
		t.enqueueMany(q, 3, nil)
		held := idsOf(t.checkout(q, 2, long))
		sameName := t.openDSN(dsn, name)
		sameName.DB().SetMaxOpenConns(1)
		return t.callUnder(p, r, sameName, func(ctx context.Context) {
			tasks, err := sameName.Queue(q.Name()).Checkout(ctx, 2, long)
			for _, task := range tasks {
				t.failIf(slices.Contains(held, task.ID),
					"cut at %v: the checkout returned task %s under fence %d, which the other client holds (error %v)", r,
					task.ID, task.Fence, err)
			}
		}, nil)
	})
}

// operateBesideAnother loses requests and answers of an operator's call, and moves the task on before the call is
// repeated.
func operateBesideAnother(t *test) {
	p, dsn := t.throughProxy()
	direct := t.open()
	for _, goesOn := range []bool{false, true} {
		t.eachRequestAndAnswer("a reenqueue", proxy.Rule{StayDown: true}, func(r proxy.Rule) bool {
			return operateBeside(t, p, t.oneConnection(dsn), direct.Queue("q"), goesOn, r)
		})
	}
}

// operateBeside reenqueues a task under a rule. Meanwhile another operator reenqueues the same task, too, or the task
// continues: it is taken and parked again. It reports whether the rule was applied.
func operateBeside(t *test, p *proxy.Proxy, c *dbq.Client, q *dbq.Queue, goesOn bool, r proxy.Rule) bool {
	direct := q.Client()
	task := t.settleNew(q, dbq.NewTask{}, dbq.Parked(errBoom))
	var err, otherErr error
	var before dbq.Task
	fired := t.callUnder(p, r, c, func(ctx context.Context) { err = admin.New(c).Operate(ctx, admin.Reenqueue, task.ID) },
		func(returned <-chan struct{}) {
			t.awaitFault(p, returned)
			before = t.get(direct, task.ID)
			if !goesOn {
				otherErr = admin.New(direct).Operate(t.ctx, admin.Reenqueue, task.ID)
				return
			}
			otherErr = dbq.ErrWrongState
			t.endAll(q, t.checkout(q, 1, long), dbq.Parked(errBoom)) // there is one only when the call has happened
		})
	after := t.get(direct, task.ID)
	what := fmt.Sprintf("cut at %v, the task goes on: %v", r, goesOn)
	maybe, wrong := errors.Is(err, dbq.ErrMayHaveHappened), errors.Is(err, dbq.ErrWrongState)
	gaveUp := errors.Is(err, dbq.ErrUnavailable) && !maybe
	switch {
	case !fired:
	case gaveUp && before.State == state.Created:
		t.Errorf("%s: the call was done, and reports that nothing happened: %v", what, err)
	case err == nil && otherErr == nil:
		t.Errorf("%s: both operators' calls report that they reenqueued the task", what)
	case goesOn && before.State == state.Created && after.State != state.Error:
		t.Errorf("%s: the call was done, and the task parked again since; then it was done once more (error %v)", what, err)
	case err != nil && !maybe && !wrong && !gaveUp:
		t.Errorf("%s: got error %v", what, err)
	case wrong && !maybe && otherErr != nil:
		t.Errorf("%s: the call reports that nothing happened, and the other operator did not do it either: %v", what, err)
	}
	t.completeDue(q)
	return fired
}

// completeDue completes the due tasks.
func (t *test) completeDue(q *dbq.Queue) {
	t.endAll(q, t.checkout(q, 100, long), dbq.Completed(nil))
}

// enqueuedAndGone loses the answer to an enqueue, and completes and removes the task before the enqueue can look for
// it.
func enqueuedAndGone(t *test) {
	p, dsn := t.throughProxy()
	calls := map[string]func(ctx context.Context, q *dbq.Queue) error{
		"Enqueue": func(ctx context.Context, q *dbq.Queue) error {
			_, err := q.Enqueue(ctx, dbq.NewTask{})
			return err
		},
		"Enqueue with an id": func(ctx context.Context, q *dbq.Queue) error {
			_, err := q.Enqueue(ctx, dbq.NewTask{ID: dbq.NewID()})
			return err
		},
		"EnqueueMany": func(ctx context.Context, q *dbq.Queue) error {
			_, err := q.EnqueueMany(ctx, []dbq.NewTask{{}, {ID: dbq.NewID()}, {Reference: "r"}})
			return err
		},
	}
	direct := t.open()
	seen := false
	for name, call := range calls {
		for _, kept := range []int{0, 1} { // of EnqueueMany all are removed, or all but one
			if kept > 0 && name != "EnqueueMany" {
				continue
			}
			t.eachRequest(name, proxy.Rule{LoseAnswer: true, StayDown: true}, func(r proxy.Rule) bool {
				q := ownQueue(direct)
				runs, fired, err := enqueueAndRemove(t, p, t.oneConnection(dsn), q, call, kept, r)
				if fired && len(runs) > 0 { // else this request was not the one that adds the tasks
					seen = true
					checkRuns(t, fmt.Sprintf("%s, cut at %v", name, r), q, runs, kept, err)
				}
				return fired
			})
		}
	}
	t.failIf(!seen, "no enqueue was done whose answer was lost")
}

// enqueueAndRemove enqueues under a rule. If the tasks are there then, it completes them all, and removes all but kept
// of them. It returns how often each task ran, whether the rule was applied, and the result of the enqueue.
func enqueueAndRemove(t *test, p *proxy.Proxy, c *dbq.Client, q *dbq.Queue,
	call func(ctx context.Context, q *dbq.Queue) error, kept int, r proxy.Rule) (map[uuid.UUID]int, bool, error) {
	runs := map[uuid.UUID]int{}
	var err error
	fired := t.callUnder(p, r, c, func(ctx context.Context) { err = call(ctx, c.Queue(q.Name())) },
		func(returned <-chan struct{}) {
			if !t.awaitFault(p, returned) {
				runAll(t, q, runs, kept)
			}
		})
	return runs, fired, err
}

// runAll completes the due tasks, counts them in runs, and removes all but kept of them.
func runAll(t *test, q *dbq.Queue, runs map[uuid.UUID]int, kept int) {
	for i, task := range t.checkout(q, 10, long) {
		runs[task.ID]++
		if i < kept {
			t.must(q.Complete(t.ctx, task.Lease, nil))
		} else {
			t.must(q.Settle(t.ctx, task.Lease, dbq.Deleted()))
		}
	}
}

// checkRuns checks an enqueue whose tasks were run, and removed but for kept, before it could look for them.
func checkRuns(t *test, what string, q *dbq.Queue, runs map[uuid.UUID]int, kept int, err error) {
	runAll(t, q, runs, 0)
	for id, n := range runs {
		t.failIf(n != 1, "%s: task %s has run %d times (the enqueue returned %v)", what, id, n, err)
	}
	t.failIf(err != nil && !errors.Is(err, dbq.ErrMayHaveHappened), "%s: it was done, and it returned %v", what, err)
	t.failIf(err == nil && kept == 0, "%s: no trace is left of the tasks, and it reported that they were added", what)
}

// cutBetweenParts cuts a checkout that takes tasks over and takes due ones, before each of its requests: the requests
// that got through are known.
func cutBetweenParts(t *test) {
	p, dsn := t.throughProxy()
	direct := t.open()
	t.eachRequest("the checkout", proxy.Rule{}, func(r proxy.Rule) bool {
		q := ownQueue(direct)
		t.enqueueMany(q, 2, func(i int, nt *dbq.NewTask) { nt.MaxAttempts = 1 + i }) // one is exhausted
		t.abandonN(q, 2)
		t.enqueueMany(q, 3, nil)
		c := t.oneConnection(dsn)
		var out access.CheckoutResult
		var err error
		fired := t.callUnder(p, r, c, func(ctx context.Context) {
			out, err = access.Checkout(ctx, c.Queue(q.Name()), 10, long)
		}, nil)
		returned := idsOf(append(out.Tasks, out.Exhausted...))
		now := t.now(direct)
		for _, task := range t.list(direct, admin.Filter{Queue: q.Name()}) {
			held := task.State == state.Processing && task.LeaseUntil.After(now) || task.State == state.Poison
			t.failIf(held && !slices.Contains(returned, task.ID),
				"cut at %v: task %s is %v and was not returned (error %v)", r, task.ID, task.State, err)
		}
		return fired
	})
}

// answerLostToExhausted loses the answer to each request, in turn, of a checkout that finds a task whose attempts are
// exhausted.
func answerLostToExhausted(t *test) {
	if t.dialect().Statements(dialect.Names{Prefix: t.Prefix}).Exhausted == "" {
		t.Skipf("this dialect does not look for tasks that a lost checkout moved to POISON")
	}
	p, dsn := t.throughProxy()
	direct := t.open()
	found := 0
	t.eachRequest("the checkout", proxy.Rule{LoseAnswer: true}, func(r proxy.Rule) bool {
		q := ownQueue(direct)
		id := t.enqueue(q, dbq.NewTask{MaxAttempts: 1})
		was := t.abandon(q)
		c := t.oneConnection(dsn)
		var out access.CheckoutResult
		var err error
		fired := t.callUnder(p, r, c, func(ctx context.Context) {
			out, err = access.Checkout(ctx, c.Queue(q.Name()), 5, long)
		}, nil)
		spent, what := out.Exhausted, fmt.Sprintf("cut at %v", r)
		t.failIf(len(out.Tasks) > 0, "%s: the task was handed out again after its last attempt", what)
		is := t.get(direct, id)
		switch {
		case is.State != state.Poison && len(spent) > 0:
			t.Errorf("%s: the task was reported as moved to POISON and is %v", what, is.State)
		case is.State == state.Poison && (err != nil || len(spent) != 1 || spent[0].ID != id):
			t.Errorf("%s: the task is POISON, and the checkout reported %d such tasks and error %v, want it", what, len(spent),
				err)
		case is.State == state.Poison && spent[0].Holder != was.Holder:
			t.Errorf("%s: the task was held by %q, and is reported as held by %q", what, was.Holder, spent[0].Holder)
		}
		if fired && is.State == state.Poison {
			found++
		}
		return fired
	})
	t.failIf(found == 0, "no lost answer was that of the request that moved the task")
}

// answerLostThenTakenOver loses the answer to a call that makes its task due at once, and lets another worker take the
// task before the call can check its outcome.
func answerLostThenTakenOver(t *test) {
	p, dsn := t.throughProxy()
	direct := t.open()
	for name, o := range map[string]dbq.Outcome{"Release": dbq.Released(0), "Fail": dbq.RetryIn(0, errBoom)} {
		seen := false
		t.eachRequest(name, proxy.Rule{LoseAnswer: true, StayDown: true}, func(r proxy.Rule) bool {
			c, q := t.oneConnection(dsn), ownQueue(direct)
			held := t.takeNew(q, dbq.NewTask{}, long)
			var taken []dbq.Task
			var err error
			fired := t.callUnder(p, r, c, func(ctx context.Context) { err = c.Queue(q.Name()).Settle(ctx, held.Lease, o) },
				func(returned <-chan struct{}) {
					if t.awaitFault(p, returned) || t.get(direct, held.ID).State == state.Processing {
						return
					}
					t.eventually("the task is taken again", func() bool {
						taken = t.checkout(q, 1, long)
						return len(taken) > 0
					})
				})
			if !fired || len(taken) == 0 {
				return fired // this request was not the one that does it
			}
			seen = true
			t.failIf(err != nil && !errors.Is(err, dbq.ErrMayHaveHappened),
				"%s: it was done, and the task is taken again; it returned %v", name, err)
			if is := t.get(direct, held.ID); is.State != state.Processing || is.Fence != taken[0].Fence {
				t.Errorf("%s: the new holder has lost the task: it is %v under fence %d, want fence %d", name, is.State,
					is.Fence, taken[0].Fence)
			}
			return true
		})
		t.failIf(!seen, "%s: no request was found that did the work", name)
	}
}

// grace is how long a call may take beyond its deadline: dbq lets a write that was sent finish within 2 seconds.
const grace = 3 * time.Second

func stalledServer(t *test) {
	direct := t.open()
	type trial struct {
		f faultCall
		r proxy.Rule
		s *faultRun
	}
	var trials []*trial
	for _, f := range faultCalls() {
		trials = append(trials, &trial{f: f, r: proxy.Rule{AtRequest: 1, Stall: true}},
			&trial{f: f, r: proxy.Rule{AtRequest: 1, Stall: true, LoseAnswer: true}})
	}
	for _, f := range []faultCall{faultCallNamed("Settle"), manyChunks(direct)} { // these have a commit
		trials = append(trials, &trial{f: f, r: proxy.Rule{AtText: commitText, Stall: true, LoseAnswer: true}})
	}
	var proxies []*proxy.Proxy
	var clients []*dbq.Client
	for range trials {
		p, dsn := t.throughProxy()
		proxies, clients = append(proxies, p), append(clients, t.oneConnection(dsn))
	}
	// Side by side, since each takes its whole deadline.
	const deadline = 500 * time.Millisecond
	took := make([]time.Duration, len(trials))
	for i, tr := range trials {
		t.callUndisturbed(direct, clients[i], tr.f) // makes the connection
	}
	t.concurrently(len(trials), func(_ context.Context, i int) {
		tr := trials[i]
		var start time.Time
		tr.s = t.callDisturbed(direct, clients[i], tr.f, func(ctx context.Context, _ *faultRun) (context.Context, func()) {
			proxies[i].Set(tr.r)
			start = time.Now()
			ctx, cancel := context.WithTimeout(ctx, deadline)
			return ctx, func() { took[i] = time.Since(start); cancel(); proxies[i].Heal() }
		})
	})
	for i, tr := range trials {
		what := fmt.Sprintf("stalled at %v", tr.r)
		t.failIf(took[i] > deadline+grace,
			"%s, %s: it returned %v after its deadline, want at most %v: %v", tr.f.name, what, took[i]-deadline, grace,
			tr.s.err)
		t.failIf(tr.s.err != nil && !ctxEnded(tr.s.err),
			"%s, %s: got error %v, want one that says that the deadline is over", tr.f.name, what, tr.s.err)
		proxies[i].Close() // the held requests have arrived, or never will
		t.checkCall(what, direct, tr.f, tr.s)
		t.checkAfter(direct, tr.f, tr.s)
	}
}

// bound is the time within which a call gives up on a server that refuses connections.
const bound = 10 * time.Second

func serverGone(t *test) {
	p, dsn := t.throughProxy()
	direct, c := t.open(), t.openDSN(dsn)
	p.GoDown()
	timed := func(what string, call func(ctx context.Context) error) {
		ctx, cancel := context.WithTimeout(t.ctx, bound)
		defer cancel()
		err := call(ctx)
		t.wantErr(what+" without a server", err, dbq.ErrUnavailable)
		t.failIf(errors.Is(err, dbq.ErrMayHaveHappened),
			"%s without a server: got error %v, though nothing can have happened", what, err)
		t.failIf(ctx.Err() != nil, "%s without a server took more than %v", what, bound)
	}
	// Reads first: they use up the connections that the client still has and does not know to be cut.
	timed("Get", func(ctx context.Context) error { _, err := c.Get(ctx, dbq.NewID()); return err })
	timed("Stats", func(ctx context.Context) error { _, err := admin.New(c).Stats(ctx); return err })
	timed("Open", func(ctx context.Context) error {
		other, err := dbq.Open(ctx, dsn, t.options()...)
		if err == nil {
			other.Close()
		}
		return err
	})
	for _, f := range faultCalls() {
		timed(f.name, func(ctx context.Context) error {
			s := t.callDisturbed(direct, c, f, func(context.Context, *faultRun) (context.Context, func()) {
				return ctx, func() {}
			})
			t.failIf(t.checkCall("server gone", direct, f, s), "%s was done without a server", f.name)
			return s.err
		})
	}
}

func serverBackAgain(t *test) {
	p, dsn := t.throughProxy()
	direct, c := t.open(), t.openDSN(dsn)
	never := func(faultCall, error) bool { return false }
	unsureOnce := func(f faultCall, err error) bool { return f.once && errors.Is(err, dbq.ErrMayHaveHappened) }
	all := func(what string, unsure func(faultCall, error) bool) {
		for _, f := range faultCalls() {
			s := t.callDisturbed(direct, c, f, undisturbed)
			switch t.checkCall(what, direct, f, s); {
			case s.err != nil && !unsure(f, s.err):
				t.Errorf("%s, %s: %v", f.name, what, s.err)
			case s.err != nil && f.after != nil:
				f.after(t, direct, s)
			case s.err != nil:
				t.repeatEnqueue(what, direct, f, s)
			}
		}
	}
	all("before", never)
	p.CutAll()
	// A connection that is gone may look as if it were there until a request on it has been sent: an enqueue or a
	// checkout is not made again then.
	all("after a cut, with a server that is there", unsureOnce)
	p.GoDown()
	ctx, cancel := context.WithTimeout(t.ctx, bound)
	defer cancel()
	_, err := c.Queue("back").Enqueue(ctx, dbq.NewTask{})
	t.failIf(err == nil, "an enqueue without a server succeeded")
	p.Heal()
	all("after the server came back", unsureOnce)
}

// repeatEnqueue repeats an enqueue that may have happened, as the documentation recommends, through an undisturbed
// client: then each task must be there once.
func (t *test) repeatEnqueue(what string, direct *dbq.Client, f faultCall, s *faultRun) {
	q, want := direct.Queue(s.queue), 1
	var err error
	if f.name == "Enqueue" {
		var e *dbq.Error
		if !errors.As(s.err, &e) || e.TaskID == uuid.Nil {
			t.Errorf("%s, %s: the error does not have the id to repeat it with: %v", f.name, what, s.err)
			return
		}
		_, err = q.Enqueue(t.ctx, dbq.NewTask{ID: e.TaskID, Payload: []byte("payload")})
		if errors.Is(err, dbq.ErrDuplicate) {
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

func poolOfOne(t *test) {
	direct, c := t.open(), t.open()
	c.DB().SetMaxOpenConns(1)
	for _, f := range append(faultCalls(), manyChunks(c)) {
		s := t.callDisturbed(direct, c, f, undisturbed)
		if t.checkCall("on a pool of one", direct, f, s); s.err != nil {
			t.Errorf("%s on a pool of one: %v", f.name, s.err)
		}
	}
	ctx, cancel := context.WithTimeout(t.ctx, patienceOfCall)
	defer cancel()
	q := c.Queue("pool of one")
	id := must(q.Enqueue(ctx, dbq.NewTask{Reference: "one"}))
	must(c.Get(ctx, id))
	must(q.Find(ctx, "one"))
	must(admin.New(c).Stats(ctx))
	done := must(admin.New(c).OperateMany(ctx, admin.Reject, admin.Filter{Queue: q.Name(), Limit: 10}))
	t.failIf(done.Changed != 1, "OperateMany changed %d tasks, want 1", done.Changed)
	must(c.Wait(ctx, id))
	t.must(admin.New(c).Operate(ctx, admin.Purge, id))
	must(admin.New(c).List(ctx, admin.Filter{}))
	must(c.Now(ctx))
}

// strandedCases are about connections that die without being closed, as those to a host without power, or those that
// a router has forgotten, while new connections work; and about slow ones, which must not look like them.
func strandedCases() []Case {
	return []Case{
		{Name: "WorkersOutliveDeadConnections", Once: true, run: workersOutliveDeadConnections,
			Law: "When all connections of a client die without being closed, and new ones work, its workers go on within two " +
				"leases: idle ones, busy ones, and those whose handlers work in transactions."},
		{Name: "CallsOutliveDeadConnections", Once: true, run: callsOutliveDeadConnections,
			Law: "When all connections of a client die without being closed, and new ones work, an enqueue without a deadline " +
				"returns within half a minute and reports what is true, and the next calls succeed at once."},
		{Name: "SlowLink", Once: true, Slow: true, run: slowLink,
			Law: "A payload that takes longer to arrive than a call waits for a silent server is checked out and read."},
	}
}

// warm opens n connections of each pool of a client.
func (t *test) warm(c *dbq.Client, n int) {
	t.concurrently(n, func(ctx context.Context, _ int) {
		must(c.Now(ctx))
		tx := must(c.DB().BeginTx(ctx, nil))
		time.Sleep(20 * time.Millisecond)
		t.must(tx.Rollback())
	})
}

func workersOutliveDeadConnections(t *test) {
	const lease = 6 * time.Second
	p, dsn := t.throughProxy()
	direct, c := t.open(), t.openDSN(dsn)
	t.warm(c, 8)
	var idle, busy, inTx atomic.Int64
	count := func(n *atomic.Int64, takes time.Duration) worker.Handler {
		return worker.Func(func(ctx context.Context, _ dbq.Task) error {
			n.Add(1)
			return sleep(ctx, takes)
		})
	}
	for queue, h := range map[string]worker.Handler{
		"idle": count(&idle, 0), "busy": count(&busy, 50*time.Millisecond),
		"tx": worker.TxFunc(func(context.Context, *sql.Tx, dbq.Task) error { inTx.Add(1); return nil }),
	} {
		defer t.runWorker(worker.Worker{Queue: c.Queue(queue), Concurrency: 2, Lease: lease, Handler: h})()
	}
	stop := make(chan struct{})
	var producing sync.WaitGroup
	defer producing.Wait()
	defer close(stop)
	producing.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(100 * time.Millisecond):
				t.enqueue(direct.Queue("busy"), dbq.NewTask{})
			}
		}
	})
	t.eventually("the busy worker works", func() bool { return busy.Load() > 3 })
	time.Sleep(1200 * time.Millisecond) // some drivers examine a connection that has been idle for a second
	p.Strand()
	began := time.Now()
	t.enqueue(direct.Queue("idle"), dbq.NewTask{})
	t.enqueue(direct.Queue("tx"), dbq.NewTask{})
	time.Sleep(200 * time.Millisecond) // tasks that had been handed to the executors of the busy one
	before := busy.Load()
	for name, works := range map[string]func() bool{
		"idle": func() bool { return idle.Load() > 0 },
		"busy": func() bool { return busy.Load() > before+4 }, // more than it had leased ahead
		"tx":   func() bool { return inTx.Load() > 0 },
	} {
		for !works() && time.Since(began) < t.Patience {
			time.Sleep(10 * time.Millisecond)
		}
		if took := time.Since(began); took > 2*lease {
			t.Errorf("the worker %q went on after %v, want at most %v", name, took, 2*lease)
		} else {
			t.Logf("%s: %v", name, took)
		}
	}
}

// noDeadline is the documented bound of a call without a deadline.
const noDeadline = 30 * time.Second

func callsOutliveDeadConnections(t *test) {
	p, dsn := t.throughProxy()
	direct, c := t.open(), t.openDSN(dsn)
	t.warm(c, 8)
	p.Strand()
	f := faultCallNamed("Enqueue")
	s, began := t.newFaultRun(direct, f), time.Now()
	s.err = f.call(t.ctx, c.Queue(s.queue), s)
	if took := time.Since(began); took > noDeadline {
		t.Errorf("the enqueue returned after %v, want at most %v: %v", took, noDeadline, s.err)
	}
	t.checkCall("with dead connections", direct, f, s)
	began = time.Now()
	for range 8 {
		_, err := c.Get(t.ctx, dbq.NewID())
		t.wantErr("get", err, dbq.ErrNotFound)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the calls after it took %v", took)
	}
}

func slowLink(t *test) {
	const size, rate = 1 << 20, 256 << 10 // four seconds, in which the server is never silent
	p, dsn := t.throughProxy()
	direct, c := t.open(), t.openDSN(dsn)
	id := t.enqueue(direct.Queue("q"), dbq.NewTask{Payload: make([]byte, size)})
	p.Slow(rate)
	ctx := sqlrun.WithPatience(t.ctx, func() time.Duration { return 0 }) // the minimum of two seconds
	tasks, err := c.Queue("q").Checkout(ctx, 1, long)
	t.failIf(err != nil || len(tasks) != 1 || len(tasks[0].Payload) != size,
		"a checkout over a slow link returned %d tasks, and %v", len(tasks), err)
	if task, err := c.Get(ctx, id); err != nil || len(task.Payload) != size {
		t.Errorf("reading the task over a slow link returned %d bytes, and %v", len(task.Payload), err)
	}
}

// cutInCallersTx cuts each request of each call in a caller's transaction in turn, before it reaches the server and
// after, and then ends the transaction. Only the transaction goes through the proxy: a call leaves work behind that its
// client does later, in requests of its own.
func cutInCallersTx(t *test) {
	p, dsn := t.throughProxy()
	direct, theirs := t.open(), t.oneConnection(dsn)
	for i, call := range callsTx(direct.Queue("q"), dbq.Lease{}) {
		t.eachRequestAndAnswer(call.name, proxy.Rule{}, func(r proxy.Rule) bool {
			q := ownQueue(direct)
			held := t.takeNew(q, dbq.NewTask{}, long)
			tx := t.beginTx(theirs)
			what := fmt.Sprintf("%s, cut at %v", call.name, r)
			ctx, cancel := context.WithTimeout(t.ctx, patienceOfCall)
			defer cancel()
			p.Set(r)
			err := callsTx(q, held.Lease)[i].tx(ctx, tx)
			t.failIf(p.Fired() && !errors.Is(err, dbq.ErrUnavailable) || errors.Is(err, dbq.ErrMayHaveHappened),
				"%s: got error %v, want ErrUnavailable alone", what, err)
			_ = tx.Rollback()
			fired := p.Heal()
			// The server may not have noticed yet that its client is gone.
			t.must(q.Complete(t.ctx, held.Lease, nil))
			if rest := t.list(direct, admin.Filter{Queue: q.Name()}); len(rest) != 1 {
				t.Errorf("%s: %d tasks are in the queue, want the one that was there", what, len(rest))
			}
			return fired
		})
	}
}

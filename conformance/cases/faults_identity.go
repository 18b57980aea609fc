package cases

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/conformance/internal/proxy"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// identityFaults lose requests and answers where the task, event or name of another client could be mistaken for the
// caller's own.
func identityFaults() []Case {
	return []Case{
		{Name: "CutCheckoutOfTwoClientsWithOneName", Once: true, run: cutCheckoutOfSameName,
			Law: "A checkout whose connection is lost never returns a task that another client of the same name holds."},
		{Name: "CutBetweenPartsOfCheckout", run: cutBetweenParts,
			Law: "A checkout whose connection is lost returns every task that it had taken over or moved to POISON, or took " +
				"none."},
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
	cuts := 0
	for _, answer := range []bool{false, true} {
		for k := 1; k <= maxRequests; k++ {
			queue := fmt.Sprintf("fault %d", subjects.Add(1))
			holder := t.open(name)
			t.enqueueMany(holder.Queue(queue), 3, nil)
			held := map[uuid.UUID]bool{}
			for _, task := range t.checkout(holder.Queue(queue), 2, long) {
				held[task.ID] = true
			}
			sameName := t.openDSN(dsn, name)
			sameName.DB().SetMaxOpenConns(1)
			r := proxy.Rule{AtRequest: k, LoseAnswer: answer}
			var tasks []dbq.Task
			var err error
			fired := t.callUnder(p, r, sameName, func(ctx context.Context) {
				tasks, err = sameName.Queue(queue).Checkout(ctx, 2, long)
			}, nil)
			holder.Close()
			if !fired {
				break // the call has fewer requests
			}
			cuts++
			for _, task := range tasks {
				if held[task.ID] {
					t.Errorf("cut at %v: the checkout returned task %s under fence %d, which the other client holds (error %v)", r,
						task.ID, task.Fence, err)
				}
			}
		}
	}
	if cuts == 0 {
		t.Errorf("the checkout made no request that could be cut")
	}
}

// operateBesideAnother loses requests and answers of an operator's call, and moves the task on before the call is
// repeated.
func operateBesideAnother(t *test) {
	p, dsn := t.throughProxy()
	direct := t.open()
	for _, goesOn := range []bool{false, true} {
		for _, answer := range []bool{false, true} {
			for k := 1; k <= maxRequests; k++ {
				if !operateBeside(t, p, t.oneConnection(dsn), direct.Queue("q"), goesOn,
					proxy.Rule{AtRequest: k, LoseAnswer: answer, StayDown: true}) {
					break // the call has fewer requests
				}
			}
		}
	}
}

// operateBeside reenqueues a task under a rule. Meanwhile another operator reenqueues the same task, too, or the task
// goes on: it is taken and parked again. It reports whether the rule was applied.
func operateBeside(t *test, p *proxy.Proxy, c *dbq.Client, q *dbq.Queue, goesOn bool, r proxy.Rule) bool {
	direct := q.Client()
	task := t.takeNew(q, dbq.NewTask{}, long)
	t.must(q.Settle(t.ctx, task.Lease, dbq.Parked(errBoom)))
	var err, otherErr error
	var before dbq.Task
	fired := t.callUnder(p, r, c, func(ctx context.Context) { err = admin.New(c).Operate(ctx, admin.Reenqueue, task.ID) },
		func(returned <-chan struct{}) {
			t.awaitFault(p, r, returned)
			before = t.get(direct, task.ID)
			if !goesOn {
				otherErr = admin.New(direct).Operate(t.ctx, admin.Reenqueue, task.ID)
				return
			}
			otherErr = dbq.ErrWrongState
			for _, task := range t.checkout(q, 1, long) { // only when the call has happened is there something to take
				t.must(q.Settle(t.ctx, task.Lease, dbq.Parked(errBoom)))
			}
		})
	after := t.get(direct, task.ID)
	what := fmt.Sprintf("cut at %v, the task goes on: %v", r, goesOn)
	maybe, wrong := errors.Is(err, dbq.ErrMayHaveHappened), errors.Is(err, dbq.ErrWrongState)
	switch {
	case !fired:
	case err == nil && otherErr == nil:
		t.Errorf("%s: both operators' calls report that they reenqueued the task", what)
	case goesOn && before.State == state.Created && after.State != state.Error:
		t.Errorf("%s: the call was done, and the task parked again since; then it was done once more (error %v)", what, err)
	case err != nil && !maybe && !wrong:
		t.Errorf("%s: got error %v", what, err)
	case wrong && !maybe && otherErr != nil:
		t.Errorf("%s: the call reports that nothing happened, and the other operator did not do it either: %v", what, err)
	}
	t.completeDue(q)
	return fired
}

// completeDue completes what is due.
func (t *test) completeDue(q *dbq.Queue) {
	for _, task := range t.checkout(q, 100, long) {
		t.must(q.Complete(t.ctx, task.Lease, nil))
	}
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
			for k := 1; k <= maxRequests; k++ {
				q := direct.Queue(fmt.Sprintf("fault %d", subjects.Add(1)))
				r := proxy.Rule{AtRequest: k, LoseAnswer: true, StayDown: true}
				runs, fired, err := enqueueAndRemove(t, p, t.oneConnection(dsn), q, call, kept, r)
				if !fired {
					break // the call has fewer requests
				}
				if len(runs) > 0 { // else this request was not the one that adds the tasks
					seen = true
					checkRuns(t, fmt.Sprintf("%s, cut at %v", name, r), q, runs, kept, err)
				}
			}
		}
	}
	if !seen {
		t.Errorf("no enqueue was done whose answer was lost")
	}
}

// enqueueAndRemove enqueues under a rule. As soon as the tasks are there it completes them all, and removes all but
// kept of them. It returns how often each task ran, whether the rule was applied, and what the enqueue returned.
func enqueueAndRemove(t *test, p *proxy.Proxy, c *dbq.Client, q *dbq.Queue,
	call func(ctx context.Context, q *dbq.Queue) error, kept int, r proxy.Rule) (map[uuid.UUID]int, bool, error) {
	runs := map[uuid.UUID]int{}
	var err error
	fired := t.callUnder(p, r, c, func(ctx context.Context) { err = call(ctx, c.Queue(q.Name())) },
		func(returned <-chan struct{}) {
			gone := t.awaitFault(p, proxy.Rule{}, returned)
			end := time.Now().Add(4 * proxy.AnswerPause)
			for !gone && len(runs) == 0 && time.Now().Before(end) {
				runAll(t, q, runs, kept)
				time.Sleep(time.Millisecond)
			}
			time.Sleep(2 * proxy.AnswerPause) // the answer is cut when it has ended
		})
	return runs, fired, err
}

// runAll completes what is due, counts it in runs, and removes all but kept of it.
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
		if n != 1 {
			t.Errorf("%s: task %s has run %d times (the enqueue returned %v)", what, id, n, err)
		}
	}
	if err != nil && !errors.Is(err, dbq.ErrMayHaveHappened) {
		t.Errorf("%s: it was done, and it returned %v", what, err)
	}
	if err == nil && kept == 0 {
		t.Errorf("%s: no trace is left of the tasks, and it returned that they were added", what)
	}
}

// cutBetweenParts cuts a checkout that takes tasks over and takes due ones, before each of its requests: what got
// through is known.
func cutBetweenParts(t *test) {
	p, dsn := t.throughProxy()
	direct := t.open()
	cuts := 0
	for k := 1; k <= maxRequests; k++ {
		q := direct.Queue(fmt.Sprintf("fault %d", subjects.Add(1)))
		t.enqueueMany(q, 2, func(i int, nt *dbq.NewTask) { nt.MaxAttempts = 1 + i }) // one is exhausted
		for _, task := range t.checkout(q, 2, short) {
			t.awaitExpiry(direct, task.ID)
		}
		t.enqueueMany(q, 3, nil)
		c := t.oneConnection(dsn)
		r := proxy.Rule{AtRequest: k}
		var out access.CheckoutResult
		var err error
		if !t.callUnder(p, r, c, func(ctx context.Context) {
			out, err = access.Checkout(ctx, c.Queue(q.Name()), 10, long)
		}, nil) {
			break // the call has fewer requests
		}
		cuts++
		returned := map[uuid.UUID]bool{}
		for _, task := range append(out.Tasks, out.Exhausted...) {
			returned[task.ID] = true
		}
		now := t.now(direct)
		for _, task := range t.list(direct, admin.Filter{Queue: q.Name()}) {
			held := task.State == state.Processing && task.LeaseUntil.After(now) || task.State == state.Poison
			if held && !returned[task.ID] {
				t.Errorf("cut at %v: task %s is %v and was not returned (error %v)", r, task.ID, task.State, err)
			}
		}
	}
	if cuts == 0 {
		t.Errorf("the checkout made no request that could be cut")
	}
}

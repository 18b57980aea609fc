package conformance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// identityFaults lose requests and answers where somebody else's task, move or name could be taken for the caller's own.
func identityFaults() []Case {
	return []Case{
		{Name: "CutCheckoutOfTwoClientsWithOneName", once: true, run: cutCheckoutOfTwins,
			Law: "A checkout whose connection is lost never returns a task that another client of the same name holds."},
		{Name: "CutBetweenPartsOfCheckout", run: cutBetweenParts,
			Law: "A checkout whose connection is lost returns every task that it took over or moved to POISON before, or took none."},
		{Name: "AnswerLostToExhausted", run: answerLostToExhausted,
			Law: "When the answer to a checkout is lost that moved a task to POISON, the checkout reports the task all the same."},
		{Name: "EnqueuedAndGone", once: true, run: enqueuedAndGone,
			Law: "When the answer to an enqueue is lost and its task is completed and removed meanwhile, there is one run of it, or the call says that it may have happened."},
		{Name: "OperateBesideAnother", once: true, run: operateBesideAnother,
			Law: "When connections are lost and two operators do the same to one task, at most one is told that it did; and what was done is not done again."},
	}
}

// cutCheckoutOfTwins lets one client take a task by its first checkout, and cuts the first checkout of another client of its name.
func cutCheckoutOfTwins(t *T) {
	p, dsn := t.throughProxy()
	name := dbq.WithName("one name for both")
	cuts := 0
	for _, answer := range []bool{false, true} {
		for k := 1; k <= maxRequests; k++ {
			queue := fmt.Sprintf("fault %d", subjects.Add(1))
			holder := t.Open(name)
			t.enqueueMany(holder.Queue(queue), 3, nil)
			held := map[uuid.UUID]bool{}
			for _, task := range t.checkout(holder.Queue(queue), 2, long) {
				held[task.ID] = true
			}
			twin := t.OpenDSN(dsn, name)
			twin.DB().SetMaxOpenConns(1)
			ctx, cancel := context.WithTimeout(t.ctx, patienceOfCall)
			r := rule{atAsk: k, answer: answer}
			p.set(r)
			tasks, err := twin.Queue(queue).Checkout(ctx, 2, long)
			fired := p.heal()
			cancel()
			twin.Close()
			holder.Close()
			if !fired {
				break // the call has fewer requests
			}
			cuts++
			for _, task := range tasks {
				if held[task.ID] {
					t.Errorf("cut at %v: the checkout returned task %s under fence %d, which the other client holds (error %v)", r, task.ID, task.Fence, err)
				}
			}
		}
	}
	if cuts == 0 {
		t.Errorf("the checkout made no request that could be cut")
	}
}

// operateBesideAnother loses requests and answers of an operator's call, and lets somebody else go on with the task before the call is repeated.
func operateBesideAnother(t *T) {
	p, dsn := t.throughProxy()
	direct := t.Open()
	const queue = "q"
	others := map[string]func(id uuid.UUID) error{
		"does the same": func(id uuid.UUID) error { return direct.Reenqueue(t.ctx, id) },
		"has gone on": func(id uuid.UUID) error { // only when the call has happened is there something to take
			for _, task := range t.checkout(direct.Queue(queue), 1, long) {
				t.Must(direct.Queue(queue).Fail(t.ctx, task.Lease, dbq.Park, errBoom))
			}
			return dbq.ErrWrongState
		},
	}
	for name, other := range others {
		for _, answer := range []bool{false, true} {
			for k := 1; k <= maxRequests; k++ {
				id := t.takeNew(direct.Queue(queue), dbq.NewTask{}, long)
				t.Must(direct.Queue(queue).Fail(t.ctx, id.Lease, dbq.Park, errBoom))
				c := t.oneConnection(dsn)
				r := rule{atAsk: k, answer: answer, stay: true}
				p.set(r)
				ctx, cancel := context.WithTimeout(t.ctx, patienceOfCall)
				var callErr error
				returned := make(chan struct{})
				go func() {
					defer close(returned)
					callErr = c.Reenqueue(ctx, id.ID)
				}()
				t.eventually("the connection is cut, or the call returns", func() bool {
					select {
					case <-returned:
						return true
					default:
						return p.hasFired()
					}
				})
				if answer {
					time.Sleep(2 * quiet) // the answer is cut when it has ended
				}
				before := t.get(direct, id.ID)
				otherErr := other(id.ID)
				fired := p.heal()
				<-returned
				cancel()
				c.Close()
				after := t.get(direct, id.ID)
				if !fired {
					t.settleAll(direct.Queue(queue))
					break // the call has fewer requests
				}
				what := fmt.Sprintf("cut at %v, another %s", r, name)
				switch {
				case callErr == nil && otherErr == nil:
					t.Errorf("%s: both are told that they reenqueued the task", what)
				case name == "has gone on" && before.State == state.Created && after.State != state.Error:
					t.Errorf("%s: the call was done, and the task parked again since; then it was done once more (it answered %v)", what, callErr)
				case callErr != nil && !errors.Is(callErr, dbq.ErrMayHaveHappened) && !errors.Is(callErr, dbq.ErrWrongState):
					t.Errorf("%s: got error %v", what, callErr)
				case errors.Is(callErr, dbq.ErrWrongState) && !errors.Is(callErr, dbq.ErrMayHaveHappened) && otherErr != nil:
					t.Errorf("%s: the call says that nothing happened, and nobody else did it: %v", what, callErr)
				}
				t.settleAll(direct.Queue(queue))
			}
		}
	}
}

// settleAll completes what is due.
func (t *T) settleAll(q *dbq.Queue) {
	for _, task := range t.checkout(q, 100, long) {
		t.Must(q.Complete(t.ctx, task.Lease, nil))
	}
}

// enqueuedAndGone loses the answer to an enqueue, and completes and removes its task before the enqueue can look for it.
func enqueuedAndGone(t *T) {
	p, dsn := t.throughProxy()
	direct := t.Open()
	calls := map[string]func(ctx context.Context, q *dbq.Queue) error{
		"Enqueue": func(ctx context.Context, q *dbq.Queue) error { _, err := q.Enqueue(ctx, dbq.NewTask{}); return err },
		"Enqueue with an id": func(ctx context.Context, q *dbq.Queue) error {
			_, err := q.Enqueue(ctx, dbq.NewTask{ID: dbq.NewID()})
			return err
		},
		"EnqueueMany": func(ctx context.Context, q *dbq.Queue) error {
			_, err := q.EnqueueMany(ctx, []dbq.NewTask{{}, {ID: dbq.NewID()}, {Reference: "r"}})
			return err
		},
	}
	seen := false
	for name, call := range calls {
		for _, kept := range []int{0, 1} { // of EnqueueMany all are removed, or all but one
			if kept > 0 && name != "EnqueueMany" {
				continue
			}
			for k := 1; k <= maxRequests; k++ {
				q := direct.Queue(fmt.Sprintf("fault %d", subjects.Add(1)))
				c := t.oneConnection(dsn)
				r := rule{atAsk: k, answer: true, stay: true}
				p.set(r)
				ctx, cancel := context.WithTimeout(t.ctx, patienceOfCall)
				var err error
				returned := make(chan struct{})
				go func() {
					defer close(returned)
					err = call(ctx, c.Queue(q.Name()))
				}()
				runs := map[uuid.UUID]int{}
				run := func(keep int) {
					for _, task := range t.checkout(q, 10, long) {
						runs[task.ID]++
						if keep--; keep >= 0 {
							t.Must(q.Complete(t.ctx, task.Lease, nil))
						} else {
							t.Must(q.CompleteAndDelete(t.ctx, task.Lease))
						}
					}
				}
				gone := false
				t.eventually("the answer is lost, or the call returns", func() bool {
					select {
					case <-returned:
						gone = true
					default:
					}
					return gone || p.hasFired()
				})
				for end := time.Now().Add(4 * quiet); !gone && len(runs) == 0 && time.Now().Before(end); time.Sleep(time.Millisecond) {
					run(kept)
				}
				time.Sleep(2 * quiet) // the answer is cut when it has ended
				fired := p.heal()
				<-returned
				cancel()
				c.Close()
				if !fired {
					break // the call has fewer requests
				}
				inTime := len(runs) > 0
				seen = seen || inTime
				run(0)
				if !inTime {
					continue // this request was not the one that does it
				}
				for id, n := range runs {
					if n != 1 {
						t.Errorf("%s, cut at %v: task %s has run %d times (it answered %v)", name, r, id, n, err)
					}
				}
				if err != nil && !errors.Is(err, dbq.ErrMayHaveHappened) {
					t.Errorf("%s, cut at %v: it was done, and it answered %v", name, r, err)
				}
				if err == nil && kept == 0 {
					t.Errorf("%s, cut at %v: nobody can know what became of it, and it answered that it was done", name, r)
				}
			}
		}
	}
	if !seen {
		t.Errorf("no enqueue was done whose answer was lost")
	}
}

// cutBetweenParts cuts a checkout that takes tasks over and takes due ones, before each of its requests: what got through is known.
func cutBetweenParts(t *T) {
	p, dsn := t.throughProxy()
	direct := t.Open()
	cuts := 0
	for k := 1; k <= maxRequests; k++ {
		q := direct.Queue(fmt.Sprintf("fault %d", subjects.Add(1)))
		t.enqueueMany(q, 2, func(i int, nt *dbq.NewTask) { nt.MaxAttempts = 1 + i }) // one is spent
		for _, task := range t.checkout(q, 2, short) {
			t.ranOut(direct, task.ID)
		}
		t.enqueueMany(q, 3, nil)
		c := t.oneConnection(dsn)
		r := rule{atAsk: k}
		p.set(r)
		ctx, cancel := context.WithTimeout(t.ctx, patienceOfCall)
		out, err := c.Queue(q.Name()).CheckoutAndSpent(ctx, 10, long)
		tasks, spent := out.Tasks, out.Spent
		fired := p.heal()
		cancel()
		c.Close()
		if !fired {
			break
		}
		cuts++
		returned := map[uuid.UUID]bool{}
		for _, task := range append(tasks, spent...) {
			returned[task.ID] = true
		}
		now := t.now(direct)
		for _, task := range t.list(direct, dbq.Filter{Queue: q.Name()}) {
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

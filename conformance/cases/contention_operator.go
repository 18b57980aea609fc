package cases

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/conformance/internal/transcript"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

func operatorsWhileWorking(t *test) {
	clients, rec := t.twoClients(), transcript.NewRecorder()
	const workers, operators = 4, 2
	n := t.load(150)
	rng := t.rngs(workers + operators + 1)
	producer := rec.Caller("producer", clients[0].Queue("operated"))
	t.produce(t.ctx, producer, n, rng[workers+operators], &backlog{})
	ids := idsOf(t.list(clients[0], admin.Filter{}))
	end := time.Now().Add(time.Second)
	var stop atomic.Bool
	t.concurrently(workers+operators, func(ctx context.Context, i int) {
		if i >= workers {
			w := rec.Caller(fmt.Sprintf("operator %d", i), clients[i%2].Queue("operated"))
			defer stop.Store(true)
			for time.Now().Before(end) && !stop.Load() {
				if err := operateAtRandom(ctx, w, rng[i], ids); err != nil {
					t.Errorf("%s: %v", w.Name, err)
					return
				}
			}
			return
		}
		w := rec.Caller(fmt.Sprintf("worker %d", i), clients[i%2].Queue("operated"))
		if err := workUntil(ctx, w, rng[i], &stop); err != nil {
			t.Errorf("%s: %v", w.Name, err)
		}
	})
	t.completeRest(producer)
	t.wantAll(t.checkTranscript(clients[0], rec.Records()), dbq.StateCompleted)
}

// operateAtRandom performs a random event on a random task, rarely on many.
func operateAtRandom(ctx context.Context, w *transcript.Caller, rng *rand.Rand, ids []uuid.UUID) error {
	events := state.ByOperator()
	e := events[rng.IntN(len(events))].Event
	if rng.IntN(100) == 0 {
		_, err := w.OperateMany(ctx, state.Reenqueue, admin.Filter{Queue: w.Queue.Name(), Limit: 1 + rng.IntN(10)})
		return err
	}
	if e == state.Purge && rng.IntN(4) > 0 { // leave something for the others
		e = state.Revoke
	}
	err := w.Operate(ctx, e, ids[rng.IntN(len(ids))])
	if errors.Is(err, dbq.ErrWrongState) || errors.Is(err, dbq.ErrNotFound) {
		return nil
	}
	return err
}

// workUntil takes a few tasks at a time and ends them in every way, until the operators have stopped.
func workUntil(ctx context.Context, w *transcript.Caller, rng *rand.Rand, stop *atomic.Bool) error {
	for !stop.Load() {
		tasks, err := w.Checkout(ctx, 1+rng.IntN(5), 150*time.Millisecond)
		if err != nil {
			return err
		}
		if err := sleep(ctx, time.Duration(rng.IntN(10))*time.Millisecond); err != nil {
			return err
		}
		for _, task := range tasks {
			var s dbq.Settlement
			switch n := rng.IntN(100); {
			case n < 20:
				continue // never settled
			case n < 40:
				s = settlement(task.Lease, dbq.Parked(errors.New("parked")))
			case n < 60:
				s = settlement(task.Lease, dbq.RetryIn(0, errors.New("by chance")))
			case n < 70:
				s = settlement(task.Lease, dbq.Poisoned(errors.New("for good")))
			case n < 80:
				s = settlement(task.Lease, dbq.Released(0))
			default:
				s = settlement(task.Lease, dbq.Completed(nil))
			}
			if _, err := w.Settle(ctx, false, s); err != nil {
				return err
			}
		}
	}
	return nil
}

// completeRest reenqueues and completes every task that is left.
func (t *test) completeRest(w *transcript.Caller) {
	t.eventually("everything is completed", func() bool {
		for _, f := range []admin.Filter{{States: []dbq.State{dbq.StateError}, Limit: 1000},
			{States: []dbq.State{dbq.StatePoison}, Limit: 1000}} {
			if _, err := w.OperateMany(t.ctx, state.Reenqueue, f); err != nil {
				t.Fatalf("reenqueue: %v", err)
			}
		}
		tasks, err := w.Checkout(t.ctx, 100, time.Minute)
		t.must(err)
		ss := make([]dbq.Settlement, len(tasks))
		for i, task := range tasks {
			ss[i] = settlement(task.Lease, dbq.Completed(nil))
		}
		if len(ss) > 0 {
			_, err := w.Settle(t.ctx, false, ss...)
			t.must(err)
		}
		return len(tasks) == 0 && t.idle(t.ctx, w.Queue.Client())
	})
}

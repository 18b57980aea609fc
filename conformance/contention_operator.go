package conformance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

func operatorsWhileWorking(t *T) {
	clients, rec := t.two(), newRecorder()
	const workers, operators = 4, 2
	n := t.load(150)
	dice := t.dice(workers + operators + 1)
	feeder := &witness{rec, "feeder", clients[0].Queue("meddled")}
	t.feed(t.ctx, feeder, n, dice[workers+operators], &stock{})
	ids := idsOf(t.list(clients[0], dbq.Filter{}))
	end := time.Now().Add(time.Second)
	var stop atomic.Bool
	t.together(workers+operators, func(ctx context.Context, i int) {
		if i >= workers {
			w := &witness{rec, fmt.Sprintf("operator %d", i), clients[i%2].Queue("meddled")}
			defer stop.Store(true)
			for time.Now().Before(end) && !stop.Load() {
				if err := meddle(ctx, w, dice[i], ids); err != nil {
					t.Errorf("%s: %v", w.name, err)
					return
				}
			}
			return
		}
		w := &witness{rec, fmt.Sprintf("worker %d", i), clients[i%2].Queue("meddled")}
		if err := workUntil(ctx, w, dice[i], &stop); err != nil {
			t.Errorf("%s: %v", w.name, err)
		}
	})
	t.finish(feeder)
	t.wantAll(t.judge(clients[0], rec.all()), dbq.StateCompleted)
}

// meddle does one random thing to a random task, rarely to many.
func meddle(ctx context.Context, w *witness, dice *rand.Rand, ids []uuid.UUID) error {
	events := state.ByOperator()
	e := events[dice.IntN(len(events))].Event
	if dice.IntN(100) == 0 {
		_, err := w.operateMany(ctx, state.Reenqueue, dbq.Filter{Queue: w.q.Name(), Limit: 1 + dice.IntN(10)})
		return err
	}
	if e == state.Purge && dice.IntN(4) > 0 { // leave something for the others
		e = state.Revoke
	}
	err := w.operate(ctx, e, ids[dice.IntN(len(ids))])
	if errors.Is(err, dbq.ErrWrongState) || errors.Is(err, dbq.ErrNotFound) {
		return nil
	}
	return err
}

// workUntil takes a few tasks at a time and ends them in every way, for as long as the operators are there.
func workUntil(ctx context.Context, w *witness, dice *rand.Rand, stop *atomic.Bool) error {
	for !stop.Load() {
		tasks, err := w.checkout(ctx, 1+dice.IntN(5), 150*time.Millisecond)
		if err != nil {
			return err
		}
		if err := rest(ctx, time.Duration(dice.IntN(10))*time.Millisecond); err != nil {
			return err
		}
		for _, task := range tasks {
			var s dbq.Settlement
			switch n := dice.IntN(100); {
			case n < 20:
				continue // never settled
			case n < 40:
				s = dbq.Failed(task.Lease, dbq.Park, errors.New("parked"))
			case n < 60:
				s = dbq.Failed(task.Lease, dbq.RetryIn(0), errors.New("by chance"))
			case n < 70:
				s = dbq.Poisoned(task.Lease, errors.New("for good"))
			case n < 80:
				s = dbq.Released(task.Lease, 0)
			default:
				s = dbq.Completed(task.Lease, nil)
			}
			if _, err := w.settle(ctx, false, s); err != nil {
				return err
			}
		}
	}
	return nil
}

// finish brings everything that is left back and completes it.
func (t *T) finish(w *witness) {
	t.eventually("everything is completed", func() bool {
		for _, f := range []dbq.Filter{{States: []dbq.State{dbq.StateError}, Limit: 1000}, {States: []dbq.State{dbq.StatePoison}, Limit: 1000}} {
			if _, err := w.operateMany(t.ctx, state.Reenqueue, f); err != nil {
				t.Fatalf("reenqueue: %v", err)
			}
		}
		tasks, err := w.checkout(t.ctx, 100, time.Minute)
		t.Must(err)
		ss := make([]dbq.Settlement, len(tasks))
		for i, task := range tasks {
			ss[i] = dbq.Completed(task.Lease, nil)
		}
		if len(ss) > 0 {
			_, err := w.settle(t.ctx, false, ss...)
			t.Must(err)
		}
		return len(tasks) == 0 && t.idle(t.ctx, w.q.Client())
	})
}

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
)

// habits are how a worker of a drain behaves. Shares are out of 100 tasks.
type habits struct {
	batch                           []int // sizes of its checkouts, taken at random
	lease                           time.Duration
	abandon, fail, release, deletes int
	pause                           time.Duration // work on each batch, at most
}

// stock counts the tasks that feeders bring and workers end.
type stock struct {
	left     atomic.Int64
	feeding  atomic.Int32 // feeders that have not brought all yet
	settling atomic.Int32 // calls that end tasks and have not counted them yet
}

// empty reports whether all that will ever come has been ended.
func (s *stock) empty() bool { return s.feeding.Load() == 0 && s.left.Load() <= 0 }

// lost reports whether tasks are missing, when the queue was found idle after left was read: whoever ended one before that has either
// counted it, or is about to.
func (s *stock) lost(left int64) bool {
	return left > 0 && s.settling.Load() == 0 && s.left.Load() == left
}

// emptyRests is after how many empty checkouts in a row a worker asks whether anything is left in the queue.
const emptyRests = 50

// drain checks out and settles until the stock is empty or ctx ends.
func (t *T) drain(ctx context.Context, w *witness, h habits, dice *rand.Rand, s *stock) error {
	for none := 0; !s.empty(); {
		tasks, err := w.checkout(ctx, h.batch[dice.IntN(len(h.batch))], h.lease)
		if err != nil {
			return err
		}
		if len(tasks) == 0 {
			none++
			left := s.left.Load()
			if none >= 3*emptyRests && none%emptyRests == 0 && s.feeding.Load() == 0 && t.idle(ctx, w.q.Client()) && s.lost(left) {
				return fmt.Errorf("nothing is left to be done, though %d tasks were not ended", left)
			}
			if err := rest(ctx, 2*time.Millisecond); err != nil {
				return fmt.Errorf("%d tasks are left, and none to be had: %w", left, err)
			}
			continue
		}
		none = 0
		if h.pause > 0 {
			if err := rest(ctx, time.Duration(dice.Int64N(int64(h.pause)))); err != nil {
				return err
			}
		}
		if err := settleAll(ctx, w, h, dice, tasks, s); err != nil {
			return err
		}
	}
	return nil
}

// settleAll ends the attempts, some in one call and some one by one.
func settleAll(ctx context.Context, w *witness, h habits, dice *rand.Rand, tasks []dbq.Task, s *stock) error {
	var batch, removals []dbq.Settlement
	for _, task := range tasks {
		switch n := dice.IntN(100); {
		case n < h.abandon:
		case n < h.abandon+h.fail:
			batch = append(batch, dbq.Failed(task.Lease, dbq.RetryIn(0), errors.New("by chance")))
		case n < h.abandon+h.fail+h.release:
			batch = append(batch, dbq.Released(task.Lease, 0))
		case n < h.abandon+h.fail+h.release+h.deletes:
			removals = append(removals, dbq.CompletedAndDeleted(task.Lease))
		default:
			batch = append(batch, dbq.Completed(task.Lease, nil))
		}
	}
	if len(batch) > 1 && dice.IntN(2) == 0 {
		single := batch[0]
		batch = batch[1:]
		if err := settleCounted(ctx, w, false, s, single); err != nil {
			return err
		}
	}
	if err := settleCounted(ctx, w, false, s, batch...); err != nil {
		return err
	}
	return settleCounted(ctx, w, true, s, removals...)
}

func settleCounted(ctx context.Context, w *witness, remove bool, s *stock, ss ...dbq.Settlement) error {
	if len(ss) == 0 {
		return nil
	}
	s.settling.Add(1)
	defer s.settling.Add(-1)
	out, err := w.settle(ctx, remove, ss...)
	if err != nil {
		return err
	}
	for i, o := range out {
		if o.Err == nil && (ss[i].Event() == state.Complete || o.State == state.Poison) {
			s.left.Add(-1)
		}
	}
	return nil
}

func rest(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// feed enqueues n tasks in batches of random sizes and priorities.
func (t *T) feed(ctx context.Context, w *witness, n int, dice *rand.Rand, s *stock) {
	for n > 0 {
		ts := make([]dbq.NewTask, min(n, 1+dice.IntN(100)))
		for i := range ts {
			ts[i] = dbq.NewTask{Priority: dice.IntN(dbq.MaxPriority + 1), MaxAttempts: 1000}
		}
		s.left.Add(int64(len(ts))) // before anybody can end them
		if _, err := w.enqueue(ctx, ts); err != nil {
			t.Errorf("%s: enqueue of %d: %v", w.name, len(ts), err)
			return
		}
		n -= len(ts)
	}
}

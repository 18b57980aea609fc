package cases

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/conformance/internal/transcript"
	"github.com/dbq-go/dbq/internal/store"
	"github.com/dbq-go/dbq/state"
)

// behavior describes how a worker of drain handles its tasks. The shares are of 100 tasks.
type behavior struct {
	batch                           []int // sizes of its checkouts, taken at random
	lease                           time.Duration
	abandon, fail, release, deletes int
	pause                           time.Duration // work on each batch, at most
}

// A backlog counts the tasks that producers enqueue and workers end.
type backlog struct {
	left      atomic.Int64
	producing atomic.Int32 // producers that have not brought all yet
	settling  atomic.Int32 // calls that end tasks and have not counted them yet
}

// empty reports whether everything that will ever be enqueued has been ended.
func (s *backlog) empty() bool { return s.producing.Load() == 0 && s.left.Load() <= 0 }

// lost reports whether tasks are missing. The queue was found idle after left was read: a worker that ended a task
// before that has either counted it, or is about to.
func (s *backlog) lost(left int64) bool {
	return left > 0 && s.settling.Load() == 0 && s.left.Load() == left
}

// emptyCheckouts is after how many empty checkouts in a row a worker checks whether anything is left in the queue.
const emptyCheckouts = 50

// drain checks out and settles until the backlog is empty or ctx ends.
func (t *test) drain(ctx context.Context, w *transcript.Caller, h behavior, rng *rand.Rand, s *backlog) error {
	for none := 0; !s.empty(); {
		tasks, err := w.Checkout(ctx, h.batch[rng.IntN(len(h.batch))], h.lease)
		if err != nil {
			return err
		}
		if len(tasks) == 0 {
			none++
			left := s.left.Load()
			if none >= 3*emptyCheckouts && none%emptyCheckouts == 0 && s.producing.Load() == 0 &&
				t.idle(ctx, w.Queue.Client()) &&
				s.lost(left) {
				return fmt.Errorf("nothing is left to be done, though %d tasks were not ended", left)
			}
			if err := sleep(ctx, 2*time.Millisecond); err != nil {
				return fmt.Errorf("%d tasks are left, and none to be had: %w", left, err)
			}
			continue
		}
		none = 0
		if h.pause > 0 {
			if err := sleep(ctx, time.Duration(rng.Int64N(int64(h.pause)))); err != nil {
				return err
			}
		}
		if err := settleAll(ctx, w, h, rng, tasks, s); err != nil {
			return err
		}
	}
	return nil
}

// settleAll ends the attempts, some in one call and some one by one.
func settleAll(ctx context.Context, w *transcript.Caller, h behavior, rng *rand.Rand, tasks []dbq.Task,
	s *backlog) error {
	var batch, removals []dbq.Settlement
	for _, task := range tasks {
		switch n := rng.IntN(100); {
		case n < h.abandon:
		case n < h.abandon+h.fail:
			batch = append(batch, settlement(task.Lease, dbq.RetryIn(0, errors.New("by chance"))))
		case n < h.abandon+h.fail+h.release:
			batch = append(batch, settlement(task.Lease, dbq.Released(0)))
		case n < h.abandon+h.fail+h.release+h.deletes:
			removals = append(removals, settlement(task.Lease, dbq.Deleted()))
		default:
			batch = append(batch, settlement(task.Lease, dbq.Completed(nil)))
		}
	}
	if len(batch) > 1 && rng.IntN(2) == 0 {
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

// settleCounted settles, and counts the tasks that ended.
func settleCounted(ctx context.Context, w *transcript.Caller, remove bool, s *backlog, ss ...dbq.Settlement) error {
	if len(ss) == 0 {
		return nil
	}
	s.settling.Add(1)
	defer s.settling.Add(-1)
	out, err := w.Settle(ctx, remove, ss...)
	if err != nil {
		return err
	}
	for i, o := range out {
		if o.Err == nil && (ss[i].Outcome.Event() == state.Complete || o.State == state.Poison) {
			s.left.Add(-1)
		}
	}
	return nil
}

// sleep waits for d, or until ctx ends and then returns its error.
func sleep(ctx context.Context, d time.Duration) error { return store.Sleep(ctx, d) }

// produce enqueues n tasks in batches of random sizes and priorities.
func (t *test) produce(ctx context.Context, w *transcript.Caller, n int, rng *rand.Rand, s *backlog) {
	for n > 0 {
		ts := make([]dbq.NewTask, min(n, 1+rng.IntN(100)))
		for i := range ts {
			ts[i] = dbq.NewTask{Priority: rng.IntN(dbq.MaxPriority + 1), MaxAttempts: 1000}
		}
		s.left.Add(int64(len(ts))) // before anybody can end them
		if _, err := w.Enqueue(ctx, ts); err != nil {
			t.Errorf("%s: enqueue of %d: %v", w.Name, len(ts), err)
			return
		}
		n -= len(ts)
	}
}

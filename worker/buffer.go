package worker

import (
	"context"
	"sync/atomic"
	"time"
)

// prefetchMost is the maximum number of tasks that wait in the buffer, in full checkouts.
const prefetchMost = 4

// buffer is between the fetcher and the executors. It passes leased tasks to the executors and demand to the fetcher.
type buffer struct {
	*env
	ready  chan *leased  // leased, not started
	refill chan struct{} // receives when the fetcher should read wanted

	idle atomic.Int64 // executors that wait for a task
	// waiting is the number of waiting tasks: those in ready, and those passed to an executor that still counts as idle.
	// waitingBytes is the size of their payloads.
	waiting, waitingBytes atomic.Int64
	ahead                 atomic.Int64 // how many tasks should wait beyond those for idle executors
	coming                atomic.Int64 // tasks that checkouts under way may return
	// calls of the handler that have ended since takeCalls, and their total duration.
	calls, callTime atomic.Int64
}

func newBuffer(e *env) *buffer {
	room := prefetchMost*e.cfg.MaxCheckout + e.cfg.Concurrency*e.perCall()
	return &buffer{env: e, ready: make(chan *leased, room), refill: make(chan struct{}, 1)}
}

// put adds tasks. If there is no room, as after an operator has set larger checkouts than the worker started with, it
// waits for the executors. When ctx ends, it returns the remaining tasks.
func (b *buffer) put(ctx context.Context, tasks []leased) (left []leased) {
	for i := range tasks {
		l := &tasks[i]
		b.waiting.Add(1)
		b.waitingBytes.Add(int64(len(l.task.Payload)))
		select {
		case b.ready <- l:
			continue
		default: // a select of one channel is the fast one
		}
		select {
		case b.ready <- l:
		case <-ctx.Done():
			b.took(l)
			return tasks[i:]
		}
	}
	return nil
}

// took records that tasks no longer wait.
func (b *buffer) took(tasks ...*leased) {
	bytes := 0
	for _, l := range tasks {
		bytes += len(l.task.Payload)
	}
	b.waiting.Add(int64(-len(tasks)))
	b.waitingBytes.Add(int64(-bytes))
}

// take waits for a task, until quit is closed or fewer receives. The task counts as waiting until took is called,
// unlike the tasks of the other methods.
func (b *buffer) take(quit, fewer <-chan struct{}) *leased {
	select {
	case l := <-b.ready:
		return l
	default:
	}
	b.idle.Add(1)
	defer b.idle.Add(-1)
	b.signal()
	select {
	case l := <-b.ready:
		return l
	case <-quit:
	case <-fewer:
	}
	return nil
}

// fill adds tasks to a batch, up to the worker's BatchSize, and waits briefly for them.
func (b *buffer) fill(batch []*leased, quit <-chan struct{}) []*leased {
	over := time.After(batchWait)
	for len(batch) < b.cfg.BatchSize {
		select {
		case l := <-b.ready:
			batch = append(batch, l)
		case <-over:
			return batch
		case <-quit:
			return batch
		}
	}
	return batch
}

// drain removes all tasks from the buffer and returns them.
func (b *buffer) drain() (tasks []*leased) {
	for {
		select {
		case l := <-b.ready:
			tasks = append(tasks, l)
		default:
			return tasks
		}
	}
}

// stale removes and returns up to n tasks that have waited too long.
func (b *buffer) stale(n int, now time.Time) (tasks []*leased) {
	for range n {
		select {
		case l := <-b.ready:
			if now.Sub(l.received) < staleAfter { // the tasks behind it are younger
				select {
				case b.ready <- l:
					return tasks
				default:
				}
			}
			b.took(l)
			tasks = append(tasks, l)
		default:
			return tasks
		}
	}
	return tasks
}

// wanted returns how many tasks are missing, at most MaxCheckout; 0 means too few for a checkout. No task is missing
// while the waiting payloads are as large as a checkout can return.
func (b *buffer) wanted() int {
	if b.db != nil && b.waitingBytes.Load() >= int64(b.db.Client().Info().MaxCheckoutBytes) {
		return 0
	}
	most := b.settings().maxCheckout
	target := int(b.idle.Load()) * b.perCall()
	if b.share == nil {
		target += int(b.ahead.Load())
	}
	want := target - int(b.waiting.Load()) - int(b.coming.Load())
	if want < max(1, min(target/2, most)) {
		return 0
	}
	return min(want, most)
}

// signal wakes the fetcher if enough tasks are missing. It is called after an executor has started to wait or has
// taken tasks.
func (b *buffer) signal() {
	if b.wanted() == 0 {
		return
	}
	select {
	case b.refill <- struct{}{}:
	default: // it is woken already
	}
}

// callEnded records the duration of a call of the handler.
func (b *buffer) callEnded(took time.Duration) {
	b.calls.Add(1)
	b.callTime.Add(int64(took))
}

// takeCalls returns how many calls of the handler have ended since the last time, and their total duration.
func (b *buffer) takeCalls() (n int, took time.Duration) {
	return int(b.calls.Swap(0)), time.Duration(b.callTime.Swap(0))
}

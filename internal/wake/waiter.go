package wake

import (
	"slices"
	"sync"
	"time"
)

// Wakeup is a signal to a Waiter.
type Wakeup struct {
	// Uncertain reports whether it is not known that a task is due. Waker.Next finds out, and is cheaper than a checkout
	// that finds nothing.
	Uncertain bool

	// Shared reports whether other processes know of the same tasks.
	Shared bool

	tasks int // that it is for
}

// unprompted is for a checkout without a wake-up.
var unprompted = Wakeup{Uncertain: true}

// Waiter lets a worker wait for wake-ups. Its methods are for one goroutine, except Close.
//
// Of the waiters of a process as many are woken as are needed for the tasks that became due, and only those that wait:
//
//	for {
//		waiter.BeforeCheckout()
//		tasks, err := q.Checkout(ctx, n, lease)
//		...
//		if !waiter.AfterCheckout(len(tasks), len(tasks) == n) {
//			<-waiter.Wait(n) // or a pause, after which Waker.Next reports
//		}
//	}
//
// A waiter wakes at once when a task is enqueued by any client of this process on the same tables, when an operator
// reenqueues, and when another process notifies. Tasks that are due later wake it when they are due, those of other
// processes too where they notify. A wake-up that comes while no waiter waits is kept for the next one that does,
// unless that one has checked out since.
//
// Waiters for control and revocations are all woken, whether they wait or not: receive from C.
type Waiter struct {
	c        chan Wakeup
	topic    *topic
	listener *listener // nil where no notifications are received
	closed   sync.Once

	// The following are guarded by topic.mu.
	capacity int           // tasks that the owner can take
	waiting  bool          // in topic.waiting
	checkout time.Duration // when the owner's checkout began, until AfterCheckout; zero is none
	seen     uint64        // topic.serial when the owner checked out last
	woken    bool          // and the owner has not checked out since
	current  Wakeup        // what it was woken for
}

// C receives wake-ups; those that come while one waits to be received are one.
func (w *Waiter) C() <-chan Wakeup { return w.c }

// Wait makes the waiter one of those that are woken when tasks are due, until it is or its owner checks out. n is how
// many tasks the owner can take; the others are for other waiters. It returns C.
func (w *Waiter) Wait(n int) <-chan Wakeup {
	t := w.topic
	t.mu.Lock()
	defer t.mu.Unlock()
	w.capacity = max(n, 1)
	if w.woken && len(w.c) > 0 {
		return w.c
	}
	if !w.waiting {
		w.waiting = true
		t.waiting = append(t.waiting, w)
	}
	if w.seen >= t.serial { // what was missed was there when it checked out
		t.missed.tasks = 0
	}
	t.missed.tasks = t.wakeWaiting(t.missed)
	return w.c
}

// BeforeCheckout is called before a checkout, which serves the wake-ups until now.
func (w *Waiter) BeforeCheckout() {
	t := w.topic
	t.mu.Lock()
	defer t.mu.Unlock()
	w.seen, w.woken, w.checkout = t.serial, false, t.hub.now()
	w.stop()
	w.drain()
}

// AfterCheckout is called after a checkout, with how many tasks it found, and whether that was all it could take. It
// reports whether another checkout at once is worth it: not when just the tasks were found that the wake-up was for.
// When there may be more than the owner can take, another waiter of this process is woken. After an uncertain wake-up
// it is also called, without a checkout, when nothing is due.
func (w *Waiter) AfterCheckout(n int, full bool) (again bool) {
	t := w.topic
	t.mu.Lock()
	defer t.mu.Unlock()
	u, now := w.current, t.hub.now()
	w.current = unprompted
	if u.Shared || n > 0 && t.backoffUntil > now { // it found by itself what it was about to be woken for
		t.learn(n > 0, w.checkout > 0, now-w.checkout)
	}
	w.checkout = 0
	if n > u.tasks {
		t.early, t.earlyUntil = t.early+n-u.tasks, now+earlyFor
	}
	if !full || !u.Uncertain && n <= u.tasks {
		return false
	}
	t.wakeWaiting(Wakeup{tasks: 1, Uncertain: true})
	return true
}

// Pass hands on a wake-up that the owner does not follow, as when it is paused, and stops waiting.
func (w *Waiter) Pass() {
	w.topic.mu.Lock()
	defer w.topic.mu.Unlock()
	w.stop()
	w.handOn()
}

// Close ends the waiter, and hands a wake-up on that was not followed. C receives nothing more; it is not closed.
func (w *Waiter) Close() {
	w.closed.Do(func() {
		w.topic.hub.leave(w)
		if w.listener != nil {
			w.listener.release()
		}
	})
}

// wake wakes the owner. topic.mu is held.
func (w *Waiter) wake(u Wakeup) {
	w.woken, w.current = true, u
	select {
	case w.c <- u:
	default: // one waits already
	}
}

// stop makes the waiter wait no more. topic.mu is held.
func (w *Waiter) stop() {
	if w.waiting {
		w.waiting = false
		w.topic.waiting = slices.DeleteFunc(w.topic.waiting, func(x *Waiter) bool { return x == w })
	}
}

// handOn gives a wake-up that was not followed to another waiter. topic.mu is held.
func (w *Waiter) handOn() {
	if w.woken {
		w.woken = false
		w.drain()
		w.topic.wake(w.current)
		w.current = unprompted
	}
}

func (w *Waiter) drain() {
	select {
	case <-w.c:
	default:
	}
}

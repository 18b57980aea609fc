package wake

import (
	"slices"
	"sync"
	"time"
)

// Wakeup is a signal to a Waiter.
type Wakeup struct {
	// Uncertain reports that a task may not be due. Waker.Next determines that, at less cost than a checkout that finds
	// nothing.
	Uncertain bool

	// Shared reports whether other processes know of the same tasks.
	Shared bool

	tasks int // the number of tasks that it is for
}

// unprompted is for a checkout without a wake-up.
var unprompted = Wakeup{Uncertain: true}

// Waiter lets a worker wait for wake-ups. Only one goroutine can use it at a time, except for Close.
//
// The hub wakes as many waiters of a process as are needed for the tasks that became due, and only waiters that wait:
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
// A waiter wakes immediately when any client of this process enqueues to the same tables, when an operator
// reenqueues, and when another process notifies. Tasks that are due later wake it when they are due, including those
// of other processes that notify. If no waiter waits, a wake-up is kept for the next one that does, unless that one
// has checked out since.
//
// All waiters for control and revocations are woken, whether they wait or not: receive from C.
type Waiter struct {
	c        chan Wakeup
	topic    *topic
	listener *listener // nil if no notifications are received
	closed   sync.Once

	// The following are guarded by topic.mu.
	capacity int           // how many tasks the owner can lease
	waiting  bool          // in topic.waiting
	checkout time.Duration // when the owner's checkout began, until AfterCheckout; zero means none
	seen     uint64        // topic.serial at the owner's last checkout, or before its last query that found nothing due
	at       uint64        // topic.serial when it was last woken
	woken    bool          // woken, and the owner has not checked out since
	current  Wakeup        // the last wake-up
}

// C receives wake-ups. Wake-ups that come before one is received are merged with it.
func (w *Waiter) C() <-chan Wakeup { return w.c }

// Wait makes the waiter eligible for wake-ups, until it is woken or its owner checks out. n is how many tasks the
// owner can lease; the other tasks are for other waiters. It returns C.
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
	if w.seen >= t.serial { // the missed tasks already existed at its last checkout
		t.missed.tasks = 0
	}
	t.missed.tasks = t.wakeWaiting(t.missed)
	return w.c
}

// BeforeCheckout is called before a checkout, which covers the wake-ups until now.
func (w *Waiter) BeforeCheckout() {
	t := w.topic
	t.mu.Lock()
	defer t.mu.Unlock()
	w.seen, w.woken, w.checkout = t.serial, false, t.hub.now()
	w.stop()
	w.drain()
}

// AfterCheckout is called after a checkout, with the number of tasks that it found, and whether that was its limit.
// It reports whether another checkout should follow immediately: not if the checkout found exactly the tasks of the
// wake-up. If there may be more tasks than the owner can lease, it wakes another waiter of this process. After an
// uncertain wake-up, it is also called without a checkout if nothing is due.
func (w *Waiter) AfterCheckout(n int, full bool) (again bool) {
	t := w.topic
	t.mu.Lock()
	defer t.mu.Unlock()
	u, now := w.current, t.hub.now()
	if w.checkout == 0 { // the query found none of the missed tasks, either
		w.seen = max(w.seen, w.at)
	}
	w.current = unprompted
	if u.Shared || n > 0 && t.backoffUntil > now { // it found the tasks of a wake-up that had not come yet
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

// Pass passes an unused wake-up to another waiter, for example if the owner is paused, and stops waiting.
func (w *Waiter) Pass() {
	w.topic.mu.Lock()
	defer w.topic.mu.Unlock()
	w.stop()
	w.handOn()
}

// Close ends the waiter and passes an unused wake-up to another waiter. C receives nothing more, but is not closed.
func (w *Waiter) Close() {
	w.closed.Do(func() {
		w.topic.hub.leave(w)
		if w.listener != nil {
			w.listener.release()
		}
	})
}

// wake wakes the owner. The caller holds topic.mu.
func (w *Waiter) wake(u Wakeup) {
	w.woken, w.current, w.at = true, u, w.topic.serial
	select {
	case w.c <- u:
	default: // a wake-up is already pending
	}
}

// stop ends waiting. The caller holds topic.mu.
func (w *Waiter) stop() {
	if w.waiting {
		w.waiting = false
		w.topic.waiting = slices.DeleteFunc(w.topic.waiting, func(x *Waiter) bool { return x == w })
	}
}

// handOn passes an unused wake-up to another waiter. The caller holds topic.mu.
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

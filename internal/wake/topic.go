package wake

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// A process that backs off leaves tasks to others for as long as they have been seen to take, within these bounds.
const (
	minBackoff = 16 * time.Millisecond
	maxBackoff = 250 * time.Millisecond
)

// earlyFor is for how long a wake-up may come after its task, which was found without it.
const earlyFor = 100 * time.Millisecond

// topic is shared by the waiters for one queue's tasks, its control or its revocations. Times are since
// the hub's start.
type topic struct {
	hub       *hub
	name      string
	broadcast bool // a wake-up is for all waiters, whether they wait or not

	mu      sync.Mutex // guards what follows
	waiters []*Waiter
	waiting []*Waiter // those that wait, the longest first

	// missed are tasks for which no waiter waited, the last of them under serial.
	missed Wakeup
	serial uint64

	// early are tasks that were found before their wake-up, which is uncertain then.
	early      int
	earlyUntil time.Duration

	schedule schedule
	timer    *time.Timer

	// Of the processes that know of the same tasks, those that came too late back off the next time, and the one that was
	// first does not.
	backoff      time.Duration
	backoffUntil time.Duration
	late         int // times in a row that it came too late
	inTime       int // times in a row that it did not
}

// wakeWaiting wakes waiters that wait, for u.tasks tasks, and returns for how many none waited. mu is held.
func (t *topic) wakeWaiting(u Wakeup) (rest int) {
	rest = u.tasks
	for rest > 0 && len(t.waiting) > 0 {
		w := t.waiting[0]
		t.waiting = slices.Delete(t.waiting, 0, 1)
		w.waiting = false
		u.tasks = min(rest, w.capacity)
		rest -= u.tasks
		w.wake(u)
	}
	return rest
}

// wake wakes waiters for u.tasks tasks, and keeps those that no waiter waited for. It returns how many these are. mu is
// held.
func (t *topic) wake(u Wakeup) (rest int) {
	if t.hub.now() > t.earlyUntil {
		t.early = 0
	}
	if u.Shared && t.early > 0 {
		found := min(u.tasks, t.early)
		if found == u.tasks {
			u.Uncertain, u.Shared = true, false
		}
		t.early -= found
	}
	if rest = t.wakeWaiting(u); rest > 0 {
		if t.missed.tasks > 0 {
			u.Uncertain, u.Shared = u.Uncertain && t.missed.Uncertain, u.Shared && t.missed.Shared
		}
		u.tasks = t.missed.tasks + rest
		t.missed = u
		t.serial++
	}
	return rest
}

// wakeAll wakes every waiter. mu is held.
func (t *topic) wakeAll() {
	for _, w := range t.waiters {
		w.wake(unprompted)
	}
}

// setTimer sets the timer for what is due next. mu is held.
func (t *topic) setTimer() {
	next := t.schedule.next()
	switch {
	case next == 0:
	case t.timer == nil:
		t.timer = time.AfterFunc(next-t.hub.now(), t.fire)
	default:
		t.timer.Reset(next - t.hub.now())
	}
}

// fire wakes waiters for what is due.
func (t *topic) fire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, d := range t.schedule.take(t.hub.now()) {
		t.wakeDue(d)
	}
	t.setTimer()
}

// wakeDue wakes waiters for tasks that are due. Of those that other processes know of as well, a process that backs off
// wakes them a little later, and as uncertain. mu is held.
func (t *topic) wakeDue(d dueTime) {
	now := t.hub.now()
	switch {
	case !d.Shared || t.backoff == 0:
		d.Shared = d.Shared || d.delayed
		t.wake(d.Wakeup)
	case t.backoffUntil > now: // the waiter that wakes then finds these as well
	default:
		t.backoffUntil = wholeMillis(now + t.backoff + rand.N(t.backoff))
		t.schedule.add(dueTime{
			at: t.backoffUntil, Wakeup: Wakeup{tasks: d.tasks, Uncertain: true}, delayed: true,
		})
	}
}

// learn notes whether this process was the first to check out tasks that others know of as well. Twice first in a row
// it no longer backs off; twice too late it does: once may be because of a checkout of its own that was under way. One
// that checked out, for a while that it took, and found what another one was taking backs off for longer the next time.
// mu is held.
func (t *topic) learn(first, checkedOut bool, took time.Duration) {
	if first {
		t.late, t.inTime = 0, t.inTime+1
		if t.inTime > 1 {
			t.backoff = 0
		}
		return
	}
	if checkedOut && (t.backoff > 0 || t.late > 0) {
		t.backoff = min(max(2*t.backoff, 4*took, minBackoff), maxBackoff)
	}
	t.late, t.inTime = t.late+1, 0
}

// remove removes a waiter, hands its wake-up on, and returns how many are left.
func (t *topic) remove(w *Waiter) (left int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiters = slices.DeleteFunc(t.waiters, func(x *Waiter) bool { return x == w })
	w.stop()
	if left = len(t.waiters); left > 0 {
		w.handOn()
	} else if t.timer != nil {
		t.timer.Stop()
		t.schedule = schedule{}
	}
	return left
}

package wake

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// The limits of the time for which a process that backs off leaves tasks to others, depending on their observed
// speed.
const (
	minBackoff = 16 * time.Millisecond
	maxBackoff = 250 * time.Millisecond
)

// earlyFor is how late a wake-up can come after its task was found without it.
const earlyFor = 100 * time.Millisecond

// topic is shared by the waiters for one queue's tasks, its control or its revocations. Times are since
// the hub's start.
type topic struct {
	hub       *hub
	name      string
	broadcast bool // a wake-up is for all waiters, whether they wait or not

	mu      sync.Mutex // guards the following fields
	waiters []*Waiter
	waiting []*Waiter // waiters that wait, the longest-waiting first

	// missed is the number of tasks for which no waiter waited; serial is the serial number of the last one.
	missed Wakeup
	serial uint64

	// early is the number of tasks that were found before their wake-up, which is then uncertain.
	early      int
	earlyUntil time.Duration

	schedule schedule
	timer    *time.Timer

	// If several processes know of the same tasks, those that came too late back off the next time, and the one that
	// was first does not.
	backoff      time.Duration
	backoffUntil time.Duration
	late         int // how often in a row it came too late
	inTime       int // how often in a row it did not
}

// wakeWaiting wakes waiting waiters for u.tasks tasks, and returns the number of tasks for which none waited. The
// caller holds mu.
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

// wake wakes waiters for u.tasks tasks, and records the tasks for which no waiter waited. It returns their number.
// The caller holds mu.
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

// wakeAll wakes every waiter. The caller holds mu.
func (t *topic) wakeAll() {
	for _, w := range t.waiters {
		w.wake(unprompted)
	}
}

// setTimer sets the timer for the next due time. The caller holds mu.
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

// fire wakes waiters for due tasks.
func (t *topic) fire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, d := range t.schedule.take(t.hub.now()) {
		t.wakeDue(d)
	}
	t.setTimer()
}

// wakeDue wakes waiters for due tasks. If other processes also know of the tasks, a process that backs off wakes its
// waiters a little later, and as uncertain. The caller holds mu.
func (t *topic) wakeDue(d dueTime) {
	now := t.hub.now()
	switch {
	case !d.Shared || t.backoff == 0:
		d.Shared = d.Shared || d.delayed
		t.wake(d.Wakeup)
	case t.backoffUntil > now: // the waiter that wakes then also finds these
	default:
		t.backoffUntil = wholeMillis(now + t.backoff + rand.N(t.backoff))
		t.schedule.add(dueTime{
			at: t.backoffUntil, Wakeup: Wakeup{tasks: d.tasks, Uncertain: true}, delayed: true,
		})
	}
}

// learn records whether this process was the first to check out tasks that other processes also know of. If it was
// first twice in a row, it no longer backs off. If it was too late twice in a row, it does; a single time can be
// caused by its own checkout under way. If its checkout found tasks that another process was leasing, it backs off
// longer the next time. The caller holds mu.
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

// remove removes a waiter, passes its wake-up to another one, and returns how many are left.
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

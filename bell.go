package dbq

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// A Ring wakes the owner of a Bell.
type Ring struct {
	// Ask is whether it is not known that a task is due: Queue.Next, which is cheaper than a checkout that finds nothing, tells.
	Ask bool
}

// Bell wakes a worker when it is worth looking for tasks of one queue. Take one from Queue.Bell; that of Queue.OperatorBell tells of what
// operators decide.
//
// Of the bells of a process as many ring as are needed for the tasks that became due, and only those that wait:
//
//	for {
//		bell.Look()
//		tasks, err := q.Checkout(ctx, n, lease)
//		...
//		if !bell.Found(len(tasks), len(tasks) == n) {
//			<-bell.Wait(n) // or a timeout, after which Queue.Next tells
//		}
//	}
//
// A bell rings at once when a task is enqueued by any client of this process on the same database and tables, when an operator reenqueues,
// and when another process notifies (PostgreSQL; see WithoutNotify). Tasks that are due later ring when they are due, those of
// other processes too where they notify. After EnqueueTx, whose commit dbq does not see, it rings several times within a second. A ring that
// comes while no bell waits is kept for the next one that does, unless that one has looked since.
//
// Rings are best effort: they may be for nothing, and none comes for what another process does on an engine without notifications.
// So a worker polls as well.
type Bell struct {
	c     chan Ring
	of    *waiters
	all   bool // it rings with every ring, whether it waits or not
	close func()

	// The following are guarded by of.mu.
	want    int           // tasks that the owner can take
	waiting bool          // in of.waiting
	looked  time.Duration // when the owner looked, until Found; zero is not
	seen    uint64        // of.serial when the owner looked last
	rung    bool          // it has rung and the owner has not looked yet
	ring    ringing
}

// ringing is a Ring, and how it came about.
type ringing struct {
	Ring
	tasks  int  // that the bell rang for
	shared bool // other processes heard of the same tasks
}

// byItself is for an owner that looked without a ring.
var byItself = ringing{Ring: Ring{Ask: true}}

// Bell makes a bell for the queue's tasks. Close it when done. On PostgreSQL the client listens for notifications, on a connection of its
// own, while it has bells.
func (q *Queue) Bell() *Bell { return q.c.bell(q.name, false) }

// operators is before the queue in the name of an OperatorBell. No queue's name has a control character.
const operators = "\x01"

// OperatorBell makes a bell that rings when operators change the queue's settings, or order one of its workers something: at once in this
// process, and on PostgreSQL in others, which may be for nothing; elsewhere a worker finds out when it asks. Every such bell rings, whether
// it waits or not: receive from C. Close it when done.
func (q *Queue) OperatorBell() *Bell { return q.c.bell(operators+q.name, true) }

// revocations is before the queue in the name of a RevokeBell.
const revocations = "\x02"

// RevokeBell makes a bell that rings when operators revoke tasks of the queue: at once in this process, and on PostgreSQL in others;
// elsewhere Queue.Lost tells. Every such bell rings, whether it waits or not: receive from C. Close it when done.
func (q *Queue) RevokeBell() *Bell { return q.c.bell(revocations+q.name, true) }

func (c *Client) bell(queue string, all bool) *Bell {
	p := c.place
	b := &Bell{c: make(chan Ring, 1), of: p.join(queue), all: all, ring: byItself}
	b.of.mu.Lock()
	b.of.bells = append(b.of.bells, b)
	b.of.mu.Unlock()
	c.ear.open(c)
	b.close = sync.OnceFunc(func() {
		b.of.remove(b)
		p.leave(queue, b.of)
		c.ear.shut()
	})
	return b
}

// C receives a value for each ring; rings that come while one waits to be received are one.
func (b *Bell) C() <-chan Ring { return b.c }

// Wait makes the bell one of those that ring when tasks are due, until it rings or its owner looks. n is how many tasks the owner can take;
// the others are for other bells. It returns C.
func (b *Bell) Wait(n int) <-chan Ring {
	w := b.of
	w.mu.Lock()
	defer w.mu.Unlock()
	b.want = max(n, 1)
	if b.rung && len(b.c) > 0 || b.all {
		return b.c
	}
	if !b.waiting {
		b.waiting = true
		w.waiting = append(w.waiting, b)
	}
	if b.seen >= w.serial { // what was missed was there when it looked
		w.missed = 0
	}
	w.missed = w.give(w.missed, w.missedRing)
	return b.c
}

// Look is called before a checkout: the rings until now are served by it.
func (b *Bell) Look() {
	w := b.of
	w.mu.Lock()
	defer w.mu.Unlock()
	b.seen, b.rung, b.looked = w.serial, false, w.now()
	w.stop(b)
	select {
	case <-b.c:
	default:
	}
}

// Found is called after a checkout, with how many tasks it found, and whether that was all it could take. It reports whether another look
// at once is worth it: not when just the tasks were found that the bell had rung for. When there may be more than the owner
// looked for, another bell of this process rings. After a Ring that was to be asked about, it is called as well when the answer was that
// nothing is due.
func (b *Bell) Found(n int, full bool) (again bool) {
	w := b.of
	w.mu.Lock()
	defer w.mu.Unlock()
	r := b.ring
	b.ring = byItself
	if r.shared || n > 0 && w.asks > w.now() { // what it was about to ask about, it found by itself
		w.learn(n > 0, b.looked > 0, w.now()-b.looked)
	}
	b.looked = 0
	if n > r.tasks {
		w.early, w.earlyUntil = w.early+n-r.tasks, w.now()+earlyFor
	}
	if !full || !r.Ask && n <= r.tasks {
		return false
	}
	w.give(1, byItself)
	return true
}

// Pass hands a ring on that the owner received and cannot follow, as when it is paused. Close does so, too.
func (b *Bell) Pass() {
	w := b.of
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pass(b)
}

// Close ends the bell. C receives nothing more; it is not closed.
func (b *Bell) Close() { b.close() }

// deliver rings the bell. of.mu is held.
func (b *Bell) deliver(r ringing) {
	b.rung, b.ring = true, r
	select {
	case b.c <- r.Ring:
	default: // one waits already
	}
}

// A process that hesitates leaves tasks to others for as long as they have been seen to take, within these bounds.
const (
	leastHesitation = 16 * time.Millisecond
	mostHesitation  = 250 * time.Millisecond
)

// earlyFor is for how long a ring may come after the task that it is for, which was found without it.
const earlyFor = 100 * time.Millisecond

// waiters are the bells of a queue in this process, and what they wait for.
type waiters struct {
	mu      sync.Mutex
	base    time.Time // of the times of upcoming
	joined  int       // guarded by places
	bells   []*Bell
	waiting []*Bell // those that wait, the longest first

	// missed are tasks for which no bell waited, the last of them under serial.
	missed     int
	missedRing ringing
	serial     uint64

	// early are tasks that were found before they rang. What rings for them is to be asked about.
	early      int
	earlyUntil time.Duration

	upcoming upcoming
	timer    *time.Timer

	// Of the processes that hear of the same tasks, those that came too late hesitate the next time, and the one that was first does not.
	hesitation time.Duration
	asks       time.Duration // when it has hesitated for long enough
	late       int           // times in a row that it came too late
	inTime     int           // times in a row that it did not
}

func (w *waiters) now() time.Duration { return time.Since(w.base) }

// give rings bells that wait, for n tasks, and returns for how many none waited. mu is held.
func (w *waiters) give(n int, r ringing) (rest int) {
	for n > 0 && len(w.waiting) > 0 {
		b := w.waiting[0]
		w.waiting = slices.Delete(w.waiting, 0, 1)
		b.waiting = false
		r.tasks = min(n, b.want)
		n -= r.tasks
		b.deliver(r)
	}
	return n
}

// arrived rings for n tasks, and keeps what no bell waited for. It returns for how many that was. mu is held.
func (w *waiters) arrived(n int, r ringing) (rest int) {
	if w.now() > w.earlyUntil {
		w.early = 0
	}
	if r.shared && w.early > 0 {
		if n <= w.early {
			r.Ask, r.shared = true, false
		}
		w.early -= min(n, w.early)
	}
	if rest = w.give(n, r); rest > 0 {
		if w.missed > 0 {
			r.Ask, r.shared = r.Ask && w.missedRing.Ask, r.shared && w.missedRing.shared
		}
		w.missed, w.missedRing = w.missed+rest, r
		w.serial++
	}
	return rest
}

// wind sets the timer for what comes next. mu is held.
func (w *waiters) wind() {
	next := w.upcoming.next()
	switch {
	case next == 0:
	case w.timer == nil:
		w.timer = time.AfterFunc(next-w.now(), w.strike)
	default:
		w.timer.Reset(next - w.now())
	}
}

// strike rings for what has arrived. What other processes know of as well, a process that hesitates looks for a little later, and asks first.
func (w *waiters) strike() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.upcoming.take(w.now()) {
		w.shared(a)
	}
	w.wind()
}

// shared rings for an arrival, now or a little later. mu is held.
func (w *waiters) shared(a arrival) {
	now := w.now()
	switch {
	case !a.shared || w.hesitation == 0:
		w.arrived(a.tasks, ringing{Ring: Ring{Ask: a.ask}, shared: a.shared || a.waited})
	case w.asks > now: // it will find out about these as well
	default:
		w.asks = wholeMillis(now + w.hesitation + rand.N(w.hesitation))
		w.upcoming.add(arrival{at: w.asks, tasks: a.tasks, ask: true, waited: true})
	}
}

// learn notes whether this process was the first to look for tasks that others heard of as well. Twice first in a row it does not hesitate
// any more; twice too late it does: once may be because of a checkout of its own that was under way. One that looked, for a while that it
// took, and found what another one was taking hesitates for longer the next time. mu is held.
func (w *waiters) learn(first, looked bool, took time.Duration) {
	if first {
		w.late, w.inTime = 0, w.inTime+1
		if w.inTime > 1 {
			w.hesitation = 0
		}
		return
	}
	if looked && (w.hesitation > 0 || w.late > 0) {
		w.hesitation = min(max(2*w.hesitation, 4*took, leastHesitation), mostHesitation)
	}
	w.late, w.inTime = w.late+1, 0
}

// pass gives a ring that b has not followed to another bell. mu is held.
func (w *waiters) pass(b *Bell) {
	if !b.rung {
		return
	}
	b.rung = false
	select {
	case <-b.c:
	default:
	}
	w.arrived(b.ring.tasks, b.ring)
	b.ring = byItself
}

// stop makes a bell wait no more. mu is held.
func (w *waiters) stop(b *Bell) {
	if b.waiting {
		b.waiting = false
		w.waiting = slices.DeleteFunc(w.waiting, func(x *Bell) bool { return x == b })
	}
}

func (w *waiters) remove(b *Bell) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stop(b)
	w.bells = slices.DeleteFunc(w.bells, func(x *Bell) bool { return x == b })
	if len(w.bells) > 0 {
		w.pass(b)
	} else if w.timer != nil {
		w.timer.Stop()
		w.upcoming = upcoming{}
	}
}

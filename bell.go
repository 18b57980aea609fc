package dbq

import (
	"slices"
	"sync"
	"time"
)

// Bell tells a worker that it is worth looking for tasks of one queue. Take one from Queue.Bell; that of Queue.OperatorBell tells of what
// operators decide.
//
// It rings at once when a task is enqueued by any client of this process on the same database and tables, when an operator reenqueues,
// and when another process notifies (PostgreSQL; see WithoutNotify). For tasks that this process enqueued, released or failed for later
// it rings when they are due. After EnqueueTx, whose commit dbq does not see, it rings several times within a second.
//
// It is a hint: a ring may come for nothing, and none comes for what another process does on an engine without notifications. A
// worker polls as well.
type Bell struct {
	c      chan struct{}
	belfry *belfry
	queue  string
	close  func()

	mu    sync.Mutex
	due   []time.Time // when to ring again, the earliest first
	timer *time.Timer // for the first of due
}

// maxDue is how many times a bell remembers. Later ones are left to be found by polling.
const maxDue = 256

// farthest is how far ahead a bell remembers a time. The farthest Duration could not be rounded up.
const farthest = 100 * 365 * 24 * time.Hour

// place is a set of tables as far as this process can tell: clients opened with the same DSN, or made on the same pool.
type place struct {
	database any
	table    string
}

// belfry has the bells of a place.
type belfry struct {
	mu    sync.Mutex
	bells map[string][]*Bell // by queue
}

// belfries exist while they have bells, so that an enqueue in a process without workers costs a look into an empty map.
var belfries struct {
	sync.RWMutex
	at map[place]*belfry
}

// Bell makes a bell for the queue's tasks. Close it when done. On PostgreSQL the client listens for notifications, on a connection of its
// own, while it has bells.
func (q *Queue) Bell() *Bell { return q.c.bell(q.name) }

// operators is before the queue in the name of an OperatorBell. No queue's name has a control character.
const operators = "\x01"

// OperatorBell makes a bell that rings when operators change the queue's settings, or order one of its workers something: at once in this
// process, and on PostgreSQL in others, which may be for nothing; elsewhere a worker finds out when it asks. Close it when done.
func (q *Queue) OperatorBell() *Bell { return q.c.bell(operators + q.name) }

func (c *Client) bell(queue string) *Bell {
	b := &Bell{c: make(chan struct{}, 1), queue: queue}
	p := c.place
	belfries.Lock()
	tower := belfries.at[p]
	if tower == nil {
		tower = &belfry{bells: map[string][]*Bell{}}
		if belfries.at == nil {
			belfries.at = map[place]*belfry{}
		}
		belfries.at[p] = tower
	}
	tower.mu.Lock()
	tower.bells[queue] = append(tower.bells[queue], b)
	tower.mu.Unlock()
	belfries.Unlock()
	b.belfry = tower
	c.ear.open(c)
	b.close = sync.OnceFunc(func() {
		tower.remove(p, b)
		b.still()
		c.ear.shut()
	})
	return b
}

// C receives a value for each ring; rings that come while one waits to be received are one.
func (b *Bell) C() <-chan struct{} { return b.c }

// Close ends the bell. C receives nothing more; it is not closed.
func (b *Bell) Close() { b.close() }

func (t *belfry) remove(p place, b *Bell) {
	belfries.Lock()
	defer belfries.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bells[b.queue] = slices.DeleteFunc(t.bells[b.queue], func(x *Bell) bool { return x == b })
	if len(t.bells[b.queue]) == 0 {
		delete(t.bells, b.queue)
	}
	if len(t.bells) == 0 && belfries.at[p] == t {
		delete(belfries.at, p)
	}
}

// ring rings the bells of a queue after each of these times; "" is every queue.
func (p place) ring(queue string, after ...time.Duration) {
	if len(after) == 0 {
		return
	}
	belfries.RLock()
	t := belfries.at[p]
	belfries.RUnlock()
	if t == nil {
		return
	}
	t.mu.Lock()
	var bells []*Bell
	for name, bs := range t.bells {
		if queue == "" || name == queue {
			bells = append(bells, bs...)
		}
	}
	t.mu.Unlock()
	for _, b := range bells {
		b.ring(after)
	}
}

func (b *Bell) now() {
	select {
	case b.c <- struct{}{}:
	default: // one waits already
	}
}

func (b *Bell) ring(after []time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	for _, d := range after {
		if d <= 0 {
			b.now()
			continue
		}
		// To the millisecond, upwards: many tasks that are due together are one ring.
		at := now.Add(min(d, farthest).Truncate(time.Millisecond) + time.Millisecond)
		i, known := slices.BinarySearchFunc(b.due, at, time.Time.Compare)
		if known || i > 0 && at.Sub(b.due[i-1]) < time.Millisecond || i == maxDue {
			if i > 0 && !known && i < maxDue {
				b.due[i-1] = at // rather late than early
			}
			continue
		}
		b.due = slices.Insert(b.due, i, at)
		b.due = b.due[:min(len(b.due), maxDue)]
	}
	b.wind(now)
}

// wind sets the timer for the next ring. b.mu is held.
func (b *Bell) wind(now time.Time) {
	switch {
	case len(b.due) == 0:
	case b.timer == nil:
		b.timer = time.AfterFunc(b.due[0].Sub(now), b.strike)
	default:
		b.timer.Reset(b.due[0].Sub(now))
	}
}

func (b *Bell) strike() {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	n := 0
	for n < len(b.due) && !b.due[n].After(now) {
		n++
	}
	if n > 0 {
		b.due = slices.Delete(b.due, 0, n)
		b.now()
	}
	b.wind(now)
}

// still ends the rings that are to come.
func (b *Bell) still() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.due = nil
	if b.timer != nil {
		b.timer.Stop()
	}
}

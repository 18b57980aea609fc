package wake

import (
	"runtime"
	"sync"
	"time"
	"weak"

	"github.com/google/uuid"
)

// Tables identifies a set of tables within this process: a database, as any comparable value, and the name of its
// task table.
type Tables struct {
	Database any
	Table    string
}

// hub holds the waiters of this process for a set of tables, by topic. All clients of these tables share it.
type hub struct {
	id     string // sent in notifications, so that its own clients ignore them
	start  time.Time
	mu     sync.RWMutex
	topics map[string]*topic // topics that have waiters
}

// hubs are the hubs that are referenced by a client or a waiter.
var hubs = struct {
	sync.Mutex
	of map[Tables]weak.Pointer[hub]
}{of: map[Tables]weak.Pointer[hub]{}}

// hubOf returns the hub of a set of tables.
func hubOf(tables Tables) *hub {
	hubs.Lock()
	defer hubs.Unlock()
	if h := hubs.of[tables].Value(); h != nil {
		return h
	}
	h := &hub{id: uuid.NewString(), start: time.Now().Add(-time.Millisecond), topics: map[string]*topic{}}
	hubs.of[tables] = weak.Make(h)
	runtime.AddCleanup(h, func(tables Tables) {
		hubs.Lock()
		defer hubs.Unlock()
		if hubs.of[tables].Value() == nil { // no newer hub
			delete(hubs.of, tables)
		}
	}, tables)
	return h
}

// now returns the time since the hub's start. It is never zero, because zero means no time.
func (h *hub) now() time.Duration { return time.Since(h.start) }

// join creates a waiter for a topic.
func (h *hub) join(name string, broadcast bool) *Waiter {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[name]
	if t == nil {
		t = &topic{hub: h, name: name, broadcast: broadcast, backoff: minBackoff}
		h.topics[name] = t
	}
	w := &Waiter{c: make(chan Wakeup, 1), topic: t, current: unprompted}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiters = append(t.waiters, w)
	return w
}

// leave removes a waiter made by join.
func (h *hub) leave(w *Waiter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w.topic.remove(w) == 0 {
		delete(h.topics, w.topic.name)
	}
}

// topic returns the topic with this name, or nil if it has no waiters.
func (h *hub) topic(name string) *topic {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.topics[name]
}

// wake wakes waiters, now and when more tasks are due. It returns the number of tasks due now for which no waiter
// waited, and whether any waiter waited before. shared reports whether other processes are notified of the tasks that
// are due later.
func (h *hub) wake(name string, d Due, shared bool) (rest int, waiting bool) {
	t := h.topic(name)
	if t == nil {
		return d.now, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	waiting = len(t.waiting) > 0
	rest = t.wake(Wakeup{tasks: d.now})
	for _, l := range d.later {
		l.Shared = shared
		t.schedule.add(l)
	}
	if d.atCommit {
		now := h.now()
		for _, after := range commitTimes {
			t.schedule.add(dueTime{at: now + after, Wakeup: Wakeup{tasks: 1, Uncertain: true}})
		}
	}
	t.setTimer()
	return rest, waiting
}

// receive wakes waiters for another process's message about a topic.
func (h *hub) receive(name, message string) {
	t := h.topic(name)
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.broadcast {
		t.wakeAll()
		return
	}
	now := h.now()
	for _, d := range decode(message) {
		if d.Shared = true; d.at <= 0 {
			t.wakeDue(d)
			continue
		}
		d.at += now
		t.schedule.add(d)
	}
	t.setTimer()
}

// expect wakes a waiter after the time at which, according to the database, a task is due. What was expected earlier
// remains: another caller may know of another task.
func (h *hub) expect(name string, after time.Duration) {
	t := h.topic(name)
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	at := h.now() + wholeMillis(after) + 1
	if earlier := t.schedule.expected; earlier > 0 {
		at = min(at, earlier)
	}
	t.schedule.expected = at
	t.setTimer()
}

// broadcast wakes all waiters of a topic.
func (h *hub) broadcast(name string) {
	if t := h.topic(name); t != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.wakeAll()
	}
}

// resync wakes waiters for wake-ups that may have been missed while no notifications arrived: one waiter for the
// tasks of each queue, and all waiters of the broadcast topics.
func (h *hub) resync() {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for _, t := range h.topics {
		t.mu.Lock()
		if t.broadcast {
			t.wakeAll()
		} else {
			t.wake(Wakeup{tasks: 1, Uncertain: true})
		}
		t.mu.Unlock()
	}
}

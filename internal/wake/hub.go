package wake

import (
	"runtime"
	"sync"
	"time"
	"weak"

	"github.com/google/uuid"
)

// Tables identifies a set of tables, as far as this process can tell: a database, as any comparable value, and the
// name of the table of tasks in it.
type Tables struct {
	Database any
	Table    string
}

// hub holds the waiters of this process for a set of tables, by topic. All clients of these tables share it.
type hub struct {
	id     string // in notifications, so that those of its own clients are ignored
	start  time.Time
	mu     sync.RWMutex
	topics map[string]*topic // those with waiters
}

// hubs are the hubs that a client or a waiter refers to.
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
		if hubs.of[tables].Value() == nil { // no newer one
			delete(hubs.of, tables)
		}
	}, tables)
	return h
}

// now is the time since the hub's start. It is never zero, which is no time.
func (h *hub) now() time.Duration { return time.Since(h.start) }

// join makes a waiter for a topic.
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

// leave ends what join made.
func (h *hub) leave(w *Waiter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w.topic.remove(w) == 0 {
		delete(h.topics, w.topic.name)
	}
}

// topic returns the topic of this name, or nil when it has no waiters.
func (h *hub) topic(name string) *topic {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.topics[name]
}

// wake wakes waiters, now and when more is due. It returns for how many of the tasks that are due now no waiter waited,
// and whether any did before. shared reports whether other processes are notified of the tasks that are due later.
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

// receive wakes waiters for what another process has sent about a topic.
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

// expect wakes a waiter when the database has reported that something is due, after a time.
func (h *hub) expect(name string, after time.Duration) {
	t := h.topic(name)
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.schedule.expected = h.now() + wholeMillis(after) + 1
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

// resync wakes waiters for what may have been missed while no notifications arrived: one for each queue's tasks, and
// all of the broadcast topics.
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

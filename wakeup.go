package dbq

import (
	"sync"
	"time"
)

// place is a set of tables as far as this process can tell: clients opened with the same DSN, or made on the same pool.
type place struct {
	database any
	table    string
}

// places have the bells of this process, by place and queue. They exist while they have bells, so that an enqueue in a process without
// workers costs a look into an empty map.
var places struct {
	sync.RWMutex
	at map[place]map[string]*waiters
}

// join is where the bells of a queue wait.
func (p place) join(queue string) *waiters {
	places.Lock()
	defer places.Unlock()
	if places.at == nil {
		places.at = map[place]map[string]*waiters{}
	}
	if places.at[p] == nil {
		places.at[p] = map[string]*waiters{}
	}
	w := places.at[p][queue]
	if w == nil {
		w = &waiters{base: time.Now(), hesitation: leastHesitation}
		places.at[p][queue] = w
	}
	w.joined++
	return w
}

// leave is the end of a join.
func (p place) leave(queue string, w *waiters) {
	places.Lock()
	defer places.Unlock()
	if w.joined--; w.joined > 0 {
		return
	}
	delete(places.at[p], queue)
	if len(places.at[p]) == 0 {
		delete(places.at, p)
	}
}

// waiters are those of a queue; nil is none.
func (p place) waiters(queue string) *waiters {
	places.RLock()
	defer places.RUnlock()
	return places.at[p][queue]
}

// wakeup is what workers are woken for.
type wakeup struct {
	now   int             // tasks that are due
	later []arrival       // after these times
	maybe []time.Duration // when the tasks may be there, which is not known
}

// add adds a task that is due after a time.
func (u *wakeup) add(after time.Duration) {
	switch last := len(u.later) - 1; {
	case after <= 0:
		u.now++
	case last >= 0 && u.later[last].at == wholeMillis(after):
		u.later[last].tasks++
	default:
		u.later = append(u.later, arrival{at: wholeMillis(after), tasks: 1})
	}
}

func (u wakeup) nothing() bool { return u.now == 0 && len(u.later) == 0 && len(u.maybe) == 0 }

// wake rings the queue's bells of this process, now and when more is due. It returns how many of the tasks that are due now no bell waited
// for. shared says that other processes hear of the tasks that are due later.
func (p place) wake(queue string, u wakeup, shared bool) (rest int) {
	w := p.waiters(queue)
	if w == nil {
		return u.now
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	rest = w.arrived(u.now, ringing{})
	now := w.now()
	for _, a := range u.later {
		w.upcoming.add(arrival{at: now + a.at, tasks: a.tasks, ask: a.ask, shared: shared})
	}
	for _, after := range u.maybe {
		w.upcoming.add(arrival{at: now + after, tasks: 1, ask: true})
	}
	w.wind()
	return rest
}

// waits reports whether a bell waits for tasks of the queue.
func (p place) waits(queue string) bool {
	w := p.waiters(queue)
	if w == nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.waiting) > 0
}

// heard rings for what another process says.
func (p place) heard(queue string, u wakeup) {
	w := p.waiters(queue)
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	for _, a := range u.later {
		if a.shared = true; a.at <= 0 {
			w.shared(a)
			continue
		}
		a.at += now
		w.upcoming.add(a)
	}
	w.wind()
}

// expect rings when the database says that something is due; see Queue.Next.
func (p place) expect(queue string, after time.Duration) {
	w := p.waiters(queue)
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.upcoming.expected = w.now() + wholeMillis(after) + 1
	w.wind()
}

// ringAll rings all bells of a kind: those of operators for a queue.
func (p place) ringAll(queue string) {
	if w := p.waiters(queue); w != nil {
		w.ringAll()
	}
}

func (w *waiters) ringAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, b := range w.bells {
		b.deliver(byItself)
	}
}

// ringUnknown rings for what may have come while nothing was heard: operators' bells, and one of each queue.
func (p place) ringUnknown() {
	places.RLock()
	var all []*waiters
	for _, w := range places.at[p] {
		all = append(all, w)
	}
	places.RUnlock()
	for _, w := range all {
		w.mu.Lock()
		everyone := len(w.bells) > 0 && w.bells[0].all
		if !everyone {
			w.arrived(1, byItself)
		}
		w.mu.Unlock()
		if everyone {
			w.ringAll()
		}
	}
}

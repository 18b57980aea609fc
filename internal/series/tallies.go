package series

import "sync"

// maxTallies is how many queues Tallies count between two calls of Take, or without any.
const maxTallies = 10_000

// Tallies count the work of a process on many queues. All methods are safe for concurrent use.
type Tallies struct {
	mu     sync.Mutex
	queues map[string]*Tally
}

// Add calls add with the tally of a queue. It does nothing if too many queues were counted.
func (t *Tallies) Add(queue string, add func(*Tally)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	tally := t.queues[queue]
	if tally == nil {
		if len(t.queues) == maxTallies {
			return
		}
		if t.queues == nil {
			t.queues = map[string]*Tally{}
		}
		tally = &Tally{}
		t.queues[queue] = tally
	}
	add(tally)
}

// Take returns the counts since the last call, of each queue with any.
func (t *Tallies) Take() (out []Period) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for queue, tally := range t.queues {
		if counts, some := tally.Since(); some {
			out = append(out, Period{Queue: queue, Counts: counts})
		}
	}
	clear(t.queues)
	return out
}

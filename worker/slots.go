package worker

import (
	"context"
	"sync"
)

// slots are the Concurrency that the workers of a Group share. A slot is the right to lease one task and to run its
// handler. A fetcher leases as many tasks as it has slots, so a group leases no task that it cannot start at once.
type slots struct {
	strict bool // in the order of shares, not by weight

	mu     sync.Mutex
	free   int
	shares []*share
	served float64 // the pass at which a slot was given last
}

// share is one worker's part in the slots of its Group. It is nil for a worker without a Group, whose fetcher may lease
// any number of tasks.
type share struct {
	*slots
	weight int
	limit  func() int    // how many slots the worker can use; it takes no lock
	ready  chan struct{} // receives after slots were given

	// The following are guarded by slots.mu.
	active bool // the queue may have due tasks, and the worker takes them
	given  int  // slots that the fetcher has not taken yet
	used   int  // slots of tasks that are being leased, are leased, or are in a handler
	// pass grows by 1/weight with each slot. The active share with the lowest pass gets the next slot. This is stride
	// scheduling: while shares are active, they get slots in proportion to their weights.
	pass float64
}

// take waits until the worker may lease tasks, up to want, and returns how many. It is false when ctx has ended.
func (h *share) take(ctx context.Context, want int) (n int, ok bool) {
	if h == nil {
		return want, true
	}
	for {
		if n = h.tryTake(want); n > 0 {
			return n, true
		}
		select {
		case <-h.ready:
		case <-ctx.Done():
			return 0, false
		}
	}
}

func (h *share) tryTake(want int) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.active {
		h.active = true
		h.pass = max(h.pass, h.served) // it has accumulated no credit
	}
	h.deal()
	n := min(h.given, want)
	h.given -= n
	h.used += n
	return n
}

// unused returns slots that were taken and for which there were no tasks.
func (h *share) unused(n int) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.used -= n
	h.refund(n)
}

// ended returns the slot of a task that needs no handler any more.
func (h *share) ended() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.used--
	h.free++
	h.deal()
}

// leave returns the slots that were not taken. The worker gets no others until the next take: its queue has no due
// tasks, or the worker is paused or ending.
func (h *share) leave() {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.given
	h.active, h.given = false, 0
	h.refund(n)
}

// refund makes n slots free that started nothing; h.mu is held.
func (h *share) refund(n int) {
	h.pass -= float64(n) / float64(h.weight)
	h.free += n
	h.deal()
}

// nudge deals the slots anew after the number of executors has changed.
func (h *share) nudge() {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.deal()
}

// deal takes back the slots that shares cannot use any more, and gives the free slots away; s.mu is held.
func (s *slots) deal() {
	for _, h := range s.shares {
		if n := min(h.given, h.given+h.used-h.limit()); n > 0 {
			h.given -= n
			h.pass -= float64(n) / float64(h.weight)
			s.free += n
		}
	}
	for s.free > 0 {
		h := s.next()
		if h == nil {
			return
		}
		s.free--
		s.served = h.pass
		h.given++
		h.pass += 1 / float64(h.weight)
		select {
		case h.ready <- struct{}{}:
		default: // it is woken already
		}
	}
}

// next is the share that gets the next slot, or nil; s.mu is held.
func (s *slots) next() (next *share) {
	for _, h := range s.shares {
		switch {
		case !h.active:
		case h.given+h.used >= h.limit():
			h.pass = max(h.pass, s.served) // it accumulates no credit
		case next == nil || !s.strict && h.pass < next.pass:
			next = h
		}
	}
	return next
}

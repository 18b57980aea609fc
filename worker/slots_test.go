package worker

import (
	"context"
	"testing"
	"time"
)

// newSlots returns n slots that are shared by workers of the given weights, each with a Concurrency of n.
func newSlots(n int, weights ...int) *slots {
	s := &slots{free: n}
	for _, weight := range weights {
		s.shares = append(s.shares, &share{slots: s, weight: weight, limit: func() int { return n },
			ready: make(chan struct{}, 1), active: true})
	}
	return s
}

// shares lets all workers take what they get, n times, and ends each task at once. It returns how many each started.
func shares(s *slots, n int) []int {
	started := make([]int, len(s.shares))
	for range n {
		for i, h := range s.shares {
			if !h.active {
				continue
			}
			got := h.tryTake(s.free + h.given)
			started[i] += got
			for range got {
				h.ended()
			}
		}
	}
	return started
}

func TestSlotsFollowTheWeights(t *testing.T) {
	t.Parallel()
	got := shares(newSlots(1, 3, 1, 1), 1000)
	all := got[0] + got[1] + got[2]
	if all < 900 || abs(5*got[0]-3*all) > 25 || abs(5*got[1]-all) > 25 {
		t.Errorf("weights 3, 1, 1 started %v", got)
	}
}

func abs(n int) int { return max(n, -n) }

func TestIdleWorkersSlotsGoToOthersWithoutDebt(t *testing.T) {
	t.Parallel()
	s := newSlots(2, 1, 1)
	s.shares[1].leave()
	if got := shares(s, 100); got[0] < 100 || got[1] != 0 {
		t.Errorf("with a worker at rest: %v", got)
	}
	s.shares[1].tryTake(0)
	if got := shares(s, 100); abs(got[0]-got[1]) > 4 {
		t.Errorf("after its rest: %v, want equal shares", got)
	}
}

func TestSlotsAboveAWorkersLimitGoToOthers(t *testing.T) {
	t.Parallel()
	s := newSlots(3, 1, 1)
	few, other := s.shares[0], s.shares[1]
	other.leave()
	few.tryTake(0) // it is given all
	few.limit = func() int { return 1 }
	few.nudge()
	if few.given != 1 || s.free != 2 {
		t.Errorf("after its limit fell to 1 it has %d slots and %d are free, want 1 and 2", few.given, s.free)
	}
	if got := other.tryTake(3); got != 2 {
		t.Errorf("the other worker got %d slots, want 2", got)
	}
}

func TestSlotsInStrictOrder(t *testing.T) {
	t.Parallel()
	s := newSlots(2, 1, 1)
	s.strict = true
	early, late := s.shares[0], s.shares[1]
	if got := late.tryTake(2); got != 0 {
		t.Errorf("the later worker got %d slots while the earlier one is active", got)
	}
	if got := early.tryTake(2); got != 2 {
		t.Errorf("the earlier worker got %d slots, want both", got)
	}
	early.unused(1)
	if got := late.tryTake(2); got != 0 {
		t.Errorf("the later worker got %d slots that the earlier one did not use but may use again", got)
	}
	early.leave()
	if got := late.tryTake(2); got != 1 {
		t.Errorf("the later worker got %d slots, want the one that is free", got)
	}
	early.ended()
	if got := late.tryTake(2); got != 1 || s.free != 0 {
		t.Errorf("the later worker got %d slots and %d are free, want the last one", got, s.free)
	}
}

func TestSlotsWithinAWorkersOwnConcurrency(t *testing.T) {
	t.Parallel()
	s := newSlots(4, 1, 1)
	small := s.shares[0]
	small.limit = func() int { return 1 }
	if got := small.tryTake(4); got != 1 {
		t.Errorf("a worker with a Concurrency of 1 got %d slots", got)
	}
	if got := s.shares[1].tryTake(4); got != 3 {
		t.Errorf("the other worker got %d slots, want the rest", got)
	}
}

func TestTakeWaitsForASlotOrTheEnd(t *testing.T) {
	t.Parallel()
	s := newSlots(1, 1, 1)
	first, second := s.shares[0], s.shares[1]
	if n, ok := first.take(t.Context(), 5); n != 1 || !ok {
		t.Fatalf("got %d, %v, want the one slot", n, ok)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, ok := second.take(ctx, 1); ok {
		t.Error("a second slot was given")
	}
	first.leave()
	time.AfterFunc(10*time.Millisecond, first.ended)
	if n, ok := second.take(t.Context(), 1); n != 1 || !ok {
		t.Errorf("got %d, %v, want the slot of the task that ended", n, ok)
	}
	if n, ok := (*share)(nil).take(t.Context(), 7); n != 7 || !ok {
		t.Errorf("a worker without a group may lease %d, %v, want 7", n, ok)
	}
}

func TestSlotsForWhichThereWasNoTaskDoNotCount(t *testing.T) {
	t.Parallel()
	s := newSlots(1, 1, 1)
	s.shares[1].leave()
	idle := s.shares[0]
	for range 100 {
		idle.unused(idle.tryTake(1))
	}
	if idle.pass > 2 {
		t.Errorf("a worker that started nothing has a pass of %v", idle.pass)
	}
}

func TestSlotsThatAWorkerCouldNotUseAreNotOwed(t *testing.T) {
	t.Parallel()
	s := newSlots(2, 1, 1)
	small, other := s.shares[0], s.shares[1]
	small.limit = func() int { return 1 }
	small.tryTake(1) // a long task
	for range 100 {
		for range other.tryTake(1) {
			other.ended()
		}
	}
	small.ended()
	small.limit = other.limit
	if got := shares(s, 20); abs(got[0]-got[1]) > 8 {
		t.Errorf("after a long task of the first worker: %v, want equal shares", got)
	}
}

package conformance

import (
	"slices"

	"github.com/dbq-go/dbq/state"
)

// checkThere: an acknowledged task is there unless somebody removed it, and nothing else is.
func (s *story) checkThere() {
	has := func(rs []record, want func(record) bool) bool { return slices.ContainsFunc(rs, want) }
	did := func(r record) bool { return r.Outcome == happened }
	may := func(r record) bool { return r.Outcome == happened || r.Outcome == maybe }
	removal := func(r record) bool { return r.Remove || r.Event == state.Purge }
	calls := slices.Concat(s.settles, s.operators)
	removed := has(calls, func(r record) bool { return removal(r) && did(r) })
	mayBeGone := has(calls, func(r record) bool { return removal(r) && may(r) }) || s.mayBe(state.Purge, 1<<63-1)
	switch {
	case s.end == nil && has(s.enqueues, did) && !mayBeGone:
		s.fault("was enqueued and acknowledged, and is lost")
	case s.end != nil && removed:
		s.fault("was removed, and is still there in state %v", s.end.State)
	case s.end != nil && !has(s.enqueues, may):
		s.fault("is there in state %v, though nobody enqueued it", s.end.State)
	}
}

// checkState: the end state is where the last lease left the task. Operators' calls may have come before or after it, so a
// task that one of them touched is only checked for being completed.
func (s *story) checkState() {
	done, mayBeDone := false, false
	for _, r := range s.settles {
		if r.Event == state.Complete {
			done = done || r.Outcome == happened
			mayBeDone = mayBeDone || r.Outcome == happened || r.Outcome == maybe
		}
	}
	end := s.end.State
	if done && end != state.Completed {
		s.fault("was completed, and is %v in the end", end)
		return
	}
	if end == state.Completed && !mayBeDone {
		s.fault("is COMPLETED in the end, though nobody completed it")
	}
	if len(s.operators) > 0 || len(s.wild) > 0 {
		return
	}
	if len(s.checkouts) == 0 {
		if end != state.Created {
			s.fault("is %v in the end, though nobody ever took it", end)
		}
		return
	}
	last := s.checkouts[len(s.checkouts)-1]
	want := []state.State{state.Processing}
	spent := s.end.Attempt >= s.end.MaxAttempts
	for _, r := range s.settles {
		if r.Fence != last.Fence || r.Outcome == lost {
			continue
		}
		if r.Outcome == happened {
			want = nil
		}
		t, _ := state.Find(r.Event, state.Holder)
		want = append(want, t.To)
	}
	if slices.Contains(want, state.Error) || slices.Contains(want, state.Processing) && spent {
		want = append(want, state.Poison)
	}
	if !slices.Contains(want, end) {
		s.fault("is %v in the end, want one of %v: it was last held by %s under fence %d", end, want, last.Worker, last.Fence)
	}
}

// checkAttempts: the attempts in the end are the checkouts, less the releases, since the last reenqueue.
func (s *story) checkAttempts() {
	if n := len(s.checkouts); n > 0 && s.end.Fence < s.checkouts[n-1].Fence {
		s.fault("has fence %d in the end, though it was handed out under fence %d", s.end.Fence, s.checkouts[n-1].Fence)
	}
	least, most := len(s.checkouts), len(s.checkouts)
	for _, r := range s.settles {
		if r.Event != state.Release || r.Outcome == lost {
			continue
		}
		least--
		if r.Outcome == happened {
			most--
		}
	}
	for _, r := range s.wild {
		if r.Event == state.Checkout {
			most++
		}
	}
	if s.resets() {
		least = 0
	}
	if a := s.end.Attempt; a < least || a > most {
		s.fault("counts %d attempts in the end, want %d to %d for %d checkouts", a, least, most, len(s.checkouts))
	}
	for _, c := range s.checkouts {
		if c.Attempt > s.end.MaxAttempts {
			s.fault("was handed out as attempt %d of at most %d", c.Attempt, s.end.MaxAttempts)
		}
	}
}

// resets reports whether an operator may have made the attempts start over.
func (s *story) resets() bool {
	reset := func(r record) bool { return r.Event == state.Reenqueue && r.Outcome != lost }
	return slices.ContainsFunc(s.operators, reset) || slices.ContainsFunc(s.wild, reset)
}

// checkCount: each checkout reports one attempt more than the one before, or the same after a release.
func (s *story) checkCount() {
	if len(s.wild) > 0 || s.resets() {
		return
	}
	for i, c := range s.checkouts {
		least, most := 1, 1
		if i > 0 {
			before := s.checkouts[i-1]
			least, most = before.Attempt+1, before.Attempt+1
			for _, r := range s.settles {
				if r.Fence == before.Fence && r.Event == state.Release && r.Outcome != lost {
					least = before.Attempt
					if r.Outcome == happened {
						most = before.Attempt
					}
				}
			}
		}
		if c.Attempt < least || c.Attempt > most {
			s.fault("was handed out under fence %d as attempt %d, want %d to %d", c.Fence, c.Attempt, least, most)
		}
	}
}

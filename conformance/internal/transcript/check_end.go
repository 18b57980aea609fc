package transcript

import (
	"slices"

	"github.com/dbq-go/dbq/state"
)

// checkThere checks that an acknowledged task is there unless it was removed, and that no other task is.
func (s *taskCalls) checkThere() {
	has := func(rs []Record, want func(Record) bool) bool { return slices.ContainsFunc(rs, want) }
	did := func(r Record) bool { return r.Answer == Happened }
	may := func(r Record) bool { return r.Answer == Happened || r.Answer == Maybe }
	removal := func(r Record) bool { return r.Remove || r.Event == state.Purge }
	calls := slices.Concat(s.settles, s.operators)
	removed := has(calls, func(r Record) bool { return removal(r) && did(r) })
	mayBeGone := has(calls, func(r Record) bool { return removal(r) && may(r) }) || s.mayHaveBeen(state.Purge, 1<<63-1)
	switch {
	case s.end == nil && has(s.enqueues, did) && !mayBeGone:
		s.violated("was enqueued and acknowledged, and is lost")
	case s.end != nil && removed:
		s.violated("was removed, and is still there in state %v", s.end.State)
	case s.end != nil && !has(s.enqueues, may):
		s.violated("is there in state %v, though it was never enqueued", s.end.State)
	}
}

// checkState checks that the task is in the state in which the last lease left it. Operators' calls may have come
// before or after it, so a task that one of them touched is only checked for being completed.
func (s *taskCalls) checkState() {
	done, mayBeDone := false, s.mayHaveBeen(state.Finish, 1<<63-1)
	for _, r := range slices.Concat(s.settles, s.operators) {
		if r.Event == state.Complete || r.Event == state.Finish {
			done = done || r.Answer == Happened
			mayBeDone = mayBeDone || r.Answer == Happened || r.Answer == Maybe
		}
	}
	end := s.end.State
	if done && end != state.Completed {
		s.violated("was completed, and is %v in the end", end)
		return
	}
	if end == state.Completed && !mayBeDone {
		s.violated("is COMPLETED in the end, though it was never completed")
	}
	if len(s.operators) > 0 || len(s.anyTask) > 0 {
		return
	}
	if len(s.checkouts) == 0 {
		if end != state.Created {
			s.violated("is %v in the end, though it was never taken", end)
		}
		return
	}
	last := s.checkouts[len(s.checkouts)-1]
	want := []state.State{state.Processing}
	spent := s.end.Attempt >= s.end.MaxAttempts
	for _, r := range s.settles {
		if r.Fence != last.Fence || r.Answer == Lost {
			continue
		}
		if r.Answer == Happened {
			want = nil
		}
		t, _ := state.Find(r.Event, state.Holder)
		want = append(want, t.To)
	}
	if slices.Contains(want, state.Error) || slices.Contains(want, state.Processing) && spent {
		want = append(want, state.Poison)
	}
	if !slices.Contains(want, end) {
		s.violated("is %v in the end, want one of %v: it was last held by %s under fence %d", end, want, last.Worker,
			last.Fence)
	}
}

// checkAttempts checks that the attempts in the end are the checkouts, less the releases, since the last reenqueue.
func (s *taskCalls) checkAttempts() {
	if n := len(s.checkouts); n > 0 && s.end.Fence < s.checkouts[n-1].Fence {
		s.violated("has fence %d in the end, though it was handed out under fence %d", s.end.Fence, s.checkouts[n-1].Fence)
	}
	least, most := len(s.checkouts), len(s.checkouts)
	for _, r := range s.settles {
		if r.Event != state.Release || r.Answer == Lost {
			continue
		}
		least--
		if r.Answer == Happened {
			most--
		}
	}
	for _, r := range s.anyTask {
		if r.Event == state.Checkout {
			most++
		}
	}
	if s.resets() {
		least = 0
	}
	if a := s.end.Attempt; a < least || a > most {
		s.violated("counts %d attempts in the end, want %d to %d for %d checkouts", a, least, most, len(s.checkouts))
	}
	for _, c := range s.checkouts {
		if c.Attempt > s.end.MaxAttempts {
			s.violated("was handed out as attempt %d of at most %d", c.Attempt, s.end.MaxAttempts)
		}
	}
}

// resets reports whether an operator may have made the attempts start over.
func (s *taskCalls) resets() bool {
	reset := func(r Record) bool { return r.Event == state.Reenqueue && r.Answer != Lost }
	return slices.ContainsFunc(s.operators, reset) || slices.ContainsFunc(s.anyTask, reset)
}

// checkCount checks that each checkout reports one attempt more than the one before, or the same after a release.
func (s *taskCalls) checkCount() {
	if len(s.anyTask) > 0 || s.resets() {
		return
	}
	for i, c := range s.checkouts {
		least, most := 1, 1
		if i > 0 {
			before := s.checkouts[i-1]
			least, most = before.Attempt+1, before.Attempt+1
			for _, r := range s.settles {
				if r.Fence == before.Fence && r.Event == state.Release && r.Answer != Lost {
					least = before.Attempt
					if r.Answer == Happened {
						most = before.Attempt
					}
				}
			}
		}
		if c.Attempt < least || c.Attempt > most {
			s.violated("was handed out under fence %d as attempt %d, want %d to %d", c.Fence, c.Attempt, least, most)
		}
	}
}

package history

import (
	"slices"

	"github.com/dbq-go/dbq/state"
)

// checkThere checks that an acknowledged task is there unless it was removed, and that no other task is.
func (h *taskHistory) checkThere() {
	has := func(rs []Record, want func(Record) bool) bool { return slices.ContainsFunc(rs, want) }
	did := func(r Record) bool { return r.Answer == Happened }
	may := func(r Record) bool { return r.Answer == Happened || r.Answer == Maybe }
	removal := func(r Record) bool { return r.Remove || r.Event == state.Purge }
	calls := slices.Concat(h.settles, h.operators)
	removed := has(calls, func(r Record) bool { return removal(r) && did(r) })
	mayBeGone := has(calls, func(r Record) bool { return removal(r) && may(r) }) || h.mayHaveBeen(state.Purge, 1<<63-1)
	switch {
	case h.end == nil && has(h.enqueues, did) && !mayBeGone:
		h.violated("was enqueued and acknowledged, and is lost")
	case h.end != nil && removed:
		h.violated("was removed, and is still there in state %v", h.end.State)
	case h.end != nil && !has(h.enqueues, may):
		h.violated("is there in state %v, though it was never enqueued", h.end.State)
	}
}

// checkState checks that the task is in the state in which the last lease left it. Operators' calls may have come
// before or after it, so a task that one of them touched is only checked for being completed.
func (h *taskHistory) checkState() {
	done, mayBeDone := false, false
	for _, r := range h.settles {
		if r.Event == state.Complete {
			done = done || r.Answer == Happened
			mayBeDone = mayBeDone || r.Answer == Happened || r.Answer == Maybe
		}
	}
	end := h.end.State
	if done && end != state.Completed {
		h.violated("was completed, and is %v in the end", end)
		return
	}
	if end == state.Completed && !mayBeDone {
		h.violated("is COMPLETED in the end, though it was never completed")
	}
	if len(h.operators) > 0 || len(h.anyTask) > 0 {
		return
	}
	if len(h.checkouts) == 0 {
		if end != state.Created {
			h.violated("is %v in the end, though it was never taken", end)
		}
		return
	}
	last := h.checkouts[len(h.checkouts)-1]
	want := []state.State{state.Processing}
	spent := h.end.Attempt >= h.end.MaxAttempts
	for _, r := range h.settles {
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
		h.violated("is %v in the end, want one of %v: it was last held by %s under fence %d", end, want, last.Worker,
			last.Fence)
	}
}

// checkAttempts checks that the attempts in the end are the checkouts, less the releases, since the last reenqueue.
func (h *taskHistory) checkAttempts() {
	if n := len(h.checkouts); n > 0 && h.end.Fence < h.checkouts[n-1].Fence {
		h.violated("has fence %d in the end, though it was handed out under fence %d", h.end.Fence, h.checkouts[n-1].Fence)
	}
	least, most := len(h.checkouts), len(h.checkouts)
	for _, r := range h.settles {
		if r.Event != state.Release || r.Answer == Lost {
			continue
		}
		least--
		if r.Answer == Happened {
			most--
		}
	}
	for _, r := range h.anyTask {
		if r.Event == state.Checkout {
			most++
		}
	}
	if h.resets() {
		least = 0
	}
	if a := h.end.Attempt; a < least || a > most {
		h.violated("counts %d attempts in the end, want %d to %d for %d checkouts", a, least, most, len(h.checkouts))
	}
	for _, c := range h.checkouts {
		if c.Attempt > h.end.MaxAttempts {
			h.violated("was handed out as attempt %d of at most %d", c.Attempt, h.end.MaxAttempts)
		}
	}
}

// resets reports whether an operator may have made the attempts start over.
func (h *taskHistory) resets() bool {
	reset := func(r Record) bool { return r.Event == state.Reenqueue && r.Answer != Lost }
	return slices.ContainsFunc(h.operators, reset) || slices.ContainsFunc(h.anyTask, reset)
}

// checkCount checks that each checkout reports one attempt more than the one before, or the same after a release.
func (h *taskHistory) checkCount() {
	if len(h.anyTask) > 0 || h.resets() {
		return
	}
	for i, c := range h.checkouts {
		least, most := 1, 1
		if i > 0 {
			before := h.checkouts[i-1]
			least, most = before.Attempt+1, before.Attempt+1
			for _, r := range h.settles {
				if r.Fence == before.Fence && r.Event == state.Release && r.Answer != Lost {
					least = before.Attempt
					if r.Answer == Happened {
						most = before.Attempt
					}
				}
			}
		}
		if c.Attempt < least || c.Attempt > most {
			h.violated("was handed out under fence %d as attempt %d, want %d to %d", c.Fence, c.Attempt, least, most)
		}
	}
}

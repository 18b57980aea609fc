package conformance

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// history is all that was recorded and the tasks that were there in the end.
type history struct {
	records []record
	end     []dbq.Task
}

// maxFaults bounds what one history is blamed for.
const maxFaults = 12

// story is what a history says about one task, its calls by kind. Calls that were refused are left out, except enqueues.
type story struct {
	id        uuid.UUID
	enqueues  []record
	checkouts []record // by fence
	extends   []record
	settles   []record
	operators []record
	wild      []record // calls that may have concerned any task
	end       *dbq.Task

	faults []string
}

// faults is what a history says against the queue. It is a pure function: the same history gives the same answer. Times are
// bounds, so it may miss an overlap that was shorter than a call, and never reports one that was none.
func (h history) faults() []string {
	stories := map[uuid.UUID]*story{}
	get := func(id uuid.UUID) *story {
		if stories[id] == nil {
			stories[id] = &story{id: id}
		}
		return stories[id]
	}
	var wild []record
	for _, r := range h.records {
		if r.Task == uuid.Nil {
			if r.Outcome != refused && r.Outcome != lost {
				wild = append(wild, r)
			}
			continue
		}
		get(r.Task).add(r)
	}
	for i := range h.end {
		s := get(h.end[i].ID)
		if s.end != nil {
			s.fault("is there twice in the end")
		}
		s.end = &h.end[i]
	}
	ids := make([]uuid.UUID, 0, len(stories))
	for id := range stories {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
	var out []string
	for _, id := range ids {
		s := stories[id]
		s.wild = wild
		s.check()
		out = append(out, s.faults...)
		if len(out) >= maxFaults {
			return append(out[:maxFaults:maxFaults], "and maybe more")
		}
	}
	return out
}

func (s *story) add(r record) {
	switch {
	case r.Event == state.Enqueue:
		s.enqueues = append(s.enqueues, r)
	case r.Outcome == refused:
	case r.Event == state.Checkout:
		s.checkouts = append(s.checkouts, r)
	case r.Event == state.Extend:
		s.extends = append(s.extends, r)
	case r.Fence != 0: // a holder's call carries its fence, an operator's has none
		s.settles = append(s.settles, r)
	default:
		s.operators = append(s.operators, r)
	}
}

func (s *story) fault(format string, args ...any) {
	s.faults = append(s.faults, fmt.Sprintf("task %s ", s.id)+fmt.Sprintf(format, args...))
}

func (s *story) check() {
	slices.SortStableFunc(s.checkouts, func(a, b record) int { return cmp.Compare(a.Fence, b.Fence) })
	s.checkFences()
	s.checkOverlaps()
	s.checkSettles()
	s.checkLost()
	s.checkAfterEnd()
	s.checkThere()
	if s.end != nil {
		s.checkState()
		s.checkAttempts()
	}
	s.checkCount()
}

// checkFences: fences are never given twice, and grow with the order in which checkouts happened.
func (s *story) checkFences() {
	var latest record // of those with a lower fence, the one sent last
	for i, c := range s.checkouts {
		if i > 0 && c.Fence == s.checkouts[i-1].Fence {
			s.fault("was handed out twice under fence %d: to %s and to %s", c.Fence, s.checkouts[i-1].Worker, c.Worker)
		}
		if i > 0 && c.Answered < latest.Sent {
			s.fault("was handed out under fence %d before it was under the lower fence %d", c.Fence, latest.Fence)
		}
		if c.Sent > latest.Sent {
			latest = c
		}
	}
}

// span is a time in which a lease was held for certain: the call that gave it had returned, the call that ended it had not
// been sent, the holder's own estimate of its end had not come, and no operator had begun to revoke it.
type span struct {
	fence      int64
	worker     string
	start, end int64
}

func (s *story) spans() []span {
	var out []span
	for _, c := range s.checkouts {
		stop := s.certainEnd(c)
		cur := span{c.Fence, c.Worker, c.Answered, min(c.Until, stop)}
		for _, e := range s.extends { // in the order in which they were sent
			if e.Fence != c.Fence || e.Outcome == lost {
				continue
			}
			if e.Outcome == maybe || e.Until < cur.end { // it may have made the lease shorter
				cur.end = min(cur.end, e.Sent)
			}
			if e.Outcome == happened {
				out = append(out, cur)
				cur = span{c.Fence, e.Worker, e.Answered, min(e.Until, stop)}
			}
		}
		out = append(out, cur)
	}
	return out
}

// certainEnd is the first moment after a checkout at which a call was sent that may have ended the lease.
func (s *story) certainEnd(c record) int64 {
	const never = int64(1<<63 - 1)
	end := never
	for _, r := range s.settles {
		if r.Fence == c.Fence {
			end = min(end, r.Sent)
		}
	}
	for _, r := range slices.Concat(s.operators, s.wild) {
		if r.Event == state.Revoke && (r.Answered == 0 || r.Answered >= c.Sent) {
			end = min(end, max(r.Sent, c.Answered))
		}
	}
	return end
}

// checkOverlaps: no two leases are held for certain at the same time.
func (s *story) checkOverlaps() {
	spans := s.spans()
	for i, a := range spans {
		for _, b := range spans[:i] {
			from, to := max(a.start, b.start), min(a.end, b.end)
			if a.fence != b.fence && from < to {
				s.fault("was held by %s under fence %d and by %s under fence %d at the same time, for %.3f ms",
					b.worker, b.fence, a.worker, a.fence, float64(to-from)/1e6)
			}
		}
	}
}

// checkSettles: one settling call for each lease, none under a fence that nobody got or that is not the newest.
func (s *story) checkSettles() {
	settled := map[int64]record{}
	for _, r := range s.settles {
		if r.Outcome != happened {
			continue
		}
		if first, twice := settled[r.Fence]; twice {
			s.fault("was settled twice under fence %d: %s by %s and %s by %s", r.Fence, first.Event, first.Worker, r.Event, r.Worker)
		}
		settled[r.Fence] = r
		if !slices.ContainsFunc(s.checkouts, func(c record) bool { return c.Fence == r.Fence }) && !s.mayBe(state.Checkout, r.Answered) {
			s.fault("was settled (%s) under fence %d, which nobody was given", r.Event, r.Fence)
		}
		for _, c := range s.checkouts {
			if c.Fence > r.Fence && c.Answered < r.Sent {
				s.fault("was settled (%s) by %s under fence %d after it had been handed out under fence %d",
					r.Event, r.Worker, r.Fence, c.Fence)
				break
			}
		}
		for _, op := range s.operators {
			if op.Event == state.Revoke && op.Outcome == happened && op.Answered < r.Sent && s.sentAfter(op, r.Fence) {
				s.fault("was settled (%s) under fence %d after that lease was revoked", r.Event, r.Fence)
			}
		}
	}
}

// sentAfter reports whether op was sent when the lease of a fence had been handed out.
func (s *story) sentAfter(op record, fence int64) bool {
	return slices.ContainsFunc(s.checkouts, func(c record) bool { return c.Fence == fence && c.Answered < op.Sent })
}

// mayBe reports whether a call about unknown tasks, sent before a moment, may have been this event on this task.
func (s *story) mayBe(e state.Event, before int64) bool {
	return slices.ContainsFunc(s.wild, func(r record) bool { return r.Event == e && r.Sent < before })
}

// checkLost: an answer that the lease is lost has a reason.
func (s *story) checkLost() {
	for _, r := range slices.Concat(s.settles, s.extends) {
		if r.Outcome == lost && !s.explainsLost(r) {
			s.fault("answered %s by %s under fence %d with ErrLeaseLost, though nobody else had taken or ended it",
				r.Event, r.Worker, r.Fence)
		}
	}
}

func (s *story) explainsLost(r record) bool {
	taken := func(c record) bool { return c.Fence > r.Fence && c.Sent < r.Answered }
	ended := func(o record) bool { return o.Fence == r.Fence && o.Outcome != lost && o.Sent < r.Answered }
	early := func(o record) bool { return o.Sent < r.Answered }
	spent := s.end != nil && s.end.State == state.Poison && s.end.Attempt >= s.end.MaxAttempts // by a checkout, which tells nobody
	return spent || slices.ContainsFunc(s.checkouts, taken) || slices.ContainsFunc(s.settles, ended) ||
		slices.ContainsFunc(s.operators, early) || slices.ContainsFunc(s.wild, early)
}

// checkAfterEnd: a task is completed once, and what is completed or poisoned is not handed out again by itself.
func (s *story) checkAfterEnd() {
	var done []record
	for _, r := range s.settles {
		if r.Outcome != happened {
			continue
		}
		if r.Event == state.Complete {
			done = append(done, r)
		}
		if r.Event != state.Complete && (r.Event != state.PoisonIt || len(s.operators) > 0 || len(s.wild) > 0) {
			continue
		}
		for _, c := range s.checkouts {
			if c.Sent > r.Answered {
				s.fault("was handed out to %s under fence %d after %s had settled it (%s)", c.Worker, c.Fence, r.Worker, r.Event)
				break
			}
		}
	}
	if len(done) > 1 {
		s.fault("was completed %d times: by %s under fence %d and by %s under fence %d", len(done),
			done[0].Worker, done[0].Fence, done[1].Worker, done[1].Fence)
	}
}

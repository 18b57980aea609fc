package transcript

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// A Transcript has the records of many callers and the tasks that existed at the end.
type Transcript struct {
	Records []Record
	Tasks   []dbq.Task
}

// maxViolations bounds the violations that one transcript reports.
const maxViolations = 12

// A taskCalls is the part of a transcript that is about one task. Refused calls are left out, except enqueues.
type taskCalls struct {
	id        uuid.UUID
	enqueues  []Record
	checkouts []Record // by fence
	extends   []Record
	settles   []Record
	operators []Record
	anyTask   []Record // calls that may have concerned any task
	end       *dbq.Task

	violations []string
}

// Violations returns the contradictions between the transcript and dbq's promises. It is a pure function. The times of
// calls are bounds, so it may miss an overlap that was shorter than a call, but it never reports one that did not
// happen.
func (t Transcript) Violations() []string {
	tasks := map[uuid.UUID]*taskCalls{}
	get := func(id uuid.UUID) *taskCalls {
		if tasks[id] == nil {
			tasks[id] = &taskCalls{id: id}
		}
		return tasks[id]
	}
	var anyTask []Record
	for _, r := range t.Records {
		if r.TaskID == uuid.Nil {
			if r.Answer != Refused && r.Answer != Lost {
				anyTask = append(anyTask, r)
			}
			continue
		}
		get(r.TaskID).add(r)
	}
	for i := range t.Tasks {
		s := get(t.Tasks[i].ID)
		if s.end != nil {
			s.violated("is there twice in the end")
		}
		s.end = &t.Tasks[i]
	}
	ids := make([]uuid.UUID, 0, len(tasks))
	for id := range tasks {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
	var out []string
	for _, id := range ids {
		s := tasks[id]
		s.anyTask = anyTask
		s.check()
		out = append(out, s.violations...)
		if len(out) >= maxViolations {
			return append(out[:maxViolations:maxViolations], "and maybe more")
		}
	}
	return out
}

// add sorts a record in.
func (s *taskCalls) add(r Record) {
	switch {
	case r.Event == state.Enqueue:
		s.enqueues = append(s.enqueues, r)
	case r.Answer == Refused:
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

// violated records a violation.
func (s *taskCalls) violated(format string, args ...any) {
	s.violations = append(s.violations, fmt.Sprintf("task %s ", s.id)+fmt.Sprintf(format, args...))
}

func (s *taskCalls) check() {
	slices.SortStableFunc(s.checkouts, func(a, b Record) int { return cmp.Compare(a.Fence, b.Fence) })
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

// checkFences checks that fences are never given twice, and grow in the order of the checkouts.
func (s *taskCalls) checkFences() {
	var latest Record // of those with a lower fence, the one sent last
	for i, c := range s.checkouts {
		if i > 0 && c.Fence == s.checkouts[i-1].Fence {
			s.violated("was handed out twice under fence %d: to %s and to %s", c.Fence, s.checkouts[i-1].Worker, c.Worker)
		}
		if i > 0 && c.Answered < latest.Sent {
			s.violated("was handed out under fence %d before it was under the lower fence %d", c.Fence, latest.Fence)
		}
		if c.Sent > latest.Sent {
			latest = c
		}
	}
}

// A span is a time in which a lease was certainly held: the call that gave it had returned, the call that ended it had
// not been sent, the holder's own estimate of its end had not come, and no operator had begun to revoke it.
type span struct {
	fence      int64
	worker     string
	start, end int64
}

func (s *taskCalls) spans() []span {
	var out []span
	for _, c := range s.checkouts {
		stop := s.certainEnd(c)
		cur := span{c.Fence, c.Worker, c.Answered, min(c.Until, stop)}
		for _, e := range s.extends { // in the order in which they were sent
			if e.Fence != c.Fence || e.Answer == Lost {
				continue
			}
			if e.Answer == Maybe || e.Until < cur.end { // it may have made the lease shorter
				cur.end = min(cur.end, e.Sent)
			}
			if e.Answer == Happened {
				out = append(out, cur)
				cur = span{c.Fence, e.Worker, e.Answered, min(e.Until, stop)}
			}
		}
		out = append(out, cur)
	}
	return out
}

// takesLease reports whether e takes a lease away from its holder, if an operator causes it.
func takesLease(e state.Event) bool {
	t, _ := state.Find(e, state.Operator)
	return t.TakesLease()
}

// certainEnd returns the first moment after a checkout at which a call was sent that may have ended the lease.
func (s *taskCalls) certainEnd(c Record) int64 {
	const never = int64(1<<63 - 1)
	end := never
	for _, r := range s.settles {
		if r.Fence == c.Fence {
			end = min(end, r.Sent)
		}
	}
	for _, r := range slices.Concat(s.operators, s.anyTask) {
		if takesLease(r.Event) && (r.Answered == 0 || r.Answered >= c.Sent) {
			end = min(end, max(r.Sent, c.Answered))
		}
	}
	return end
}

// checkOverlaps checks that no two leases were certainly held at the same time.
func (s *taskCalls) checkOverlaps() {
	spans := s.spans()
	for i, a := range spans {
		for _, b := range spans[:i] {
			from, to := max(a.start, b.start), min(a.end, b.end)
			if a.fence != b.fence && from < to {
				s.violated("was held by %s under fence %d and by %s under fence %d at the same time, for %.3f ms",
					b.worker, b.fence, a.worker, a.fence, float64(to-from)/1e6)
			}
		}
	}
}

// checkSettles checks that each lease was settled at most once, and none under a fence that was never given or was not
// the newest.
func (s *taskCalls) checkSettles() {
	settled := map[int64]Record{}
	for _, r := range s.settles {
		if r.Answer != Happened {
			continue
		}
		if first, twice := settled[r.Fence]; twice {
			s.violated("was settled twice under fence %d: %s by %s and %s by %s", r.Fence, first.Event, first.Worker, r.Event,
				r.Worker)
		}
		settled[r.Fence] = r
		if !slices.ContainsFunc(s.checkouts, func(c Record) bool { return c.Fence == r.Fence }) &&
			!s.mayHaveBeen(state.Checkout, r.Answered) {
			s.violated("was settled (%s) under fence %d, which was never given", r.Event, r.Fence)
		}
		for _, c := range s.checkouts {
			if c.Fence > r.Fence && c.Answered < r.Sent {
				s.violated("was settled (%s) by %s under fence %d after it had been handed out under fence %d",
					r.Event, r.Worker, r.Fence, c.Fence)
				break
			}
		}
		for _, op := range s.operators {
			if takesLease(op.Event) && op.Answer == Happened && op.Answered < r.Sent && s.sentAfter(op, r.Fence) {
				s.violated("was settled (%s) under fence %d after that lease was revoked", r.Event, r.Fence)
			}
		}
	}
}

// sentAfter reports whether op was sent when the lease of a fence had been handed out.
func (s *taskCalls) sentAfter(op Record, fence int64) bool {
	return slices.ContainsFunc(s.checkouts, func(c Record) bool { return c.Fence == fence && c.Answered < op.Sent })
}

// mayBe reports whether a call about unknown tasks, sent before a moment, may have been this event on this task.
func (s *taskCalls) mayHaveBeen(e state.Event, before int64) bool {
	return slices.ContainsFunc(s.anyTask, func(r Record) bool { return r.Event == e && r.Sent < before })
}

// checkLost checks that every lost lease has a reason.
func (s *taskCalls) checkLost() {
	for _, r := range slices.Concat(s.settles, s.extends) {
		if r.Answer == Lost && !s.explainsLost(r) {
			s.violated("answered %s by %s under fence %d with ErrLeaseLost, though no other worker had taken or ended it",
				r.Event, r.Worker, r.Fence)
		}
	}
}

func (s *taskCalls) explainsLost(r Record) bool {
	taken := func(c Record) bool { return c.Fence > r.Fence && c.Sent < r.Answered }
	ended := func(o Record) bool { return o.Fence == r.Fence && o.Answer != Lost && o.Sent < r.Answered }
	early := func(o Record) bool { return o.Sent < r.Answered }
	// by a checkout that was not recorded
	spent := s.end != nil && s.end.State == state.Poison && s.end.Attempt >= s.end.MaxAttempts
	return spent || slices.ContainsFunc(s.checkouts, taken) || slices.ContainsFunc(s.settles, ended) ||
		slices.ContainsFunc(s.operators, early) || slices.ContainsFunc(s.anyTask, early)
}

// checkAfterEnd checks that a task was completed once, and not handed out after it was completed or poisoned, unless by
// an operator.
func (s *taskCalls) checkAfterEnd() {
	var done []Record
	for _, r := range slices.Concat(s.settles, s.operators) {
		if r.Answer != Happened {
			continue
		}
		completed := r.Event == state.Complete || r.Event == state.Finish
		if completed {
			done = append(done, r)
		}
		if !completed && (r.Event != state.PoisonEvent || len(s.operators) > 0 || len(s.anyTask) > 0) {
			continue
		}
		for _, c := range s.checkouts {
			if c.Sent > r.Answered {
				s.violated("was handed out to %s under fence %d after %s had settled it (%s)", c.Worker, c.Fence, r.Worker, r.Event)
				break
			}
		}
	}
	if len(done) > 1 {
		s.violated("was completed %d times: by %s under fence %d and by %s under fence %d", len(done),
			done[0].Worker, done[0].Fence, done[1].Worker, done[1].Fence)
	}
}

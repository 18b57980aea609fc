package worker

import (
	"cmp"
	"sync"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/google/uuid"
)

// leases are the tasks that a worker holds, each from its checkout to its settlement, and the handlers' calls for
// them. It cancels the context of a call whose leases have ended. It is safe for concurrent use.
type leases struct {
	*env
	stuck func([]*invocation) // called with handlers that have ignored the end of their context for Grace
	freed func()              // called when tasks are removed; it takes no lock
	// renewSoon starts a renewal, which stores progress. It takes no lock.
	renewSoon func()
	empty     chan struct{} // receives when the last task is removed

	mu     sync.Mutex
	stored sync.Cond // broadcasts when progress is stored or a lease lost
	first  *leased   // of an unordered list
	n      int
	// uncalled is how many tasks may be marked as started though their handlers were not called; see unmark.
	uncalled int
	// unsettled is the time until which the database may count tasks as held that the worker has given up.
	unsettled time.Time
	// timer calls check. It serves all invocations: a timer for each would cost more than a short handler.
	timer   *time.Timer
	timerAt time.Time // when it fires; zero means never
	closed  bool      // it no longer fires
	over    error     // why the contexts of all handlers have ended; nil until then

	checking sync.Mutex // held by check
}

func newLeases(e *env) *leases {
	s := &leases{env: e, empty: make(chan struct{}, 1)}
	s.stored.L = &s.mu
	s.timer = time.AfterFunc(time.Hour, s.check)
	s.timer.Stop()
	return s
}

// add adds tasks that were checked out together.
func (s *leases) add(ts []dbq.Task) []leased {
	ls, now := make([]leased, len(ts)), time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range ls {
		l := &ls[i]
		l.task, l.received, l.in, l.lease = ts[i], now, s, ts[i].Lease
		if s.share != nil {
			l.slot = sync.OnceFunc(s.share.ended)
		}
		l.listed, l.next = true, s.first
		if s.first != nil {
			s.first.prev = l
		}
		s.first = l
	}
	s.n += len(ls)
	return ls
}

// remove removes tasks, and ends the trials of suspects among them. It ignores those that were already removed.
func (s *leases) remove(ls ...*leased) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range ls {
		inProcess.end(l, !l.began.IsZero())
		if !l.listed {
			continue
		}
		if l.prev != nil {
			l.prev.next = l.next
		} else {
			s.first = l.next
		}
		if l.next != nil {
			l.next.prev = l.prev
		}
		l.freeSlot()
		l.listed, l.prev, l.next = false, nil, nil
		s.n--
		if l.uncalled {
			s.uncalled--
		}
		if l.backIn > 0 {
			s.extendUnsettled(l.backIn)
		}
	}
	if s.n == 0 {
		select {
		case s.empty <- struct{}{}:
		default:
		}
	}
	if s.freed != nil {
		s.freed()
	}
}

// giveUp removes a task that was not settled. Unless the database reported the lease as lost, it may count the task
// as held until the lease expires there.
func (s *leases) giveUp(l *leased) {
	s.mu.Lock()
	if l.state != lost {
		s.extendUnsettled(max(s.settings().lease, time.Until(l.lease.Until)))
	}
	s.mu.Unlock()
	s.remove(l)
}

// unmark records the release of a task that may be marked as started although its handler was not called. If its lease
// ended first, the attempt would count. So its release is tried until the database answers, and the worker checks
// nothing out before if that lease may have ended.
func (s *leases) unmark(l *leased) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.listed && !l.uncalled {
		l.uncalled = true
		s.uncalled++
	}
}

// unmarking reports whether the lease of any such task may have ended before its release. As long as renewals succeed,
// it has not: another transaction may have locked a task for any time. It is not enough that no other worker has the
// task, since this worker's own checkout would take it over.
func (s *leases) unmarking() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := s.first; s.uncalled > 0 && l != nil; l = l.next {
		if l.uncalled && time.Until(l.lease.Until) < s.settings().lease/4 { // renewed when half of it is left
			return true
		}
	}
	return false
}

// mayHold records that for up to d the database may count tasks as held that the worker does not know of.
func (s *leases) mayHold(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.extendUnsettled(d)
}

// extendUnsettled is mayHold for a caller that holds s.mu.
func (s *leases) extendUnsettled(d time.Duration) {
	if t := time.Now().Add(d); t.After(s.unsettled) {
		s.unsettled = t
	}
}

// settled reports whether neither the worker nor the database counts any task as held.
func (s *leases) settled() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n == 0 && time.Now().After(s.unsettled)
}

func (s *leases) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n
}

// firstEnd returns when the first lease ends, by this process's clock; ok is false if there is none.
func (s *leases) firstEnd() (first time.Time, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := s.first; l != nil; l = l.next {
		if until := l.lease.Until; l.state < expired && (!ok || until.Before(first)) {
			first, ok = until, true
		}
	}
	return first, ok
}

// leaseKey identifies a lease.
type leaseKey struct {
	task  uuid.UUID
	fence int64
}

func key(l dbq.Lease) leaseKey { return leaseKey{l.TaskID, l.Fence} }

// settlements returns the settlements to send, with the leases after their last renewal.
func (s *leases) settlements(batch []settlement) []dbq.Settlement {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]dbq.Settlement, len(batch))
	for i := range batch {
		st := &batch[i]
		lease := st.leased.lease
		lease.Progress = st.leased.progress
		out[i] = access.Settlement(lease, st.how, access.SettleOptions{
			Again:        st.again,
			Unrecorded:   s.settings().history == dbq.HistoryNone || st.leased.began.IsZero(),
			AttemptsLeft: st.leased.task.Attempt < st.leased.task.MaxAttempts,
			Cause:        st.err,
		})
	}
	return out
}

// toRenew returns the leases to renew for the given time, and their tasks by key: all that were not leased or renewed
// a moment ago, and those with progress to store. It omits a task that is being settled while more than half of its
// lease is left.
func (s *leases) toRenew(lease time.Duration) ([]dbq.Lease, map[leaseKey]*leased) {
	return s.selected(func(l *leased) bool {
		left := time.Until(l.lease.Until)
		enough := lease * 5 / 6
		if l.state == finished {
			enough = lease / 2
		}
		// left is more than lease if operators have shortened it.
		return l.state < expired && (left < enough || left > lease) || l.state == running && l.unsaved
	})
}

// inHandlers returns the leases of tasks whose handlers were called at least this long ago, and their tasks by key.
func (s *leases) inHandlers(least time.Duration) ([]dbq.Lease, map[leaseKey]*leased) {
	return s.selected(func(l *leased) bool { return l.state == running && time.Since(l.began) >= least })
}

// selected returns the leases of some tasks, with progress to store, and their tasks by key.
func (s *leases) selected(by func(l *leased) bool) (ls []dbq.Lease, byKey map[leaseKey]*leased) {
	s.mu.Lock()
	defer s.mu.Unlock()
	byKey = map[leaseKey]*leased{}
	for l := s.first; l != nil; l = l.next {
		if by(l) {
			lease := l.lease
			if l.unsaved || l.resend {
				lease.Progress = l.progress
			}
			ls = append(ls, lease)
			byKey[key(lease)] = l
		}
	}
	return ls, byKey
}

// renewed records the new end of a lease. For a later end, the check at the old end is enough. For an earlier end, as
// after an operator has shortened the lease, the check must come earlier.
func (s *leases) renewed(l *leased, lease dbq.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.unsaved && len(lease.Progress) > 0 && &lease.Progress[0] == &l.progress[0] {
		l.unsaved = false // otherwise the handler has reported more meanwhile
		s.stored.Broadcast()
	}
	lease.Progress = nil
	l.lease, l.vouched = lease, time.Time{}
	if l.invocation != nil {
		s.checkBy(lease.Until)
	}
}

// unanswered records that a renewal of these leases has failed. If it carried progress, the database may still execute
// it after later renewals, and so put back that progress. Therefore each later renewal stores the last progress again.
func (s *leases) unanswered(ls []dbq.Lease, byKey map[leaseKey]*leased) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, lease := range ls {
		if len(lease.Progress) > 0 {
			byKey[key(lease)].resend = true
		}
	}
}

// vouch records that no other worker has the task until then.
func (s *leases) vouch(l *leased, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.vouched = until
}

// lose marks a task as lost and ends its handler's context, with dbq.ErrLeaseLost unless cause is another error. It
// ignores a task that is being settled, because the settlement itself ends the lease.
func (s *leases) lose(l *leased, cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.state != running && l.state != waiting {
		return
	}
	inv := l.invocation
	l.state, l.lostBy = lost, cmp.Or(cause, dbq.ErrLeaseLost)
	s.stored.Broadcast()
	if inv != nil {
		inv.check(time.Now())
	}
}

// endedItself records that a task is no longer leased because its own handler has ended the attempt, in a transaction
// of its own. The handler may go on.
func (s *leases) endedItself(l *leased) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.state == running {
		l.state = ended
		s.stored.Broadcast()
	}
}

// invocations returns the calls of handlers that have not returned.
func (s *leases) invocations() []*invocation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.underWay()
}

// underWay is invocations for a caller that holds s.mu.
func (s *leases) underWay() (out []*invocation) {
	for l := s.first; l != nil; l = l.next {
		if inv := l.invocation; inv != nil && inv.tasks[0] == l { // once for each invocation
			out = append(out, inv)
		}
	}
	return out
}

// cancelAll ends the contexts of all handlers, including those that start later.
func (s *leases) cancelAll(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = cause
	for _, inv := range s.underWay() {
		inv.end(time.Now(), cause)
	}
}

// checkBy schedules check for a time, or earlier; zero means never. The caller holds s.mu.
func (s *leases) checkBy(t time.Time) {
	if !s.closed && !t.IsZero() && (s.timerAt.IsZero() || t.Before(s.timerAt)) {
		s.timerAt = t
		s.timer.Reset(time.Until(t))
	}
}

// check ends the contexts of handlers whose leases have ended by the local clock (as when the database cannot be
// reached), or whose Timeout has passed. It also finds handlers that ignore this.
func (s *leases) check() {
	s.checking.Lock()
	defer s.checking.Unlock()
	var stuck []*invocation
	s.mu.Lock()
	s.timerAt = time.Time{}
	now := time.Now()
	for _, inv := range s.underWay() {
		inv.check(now)
		if inv.isStuck(now) {
			inv.abandon()
			stuck = append(stuck, inv)
		}
	}
	s.mu.Unlock()
	if len(stuck) > 0 {
		s.stuck(stuck)
	}
}

// close stops check, and waits for a check under way, which may be settling the attempt of a stuck handler.
func (s *leases) close() {
	s.mu.Lock()
	s.closed = true
	s.timer.Stop()
	s.mu.Unlock()
	s.checking.Lock() // check has returned by then and does not run again
	defer s.checking.Unlock()
}

// leased is one task that the worker holds.
type leased struct {
	task     dbq.Task
	received time.Time // when its checkout returned

	// The following are set before the handler is called and do not change afterwards.
	began  time.Time // when the handler was called; zero if it has not been
	permit *permit   // for a suspect that may run; nil for other tasks
	slot   func()    // gives back the slot of a Group; nil for a worker without one

	// backIn is how long the task is released for; UntilEmpty waits for it. It is set before the release.
	backIn time.Duration

	// The following are guarded by leases.mu.
	in         *leases
	lease      dbq.Lease // after its last renewal
	progress   []byte    // the handler's last report; nil for none
	unsaved    bool      // no renewal has stored progress yet
	resend     bool      // each renewal stores progress; see unanswered
	uncalled   bool      // see leases.unmark
	vouched    time.Time // until then no other worker has the task, even if the lease has expired; see leaseKeeper.vouch
	state      leaseState
	lostBy     error       // why it is lost or expired
	invocation *invocation // while the handler runs
	listed     bool        // in the list of leases
	prev, next *leased
}

// freeSlot gives back the task's slot. It may be called more than once.
func (l *leased) freeSlot() {
	if l.slot != nil {
		l.slot()
	}
}

type leaseState int

const (
	waiting  leaseState = iota // for the handler
	running                    // in the handler
	finished                   // its settlement is under way
	expired                    // by the worker's clock; the database may count it as held a little longer
	lost                       // according to the database
	ended                      // by its own handler, which has not returned
)

// isLost reports whether the lease is known to be lost.
func (l *leased) isLost() bool {
	l.in.mu.Lock()
	defer l.in.mu.Unlock()
	return l.state == lost || l.state == expired
}

// lostCause returns why the lease is lost.
func (l *leased) lostCause() error {
	l.in.mu.Lock()
	defer l.in.mu.Unlock()
	return cmp.Or(l.lostBy, dbq.ErrLeaseLost)
}

// currentLease returns the lease after its last renewal.
func (l *leased) currentLease() dbq.Lease {
	l.in.mu.Lock()
	defer l.in.mu.Unlock()
	return l.lease
}

// left returns how long the worker still holds the task, by its own monotonic clock.
func (l *leased) left() time.Duration {
	l.in.mu.Lock()
	defer l.in.mu.Unlock()
	return time.Until(l.ends())
}

// granted returns how long the worker held the task at its checkout, by its own clock. It is less than the lease where
// the server's clock is coarse.
func (l *leased) granted() time.Duration { return l.task.Lease.Until.Sub(l.received) }

// ends returns when the task is lost, unless its lease is renewed or vouched for. The caller holds leases.mu.
func (l *leased) ends() time.Time {
	if l.vouched.After(l.lease.Until) {
		return l.vouched
	}
	return l.lease.Until
}

// keepsTrying reports whether the settlement of a task that could not be sent is worth another try.
func (l *leased) keepsTrying() bool {
	l.in.mu.Lock()
	defer l.in.mu.Unlock()
	// A server may have been away, so that no worker could take the task over.
	return l.uncalled || l.in.db == nil && l.state != lost || time.Until(l.ends()) > 0
}

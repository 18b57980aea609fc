package worker

import (
	"cmp"
	"sync"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/access"
)

// leased is one task that the worker holds.
type leased struct {
	task     dbq.Task
	received time.Time // when its checkout returned

	// The following are set before the handler is called, and then stay.
	began   time.Time     // when the handler was called; zero if it was not
	unblock func()        // of a suspect: lets another one run; nil for other tasks
	slot    func()        // gives back the slot of a Group; nil for a worker without one
	backIn  time.Duration // the task is released for so long, and UntilEmpty waits for it

	// The following are guarded by leases.mu.
	in         *leases
	lease      dbq.Lease // as renewed last
	vouched    time.Time // until then no other worker has the task, even if the lease has ended; see leaseKeeper.vouch
	state      leaseState
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
	expired                    // by the worker's clock; the database may count it as held for a while
	lost                       // the database said so
)

// isLost reports whether the lease is known to be lost.
func (l *leased) isLost() bool {
	l.in.mu.Lock()
	defer l.in.mu.Unlock()
	return l.state == lost || l.state == expired
}

// currentLease returns the lease as renewed last.
func (l *leased) currentLease() dbq.Lease {
	l.in.mu.Lock()
	defer l.in.mu.Unlock()
	return l.lease
}

// settlements returns what is to be settled, with the leases as renewed last.
func (s *leases) settlements(batch []settlement) []dbq.Settlement {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]dbq.Settlement, len(batch))
	for i := range batch {
		st := &batch[i]
		out[i] = access.Settlement(st.leased.lease, st.how, access.SettleOptions{
			Again:      st.again,
			Unrecorded: s.settings().history == dbq.HistoryNone || st.leased.began.IsZero(),
			Cause:      st.err,
		})
	}
	return out
}

// left is for how long the worker still holds the task, by its own monotonic clock.
func (l *leased) left() time.Duration {
	l.in.mu.Lock()
	defer l.in.mu.Unlock()
	return time.Until(l.ends())
}

// ends is when the task is lost, unless its lease is renewed or vouched for; leases.mu is held.
func (l *leased) ends() time.Time {
	if l.vouched.After(l.lease.Until) {
		return l.vouched
	}
	return l.lease.Until
}

// leases are the tasks that a worker holds, each from its checkout to its settlement, and the handlers' calls for them.
// It cancels the context of a call whose leases have ended. All methods may be called from any goroutine.
type leases struct {
	*env
	stuck func([]*invocation) // called with handlers that have ignored the end of their context for Grace
	empty chan struct{}       // receives when the last task is removed

	mu    sync.Mutex
	first *leased // of a list in no order
	n     int
	// unsettled is until when the database may count tasks as held that the worker has given up.
	unsettled time.Time
	// timer calls check. It serves all invocations: a timer for each would cost more than a short handler does.
	timer   *time.Timer
	timerAt time.Time // when it fires; zero is never
	closed  bool      // it fires no more
	over    error     // why the contexts of all handlers have ended; nil before

	checking sync.Mutex // held by check
}

func newLeases(e *env) *leases {
	s := &leases{env: e, empty: make(chan struct{}, 1)}
	s.timer = time.AfterFunc(time.Hour, s.check)
	s.timer.Stop()
	return s
}

// add takes in tasks that were checked out together.
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

// remove forgets tasks. It does nothing to those that are forgotten already.
func (s *leases) remove(ls ...*leased) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range ls {
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
}

// giveUp forgets a task that was not settled. Unless the database said that the lease is lost, it may count the task as
// held until the lease has ended there.
func (s *leases) giveUp(l *leased) {
	s.mu.Lock()
	if l.state != lost {
		s.extendUnsettled(max(s.settings().lease, time.Until(l.lease.Until)))
	}
	s.mu.Unlock()
	s.remove(l)
}

// mayHold notes that for as long as d the database may count tasks as held that the worker knows nothing of.
func (s *leases) mayHold(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.extendUnsettled(d)
}

// extendUnsettled is mayHold; s.mu is held.
func (s *leases) extendUnsettled(d time.Duration) {
	if t := time.Now().Add(d); t.After(s.unsettled) {
		s.unsettled = t
	}
}

// settled reports whether nothing is held, as far as the worker and the database can know.
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

// firstEnd is when the first lease ends, by this process's clock; ok is false when there is none.
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

// key is a lease without its end, which changes.
func key(l dbq.Lease) dbq.Lease {
	return dbq.Lease{Task: l.Task, Queue: l.Queue, Fence: l.Fence}
}

// toRenew returns the leases that a renewal for the given time concerns, and their tasks by key: all that were not
// leased or renewed a moment ago. A task that is being settled is left alone while more than half of its lease is left.
func (s *leases) toRenew(lease time.Duration) ([]dbq.Lease, map[dbq.Lease]*leased) {
	return s.selected(func(l *leased) bool {
		left := time.Until(l.lease.Until)
		enough := lease * 5 / 6
		if l.state == finished {
			enough = lease / 2
		}
		return l.state < expired && (left < enough || left > lease) // the latter when operators have shortened the lease
	})
}

// inHandlers returns the leases of tasks whose handlers were called at least so long ago, and their tasks by key.
func (s *leases) inHandlers(least time.Duration) ([]dbq.Lease, map[dbq.Lease]*leased) {
	return s.selected(func(l *leased) bool { return l.state == running && time.Since(l.began) >= least })
}

func (s *leases) selected(by func(l *leased) bool) (ls []dbq.Lease, byKey map[dbq.Lease]*leased) {
	s.mu.Lock()
	defer s.mu.Unlock()
	byKey = map[dbq.Lease]*leased{}
	for l := s.first; l != nil; l = l.next {
		if by(l) {
			ls = append(ls, l.lease)
			byKey[key(l.lease)] = l
		}
	}
	return ls, byKey
}

// renewed notes the new end of a lease. A later end needs no earlier check, which comes at the old end. An earlier one
// does, as after an operator has shortened the lease.
func (s *leases) renewed(l *leased, lease dbq.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.lease, l.vouched = lease, time.Time{}
	if l.invocation != nil {
		s.checkBy(lease.Until)
	}
}

// vouch notes that until then no other worker takes the task over.
func (s *leases) vouch(l *leased, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.vouched = until
}

// lose marks a task whose lease is gone and ends its handler, with dbq.ErrLeaseLost unless cause is another error. It
// does nothing to a task that is being settled: that is why its lease is gone.
func (s *leases) lose(l *leased, cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.state != running && l.state != waiting {
		return
	}
	f := l.invocation
	l.state = lost
	if f == nil {
		return
	}
	if len(f.tasks) == 1 {
		f.lostBy = cmp.Or(cause, dbq.ErrLeaseLost)
	}
	f.check(time.Now())
}

// invocations are the calls of handlers that have not returned.
func (s *leases) invocations() []*invocation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.underWay()
}

// underWay is invocations; s.mu is held.
func (s *leases) underWay() (out []*invocation) {
	for l := s.first; l != nil; l = l.next {
		if f := l.invocation; f != nil && f.tasks[0] == l { // once for each invocation
			out = append(out, f)
		}
	}
	return out
}

// cancelAll ends the contexts of all handlers, also of those that begin later.
func (s *leases) cancelAll(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = cause
	for _, f := range s.underWay() {
		f.end(time.Now(), cause)
	}
}

// checkBy makes check come at a time, or earlier; s.mu is held.
func (s *leases) checkBy(t time.Time) {
	if !s.closed && (s.timerAt.IsZero() || t.Before(s.timerAt)) {
		s.timerAt = t
		s.timer.Reset(time.Until(t))
	}
}

// check ends the handlers whose leases have ended by the local clock, as when the database cannot be reached, or whose
// time is over, and finds those that ignore it.
func (s *leases) check() {
	s.checking.Lock()
	defer s.checking.Unlock()
	var stuck []*invocation
	s.mu.Lock()
	s.timerAt = time.Time{}
	now := time.Now()
	for _, f := range s.underWay() {
		f.check(now)
		if f.isStuck(now) {
			f.abandon()
			stuck = append(stuck, f)
		}
	}
	s.mu.Unlock()
	if len(stuck) > 0 {
		s.stuck(stuck)
	}
}

// close ends check, and waits for one under way: it may be settling the attempt of a handler that is stuck.
func (s *leases) close() {
	s.mu.Lock()
	s.closed = true
	s.timer.Stop()
	s.mu.Unlock()
	s.checking.Lock() // check has returned then, and comes no more
	defer s.checking.Unlock()
}

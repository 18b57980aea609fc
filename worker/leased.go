package worker

import (
	"cmp"
	"time"

	"github.com/dbq-go/dbq"
)

// leased is one task that the worker holds.
type leased struct {
	task     dbq.Task
	received time.Time // when its checkout returned

	// The following are set before the handler is called and do not change afterwards.
	began time.Time // when the handler was called; zero if it has not been
	turn  *turn     // for a suspect that may run; nil for other tasks
	slot  func()    // gives back the slot of a Group; nil for a worker without one

	// backIn is how long the task is released for; UntilEmpty waits for it. It is set before the release.
	backIn time.Duration

	// The following are guarded by leases.mu.
	in         *leases
	lease      dbq.Lease // after its last renewal
	progress   []byte    // what the handler has reported; nil for nothing
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
	// A server may have been away while nobody could take the task over.
	return l.uncalled || l.in.db == nil && l.state != lost || time.Until(l.ends()) > 0
}

package worker

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/access"
)

// admission decides which of an executor's tasks can start now, and releases the others.
//
// If a process dies, the database does not know which of its tasks had started. So their attempts do not count,
// except those that were marked as started before the handler was called. A mark costs a statement, so only these
// tasks get one:
//
//   - a task on its last attempt, which must not be made twice;
//   - a suspect: a task that was with a dying worker suspectAfter times, and may be the cause. Only one suspect runs in
//     a process at a time, so that no other one is blamed for what it does.
type admission struct {
	*env
	leases   *leases
	settler  *settler
	attempts *attempts
}

const suspectAfter = 2

// Marking may take a sixth of a lease, or markLeast if that is more, while leases last. It waits for rows that other
// transactions have locked, and holds a connection that renewals may need. If it takes longer, the tasks are released
// for a while.
const markLeast = time.Second

// suspectWait is how long a suspect waits for its turn; it blocks an executor meanwhile. Then it is released for a
// time between putOffLeast and putOffMost.
const (
	suspectWait = 100 * time.Millisecond
	putOffLeast = time.Second
	putOffMost  = time.Minute
)

// onlySuspect is full while a suspect runs in any worker of this process: the workers would die together.
var (
	onlySuspect      = make(chan struct{}, 1)
	onlySuspectBegan atomic.Int64 // in nanoseconds since 1970; 0 if none runs
)

func isSuspect(t *dbq.Task) bool { return t.Lapses >= suspectAfter }

func mustMark(l *leased) bool { return isSuspect(&l.task) || l.task.Attempt >= l.task.MaxAttempts }

// admit returns the tasks that can start now: all of them, or a single suspect. done is called when they have ended.
func (a *admission) admit(tasks []*leased) (begin []*leased, done func()) {
	done = func() {}
	if !slices.ContainsFunc(tasks, mustMark) { // as almost always
		return tasks, done
	}
	var others, suspects []*leased
	for _, l := range tasks {
		if isSuspect(&l.task) {
			suspects = append(suspects, l)
		} else {
			others = append(others, l)
		}
	}
	if len(suspects) > 0 {
		if unblock, ok := beginSuspect(); ok {
			done, suspects[0].unblock = unblock, unblock
			for _, l := range others {
				a.settler.release(l, 0) // due again at once; it does not wait for the suspect
			}
			others, suspects = suspects[:1], suspects[1:]
		}
		a.putOff(suspects)
	}
	return a.mark(others), done
}

// beginSuspect records that a suspect runs, if its turn comes soon. unblock can be called more than once.
func beginSuspect() (unblock func(), ok bool) {
	select {
	case onlySuspect <- struct{}{}:
	default:
		if suspectRunsFor() > suspectWait {
			return nil, false
		}
		select {
		case onlySuspect <- struct{}{}:
		case <-time.After(suspectWait):
			return nil, false
		}
	}
	onlySuspectBegan.Store(time.Now().UnixNano())
	return sync.OnceFunc(func() {
		onlySuspectBegan.Store(0)
		<-onlySuspect
	}), true
}

// suspectRunsFor returns how long a suspect has been running, or zero if none is.
func suspectRunsFor() time.Duration {
	if began := onlySuspectBegan.Load(); began != 0 {
		return time.Duration(time.Now().UnixNano() - began)
	}
	return 0
}

// mark marks the attempts that must count as started, and returns the tasks that can start. Tasks that cannot start
// in time are released for a while.
func (a *admission) mark(tasks []*leased) (begin []*leased) {
	var must []*leased
	var ls []dbq.Lease
	wait := max(a.settings().lease/6, markLeast)
	for _, l := range tasks {
		if left := l.left(); left > 0 && mustMark(l) {
			must, ls, wait = append(must, l), append(ls, l.currentLease()), min(wait, left)
		} else {
			begin = append(begin, l)
		}
	}
	if len(must) == 0 {
		return begin
	}
	ctx, cancel := context.WithTimeout(a.shutdown.final, wait)
	marked, _, err := access.MarkStarted(ctx, a.cfg.Queue, ls)
	cancel()
	if !errors.Is(err, context.DeadlineExceeded) { // mostly a locked row; other calls notice an outage
		a.health.report(opStart, err)
	}
	if err != nil {
		a.putOff(must)
		return begin
	}
	for _, l := range must {
		switch {
		case !slices.ContainsFunc(marked, func(lease dbq.Lease) bool { return lease.Task == l.task.ID }):
			a.leases.lose(l, nil)
			a.attempts.lost(l, errNotStarted)
		case l.left() <= 0:
			a.putOff([]*leased{l}) // its mark would count as an attempt
		default:
			begin = append(begin, l)
		}
	}
	return begin
}

// putOff releases tasks for a while, which is longer if a suspect has been running for long.
func (a *admission) putOff(tasks []*leased) {
	pause := min(max(suspectRunsFor(), putOffLeast), putOffMost)
	for _, l := range tasks {
		l.backIn = pause
		a.settler.release(l, pause)
	}
}

package worker

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/dbq-go/dbq"
)

// admission decides which of an executor's tasks can start now, and releases the others.
//
// If a process dies, the database does not know which of its tasks had started. So their attempts do not count,
// except those that were marked as started before the handler was called. A mark costs a statement, so only these
// tasks get one:
//
//   - a task on its last attempt, which must not be made twice;
//   - a suspect on trial; see trials.
type admission struct {
	*env
	leases   *leases
	settler  *settler
	attempts *attempts
}

// Marking may take a sixth of a lease, or markLeast if that is more, but at most half of the rest of the lease. It
// waits for rows that other transactions have locked, and holds a connection that renewals may need. If it takes
// longer, the tasks are released for a while.
const markLeast = time.Second

// A suspect without a permit is released for as long as others have been running, within these limits.
const (
	putOffLeast = time.Second
	putOffMost  = 10 * time.Second
)

func (l *leased) onTrial() bool { return l.permit != nil && l.permit.trial }

func (l *leased) mustMark() bool { return l.onTrial() || l.task.Attempt >= l.task.MaxAttempts }

// admit returns the tasks that can start now: all of them, or the plain tasks and the suspects with permits. The caller
// returns the permits.
func (a *admission) admit(tasks []*leased) (begin []*leased) {
	for _, l := range tasks {
		if isSuspect(&l.task) {
			tasks = a.takePermits(tasks)
			break
		}
	}
	if !slices.ContainsFunc(tasks, (*leased).mustMark) { // as almost always
		return tasks
	}
	return a.mark(tasks)
}

// takePermits returns the tasks that can start beside the suspects among them, or one that is on trial.
func (a *admission) takePermits(tasks []*leased) (begin []*leased) {
	var late []*leased
	first := true // only the first suspect waits for its permit
	for _, l := range tasks {
		if isSuspect(&l.task) {
			ok := inProcess.begin(l, first)
			if first = false; !ok {
				late = append(late, l)
				continue
			}
		}
		begin = append(begin, l)
	}
	a.putOff(late)
	if i := slices.IndexFunc(begin, (*leased).onTrial); i >= 0 {
		for _, l := range slices.Concat(begin[:i], begin[i+1:]) {
			a.settler.release(l, 0) // due again at once; it does not wait for the suspect
		}
		begin = begin[i : i+1]
	}
	return begin
}

// mark marks the attempts that must count as started, and returns the tasks that can start. Tasks that cannot start
// in time are released for a while.
func (a *admission) mark(tasks []*leased) (begin []*leased) {
	var must []*leased
	var ls []dbq.Lease
	lease := a.settings().lease
	wait := max(lease/6, markLeast)
	for _, l := range tasks {
		switch left := l.left(); {
		case !l.mustMark():
			begin = append(begin, l)
		case left < min(lease, l.granted())/3: // renewals are overdue: it may end between the mark and the call
			a.putOff([]*leased{l})
		default:
			must, ls, wait = append(must, l), append(ls, l.currentLease()), min(wait, left/2)
		}
	}
	if len(must) == 0 {
		return begin
	}
	ctx, cancel := context.WithTimeout(a.shutdown.final, wait)
	marked, err := a.source.start(ctx, ls)
	cancel()
	if !errors.Is(err, context.DeadlineExceeded) { // mostly a locked row; other calls notice an outage
		a.health.report(opStart, err)
	}
	for _, l := range must {
		switch isMarked := func(lease dbq.Lease) bool { return lease.TaskID == l.task.ID }; {
		case err != nil:
			a.leases.unmark(l)
			a.putOff([]*leased{l})
		case !slices.ContainsFunc(marked, isMarked): // an operator has ended its lease, or it has expired
			inProcess.end(l, false)
			a.leases.lose(l, nil)
			a.attempts.lost(l, errNotStarted)
		default:
			begin = append(begin, l)
		}
	}
	return begin
}

// putOff releases tasks for a while.
func (a *admission) putOff(tasks []*leased) {
	pause := min(max(inProcess.runFor(), putOffLeast), putOffMost)
	for _, l := range tasks {
		inProcess.end(l, false)
		l.backIn = pause
		a.settler.release(l, pause)
	}
}

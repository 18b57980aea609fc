package worker

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq"
)

// When a process dies, the database does not know which of the tasks that it held had begun. So their attempts do not
// count, but for those that are marked as started before their handler is called. That costs a statement, and is done
// where it matters:
//
//   - for the last attempt of a task: it is not to be made twice;
//   - for a suspect, a task that has been with workers that died suspectAfter times: it may be what kills them. It is
//     also the only suspect that runs in its process, so that another one is not blamed for what it does.
const suspectAfter = 2

func isSuspect(t *dbq.Task) bool { return t.Lapses >= suspectAfter }

func mustMark(j *job) bool { return isSuspect(&j.task) || j.task.Attempt >= j.task.MaxAttempts }

// markLeast is how long marking may take at least, while leases last; it may take a sixth of a lease. It waits for rows that other
// transactions have locked, with all of its batch, on a connection that renewals may need; it is then put off.
const markLeast = time.Second

// soleWait is how long a suspect waits for its turn, in which other tasks may wait for its handler. putOffLeast and
// putOffMost bound for how long it is handed back after that.
const (
	soleWait    = 100 * time.Millisecond
	putOffLeast = time.Second
	putOffMost  = time.Minute
)

// soleSuspect is full while a suspect runs in this process, whatever worker's it is: they would die together.
var (
	soleSuspect      = make(chan struct{}, 1)
	soleSuspectBegan atomic.Int64 // in nanoseconds since 1970; 0 when none runs
)

// beginSuspect notes that a suspect runs, when its turn comes soon. end may be called more than once.
func beginSuspect() (end func(), ok bool) {
	select {
	case soleSuspect <- struct{}{}:
	default:
		if suspectRunsFor() > soleWait {
			return nil, false
		}
		timer := time.NewTimer(soleWait)
		defer timer.Stop()
		select {
		case soleSuspect <- struct{}{}:
		case <-timer.C:
			return nil, false
		}
	}
	soleSuspectBegan.Store(time.Now().UnixNano())
	return sync.OnceFunc(func() {
		soleSuspectBegan.Store(0)
		<-soleSuspect
	}), true
}

// suspectRunsFor is for how long a suspect has been running; zero when none is.
func suspectRunsFor() time.Duration {
	if began := soleSuspectBegan.Load(); began != 0 {
		return time.Duration(time.Now().UnixNano() - began)
	}
	return 0
}

// handle calls the handler on jobs, or on one suspect of them, and passes on how it ended. It is false when the worker
// has gone on without it.
func (r *run) handle(s *slot, jobs []*job) bool {
	if !slices.ContainsFunc(jobs, mustMark) { // as almost always
		return r.call(s, jobs)
	}
	var others, suspects []*job
	for _, j := range jobs {
		if isSuspect(&j.task) {
			suspects = append(suspects, j)
		} else {
			others = append(others, j)
		}
	}
	if len(suspects) > 0 {
		if end, ok := beginSuspect(); ok {
			defer end()
			suspects[0].end = end
			r.release(others) // to come again, and not to wait for it
			others, suspects = suspects[:1], suspects[1:]
		}
		r.putOff(suspects)
	}
	if others = r.mark(others); len(others) == 0 {
		return true
	}
	return r.call(s, others)
}

// mark marks the attempts that must count as started, and returns the jobs that may begin. What cannot begin in time is
// not marked, or handed back.
func (r *run) mark(jobs []*job) (begin []*job) {
	var must []*job
	var leases []dbq.Lease
	wait := max(r.now().lease/6, markLeast)
	for _, j := range jobs {
		if left := j.left(); left > 0 && mustMark(j) {
			must, leases, wait = append(must, j), append(leases, j.currentLease()), min(wait, left)
		} else {
			begin = append(begin, j)
		}
	}
	if len(must) == 0 {
		return begin
	}
	ctx, cancel := context.WithTimeout(r.ending.final, wait)
	marked, _, err := r.cfg.Queue.MarkStarted(ctx, leases)
	cancel()
	if !errors.Is(err, context.DeadlineExceeded) { // that is a locked row, mostly; other calls tell when the database is away
		r.server.note(opStart, err)
	}
	if err != nil {
		r.putOff(must)
		return begin
	}
	for _, j := range must {
		switch {
		case !slices.ContainsFunc(marked, func(l dbq.Lease) bool { return l.Task == j.task.ID }):
			r.held.lose(j)
			r.leaseLost(j, errNotStarted)
		case j.left() <= 0:
			r.putOff([]*job{j}) // its mark would count as an attempt
		default:
			begin = append(begin, j)
		}
	}
	return begin
}

// putOff hands jobs back for a while. It is longer when a suspect has been running for long.
func (r *run) putOff(jobs []*job) {
	if len(jobs) == 0 {
		return
	}
	pause := min(max(suspectRunsFor(), putOffLeast), putOffMost)
	for _, j := range jobs {
		j.backIn = pause
		r.settler.add(j, dbq.Released(j.currentLease(), pause), nil)
	}
}

package worker

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/maintenance"
)

// fetcher checks out as many tasks as the buffer has room for, if the database is likely to have some.
type fetcher struct {
	*env
	buffer  *buffer
	leases  *leases
	keeper  *leaseKeeper
	settler *settler
	results *results
	pause   *pause
	advance *maintenance.Advancer // nil without a database

	// The following are used only by run.
	rest time.Duration // the next pause of an idle worker
	// recheck is the pause before a query for tasks that a wake-up announced but a checkout did not find; 0 means none.
	recheck time.Duration
	pace    pace
}

// run leases tasks until ctx ends, the queue is empty under UntilEmpty, or an error that retrying cannot resolve.
func (f *fetcher) run(ctx context.Context) error {
	w := f.newWakeups()
	defer w.Close()
	defer f.share.leave()
	f.rest = f.cfg.PollMin
	for {
		want, ok := f.waitDemand(ctx)
		if f.pause.on() {
			w.Pass()
			f.share.leave()
		}
		if !ok || !f.pause.wait(ctx) {
			return nil
		}
		if want, ok = f.share.take(ctx, want); !ok {
			return nil
		}
		if f.pause.on() { // meanwhile
			f.share.unused(want)
			continue
		}
		w.BeforeCheckout()
		found, cut, err := f.checkOut(ctx, want)
		full := err == nil && found == want
		// A worker of a Group keeps its share while it finds as many tasks as it has slots, even if the wake-up
		// announced no more: slots that it gives up may come back only after long handlers of others.
		more := w.AfterCheckout(found, full) || cut || full && f.share != nil
		if found > 0 {
			f.recheck = 0
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && f.source.isFinal(err):
			return err
		case err != nil: // reported
		case more:
			f.rest = f.cfg.PollMin
			continue
		case found > 0:
			f.rest = f.cfg.PollMin
		case f.cfg.UntilEmpty && f.buffer.coming.Load() == 0 && f.leases.settled() && f.source.isEmpty(ctx):
			return nil
		}
		f.share.leave()
		if !f.waitDue(ctx, w) {
			return nil
		}
	}
}

// checkOut checks out up to want tasks for the executors. It returns how many it found, and whether the limit of
// bytes cut it short.
func (f *fetcher) checkOut(ctx context.Context, want int) (found int, cut bool, err error) {
	f.buffer.coming.Add(int64(want))
	defer func() {
		f.buffer.coming.Add(int64(-want))
		f.buffer.signal() // run may be waiting for these tasks, and no executor has anything left to signal
	}()
	start, lease := time.Now(), f.settings().lease
	defer func() { f.pace.checkedOut(time.Since(start)) }()
	out, err := f.lease(ctx, want, lease)
	f.share.unused(want - len(out.Tasks))
	found = len(out.Tasks) + len(out.Exhausted)
	if errors.Is(err, dbq.ErrMayHaveHappened) {
		f.leases.mayHold(lease)
	}
	if ctx.Err() == nil {
		f.health.report(opCheckOut, err)
		if found > 0 {
			f.health.leasedSome()
		}
	}
	tasks := f.accept(out)
	if lease != f.settings().lease { // it was changed meanwhile, and the keeper has renewed leases without these
		f.keeper.renewSoon()
	}
	left := tasks
	if ctx.Err() == nil { // a checkout over HTTP does not end with ctx
		left = f.buffer.put(ctx, tasks)
	}
	for i := range left { // the run is ending: they were never started
		f.settler.release(&left[i], 0)
	}
	if ctx.Err() == nil {
		f.observe(Observation{Type: CheckedOut, N: len(tasks), Duration: time.Since(start), Err: err})
	}
	return found, out.More, err
}

// accept processes the result of a checkout.
func (f *fetcher) accept(out access.CheckoutResult) []leased {
	f.noticeWorkflows(out.Tasks)
	f.noticeWorkflows(out.Exhausted)
	f.results.takenOver(out.Tasks)
	f.results.exhausted(out.Exhausted)
	return f.leases.add(out.Tasks)
}

func (f *fetcher) noticeWorkflows(tasks []dbq.Task) {
	for i := range tasks {
		if f.advance == nil || f.advance.Notice(tasks[i].ID) {
			return
		}
	}
}

// lease checks tasks out. On an engine with one writer, such as SQLite, a renewal can wait past the end of its lease.
// A checkout must not run then, because it would take over this worker's own tasks. So its deadline is the end of the
// first lease, and it returns nothing while a renewal is overdue.
func (f *fetcher) lease(ctx context.Context, want int, lease time.Duration) (out access.CheckoutResult, err error) {
	if f.leases.unmarking() {
		return out, nil
	}
	first, some := time.Time{}, false
	if f.db != nil && f.db.Client().Info().Server.OneWriter {
		first, some = f.leases.firstEnd()
	}
	if !some {
		return f.source.checkout(ctx, want, lease)
	}
	inTime, cancel := context.WithDeadline(ctx, first)
	defer cancel()
	if inTime.Err() != nil {
		return out, ctx.Err()
	}
	out, err = f.source.checkout(inTime, want, lease)
	cut := errors.Is(err, context.DeadlineExceeded) && inTime.Err() != nil && ctx.Err() == nil
	if cut && !errors.Is(err, dbq.ErrMayHaveHappened) {
		return access.CheckoutResult{}, nil
	}
	return out, err
}

// waitDemand waits until a full checkout is missing, or half of the tasks that the executors should have, and returns
// how many are missing. ok is false if ctx has ended.
func (f *fetcher) waitDemand(ctx context.Context) (want int, ok bool) {
	for {
		again := f.leaseAhead()
		want = f.buffer.wanted()
		if f.db == nil { // nothing may grow while outcomes cannot be stored
			want = min(want, f.settings().concurrency*f.perCall()-f.leases.count())
		}
		if want > 0 {
			return want, ctx.Err() == nil
		}
		select {
		case <-f.buffer.refill:
		case <-time.After(min(again, f.settings().pollMax)): // in case nothing signals
		case <-ctx.Done():
			return 0, false
		}
	}
}

// leaseAhead adapts the number of tasks that wait for executors to the pace, and releases the excess. again is the time
// of the next call. Attempts over HTTP count from the checkout, so none is leased ahead.
func (f *fetcher) leaseAhead() (again time.Duration) {
	if f.db == nil {
		return math.MaxInt64
	}
	f.pace.handled(f.buffer.takeCalls())
	perCall := f.perCall()
	running, now := f.leases.invocations(), time.Now()
	ages := make([]time.Duration, len(running))
	for i, r := range running {
		ages[i] = now.Sub(r.start)
	}
	idle := int(f.buffer.idle.Load())
	ahead, again := f.pace.decide(idle, ages, prefetchMost*f.settings().maxCheckout/perCall)
	f.buffer.ahead.Store(int64(ahead * perCall))
	if surplus := int(f.buffer.waiting.Load()) - (idle+ahead)*perCall; surplus > 0 {
		for _, l := range f.buffer.stale(surplus, now) {
			f.settler.release(l, 0) // so that other workers can take it
		}
		again = min(again, staleAfter/2)
	}
	return again
}

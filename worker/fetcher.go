package worker

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/access"
)

// fetcher checks out tasks: as many as the buffer lacks, when the database is likely to have some.
type fetcher struct {
	*env
	buffer  *buffer
	leases  *leases
	keeper  *leaseKeeper
	settler *settler
	results *results
	pause   *pause

	lastCheckout atomic.Int64 // how long it took; 0 once pace has it

	// The following are used by run alone.
	rest time.Duration // the next pause of an idle worker
	// recheck is the pause before a query for tasks that a wake-up announced and a checkout did not find; 0 is none.
	recheck time.Duration
	pace    pace
}

// run leases tasks until ctx ends, the queue is empty under UntilEmpty, or an error cannot be cured.
func (f *fetcher) run(ctx context.Context) error {
	w := f.newWakeups()
	defer w.Close()
	second, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		f.runSecond(ctx, second)
	}()
	defer func() {
		close(second)
		<-ended
	}()
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
		more := w.AfterCheckout(found, err == nil && found == want) || cut
		if found > 0 {
			f.recheck = 0
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, dbq.ErrClosed) || errors.Is(err, dbq.ErrInvalid):
			return err
		case err != nil: // reported
		case more:
			f.rest = f.cfg.PollMin
			if want == f.settings().batch && f.share == nil {
				select {
				case second <- struct{}{}:
				default: // it is at it
				}
			}
			continue
		case found > 0:
			f.rest = f.cfg.PollMin
		case f.cfg.UntilEmpty && f.buffer.coming.Load() == 0 && f.leases.settled() && f.nothingDue(ctx):
			return nil
		}
		f.share.leave()
		if !f.waitDue(ctx, w) {
			return nil
		}
	}
}

// nothingDue queries the database. A checkout that found nothing is not enough: it passes by what other transactions
// have locked.
func (f *fetcher) nothingDue(ctx context.Context) bool {
	wait, some, err := f.wake.Next(ctx, f.cfg.Queue.Name())
	return err == nil && (!some || wait > 0)
}

// runSecond checks out one more batch each time that run got a full one and another is missing. A checkout of a batch
// takes the database some milliseconds; with one after the other it would have no more to do than that, and fast
// handlers would wait.
func (f *fetcher) runSecond(ctx context.Context, more <-chan struct{}) {
	for range more {
		want := f.buffer.wanted()
		if want < f.settings().batch || ctx.Err() != nil || f.pause.on() {
			continue
		}
		_, _, _ = f.checkOut(ctx, want) // run meets an error, too
	}
}

// checkOut checks out up to want tasks for the executors. It returns how many it found, and whether their payloads have
// cut it short.
func (f *fetcher) checkOut(ctx context.Context, want int) (found int, cut bool, err error) {
	f.buffer.coming.Add(int64(want))
	defer func() {
		f.buffer.coming.Add(int64(-want))
		f.buffer.signal() // run may wait, since these were to come, and no executor has anything left to signal
	}()
	start, lease := time.Now(), f.settings().lease
	defer func() { f.lastCheckout.Store(int64(time.Since(start))) }()
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
	if lease != f.settings().lease { // it was changed meanwhile, and the keeper has renewed before it had these
		f.keeper.renewSoon()
	}
	left := f.buffer.put(ctx, tasks)
	for i := range left { // the run ends: they were never started
		f.settler.release(&left[i], 0)
	}
	if ctx.Err() == nil {
		f.observe(Observation{Type: CheckedOut, N: len(tasks), Duration: time.Since(start), Err: err})
	}
	return found, out.More, err
}

// accept takes in what a checkout returned.
func (f *fetcher) accept(out access.CheckoutResult) []leased {
	f.results.takenOver(out.Tasks)
	f.results.exhausted(out.Exhausted)
	return f.leases.add(out.Tasks)
}

// lease checks tasks out. On an engine with one writer, such as SQLite, a renewal may wait past the end of its lease.
// A checkout must not run then, or it would take over this worker's own tasks: its deadline is the end of the first
// lease, and it finds nothing while a lease is overdue.
func (f *fetcher) lease(ctx context.Context, want int, lease time.Duration) (out access.CheckoutResult, err error) {
	q := access.ForWorker(f.cfg.Queue, f.cfg.ID)
	first, some := time.Time{}, false
	if q.Client().Info().Server.OneWriter {
		first, some = f.leases.firstEnd()
	}
	if !some {
		return access.Checkout(ctx, q, want, lease)
	}
	inTime, cancel := context.WithDeadline(ctx, first)
	defer cancel()
	if inTime.Err() != nil {
		return out, ctx.Err()
	}
	out, err = access.Checkout(inTime, q, want, lease)
	cut := errors.Is(err, context.DeadlineExceeded) && inTime.Err() != nil && ctx.Err() == nil
	if cut && !errors.Is(err, dbq.ErrMayHaveHappened) {
		return access.CheckoutResult{}, nil
	}
	return out, err
}

// waitDemand waits until a full batch, or half of what the executors should have, is missing, and returns how much is.
// It is false when ctx has ended.
func (f *fetcher) waitDemand(ctx context.Context) (want int, ok bool) {
	for {
		again := f.leaseAhead()
		if want = f.buffer.wanted(); want > 0 {
			return want, ctx.Err() == nil
		}
		select {
		case <-f.buffer.refill:
		case <-time.After(min(again, f.settings().pollMax)): // also in case that nothing signals
		case <-ctx.Done():
			return 0, false
		}
	}
}

// leaseAhead fits how many tasks should wait for executors to the pace, and hands back what is too many. again is when
// to call it again.
func (f *fetcher) leaseAhead() (again time.Duration) {
	if took := f.lastCheckout.Swap(0); took > 0 {
		f.pace.checkedOut(time.Duration(took))
	}
	f.pace.handled(f.buffer.takeCalls())
	perCall := f.perCall()
	running, now := f.leases.invocations(), time.Now()
	ages := make([]time.Duration, len(running))
	for i, r := range running {
		ages[i] = now.Sub(r.start)
	}
	idle := int(f.buffer.idle.Load())
	ahead, again := f.pace.decide(idle, ages, prefetchMost*f.settings().batch/perCall)
	f.buffer.ahead.Store(int64(ahead * perCall))
	if surplus := int(f.buffer.waiting.Load()) - (idle+ahead)*perCall; surplus > 0 {
		for _, l := range f.buffer.stale(surplus, now) {
			f.settler.release(l, 0) // so that other workers can have it
		}
		again = min(again, staleAfter/2)
	}
	return again
}

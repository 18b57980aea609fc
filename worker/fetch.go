package worker

import (
	"context"
	"errors"
	"time"

	"github.com/dbq-go/dbq"
)

// prefetchMost is how many batches may wait for handlers.
const prefetchMost = 4

// fetch leases tasks for the handlers until ctx ends, the queue is empty under UntilEmpty, or an error cannot be cured.
func (r *run) fetch(ctx context.Context) error {
	bell := r.bell()
	defer bell.close()
	beside, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		r.fetchBeside(ctx, beside)
	}()
	defer func() {
		close(beside)
		<-ended
	}()
	s := supply{rest: r.cfg.PollMin}
	for {
		want, ok := r.waitHungry(ctx, &s)
		if r.paused() {
			bell.pass()
		}
		if !ok || !r.waitOn(ctx) || !r.orders.wait(ctx) {
			return nil
		}
		bell.look()
		found, cut, err := r.checkOut(ctx, want)
		more := bell.found(found, err == nil && found == want) || cut
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, dbq.ErrClosed) || errors.Is(err, dbq.ErrInvalid):
			return err
		case err != nil: // reported
		case more:
			s.rest = r.cfg.PollMin
			if want == r.now().batch {
				select {
				case beside <- struct{}{}:
				default: // it is at it
				}
			}
			continue
		case found > 0:
			s.rest = r.cfg.PollMin
		case r.cfg.UntilEmpty && r.coming.Load() == 0 && r.held.settled() && r.nothingDue(ctx):
			return nil
		}
		if !r.waitDue(ctx, &s, bell) {
			return nil
		}
	}
}

// nothingDue asks the database. A checkout that found nothing is not enough: it passes by what other transactions have locked.
func (r *run) nothingDue(ctx context.Context) bool {
	wait, some, err := r.cfg.Queue.Next(ctx)
	return err == nil && (!some || wait > 0)
}

// fetchBeside checks out one more batch each time that fetch got a full one and another is missing. A checkout of a batch takes the
// database some milliseconds; by one after the other it would have no more to do than that, and fast handlers would wait.
func (r *run) fetchBeside(ctx context.Context, more <-chan struct{}) {
	for range more {
		want := r.wanted()
		if want < r.now().batch || ctx.Err() != nil || r.paused() {
			continue
		}
		_, _, _ = r.checkOut(ctx, want) // fetch meets an error, too
	}
}

// checkOut checks out as many tasks as are missing and hands them to the handlers. It returns how many it found, and whether their
// payloads have cut it short.
func (r *run) checkOut(ctx context.Context, want int) (found int, cut bool, err error) {
	r.coming.Add(int64(want))
	defer func() {
		r.coming.Add(int64(-want))
		r.tellHungry() // fetch may wait, since these were to come, and no handler has anything left to tell it
	}()
	start, lease := time.Now(), r.now().lease
	defer func() { r.lastCheckout.Store(int64(time.Since(start))) }()
	out, err := r.checkOutInTime(ctx, want, lease)
	tasks, spent := out.Tasks, out.Spent
	if errors.Is(err, dbq.ErrMayHaveHappened) {
		r.held.mayHold(lease)
	}
	if ctx.Err() == nil {
		r.server.note(opCheckOut, err)
		if len(tasks)+len(spent) > 0 {
			r.server.wrote()
		}
	}
	r.foundCrashed(tasks, spent)
	jobs := r.held.add(tasks)
	if lease != r.now().lease { // it was changed meanwhile, and the heartbeats have been told before these were held
		r.tellLeaseChanged()
	}
	r.handOver(ctx, jobs)
	r.spent(spent)
	if ctx.Err() == nil {
		r.observe(Event{Kind: Polled, N: len(tasks), Duration: time.Since(start), Err: err})
	}
	return len(tasks) + len(spent), out.More, err
}

// handOver makes jobs ready for the handlers. When there is no room, as after an operator has asked for larger batches
// than the worker was made for, it waits for the handlers, until ctx ends: what is left then was never started.
func (r *run) handOver(ctx context.Context, jobs []job) {
	for i := range jobs {
		r.waiting.Add(1)
		r.waitingBytes.Add(int64(len(jobs[i].task.Payload)))
		select {
		case r.ready <- &jobs[i]:
			continue
		default: // a select of one channel is the fast one
		}
		select {
		case r.ready <- &jobs[i]:
		case <-ctx.Done():
			r.started(&jobs[i])
			for k := range jobs[i:] {
				r.release([]*job{&jobs[i+k]})
			}
			return
		}
	}
}

// started notes that jobs do not wait for a handler any more.
func (r *run) started(jobs ...*job) {
	bytes := 0
	for _, j := range jobs {
		bytes += len(j.task.Payload)
	}
	r.waiting.Add(int64(-len(jobs)))
	r.waitingBytes.Add(int64(-bytes))
}

// supply is what fetch knows about the pace of things.
type supply struct {
	rest time.Duration // the next pause of an idle worker
	pace pace
}

// waitHungry waits until a full batch, or half of what the handlers should have, is missing, and returns how much is. It is false when
// ctx has ended.
func (r *run) waitHungry(ctx context.Context, s *supply) (want int, ok bool) {
	for {
		again := r.leaseAhead(s)
		if want = r.wanted(); want > 0 {
			return want, ctx.Err() == nil
		}
		look := time.NewTimer(min(again, r.now().pollMax)) // also in case that nobody tells it
		select {
		case <-r.hungry:
		case <-look.C:
		case <-ctx.Done():
			look.Stop()
			return 0, false
		}
		look.Stop()
	}
}

// leaseAhead fits the prefetch, the tasks that should wait for handlers, to the pace, and hands back what is too many. again is when to
// look at it again.
func (r *run) leaseAhead(s *supply) (again time.Duration) {
	if took := r.lastCheckout.Swap(0); took > 0 {
		s.pace.checkedOut(time.Duration(took))
	}
	n := r.calls.Swap(0)
	s.pace.handled(int(n), time.Duration(r.callTime.Swap(0)))
	each := 1
	if r.cfg.BatchHandler != nil {
		each = r.cfg.BatchSize
	}
	flights, now := r.held.flights(), time.Now()
	ages := make([]time.Duration, len(flights))
	for i, f := range flights {
		ages[i] = now.Sub(f.start)
	}
	idle := int(r.idle.Load())
	ahead, again := s.pace.decide(idle, ages, prefetchMost*r.now().batch/each)
	r.prefetch.Store(int64(ahead * each))
	if surplus := int(r.waiting.Load()) - (idle+ahead)*each; surplus > 0 {
		r.handBack(surplus, now)
		again = min(again, staleAfter/2)
	}
	return again
}

// handBack releases up to n tasks that were leased ahead and have waited for too long, as when tasks have become slower, so that
// other workers can have them.
func (r *run) handBack(n int, now time.Time) {
	for range n {
		select {
		case j := <-r.ready:
			if now.Sub(j.taken) < staleAfter { // those behind it are younger
				select {
				case r.ready <- j:
					return
				default:
				}
			}
			r.started(j)
			r.release([]*job{j})
		default:
			return
		}
	}
}

// wanted is how many tasks are missing, at most a batch; 0 is too few to ask for. While the payloads that wait for handlers are as much as a
// checkout may bring, nothing is missing.
func (r *run) wanted() int {
	each, batch := 1, r.now().batch
	if r.cfg.BatchHandler != nil {
		each = r.cfg.BatchSize
	}
	if r.waitingBytes.Load() >= int64(r.cfg.Queue.Client().MaxCheckoutBytes()) {
		return 0
	}
	target := int(r.idle.Load())*each + int(r.prefetch.Load())
	want := target - int(r.waiting.Load()) - int(r.coming.Load())
	if want < max(1, min(target/2, batch)) {
		return 0
	}
	return min(want, batch)
}

// tellHungry wakes fetch when enough is missing, after a handler has begun to wait or has taken something.
func (r *run) tellHungry() {
	if r.wanted() == 0 {
		return
	}
	select {
	case r.hungry <- struct{}{}:
	default: // it has been told already
	}
}

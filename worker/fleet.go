package worker

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/dbq-go/dbq"
)

// cleanEvery is how often one of a queue's workers removes what has been kept for long enough. A variable, so that tests need not wait.
var cleanEvery = time.Minute

const (
	// missed is how many times a worker may fail to tell that it is alive, and still counts as that.
	missed = 3
	// fleetTimeout bounds each call of these.
	fleetTimeout = 10 * time.Second
)

// live is what operators may change while the worker runs.
type live struct {
	concurrency, batch, maxAttempts int
	lease, pollMax                  time.Duration
	history                         dbq.History
	retention                       dbq.Retention
}

func (r *run) now() *live { return r.live.Load() }

// apply takes over what operators have set; the worker's own fields stand for the rest.
func (r *run) apply(s dbq.QueueSettings) {
	c := r.cfg
	to := &live{
		concurrency: or(s.Concurrency, c.Concurrency),
		batch:       max(or(s.Batch, c.Batch), c.BatchSize),
		maxAttempts: or(s.MaxAttempts, c.MaxAttempts),
		lease:       max(or(s.Lease, c.Lease), minLease),
		pollMax:     max(or(s.Poll, c.PollMax), c.PollMin),
		history:     c.History,
		retention: dbq.Retention{
			Completed: or(s.Retention.Completed, c.Retention.Completed), Poison: or(s.Retention.Poison, c.Retention.Poison),
			Parked: or(s.Retention.Parked, c.Retention.Parked), Attempts: or(s.Retention.Attempts, c.Retention.Attempts),
			Archive: s.Retention.Archive || c.Retention.Archive,
		},
	}
	if s.History != "" {
		to.history = s.History
	}
	from := r.live.Swap(to)
	if from == nil || *from == *to {
		return
	}
	r.log.each(lineSettings, to.attrs()...)
	if from.lease != to.lease {
		r.tellLeaseChanged()
	}
	for r.enter() {
		r.spawn()
	}
	for range from.concurrency - to.concurrency {
		select {
		case r.fewer <- struct{}{}: // a slot that waits for a task
		default: // the others look when they are done
		}
	}
}

// tellLeaseChanged makes the heartbeats renew what is held, for the time that is set now.
func (r *run) tellLeaseChanged() {
	select {
	case r.leaseChanged <- struct{}{}:
	default: // they have been told already
	}
}

// paused reports whether somebody has paused this worker.
func (r *run) paused() bool {
	return r.orders.Paused() || r.cfg.Switch != nil && r.cfg.Switch.Paused()
}

// join puts the worker into the registry, and follows operators until leave is called. stop ends the worker.
func (r *run) join(stop context.CancelFunc) (leave func()) {
	if r.cfg.Unlisted {
		return func() {}
	}
	ctx, cancel := context.WithCancel(r.ending.final)
	var all sync.WaitGroup
	all.Go(func() { r.follow(ctx, stop) })
	all.Go(func() { r.clean(ctx) })
	return func() {
		cancel()
		all.Wait()
		ctx, cancel := context.WithTimeout(r.ending.final, fleetTimeout)
		defer cancel()
		if err := r.cfg.Queue.Client().Withdraw(ctx, r.cfg.ID); err != nil {
			r.log.write(lineLeave, "error", errorText(err))
		}
	}
}

func (r *run) follow(ctx context.Context, stop context.CancelFunc) {
	host, _ := os.Hostname()
	me := dbq.WorkerInfo{ID: r.cfg.ID, Queue: r.cfg.Queue.Name(), Host: host, PID: os.Getpid(), Started: time.Now().UTC()}
	var rung <-chan dbq.Ring
	if !r.cfg.UntilEmpty {
		bell := r.cfg.Queue.OperatorBell()
		defer bell.Close()
		rung = bell.C()
	}
	for {
		for r.followOnce(ctx, me, stop) { // again, so that the registry tells it
		}
		timer := time.NewTimer(r.cfg.Check*3/4 + rand.N(r.cfg.Check/2)) // not all at once
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-rung:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// followOnce reports whether it obeyed an order.
func (r *run) followOnce(ctx context.Context, me dbq.WorkerInfo, stop context.CancelFunc) (obeyed bool) {
	parent := ctx
	ctx, cancel := context.WithTimeout(ctx, fleetTimeout)
	defer cancel()
	q := r.cfg.Queue
	settings, err := q.Settings(ctx)
	if err == nil {
		r.apply(settings)
		me.State = "running"
		switch {
		case r.draining.Load():
			me.State = "stopping"
		case r.paused():
			me.State = "paused"
		}
		me.Concurrency, me.Holding, me.Done, me.Failed = r.now().concurrency, r.held.count(), r.done.Load(), r.failed.Load()
		for _, f := range r.held.flights() {
			if me.OldestSince.IsZero() || f.start.Before(me.OldestSince) {
				me.OldestSince = f.start.UTC()
			}
		}
		var order dbq.Order
		if order, err = q.Client().Announce(ctx, me, missed*r.cfg.Check); order != "" {
			r.obey(order, stop)
			obeyed = true
		}
	}
	if parent.Err() == nil {
		r.server.note(opRegistry, err)
	}
	return obeyed
}

func (r *run) obey(o dbq.Order, stop context.CancelFunc) {
	r.observe(Event{Kind: Ordered, Order: o})
	switch o {
	case dbq.OrderPause:
		r.orders.Pause()
		r.log.each(linePaused, "by", byOperator)
	case dbq.OrderResume:
		r.orders.Resume()
		r.log.each(lineResumed, "by", byOperator)
	case dbq.OrderStop:
		r.log.each(lineOrdered)
		r.draining.Store(true)
		stop()
	}
}

// clean removes what has been kept for long enough, on one of the queue's workers at a time. It can wait, so it keeps
// off the connections that are kept for leases.
func (r *run) clean(until context.Context) {
	ctx, stop := context.WithCancel(r.base)
	defer stop()
	defer context.AfterFunc(until, stop)()
	q := r.cfg.Queue
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(cleanEvery*3/4 + rand.N(cleanEvery/2)):
		}
		keep := r.now().retention
		if !keep.Removes() {
			continue
		}
		if err := r.cleanOnce(ctx, q, keep); ctx.Err() == nil {
			r.server.note(opClean, err)
		}
	}
}

func (r *run) cleanOnce(ctx context.Context, q *dbq.Queue, keep dbq.Retention) error {
	ctx, cancel := context.WithTimeout(ctx, cleanEvery)
	defer cancel()
	leads, err := q.Client().Lead(ctx, "clean "+q.Name(), r.member, 3*cleanEvery)
	if err != nil || !leads {
		return err
	}
	done, err := q.Clean(ctx, keep)
	unfinished := err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) // the next time goes on there
	l := lineNoClean
	if done != (dbq.Cleaned{}) || unfinished {
		l = lineCleaned
	}
	if err == nil || l == lineCleaned {
		r.log.write(l, "tasks", done.Tasks, "attempts", done.Attempts, "unfinished", unfinished)
	}
	if unfinished {
		return nil
	}
	return err
}

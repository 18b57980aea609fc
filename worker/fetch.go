package worker

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/dbq-go/dbq"
)

// ahead is for how long of their work the handlers are supplied by one checkout.
const ahead = 100 * time.Millisecond

// fetch leases tasks for the handlers until ctx ends, the queue is empty under UntilEmpty, or an error cannot be cured.
func (r *run) fetch(ctx context.Context) error {
	batch := min(r.cfg.Concurrency, r.cfg.Batch)
	pause := r.cfg.PollMin
	for {
		if !r.waitHungry(ctx, batch) {
			return nil
		}
		start := time.Now()
		want := batch
		tasks, err := r.cfg.Queue.Checkout(ctx, want, r.cfg.Lease)
		for _, t := range tasks {
			r.ready <- r.held.add(t) // there is room: what waits is less than batch, and the channel holds two
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, dbq.ErrClosed) || errors.Is(err, dbq.ErrInvalid):
			return err
		case err != nil:
			r.cfg.Logger.Error("worker: cannot check out", "error", err)
		case len(tasks) == want:
			pause = r.cfg.PollMin
			if !r.waitHungry(ctx, batch) {
				return nil
			}
			batch = r.resize(batch, time.Since(start))
			continue
		case len(tasks) > 0:
			pause = r.cfg.PollMin
		case r.cfg.UntilEmpty && r.held.count() == 0:
			return nil
		}
		if !sleep(ctx, pause/2+rand.N(pause/2+1)) {
			return nil
		}
		pause = min(pause*2, r.cfg.PollMax)
	}
}

// resize fits the batch to how long the handlers took to start half of it.
func (r *run) resize(batch int, took time.Duration) int {
	switch {
	case took < ahead/2:
		batch *= 2
	case took > ahead*2:
		batch /= 2
	}
	return max(min(batch, r.cfg.Batch), min(r.cfg.Concurrency, r.cfg.Batch))
}

// waitHungry waits until less than half a batch waits for the handlers. It is false when ctx has ended.
func (r *run) waitHungry(ctx context.Context, batch int) bool {
	for len(r.ready) > batch/2 {
		select {
		case <-r.hungry:
		case <-ctx.Done():
			return false
		}
	}
	return ctx.Err() == nil
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

package worker

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/dbq-go/dbq"
)

// bell wakes the worker when tasks are due. That of a worker that runs until the queue is empty does not: it is nil.
type bell struct{ *dbq.Bell }

func (r *run) bell() bell {
	if r.cfg.UntilEmpty {
		return bell{}
	}
	return bell{r.cfg.Queue.Bell()}
}

func (b bell) close() {
	if b.Bell != nil {
		b.Close()
	}
}

func (b bell) pass() {
	if b.Bell != nil {
		b.Pass()
	}
}

func (b bell) look() {
	if b.Bell != nil {
		b.Look()
	}
}

// found reports whether another checkout at once is worth it.
func (b bell) found(n int, full bool) bool {
	if b.Bell != nil {
		return b.Found(n, full)
	}
	return full
}

func (b bell) wait(n int) <-chan dbq.Ring {
	if b.Bell != nil {
		return b.Wait(n)
	}
	return nil
}

// waitDue waits until the worker has room for a task and a checkout is worth its while: the bell rings, or the database says that something
// is due. It asks after pauses that grow, and when the bell does not know. It is false when ctx has ended.
func (r *run) waitDue(ctx context.Context, s *supply, bell bell) bool {
	var empty <-chan struct{}
	until := r.now().pollMax // without a bell, when the next task is due
	if r.cfg.UntilEmpty {
		empty = r.held.empty
	}
	for {
		want, ok := r.waitHungry(ctx, s) // until then a ring is for others
		if !ok {
			return false
		}
		pause := min(s.rest/2+rand.N(s.rest/2+1), until)
		timer := time.NewTimer(pause)
		asked := false
		select {
		case <-ctx.Done():
			timer.Stop()
			return false
		case ring := <-bell.wait(want):
			timer.Stop()
			if !ring.Ask || r.paused() {
				return true
			}
			asked = true
		case <-empty:
			timer.Stop()
			return true
		case <-timer.C:
			s.rest = min(s.rest*2, r.now().pollMax)
		}
		if r.cfg.UntilEmpty && r.held.count() == 0 || r.paused() {
			return true // a checkout decides, or waits
		}
		start := time.Now()
		wait, some, err := r.cfg.Queue.Next(ctx)
		r.observe(Event{Kind: Asked, Duration: time.Since(start), Err: err})
		until = r.now().pollMax
		if ctx.Err() == nil {
			r.server.note(opDue, err)
		}
		switch {
		case ctx.Err() != nil:
			return false
		case err != nil: // reported
		case some && wait <= 0:
			return true
		case asked:
			bell.found(0, false)
		case some && bell.Bell == nil:
			until = wait + r.cfg.Queue.Client().Server().Precision
		}
	}
}

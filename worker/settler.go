package worker

import (
	"context"
	"errors"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/state"
)

const (
	// settlers is the number of goroutines that settle: while one waits for a commit, the other collects.
	settlers = 2
	// settleMost is the maximum number of settlements in one call, or a batch if that is more.
	settleMost = 500
	// settleWait is how long the first settlement of a call waits for others.
	settleWait = 2 * time.Millisecond
	// settlePause is the first pause after a failed call; it doubles up to settleMaxPause.
	settlePause, settleMaxPause = 50 * time.Millisecond, time.Second
)

// settler stores the outcomes of attempts in batches. It retries a failed settlement while the lease lasts, unless
// the database refuses it. A locked or refused settlement does not delay the others.
type settler struct {
	*env
	leases  *leases
	results *results
	queue   batcher[settlement]
	locked  lockedSettlements
}

func newSettler(e *env, ls *leases, r *results) *settler {
	most := max(settleMost, e.cfg.Batch)
	return &settler{env: e, leases: ls, results: r, queue: newBatcher[settlement](2*most, most, settleWait)}
}

// add queues a settlement. It waits if the database is slower than the handlers.
func (s *settler) add(l *leased, how dbq.Outcome, err error) {
	defer l.freeSlot() // by then the executor can take another task
	// With access to the database, the handler may have completed the task itself.
	st := settlement{leased: l, how: how, err: err, again: s.db != nil && how.Event() == state.Complete && !how.Deletes()}
	select {
	case s.queue.in <- st:
		return
	default: // it is full
	}
	select {
	case s.queue.in <- st:
	case <-s.queue.stopped: // from a handler that Run did not wait for: its lease expires
	case <-s.shutdown.final.Done(): // no time is left to settle it
		s.leases.giveUp(l)
	}
}

// release releases a task that was not started, due again after d.
func (s *settler) release(l *leased, d time.Duration) {
	s.add(l, dbq.Released(d), nil)
}

// run settles what is added, until stop. Several goroutines can run it.
func (s *settler) run() { s.queue.run(s.settle) }

// stop makes run return after what was added before.
func (s *settler) stop() { s.queue.stop() }

// settle settles a batch, and gives up what it cannot settle.
func (s *settler) settle(batch []settlement) { s.giveUp(s.flush(batch)) }

// giveUp drops settlements that failed, with one line in the log.
func (s *settler) giveUp(gone []settlement, err error) {
	if len(gone) == 0 {
		return
	}
	for _, st := range gone {
		s.leases.giveUp(st.leased)
	}
	first := &gone[0]
	s.log.each(lineGaveUp, "tasks", len(gone), "first", first.leased.task.ID.String(), "event", string(first.how.Event()),
		"error", errorText(err))
}

// flush settles a batch, and retries while the database cannot be reached and leases last. It defers locked
// settlements. It returns the settlements that failed, and the reason.
func (s *settler) flush(batch []settlement) (gone []settlement, err error) {
	for pause := settlePause; ; pause = min(pause*2, settleMaxPause) {
		out, failed := s.try(batch)
		if failed == nil {
			s.health.report(opSettle, nil)
			s.settled(batch, out)
			return gone, err
		}
		err = failed
		if errors.Is(err, dbq.ErrMayHaveHappened) {
			for i := range batch {
				batch[i].again = true
			}
		}
		refused, alone := s.source.refuses(err)
		switch {
		case refused || alone && len(batch) > 1:
			left, why := s.isolate(batch, err)
			return append(gone, left...), why
		case alone:
			s.failsAlone(&batch[0], err)
			return gone, err
		}
		s.health.report(opSettle, err)
		keep, over := s.stillHeld(batch, err)
		if gone = append(gone, over...); len(keep) == 0 {
			return gone, err
		}
		batch = keep
		s.shutdown.wait(pause, nil)
	}
}

// try makes one call.
func (s *settler) try(batch []settlement) ([]dbq.Settled, error) {
	ctx, cancel := context.WithTimeout(s.shutdown.final, s.settings().lease)
	defer cancel()
	return s.source.settle(ctx, batch, s.leases.settlements(batch))
}

// settled processes the answer to a batch.
func (s *settler) settled(batch []settlement, out []dbq.Settled) {
	tasks := make([]*leased, 0, len(batch))
	var locked []settlement
	for i := range batch {
		if isLocked(out[i]) {
			locked = append(locked, batch[i])
		} else {
			tasks = append(tasks, batch[i].leased)
		}
	}
	s.putAside(locked)
	s.leases.remove(tasks...)
	causes := s.whyUnsettled(s.shutdown.final, batch, out)
	for i := range batch {
		if isLocked(out[i]) {
			continue
		}
		if errors.Is(out[i].Err, dbq.ErrMayHaveHappened) {
			s.leases.mayHold(s.settings().lease)
		}
		s.results.settled(&batch[i], out[i], causes[key(batch[i].leased.task.Lease)])
	}
}

// stillHeld separates the settlements to retry from those whose lease, or run, has ended.
func (s *settler) stillHeld(batch []settlement, err error) (keep, gone []settlement) {
	over := s.db != nil && errors.Is(err, dbq.ErrClosed) || s.shutdown.final.Err() != nil
	for _, st := range batch {
		if !over && st.leased.keepsTrying() {
			keep = append(keep, st)
		} else {
			gone = append(gone, st)
		}
	}
	return keep, gone
}

package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/state"
)

const (
	// settlers is the number of goroutines that settle: while one waits for a commit, the other collects.
	settlers = 2
	// settleMost is the maximum number of settlements in one call, or MaxCheckout if that is more.
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
	most := max(settleMost, e.cfg.MaxCheckout)
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
		inProcess.end(l, true)
	case <-s.shutdown.final.Done(): // no time is left to settle it
		s.leases.giveUp(l)
	}
}

// release releases a task that was not started, due again after d.
func (s *settler) release(l *leased, d time.Duration) {
	s.add(l, dbq.Released(d), nil)
}

// run settles the added settlements, until stop. Several goroutines can run it.
func (s *settler) run() { s.queue.run(s.settle) }

// stop makes run return once all settlements that were added before have ended.
func (s *settler) stop() { s.queue.stop() }

// settle settles a batch, and gives up settlements that it cannot store.
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
			inProcess.end(batch[i].leased, true) // a locked row delays no other suspect
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

// lockedMaxPause is the longest pause between two tries.
const lockedMaxPause = 250 * time.Millisecond

// remoteMaxPause is lockedMaxPause for a server that fails.
const remoteMaxPause = 10 * time.Second

// lockedSettlements are settlements of tasks whose rows other transactions have locked, or which alone make a server
// fail. They are retried until they succeed, the lease is lost, or the run ends. Meanwhile their leases are renewed,
// and other tasks are settled as usual.
type lockedSettlements struct {
	mu      sync.Mutex
	list    []settlement
	trying  bool           // retryLocked is running
	running sync.WaitGroup // of retryLocked
}

// putAside defers settlements. It does not wait.
func (s *settler) putAside(locked []settlement) {
	if len(locked) == 0 {
		return
	}
	s.locked.mu.Lock()
	defer s.locked.mu.Unlock()
	s.locked.list = append(s.locked.list, locked...)
	if s.locked.trying {
		return
	}
	s.locked.trying = true
	s.locked.running.Go(s.retryLocked)
	if !locked[0].alone {
		s.log.each(lineLocked, "tasks", len(locked), "first", locked[0].leased.task.ID.String(),
			"event", string(locked[0].how.Event()))
	}
}

// failsAlone defers a settlement with which a server fails.
func (s *settler) failsAlone(st *settlement, err error) {
	if !st.alone {
		s.log.each(lineRefused, aboutTask(&st.leased.task, "event", string(st.how.Event()), "instead", "another try",
			"error", errorText(err))...)
	}
	st.alone = true
	s.putAside([]settlement{*st})
}

// retryLocked settles the deferred settlements until none is left.
func (s *settler) retryLocked() {
	most := lockedMaxPause
	if s.db == nil {
		most = remoteMaxPause
	}
	for pause := settlePause; ; pause = min(pause*2, most) {
		s.shutdown.wait(pause, nil)
		list := s.takeAside()
		if len(list) == 0 {
			return
		}
		list, gone := s.stillHeld(list, nil)
		s.giveUp(gone, dbq.ErrLocked)
		for part := range slices.Chunk(list, s.queue.most) {
			s.settle(part)
		}
	}
}

// takeAside returns the deferred settlements. If there are none, retryLocked ends.
func (s *settler) takeAside() []settlement {
	s.locked.mu.Lock()
	defer s.locked.mu.Unlock()
	list := s.locked.list
	s.locked.list, s.locked.trying = nil, len(list) > 0
	return list
}

// isLocked reports whether another transaction has locked the task of a settlement.
func isLocked(out dbq.Settled) bool { return errors.Is(out.Err, dbq.ErrLocked) }

// refuses reports whether an error is about the settlements of a call and not about the state of the database, so
// retrying would not help. A user's trigger or constraint can refuse a settlement, which fails the whole statement.
func refuses(err error) bool {
	var e *dbq.Error
	if !errors.As(err, &e) || errors.Is(err, dbq.ErrClosed) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return false
	}
	switch e.Class {
	case dialect.Conflict, dialect.Unavailable, dialect.Ambiguous, dialect.Missing, dialect.Denied:
		return false
	}
	return true
}

// isolate halves a refused batch until the refused settlements are alone, and settles those in another way. It
// returns the settlements that failed, and the reason.
func (s *settler) isolate(batch []settlement, err error) ([]settlement, error) {
	if len(batch) == 1 {
		next, ok := batch[0].instead(err)
		if !ok {
			return batch, err
		}
		s.log.each(lineRefused, aboutTask(&next.leased.task, "event", string(batch[0].how.Event()),
			"instead", string(next.how.Event()), "error", errorText(err))...)
		return s.flush([]settlement{next})
	}
	gone, err := s.flush(batch[:len(batch)/2])
	more, why := s.flush(batch[len(batch)/2:])
	if len(more) > 0 {
		err = why
	}
	return append(gone, more...), err
}

// instead returns the settlement that replaces a refused one: POISON with the database's message or, if that was
// refused too, parked with the message.
func (st settlement) instead(err error) (next settlement, ok bool) {
	var before *refusedError
	if !errors.As(st.err, &before) {
		err = &refusedError{event: string(st.how.Event()), err: err, handler: st.err}
		return settlement{leased: st.leased, how: dbq.Poisoned(err), err: err}, true
	}
	if before.parked {
		return st, false
	}
	parked := *before
	parked.parked = true
	return settlement{leased: st.leased, how: dbq.Parked(&parked), err: &parked}, true
}

// refusedError is the error of an attempt whose settlement was refused by the database.
type refusedError struct {
	event   string
	err     error // the database's
	handler error // the handler's
	parked  bool  // POISON was refused too
}

func (r *refusedError) Error() string {
	text := fmt.Sprintf("worker: the database refused to settle the task (%s): %v", r.event, r.err)
	if r.handler != nil {
		text += fmt.Sprintf("; the handler returned: %v", r.handler)
	}
	return text
}

func (r *refusedError) Unwrap() []error { return []error{r.err, r.handler} }

// settlement describes how to end the attempt of a task.
type settlement struct {
	leased *leased
	how    dbq.Outcome
	err    error // the handler's error
	again  bool  // an earlier call, or the handler, may have settled the task
	alone  bool  // it was put aside, since it alone made a request fail
}

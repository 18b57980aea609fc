package worker

import (
	"context"
	"errors"
	"time"

	"github.com/dbq-go/dbq"
)

const (
	// settlers settle at the same time: while one waits for a commit, the other collects.
	settlers = 2
	// settleMost is how many settlements one call takes, or a batch if that is more.
	settleMost = 500
	// settleWait is how long the first of them waits for others.
	settleWait = 2 * time.Millisecond
	// settlePause is the first pause after a failed call; it doubles up to settleMaxPause.
	settlePause, settleMaxPause = 50 * time.Millisecond, time.Second
)

// settler ends attempts in batches. What cannot be settled is tried again for as long as its lease lasts, and not dropped before, unless
// the database refuses it.
type settler struct {
	r       *run
	cfg     Worker
	held    *held
	most    int // in one call
	in      chan settlement
	stopped chan struct{}
	aside   aside
}

type settlement struct {
	job *job
	s   dbq.Settlement
	err error // what the handler returned
}

func newSettler(r *run) *settler {
	most := max(settleMost, r.cfg.Batch)
	return &settler{r: r, cfg: r.cfg, held: r.held, most: most, in: make(chan settlement, 2*most), stopped: make(chan struct{})}
}

// add hands over a settlement. It waits when the database is slower than the handlers.
func (s *settler) add(j *job, st dbq.Settlement, err error) {
	select {
	case s.in <- settlement{j, st, err}:
		return
	default: // it is full
	}
	select {
	case s.in <- settlement{j, st, err}:
	case <-s.stopped: // by a handler that Run did not wait for: its lease runs out
	case <-s.r.ending.final.Done(): // there is no time left to settle it
		s.held.giveUp(j, s.r.now().lease)
	}
}

// stop ends run after all that was added before.
func (s *settler) stop() { close(s.stopped) }

func (s *settler) run() {
	for {
		select {
		case first := <-s.in:
			s.settle(s.collect(first))
		case <-s.stopped:
			for { // what is still there
				select {
				case first := <-s.in:
					s.settle(s.collect(first))
				default:
					return
				}
			}
		}
	}
}

// collect waits a little for more to settle in the same call.
func (s *settler) collect(first settlement) []settlement {
	batch := append(make([]settlement, 0, 64), first)
	timer := time.NewTimer(settleWait)
	defer timer.Stop()
	for len(batch) < s.most {
		select {
		case st := <-s.in:
			batch = append(batch, st)
			continue
		default: // a select of one channel is the fast one
		}
		select {
		case st := <-s.in:
			batch = append(batch, st)
		case <-timer.C:
			return batch
		case <-s.stopped:
			select {
			case st := <-s.in:
				batch = append(batch, st)
			default:
				return batch
			}
		}
	}
	return batch
}

// settle settles a batch. What cannot be settled is given up.
func (s *settler) settle(batch []settlement) { s.giveUp(s.flush(batch)) }

// giveUp forgets what cannot be settled, with one line in the log.
func (s *settler) giveUp(gone []settlement, err error) {
	if len(gone) == 0 {
		return
	}
	for _, st := range gone {
		s.held.giveUp(st.job, s.r.now().lease)
	}
	first := gone[0].job.task
	s.r.log.each(lineGaveUp, "tasks", len(gone), "first", first.ID.String(), "event", string(gone[0].s.Event()),
		"error", errorText(err))
}

// flush settles a batch, again and again while the database cannot be reached and leases last, and puts aside what is locked. It returns
// what it could not settle, and why.
func (s *settler) flush(batch []settlement) (gone []settlement, err error) {
	for pause := settlePause; ; pause = min(pause*2, settleMaxPause) {
		ss := make([]dbq.Settlement, len(batch))
		for i, st := range batch {
			ss[i] = st.s
		}
		ctx, cancel := context.WithTimeout(s.r.ending.final, s.r.now().lease)
		out, failed := s.cfg.Queue.Settle(ctx, ss)
		cancel()
		if failed == nil {
			s.r.server.note(opSettle, nil)
			s.report(batch, out)
			return gone, err
		}
		err = failed
		if refuses(err) {
			refused, why := s.isolate(batch, err)
			return append(gone, refused...), why
		}
		s.r.server.note(opSettle, err)
		if errors.Is(err, dbq.ErrMayHaveHappened) {
			for i := range batch {
				batch[i].s = batch[i].s.Again()
			}
		}
		keep, over := s.stillHeld(batch, err)
		if gone = append(gone, over...); len(keep) == 0 {
			return gone, err
		}
		batch = keep
		s.r.ending.wait(pause, nil)
	}
}

func (s *settler) report(batch []settlement, out []dbq.Settled) {
	jobs := make([]*job, 0, len(batch))
	var locked []settlement
	for i := range batch {
		if isLocked(out[i]) {
			locked = append(locked, batch[i])
		} else {
			jobs = append(jobs, batch[i].job)
		}
	}
	s.putAside(locked)
	s.held.remove(jobs...)
	for i := range batch {
		st := &batch[i]
		if isLocked(out[i]) {
			continue
		}
		s.r.report(st, out[i])
		if err := out[i].Err; err != nil {
			if errors.Is(err, dbq.ErrMayHaveHappened) {
				s.held.mayHold(s.r.now().lease)
			}
			if errors.Is(err, dbq.ErrLeaseLost) {
				s.r.countLost(&st.job.task, dbq.ErrLeaseLost)
				continue
			}
			s.r.log.each(lineUnsure, aboutTask(&st.job.task, "event", string(st.s.Event()), "error", errorText(err))...)
		}
	}
}

// stillHeld keeps what is worth another try, apart from that whose lease has run out, or for which there is no time at the end of the
// run.
func (s *settler) stillHeld(batch []settlement, err error) (keep, gone []settlement) {
	over := errors.Is(err, dbq.ErrClosed) || s.r.ending.final.Err() != nil
	for _, st := range batch {
		if !over && st.job.left() > 0 {
			keep = append(keep, st)
		} else {
			gone = append(gone, st)
		}
	}
	return keep, gone
}

package worker

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/state"
)

const (
	// recordMost is how many attempts one call records, and recordKeep how many may wait for it; more are not recorded.
	recordMost, recordKeep = 1000, 20_000
	// recordWait is how long the first of them waits for others.
	recordWait = 100 * time.Millisecond
	// recordTries is how often a call is made while the database cannot be reached.
	recordTries = 5
)

// recorder writes the history in batches, beside the work: it never holds a task up.
type recorder struct {
	r       *run
	in      chan dbq.Attempt
	missing atomic.Int64 // attempts for which there was no room
	stopped chan struct{}
}

func newRecorder(r *run) *recorder {
	return &recorder{r: r, in: make(chan dbq.Attempt, recordKeep), stopped: make(chan struct{})}
}

// outcomes are what the history calls how a settlement ends an attempt.
var outcomes = map[state.Event]dbq.Outcome{
	state.Complete: dbq.OutcomeCompleted, state.Fail: dbq.OutcomeFailed, state.PoisonIt: dbq.OutcomePoisoned, state.Release: dbq.OutcomeReleased,
}

// recordSettled notes an attempt that was settled, unless its handler was never called.
func (r *run) recordSettled(st *settlement, out dbq.Settled) {
	outcome := outcomes[st.s.Event()]
	if outcome == dbq.OutcomeFailed {
		r.failed.Add(1)
		if out.State == dbq.StatePoison {
			outcome = dbq.OutcomePoisoned
		}
	}
	if outcome == dbq.OutcomeCompleted && out.State != dbq.StateCompleted && out.State != state.None {
		outcome = dbq.OutcomeSettled
	}
	r.done.Add(1)
	if !st.job.began.IsZero() {
		r.record(st.job, outcome, st.err)
	}
}

func (r *run) record(j *job, o dbq.Outcome, err error) {
	if !r.now().history.Records(o) {
		return
	}
	a := dbq.Attempt{Task: j.task.ID, Queue: j.task.Queue, Attempt: j.task.Attempt, Fence: j.task.Fence, Outcome: o,
		Started: j.began, Ended: time.Now(), Worker: r.cfg.ID}
	if err != nil && o != dbq.OutcomeCompleted {
		a.Error = err.Error()
	}
	r.recorder.add(a)
}

// foundCrashed notes the attempts before those of tasks that a checkout took over.
func (r *run) foundCrashed(lists ...[]dbq.Task) {
	for _, tasks := range lists {
		for i := range tasks {
			t := &tasks[i]
			if t.TakenOver == nil {
				continue
			}
			if t.State == dbq.StateProcessing {
				r.log.gather(lineTakeover, t.ID, t.TakenOver.Worker, "from", t.TakenOver.Worker)
			}
			if r.now().history.Records(t.TakenOver.Outcome) {
				r.recorder.add(*t.TakenOver)
			}
		}
	}
}

func (c *recorder) add(a dbq.Attempt) {
	select {
	case c.in <- a:
	default: // the database is much slower than the handlers, or away
		c.missing.Add(1)
	}
}

// stop ends run after all that was added before.
func (c *recorder) stop() { close(c.stopped) }

func (c *recorder) run() {
	for {
		select {
		case first := <-c.in:
			c.write(c.collect(first))
		case <-c.stopped:
			for {
				select {
				case first := <-c.in:
					c.write(c.collect(first))
				default:
					return
				}
			}
		}
	}
}

func (c *recorder) collect(first dbq.Attempt) []dbq.Attempt {
	batch := []dbq.Attempt{first}
	timer := time.NewTimer(recordWait)
	defer timer.Stop()
	stopped := c.stopped
	for len(batch) < recordMost {
		select {
		case a := <-c.in:
			batch = append(batch, a)
			continue
		default:
		}
		select {
		case a := <-c.in:
			batch = append(batch, a)
		case <-timer.C:
			return batch
		case <-stopped:
			return batch
		}
	}
	return batch
}

func (c *recorder) write(batch []dbq.Attempt) {
	for try := 1; ; try++ {
		ctx, cancel := context.WithTimeout(c.r.ending.final, fleetTimeout)
		err := c.r.cfg.Queue.Record(ctx, batch)
		cancel()
		if missing := c.missing.Swap(0); missing > 0 {
			c.r.log.each(lineMissing, "attempts", missing, "error", "the database is slower than the handlers")
		}
		c.r.server.note(opRecord, err)
		if err == nil {
			return
		}
		if try == recordTries || !c.r.ending.wait(settleMaxPause, c.stopped) {
			c.r.log.each(lineMissing, "attempts", len(batch), "error", errorText(err))
			return
		}
		select {
		case <-c.stopped:
			try = max(try, recordTries-1)
		default:
		}
	}
}

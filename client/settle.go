package client

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/dbq-go/dbq"
)

const (
	// settlers is the number of goroutines that send outcomes: one that is slow does not delay the others.
	settlers = 4
	// settleMost is the maximum number of outcomes in one request, and settleWait how long the first one waits for others.
	settleMost = 100
	settleWait = 2 * time.Millisecond
)

// ending is an outcome that is to be stored.
type ending struct {
	held    *held
	outcome dbq.Outcome
	due     time.Time     // when to try
	pause   time.Duration // after the last try
	alone   bool          // a request with others was refused, maybe because of this one
	unsure  bool          // an earlier try may have stored it
	instead bool          // it replaces an outcome that was refused
}

// finish stores the outcome of a task, in the background.
func (r *run) finish(h *held, o dbq.Outcome) {
	r.mu.Lock()
	h.finished = true
	r.pending = append(r.pending, &ending{held: h, outcome: o})
	r.mu.Unlock()
	signal(r.ready)
}

// settle sends outcomes until the run ends. An outcome is repeated until it is stored, refused, or its lease is lost.
func (r *run) settle() {
	for r.final.Err() == nil {
		batch, wait := r.nextBatch(true)
		if len(batch) == 0 {
			r.sleep(r.final, wait, r.ready)
			continue
		}
		if len(batch) < settleMost && !batch[0].alone {
			r.sleep(r.final, settleWait, nil)
			more, _ := r.nextBatch(false)
			for len(more) > 0 && len(batch) < settleMost {
				batch, more = append(batch, more[0]), more[1:]
			}
			r.putBack(more)
		}
		signal(r.ready) // there may be more, for another settler
		r.send(batch)
	}
}

// nextBatch takes outcomes that can be sent. wait is when to look again if there is none. One that must be sent alone
// is taken only if first is set.
func (r *run) nextBatch(first bool) (batch []*ending, wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	wait = r.Lease
	now, rest := time.Now(), r.pending[:0:0]
	for _, e := range r.pending {
		single := len(batch) == 1 && batch[0].alone
		switch until := e.due.Sub(now); {
		case until > 0:
			wait = min(wait, until)
			rest = append(rest, e)
		case e.held.renewing, single, len(batch) == settleMost, e.alone && (!first || len(batch) > 0):
			rest = append(rest, e)
		default:
			e.held.settling = true
			batch = append(batch, e)
		}
	}
	r.pending = rest
	return batch, wait
}

// putBack returns outcomes that are to be sent later.
func (r *run) putBack(es []*ending) {
	if len(es) == 0 {
		return
	}
	r.mu.Lock()
	for _, e := range es {
		e.held.settling = false
	}
	r.pending = append(r.pending, es...)
	r.mu.Unlock()
	signal(r.ready)
}

// send sends outcomes in one request.
func (r *run) send(batch []*ending) {
	in := struct {
		Settlements []wireSettlement `json:"settlements"`
	}{make([]wireSettlement, len(batch))}
	r.mu.Lock()
	for i, e := range batch {
		in.Settlements[i] = settlement(e.outcome)
		in.Settlements[i].wireExtension = e.held.extension()
	}
	r.mu.Unlock()
	var out struct {
		Settled []wireSettled `json:"settled"`
	}
	path, err := r.Queue.path("settle")
	if err == nil {
		err = once(r.final, min(max(r.Lease/3, time.Second), callTimeout), func(ctx context.Context) error {
			return r.Queue.client.call(ctx, path, in, &out)
		})
	}
	if err == nil && len(out.Settled) != len(batch) {
		err = &lostError{http.MethodPost, "the response does not have an entry for each outcome", nil}
	}
	if err != nil {
		r.failed(batch, err)
		return
	}
	var done []*held
	for i, e := range batch {
		if r.settled(e, out.Settled[i].State, taskError(out.Settled[i].Problem)) {
			done = append(done, e.held)
		}
	}
	r.remove(done...)
}

// failed processes a request that failed as a whole.
func (r *run) failed(batch []*ending, err error) {
	var p *Problem
	answered := errors.As(err, &p)
	again := isTransient(err) || errors.Is(err, dbq.ErrDenied) // a token may be replaced
	if again && r.final.Err() == nil {
		r.log.each(lineRepeat, "op", "settle", "outcomes", len(batch), "error", cut(err.Error()))
	}
	for _, e := range batch {
		e.unsure = e.unsure || mayHaveHappened(err)
		switch {
		case again:
			e.alone = answered && p.Status == http.StatusInternalServerError
			r.later(e, err)
		case len(batch) > 1:
			e.alone = true
			r.putBack([]*ending{e})
		default:
			r.refused(e, err)
		}
	}
}

// later sends an outcome again after a pause.
func (r *run) later(e *ending, err error) {
	e.pause = min(max(2*e.pause, firstPause), maxPause)
	e.due = time.Now().Add(pauseFor(err, e.pause))
	r.putBack([]*ending{e})
}

// refused stores a failure in place of an outcome that the server refuses, or gives the task up.
func (r *run) refused(e *ending, err error) {
	r.log.each(lineRefused, about(e.held, "outcome", e.outcome.String(), "error", cut(err.Error()))...)
	if e.instead {
		r.holds(r.Lease)
		r.remove(e.held)
		return
	}
	e.instead, e.alone = true, true
	e.outcome = r.within(e.held, dbq.Failed(errors.New("the outcome cannot be stored: "+err.Error())))
	r.putBack([]*ending{e})
}

// settled processes the response about one outcome. It reports whether the task is no longer held.
func (r *run) settled(e *ending, to string, err error) bool {
	h := e.held
	switch {
	case err == nil:
		r.logEnd(e, to)
		return true
	case errors.Is(err, dbq.ErrLeaseLost):
		if !e.unsure { // otherwise it was probably stored
			r.log.each(lineLost, about(h, "error", cut(err.Error()))...)
		}
		return true
	case isTransient(err):
		e.unsure = e.unsure || mayHaveHappened(err)
		r.log.each(lineRepeat, "op", "settle", "outcomes", 1, "error", cut(err.Error()))
		r.later(e, err)
		return false
	}
	r.refused(e, err)
	return false
}

// logEnd logs a failed attempt. to is the task's state now.
func (r *run) logEnd(e *ending, to string) {
	l, next := lineFailed, e.outcome.String()
	switch {
	case to == dbq.StatePoison.String():
		l, next = linePoison, ""
	case to != dbq.StateError.String():
		return
	case !e.outcome.Retries():
		l, next = lineParked, ""
	}
	attrs := about(e.held, "error", causeText(e.outcome.Cause()))
	if next != "" {
		attrs = append(attrs, "next", next)
	}
	r.log.each(l, attrs...)
}

// giveUpRest logs the tasks that the run leaves to others.
func (r *run) giveUpRest() {
	r.mu.Lock()
	var left []*held
	for h := range r.tasks {
		left = append(left, h)
	}
	r.mu.Unlock()
	for _, h := range left {
		r.log.each(lineGaveUp, about(h)...)
	}
	r.remove(left...)
}

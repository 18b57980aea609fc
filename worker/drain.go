package worker

import (
	"context"
	"sync"
	"time"
)

// wrapUp is how long, after DrainTimeout and the handlers, the last settlements, the history and the registry may take.
const wrapUp = time.Second

// ending bounds the end of a run, whatever the handlers, the hooks and the database do.
type ending struct {
	begin func()        // the run is to end: DrainTimeout begins, unless it has
	begun chan struct{} // closed by begin

	// overtime ends when DrainTimeout is over. It is the context of hooks.
	overtime    context.Context
	endOvertime context.CancelFunc
	// final ends when nothing more is to be sent to the database. It is the context of all that is sent beside the checkouts.
	final context.Context
	cut   context.CancelFunc
}

// newEnding makes one for a run whose own calls have the context own, and whose hooks have base.
func newEnding(base, own context.Context) *ending {
	e := &ending{begun: make(chan struct{})}
	e.begin = sync.OnceFunc(func() { close(e.begun) })
	e.overtime, e.endOvertime = context.WithCancel(base)
	e.final, e.cut = context.WithCancel(own)
	return e
}

// watch goes through the steps of the end, from the end of ctx or the call of begin on, until close.
func (r *run) watch(ctx context.Context) {
	e := r.ending
	select {
	case <-e.final.Done():
		return
	case <-ctx.Done():
		e.begin()
	case <-e.begun:
	}
	if !e.wait(r.cfg.DrainTimeout, nil) {
		return
	}
	e.endOvertime()
	if running := len(r.held.flights()); running > 0 {
		r.log.write(lineDrained, "running", running, "drain_timeout", seconds(r.cfg.DrainTimeout))
	}
	r.held.cancelAll(ErrShutdown)
	if e.wait(r.cfg.Grace, r.slots.drained) && e.wait(wrapUp, nil) {
		e.cut()
	}
}

// wait waits for d, or until soon is closed. It is false when the run has ended meanwhile.
func (e *ending) wait(d time.Duration, soon <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-soon:
		return true
	case <-e.final.Done():
		return false
	}
}

// close ends watch.
func (e *ending) close() {
	e.endOvertime()
	e.cut()
}

// stopHanding ends the handlers' intake and takes back what was not started.
func (r *run) stopHanding() []*job {
	close(r.quit)
	var back []*job
	for {
		select {
		case j := <-r.ready:
			back = append(back, j)
		default:
			return back
		}
	}
}

// drain waits for the handlers: until their contexts have ended, and for as long as they may ignore that.
func (r *run) drain() {
	r.slots.change(func(s *slots) { s.stopping = true })
	select {
	case <-r.slots.drained: // those that do not return are abandoned after Grace
		return
	case <-r.ending.final.Done():
	}
	timer := time.NewTimer(wrapUp)
	defer timer.Stop()
	select {
	case <-r.slots.drained: // what waited for the settlers waits no more
	case <-timer.C:
	}
}

package worker

import (
	"context"
	"sync"
	"time"
)

// wrapUp limits the last settlements and the deregistration, after DrainTimeout and the handlers.
const wrapUp = time.Second

// shutdown limits the duration of a shutdown, whatever the handlers, OnPoison and the database do.
type shutdown struct {
	begin func()        // starts DrainTimeout, unless it has started
	begun chan struct{} // closed by begin

	// overtime ends with DrainTimeout. OnPoison gets it.
	overtime    context.Context
	endOvertime context.CancelFunc
	// final ends when nothing more may be sent to the database. All statements except checkouts use it.
	final    context.Context
	endFinal context.CancelFunc
}

// newShutdown returns the shutdown of a run whose own statements use the context own, and whose OnPoison uses base.
func newShutdown(base, own context.Context) *shutdown {
	s := &shutdown{begun: make(chan struct{})}
	s.begin = sync.OnceFunc(func() { close(s.begun) })
	s.overtime, s.endOvertime = context.WithCancel(base)
	s.final, s.endFinal = context.WithCancel(own)
	return s
}

// watch runs the steps of a shutdown, from the end of ctx or the call of begin, until close. After drain it calls
// cancelHandlers; the handlers then have grace to return. returned is closed once they have.
func (s *shutdown) watch(ctx context.Context, drain, grace time.Duration,
	cancelHandlers func(), returned <-chan struct{}) {
	select {
	case <-s.final.Done():
		return
	case <-ctx.Done():
		s.begin()
	case <-s.begun:
	}
	if !s.wait(drain, nil) {
		return
	}
	s.endOvertime()
	cancelHandlers()
	if s.wait(grace, returned) && s.wait(wrapUp, nil) {
		s.endFinal()
	}
}

// wait waits for d, or until soon is closed. It returns false if the run has ended meanwhile.
func (s *shutdown) wait(d time.Duration, soon <-chan struct{}) bool {
	select {
	case <-time.After(d):
	case <-soon:
	case <-s.final.Done():
		return false
	}
	return true
}

// close ends watch.
func (s *shutdown) close() {
	s.endOvertime()
	s.endFinal()
}

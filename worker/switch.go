package worker

import (
	"context"
	"sync"
)

// A Switch pauses workers of this process. While it is off, workers that have it in their Switch field check out no
// tasks; they finish those that they hold. The zero value is on. Several workers can share one Switch. It has no
// effect on other processes.
type Switch struct {
	mu  sync.Mutex
	off chan struct{} // not nil while it is off; closed by Resume
}

// Pause turns the switch off. If it is called before Run, the worker starts paused.
func (s *Switch) Pause() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.off == nil {
		s.off = make(chan struct{})
	}
}

// Resume turns the switch on. Workers check for tasks immediately.
func (s *Switch) Resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.off != nil {
		close(s.off)
		s.off = nil
	}
}

// Paused reports whether the switch is off.
func (s *Switch) Paused() bool { return s.resumed() != nil }

// resumed returns a channel that Resume closes, or nil if the switch is on.
func (s *Switch) resumed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.off
}

// wait waits until the switch is on. It returns false if ctx has ended.
func (s *Switch) wait(ctx context.Context) bool {
	if off := s.resumed(); off != nil {
		select {
		case <-off:
		case <-ctx.Done():
		}
	}
	return ctx.Err() == nil
}

// Who paused or resumed a worker, in the log.
const (
	byOperator = "operator"
	bySwitch   = "switch"
)

// pause blocks the fetcher while an operator has paused the worker, or its Switch is off.
type pause struct {
	log      *logger
	operator Switch
	program  *Switch // Worker.Switch, or nil
}

func (p *pause) on() bool { return p.operator.Paused() || p.program != nil && p.program.Paused() }

// wait waits until the worker is not paused. It returns false if ctx has ended.
func (p *pause) wait(ctx context.Context) bool {
	if p.program != nil && p.program.Paused() {
		p.log.each(linePaused, "by", bySwitch)
		if !p.program.wait(ctx) {
			return false
		}
		p.log.each(lineResumed, "by", bySwitch)
	}
	return p.operator.wait(ctx)
}

package worker

import (
	"context"
	"sync"
)

// A Switch pauses workers of this process: while it is off, those that have it in their Switch field check nothing out. What they hold
// they finish. The zero value is on; several workers may share one. It is not seen by other processes and forgotten with this one.
type Switch struct {
	mu  sync.Mutex
	off chan struct{} // not nil while it is off; closed by Resume
}

// Pause turns the switch off. Called before Run, the worker starts paused.
func (s *Switch) Pause() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.off == nil {
		s.off = make(chan struct{})
	}
}

// Resume turns it on. Workers look for tasks at once.
func (s *Switch) Resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.off != nil {
		close(s.off)
		s.off = nil
	}
}

// Paused reports whether it is off.
func (s *Switch) Paused() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.off != nil
}

// wait waits until it is on. It is false when ctx has ended.
func (s *Switch) wait(ctx context.Context) bool {
	if s == nil {
		return ctx.Err() == nil
	}
	s.mu.Lock()
	off := s.off
	s.mu.Unlock()
	if off == nil {
		return ctx.Err() == nil
	}
	select {
	case <-off:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

package worker

import (
	"sync"
	"time"

	"github.com/dbq-go/dbq"
)

// trials decide which suspects run together in this process, in all of its workers, because these die together.
//
// A suspect is a task whose lease has lapsed suspectAfter times: it may have killed its processes, or it was only with
// them, or the database was away. A suspect on trial is marked as started, so its attempt counts if the process dies,
// and no other suspect runs beside it, so none is blamed for its crash. The trial lasts until its outcome is stored.
//
// After an outage, all tasks are suspects, and all but a few are innocent. So suspects whose handlers have returned
// vouch for the others: one of them for a suspect with suspectAfter lapses, and twice as many for each further lapse. A
// suspect that enough others vouch for needs no trial. If it kills the process, its attempt does not count, nor do its
// neighbors' attempts, and all have one more lapse. So in processes that handle n suspects each, a killer escapes its
// trial for at most log2(n) + 1 deaths.
type trials struct {
	mu      sync.Mutex
	running int           // suspects in handlers
	trial   bool          // the one that runs is on trial
	since   time.Time     // since when some are running
	passed  int           // suspects whose handlers have returned
	ended   chan struct{} // closed when a suspect ends; nil if no other suspect waits for that
}

const suspectAfter = 2

// suspectWait limits how long a suspect waits for its permit; it blocks an executor meanwhile.
const suspectWait = 100 * time.Millisecond

var inProcess trials

// permit lets a suspect run.
type permit struct {
	trial bool
	over  bool // guarded by trials.mu
}

func isSuspect(t *dbq.Task) bool { return t.Lapses >= suspectAfter }

// begin gives a suspect its permit, and waits for it briefly if wait is set. It returns false if there is none yet.
func (s *trials) begin(l *leased, wait bool) bool {
	ended, ok := s.try(l)
	if ok || !wait {
		return ok
	}
	for over := time.After(suspectWait); !ok; ended, ok = s.try(l) {
		select {
		case <-ended:
		case <-over:
			return false
		}
	}
	return true
}

// try is begin without waiting. If it fails, the next try can succeed when ended is closed.
func (s *trials) try(l *leased) (ended <-chan struct{}, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	trial := s.passed < 1<<min(l.task.Lapses-suspectAfter, 30)
	if s.trial || trial && s.running > 0 {
		if s.ended == nil {
			s.ended = make(chan struct{})
		}
		return s.ended, false
	}
	if s.running++; s.running == 1 {
		s.since = time.Now()
	}
	s.trial, l.permit = trial, &permit{trial: trial}
	return nil, true
}

// end takes a suspect's permit back; returned means that its handler has returned, so that it vouches for others. It
// can be called more than once, and for any task.
func (s *trials) end(l *leased, returned bool) {
	if l.permit == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.permit.over {
		return
	}
	l.permit.over, s.trial = true, false
	s.running--
	if returned {
		s.passed++
	}
	if s.ended != nil {
		close(s.ended)
		s.ended = nil
	}
}

// runFor returns how long suspects have been running, or zero if none is.
func (s *trials) runFor() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == 0 {
		return 0
	}
	return time.Since(s.since)
}

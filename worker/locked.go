package worker

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/dbq-go/dbq"
)

// A task whose row another transaction has locked cannot be settled before that transaction ends. Its settlement is put
// aside while the worker goes on and renews the lease, and is tried again until it is done, or the lease is lost, or
// the run is over.

// lockedMaxPause is the longest pause between two tries.
const lockedMaxPause = 250 * time.Millisecond

// aside are settlements of locked tasks.
type aside struct {
	mu      sync.Mutex
	list    []settlement
	trying  bool           // tryLocked is running
	running sync.WaitGroup // of tryLocked
}

// putAside keeps settlements for later. It does not wait.
func (s *settler) putAside(locked []settlement) {
	if len(locked) == 0 {
		return
	}
	s.aside.mu.Lock()
	defer s.aside.mu.Unlock()
	s.aside.list = append(s.aside.list, locked...)
	if s.aside.trying {
		return
	}
	s.aside.trying = true
	s.aside.running.Go(s.tryLocked)
	s.r.log.each(lineLocked, "tasks", len(locked), "first", locked[0].job.task.ID.String(),
		"event", string(locked[0].s.Event()))
}

// tryLocked settles what was put aside, again and again until nothing is left.
func (s *settler) tryLocked() {
	for pause := settlePause; ; pause = min(pause*2, lockedMaxPause) {
		s.r.ending.wait(pause, nil)
		list := s.takeAside()
		if len(list) == 0 {
			return
		}
		list, gone := s.stillHeld(list, nil)
		s.giveUp(gone, dbq.ErrLocked)
		for part := range slices.Chunk(list, s.most) {
			for i := range part {
				part[i].s.Lease = part[i].job.currentLease()
			}
			s.settle(part)
		}
	}
}

// takeAside returns what was put aside. When that is nothing, tryLocked is to end.
func (s *settler) takeAside() []settlement {
	s.aside.mu.Lock()
	defer s.aside.mu.Unlock()
	list := s.aside.list
	s.aside.list, s.aside.trying = nil, len(list) > 0
	return list
}

// isLocked reports whether a settlement was passed by, since another transaction has locked its task.
func isLocked(out dbq.Settled) bool { return errors.Is(out.Err, dbq.ErrLocked) }

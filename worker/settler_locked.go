package worker

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/dbq-go/dbq"
)

// lockedMaxPause is the longest pause between two tries.
const lockedMaxPause = 250 * time.Millisecond

// remoteMaxPause is lockedMaxPause for a server that fails.
const remoteMaxPause = 10 * time.Second

// lockedSettlements are settlements of tasks whose rows other transactions have locked, or which alone make a server
// fail. They are retried until they
// succeed, the lease is lost, or the run ends. Meanwhile their leases are renewed, and other tasks are settled as
// usual.
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

package store

import (
	"context"
	"time"

	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// What the tests of sweeps, which need a database, see of them.
const (
	SweepWindow = sweepWindow
	SweepLag    = sweepLag
	SweepRounds = sweepRounds
)

var FirstID = firstID

// Passed is how far the sweep of a queue's tasks in a state has come in this round.
func (s *Store) Passed(queue string, in state.State) uuid.UUID {
	return s.sweeps.at.all[sweepKey{queue, in, false}].passed
}

// EndRound makes the round of a sweep as old as it takes to begin a new one.
func (s *Store) EndRound(queue string, in state.State, keep time.Duration) {
	key := sweepKey{queue, in, false}
	at := s.sweeps.at.all[key]
	at.began = time.Now().Add(-keep / sweepRounds)
	s.sweeps.at.all[key] = at
}

// AnyAbove reports whether there is a task with a higher id.
func (s *Store) AnyAbove(ctx context.Context, id uuid.UUID) (bool, error) {
	_, found, err := s.idBehind(ctx, id, uuid.Max, 0)
	return found, err
}

package store

import (
	"bytes"
	"context"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

const (
	// sweepWindow is the number of tasks that one statement of a sweep passes.
	sweepWindow = 2000
	// sweepLag is how far the cursor stays behind the tasks that may be old enough, since most tasks end a while after
	// they were made. Those that took longer are found in the next round.
	sweepLag = 10 * time.Minute
	// sweepRounds is the part of the retention after which a new round begins.
	sweepRounds = 4
)

// sweep is the progress of Clean through the old tasks of one queue in one state.
type sweep struct {
	passed uuid.UUID // every task up to this id was passed in this round
	began  time.Time // when the round began
}

type sweepKey struct {
	queue string
	state state.State
}

// sweeps holds the cursors of a store. A task that was passed but not removed has a longer retention or is in another
// queue; the next round visits it again. Forgetting a cursor costs a pass over all old tasks.
type sweeps struct{ at memory[sweepKey, sweep] }

// begin returns where to continue, or the start of a new round if the last one began long ago.
func (s *sweeps) begin(key sweepKey, keep time.Duration) (from sweep) {
	s.at.update(key, func(at sweep, known bool) (sweep, bool) {
		if from = at; !known || time.Since(at.began) >= keep/sweepRounds {
			from = sweep{began: time.Now()}
		}
		return from, true
	})
	return from
}

// advance moves a cursor forward, unless another call has begun a new round.
func (s *sweeps) advance(key sweepKey, to sweep) {
	s.at.update(key, func(at sweep, known bool) (sweep, bool) {
		if known && at.began.Equal(to.began) && bytes.Compare(at.passed[:], to.passed[:]) < 0 {
			return to, true
		}
		return at, known
	})
}

// sweep removes or archives the tasks of one state that f selects; f.InStateFor is their retention. Ids are ordered by
// time: sweep passes those that are old enough, some thousand at a time, from where the last sweep of this round ended.
func (s *Store) sweep(ctx context.Context, f Filter, before beforeRemoval, done *int) error {
	micros, err := s.ReadNow(ctx)
	if err != nil {
		return err
	}
	now := time.UnixMicro(micros)
	end := firstID(now.Add(time.Millisecond - f.InStateFor))
	sure := firstID(now.Add(-f.InStateFor - min(sweepLag, f.InStateFor/sweepRounds)))
	key := sweepKey{f.Queue, f.States[0]}
	at := s.sweeps.begin(key, f.InStateFor)
	for f.After = at.passed; ; {
		last, more, err := s.idBehind(ctx, f.After, end, sweepWindow-1)
		if err != nil {
			return err
		}
		if f.Before = end; more {
			f.Before = nextID(last)
		}
		if err := s.remove(ctx, f, before, done); err != nil {
			return err
		}
		if !more {
			at.passed = sure
			s.sweeps.advance(key, at)
			return nil
		}
		if f.After, at.passed = last, last; bytes.Compare(sure[:], last[:]) < 0 {
			at.passed = sure
		}
		s.sweeps.advance(key, at)
		if err := Sleep(ctx, cleanPause); err != nil {
			return err
		}
	}
}

// idBehind finds the id that is n tasks behind the first one above after, if there is one below before.
func (s *Store) idBehind(ctx context.Context, after, before uuid.UUID, n int) (id uuid.UUID, found bool, err error) {
	var rows []dialect.Row
	args := dialect.Args{"after": after, "before": before, "offset": n}
	err = s.read(ctx, func(ctx context.Context, conn dialect.Conn) (err error) {
		rows, err = s.sql.Query(ctx, conn, s.sql.Texts.IDBehind, args)
		return err
	})
	if err != nil || len(rows) == 0 {
		return id, false, err
	}
	return rows[0].ID, true, nil
}

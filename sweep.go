package dbq

import (
	"bytes"
	"context"
	"encoding/binary"
	"sync"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/google/uuid"
)

const (
	// sweepWindow is how many tasks one statement of a sweep passes.
	sweepWindow = 2000
	// sweepLag is how far a sweep's cursor stays behind the tasks that may be old enough, since most tasks end a while after they were
	// made: those that took longer are found in the next round.
	sweepLag = 10 * time.Minute
	// sweepRounds is the part of the retention after which a round begins.
	sweepRounds = 4
	// sweepMost bounds the cursors that a client remembers. Forgetting one costs passing all old tasks once.
	sweepMost = 1000
)

// sweep is how far Clean came over the old tasks of one queue, for one way in which they ended.
type sweep struct {
	passed uuid.UUID // every task up to this id was looked at in this round
	began  time.Time // when the round began
}

type sweepKey struct {
	queue string
	state State
}

// sweeps are a client's cursors. What was passed and stayed is long-lived, or another queue's: it is looked at again in the next round only.
type sweeps struct {
	mu  sync.Mutex
	all map[sweepKey]sweep
}

// begin returns where to go on, or the start of a new round when the last one began a part of keep ago.
func (s *sweeps) begin(key sweepKey, keep time.Duration) sweep {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok := s.all[key]
	if ok && time.Since(at.began) < keep/sweepRounds {
		return at
	}
	if s.all == nil {
		s.all = map[sweepKey]sweep{}
	}
	if _, ok := s.all[key]; !ok && len(s.all) >= sweepMost {
		for other := range s.all { // any
			delete(s.all, other)
			break
		}
	}
	at = sweep{began: time.Now()}
	s.all[key] = at
	return at
}

// move sets a cursor forward, unless another call has begun a new round.
func (s *sweeps) move(key sweepKey, to sweep) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, ok := s.all[key]; ok && at.began.Equal(to.began) && bytes.Compare(at.passed[:], to.passed[:]) < 0 {
		s.all[key] = to
	}
}

// sweep removes, or archives, what f selects of one state and what is older than f.OlderThan. It passes the tasks that are old enough by
// their ids, some thousand at a time, from where the last sweep of this round came to.
func (q *Queue) sweep(ctx context.Context, f Filter, archive bool, done *int) error {
	c, key := q.c, sweepKey{q.name, f.States[0]}
	now, err := c.Now(ctx)
	if err != nil {
		return err
	}
	end := firstID(now.Add(time.Millisecond - f.OlderThan))
	sure := firstID(now.Add(-f.OlderThan - min(sweepLag, f.OlderThan/sweepRounds)))
	at := c.sweeps.begin(key, f.OlderThan)
	for f.After = at.passed; ; {
		last, more, err := c.idBehind(ctx, f.After, end, sweepWindow-1)
		if err != nil {
			return err
		}
		if f.Before = end; more {
			f.Before = nextID(last)
		}
		if err := q.remove(ctx, f, archive, done); err != nil {
			return err
		}
		if !more {
			at.passed = sure
			c.sweeps.move(key, at)
			return nil
		}
		if f.After, at.passed = last, last; bytes.Compare(sure[:], last[:]) < 0 {
			at.passed = sure
		}
		c.sweeps.move(key, at)
		if err := sleep(ctx, cleanPause); err != nil {
			return err
		}
	}
}

// idBehind finds the id that is n tasks behind the first one above after, if there is one below before.
func (c *Client) idBehind(ctx context.Context, after, before uuid.UUID, n int) (id uuid.UUID, found bool, err error) {
	var rows []dialect.Row
	err = c.read(ctx, func(ctx context.Context, conn dialect.Conn) (err error) {
		args := dialect.Args{"after": after, "before": before, "offset": n}
		rows, err = c.s.Query(ctx, conn, c.s.Statements.IDBehind, args)
		return err
	})
	if err != nil || len(rows) == 0 {
		return id, false, err
	}
	return rows[0].ID, true, nil
}

// firstID is the lowest id of a time.
func firstID(t time.Time) uuid.UUID {
	var id uuid.UUID
	binary.BigEndian.PutUint64(id[:], uint64(max(0, t.UnixMilli()))<<16)
	return id
}

// nextID is the lowest id above id.
func nextID(id uuid.UUID) uuid.UUID {
	for i := len(id) - 1; i >= 0; i-- {
		if id[i]++; id[i] != 0 {
			break
		}
	}
	return id
}

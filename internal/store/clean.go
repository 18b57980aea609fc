package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/bounds"
	"github.com/dbq-go/dbq/internal/errs"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// Forever is the retention of tasks that are never removed.
const Forever = time.Duration(math.MaxInt64)

// Retention is a dbq.Retention, to and from which it converts. Zero means Forever.
type Retention struct {
	Completed time.Duration
	Poison    time.Duration
	Cancelled time.Duration
	Parked    time.Duration
	Attempts  time.Duration
	Archive   bool // move tasks into the archive instead of removing them
}

// Removes reports whether anything is removed or archived.
func (r Retention) Removes() bool {
	return ends(r.Completed) || ends(r.Poison) || ends(r.Cancelled) || ends(r.Parked) || ends(r.Attempts)
}

// Or returns the retention, with its unset fields taken from another one.
func (r Retention) Or(o Retention) Retention {
	return Retention{
		Completed: cmp.Or(r.Completed, o.Completed), Poison: cmp.Or(r.Poison, o.Poison),
		Cancelled: cmp.Or(r.Cancelled, o.Cancelled), Parked: cmp.Or(r.Parked, o.Parked),
		Attempts: cmp.Or(r.Attempts, o.Attempts), Archive: r.Archive || o.Archive,
	}
}

// Check refuses times that are negative, or longer than bounds.MaxDelay but not Forever: ErrOption.
func (r Retention) Check() error {
	for _, keep := range []struct {
		what string
		d    time.Duration
	}{{"COMPLETED tasks", r.Completed}, {"POISON tasks", r.Poison}, {"cancelled tasks", r.Cancelled},
		{"parked tasks", r.Parked}, {"attempts", r.Attempts}} {
		if keep.d < 0 || ends(keep.d) && keep.d > bounds.MaxDelay {
			return fmt.Errorf("%w: the retention of %s is %v, it must be up to %v, or Forever",
				errs.ErrOption, keep.what, keep.d, bounds.MaxDelay)
		}
	}
	return nil
}

func ends(keep time.Duration) bool { return keep != 0 && keep != Forever }

// Cleaned counts the removals of Clean.
type Cleaned struct {
	Tasks    int // removed or archived
	Attempts int // removed from the history
}

const (
	cleanBatch = 500 // tasks of one transaction, so that each is short
	cleanPause = 5 * time.Millisecond
)

// Clean is CleanQueue, followed by CleanKeys.
func (s *Store) Clean(ctx context.Context, queue string, r Retention, h History) (done Cleaned, err error) {
	if done, err = s.CleanQueue(ctx, queue, r, h); err == nil {
		err = s.CleanKeys(ctx)
	}
	return done, err
}

// CleanKeys removes, of all queues, the unique keys and the rates of keys that are no longer needed.
func (s *Store) CleanKeys(ctx context.Context) error {
	ctx = sqlrun.Slow(ctx)
	err := s.cleanKeys(ctx)
	if err == nil {
		err = s.cleanKeyRates(ctx)
	}
	return err
}

// CleanQueue removes or archives the tasks of a queue whose retention has passed, and removes such attempts, in short
// transactions. The last attempt of a removed task moves to the history if h keeps such attempts and its own retention
// has not passed. An archived task keeps its last attempt in its row. On an error, Cleaned counts the removals so far;
// the next call continues there.
func (s *Store) CleanQueue(ctx context.Context, queue string, r Retention, h History) (done Cleaned, err error) {
	ctx = sqlrun.Slow(ctx)
	for _, part := range []struct {
		keep   time.Duration
		filter Filter
	}{
		{r.Completed, Filter{States: []state.State{state.Completed}}},
		{r.Poison, Filter{States: []state.State{state.Poison}, NotCancelled: true}},
		{r.Cancelled, Filter{States: []state.State{state.Poison}, CancelledOnly: true}},
		{r.Parked, Filter{States: []state.State{state.Error}, ParkedOnly: true}},
	} {
		if err != nil || !ends(part.keep) {
			continue
		}
		var before beforeRemoval
		switch outlives := !ends(r.Attempts) || r.Attempts > part.keep; {
		case r.Archive:
			before = s.archive
		case outlives && h.keepsLast(part.filter.States[0]):
			before = s.recordRemoved
		}
		part.filter.Queue, part.filter.InStateFor, part.filter.Limit = queue, part.keep, sweepWindow
		err = s.sweep(ctx, part.filter, before, &done.Tasks)
	}
	if err == nil && ends(r.Attempts) {
		err = s.cleanAttempts(ctx, queue, r.Attempts, &done.Attempts)
	}
	return done, err
}

// beforeRemoval runs in the transaction before tasks are removed, which it has locked. It may be nil.
type beforeRemoval func(ctx context.Context, conn dialect.Conn, ids []uuid.UUID) error

// remove removes the tasks that f selects, in transactions of at most cleanBatch tasks.
func (s *Store) remove(ctx context.Context, f Filter, before beforeRemoval, done *int) error {
	purge, _ := state.Find(state.Purge, state.Operator)
	ids, err := s.ListIDs(ctx, f, purge)
	if err != nil {
		return err
	}
	audit := auditOf(ctx)
	for part := range slices.Chunk(ids, cleanBatch) {
		n, err := s.removePart(ctx, part, before, audit)
		for errors.Is(err, errAudited) { // the part before this one was committed, although its answer was lost
			audit.committed()
			n, err = s.removePart(ctx, part, before, audit)
		}
		if err != nil {
			return err
		}
		if n > 0 {
			audit.committed()
		}
		*done += n
		if err := Sleep(ctx, cleanPause); err != nil {
			return err
		}
	}
	return nil
}

// removePart removes tasks in one transaction, and returns how many.
func (s *Store) removePart(
	ctx context.Context, part []uuid.UUID, before beforeRemoval, audit *Audit,
) (n int, err error) {
	err = s.writeTx(ctx, func(ctx context.Context, conn dialect.Conn, _ bool) error {
		n = 0
		ids, err := s.unneeded(ctx, conn, part)
		if err != nil || len(ids) == 0 {
			return err
		}
		moved, err := s.purge(ctx, conn, ids, before)
		if err != nil || len(moved) == 0 {
			return err
		}
		if err := s.leaveWorkflows(ctx, conn, idsOf(moved)); err != nil {
			return err
		}
		n = len(moved)
		return s.addAudit(ctx, conn, audit, "", "", n)
	})
	return n, err
}

func (s *Store) archive(ctx context.Context, conn dialect.Conn, ids []uuid.UUID) error {
	return s.execIDs(ctx, conn, s.sql.Texts.Archive, ids)
}

func (s *Store) cleanAttempts(ctx context.Context, queue string, age time.Duration, done *int) error {
	args := dialect.Args{"queue": queue, "age": age.Microseconds(), "limit": cleanBatch}
	return s.auditedBatches(ctx, done, func(ctx context.Context, conn dialect.Conn) (int, error) {
		n, err := s.sql.Exec(ctx, conn, s.sql.Texts.ExpireAttempts, args)
		return int(n), err
	})
}

// inBatches repeats a change of up to cleanBatch rows, with pauses, until it finds fewer.
func inBatches(ctx context.Context, change func() (n int, err error)) error {
	for {
		n, err := change()
		if err != nil || n < cleanBatch {
			return err
		}
		if err := Sleep(ctx, cleanPause); err != nil {
			return err
		}
	}
}

// auditedBatches is inBatches for a change in a transaction of its own, which adds a row to the audit. It adds the
// changed rows to done.
func (s *Store) auditedBatches(
	ctx context.Context, done *int, change func(ctx context.Context, conn dialect.Conn) (n int, err error),
) error {
	audit := auditOf(ctx)
	return inBatches(ctx, func() (int, error) {
		var n, tried int
		earlier, err := s.writeAudited(ctx, audit, func(ctx context.Context, conn dialect.Conn, _ bool) (err error) {
			tried = n
			if n, err = change(ctx, conn); err != nil {
				return err
			}
			return s.addAudit(ctx, conn, audit, "", "", n)
		})
		switch {
		case err != nil:
			return 0, err
		case earlier && tried == 0: // an earlier transaction, whose answer was lost, added its row
			audit.committed()
			return cleanBatch, nil
		case earlier:
			n = tried
		}
		if n > 0 {
			audit.committed()
		}
		*done += n
		return n, nil
	})
}

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
	queue     string
	state     state.State
	cancelled bool // cancelled tasks, which are in POISON
}

// sweeps holds the cursors of a store. A task that was passed but not removed has a longer retention or is in another
// queue; the next round visits it again. Forgetting a cursor costs a pass over all old tasks.
type sweeps struct{ at cache[sweepKey, sweep] }

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
		if known && at.began.Equal(to.began) && compareIDs(at.passed, to.passed) < 0 {
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
	key := sweepKey{f.Queue, f.States[0], f.CancelledOnly}
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
		if f.After, at.passed = last, last; compareIDs(sure, last) < 0 {
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
	args := dialect.Args{"after": after, "before": before, "offset": n}
	rows, err := readRows[dialect.Row](ctx, s, s.sql.Texts.IDBehind, args)
	if err != nil || len(rows) == 0 {
		return id, false, err
	}
	return rows[0].ID, true, nil
}

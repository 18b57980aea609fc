package dbq

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// Forever keeps what it is set for, as KeepForever does for all of it.
const Forever = time.Duration(math.MaxInt64)

// KeepForever is the Retention that removes nothing. It switches off the default of a worker.
var KeepForever = Retention{Completed: Forever, Poison: Forever, Parked: Forever, Attempts: Forever}

// Retention says for how long what has ended is kept: up to MaxDelay, or Forever. Zero says nothing: Clean removes nothing then,
// QueueSettings leave it to each worker, and a worker uses its default.
type Retention struct {
	Completed time.Duration // tasks that are COMPLETED
	Poison    time.Duration // tasks that are POISON
	Parked    time.Duration // tasks that are in ERROR and that nobody retries
	Attempts  time.Duration // the history of attempts
	// Archive moves tasks into the archive, a table of its own, instead of removing them. Nothing removes them from there.
	Archive bool
}

// Removes reports whether anything is removed, or archived.
func (r Retention) Removes() bool {
	return ends(r.Completed) || ends(r.Poison) || ends(r.Parked) || ends(r.Attempts)
}

func ends(keep time.Duration) bool { return keep != 0 && keep != Forever }

func (r Retention) check() error {
	for _, d := range []time.Duration{r.Completed, r.Poison, r.Parked, r.Attempts} {
		if d < 0 || ends(d) && d > MaxDelay {
			return fmt.Errorf("%w: keeping for %v, it must be up to %v, or Forever", ErrOption, d, MaxDelay)
		}
	}
	return nil
}

// Cleaned is what Clean did.
type Cleaned struct {
	Tasks    int // removed, or moved into the archive
	Attempts int // removed from the history
}

const (
	cleanBatch = 500 // tasks of one transaction, so that each is short
	cleanPause = 5 * time.Millisecond
)

// Clean removes what has been there for longer than r says, in short transactions of at most 500 tasks. It finds tasks by their ids,
// which are ordered by time, and the client remembers how far it came: the next call passes what has grown old since, and not again
// what stayed. Tasks that it passed before they ended are found in its next round over all old tasks, which begins after a quarter of
// their retention; so are tasks of producers whose clocks are ahead, once their ids are old enough.
//
// Clean returns an error, such as that of ctx, when it could not finish; Cleaned counts what was removed before, and the next call
// continues there. Several may clean at once.
func (q *Queue) Clean(ctx context.Context, r Retention) (Cleaned, error) {
	var done Cleaned
	err := checkQueueName(q.name)
	if err == nil {
		err = r.check()
	}
	for _, part := range []struct {
		keep   time.Duration
		filter Filter
	}{
		{r.Completed, Filter{States: []State{StateCompleted}}},
		{r.Poison, Filter{States: []State{StatePoison}}},
		{r.Parked, Filter{States: []State{StateError}, ParkedOnly: true}},
	} {
		if err == nil && ends(part.keep) {
			part.filter.Queue, part.filter.OlderThan, part.filter.Limit = q.name, part.keep, sweepWindow
			err = q.sweep(ctx, part.filter, r.Archive, &done.Tasks)
		}
	}
	if err == nil && ends(r.Attempts) {
		err = q.cleanAttempts(ctx, r.Attempts, &done.Attempts)
	}
	return done, q.c.wrap("clean", q.name, uuid.Nil, err)
}

// remove ends what f selects, in transactions of at most cleanBatch tasks.
func (q *Queue) remove(ctx context.Context, f Filter, archive bool, done *int) error {
	c := q.c
	purge, _ := state.Find(state.Purge, state.Operator)
	rows, err := c.find(ctx, c.s.Statements.FindIDs, f, &purge)
	if err != nil {
		return err
	}
	for part := range slices.Chunk(rows, cleanBatch) {
		ids := make([]uuid.UUID, len(part))
		for i, r := range part {
			ids[i] = r.ID
		}
		var moved []dialect.Row
		err := c.writeTx(ctx, func(ctx context.Context, conn dialect.Conn, _ bool) (err error) {
			if archive {
				if err := c.archive(ctx, conn, ids); err != nil {
					return err
				}
			}
			moved, err = c.move(ctx, conn, purge, ids)
			return err
		})
		if err != nil {
			return err
		}
		*done += len(moved)
		if err := sleep(ctx, cleanPause); err != nil {
			return err
		}
	}
	return nil
}

func (c *Client) archive(ctx context.Context, conn dialect.Conn, ids []uuid.UUID) error {
	b, args := c.s.Statements.Archive, dialect.Args{"id": dialect.Col[uuid.UUID](ids)}
	if b.First != "" {
		_, err := c.s.QueryBatch(ctx, conn, b, args, len(ids))
		return err
	}
	_, err := c.s.ExecBatch(ctx, conn, b, args, len(ids))
	return err
}

func (q *Queue) cleanAttempts(ctx context.Context, age time.Duration, done *int) error {
	c := q.c
	for {
		var n int64
		err := c.write(ctx, func(ctx context.Context, conn dialect.Conn, _ bool) (err error) {
			n, err = c.s.Exec(ctx, conn, c.s.Statements.ExpireAttempts, dialect.Args{"queue": q.name, "age": age.Microseconds(), "limit": cleanBatch})
			return err
		})
		*done += int(n)
		if err != nil || n < cleanBatch {
			return err
		}
		if err := sleep(ctx, cleanPause); err != nil {
			return err
		}
	}
}

// Archived lists tasks of the archive, as List lists those of the queues. OlderThan counts from when they came into their state.
func (c *Client) Archived(ctx context.Context, f Filter) ([]Task, error) {
	if f.Limit == 0 {
		f.Limit = defaultPage
	}
	rows, err := c.find(ctx, c.s.Statements.ListArchive, f, nil)
	if err != nil {
		return nil, c.wrap("archived", f.Queue, uuid.Nil, err)
	}
	ts := make([]Task, len(rows))
	for i, r := range rows {
		ts[i] = taskOf(r)
	}
	return ts, nil
}

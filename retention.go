package dbq

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// Retention says for how long what has ended is kept. Zero is for ever.
type Retention struct {
	Completed time.Duration // tasks that are COMPLETED
	Poison    time.Duration // tasks that are POISON
	Parked    time.Duration // tasks that are in ERROR and that nobody retries
	Attempts  time.Duration // the history of attempts
	// Archive moves tasks into the archive, a table of its own, instead of removing them. Nothing removes them from there.
	Archive bool
}

func (r Retention) check() error {
	for _, d := range []time.Duration{r.Completed, r.Poison, r.Parked, r.Attempts} {
		if d < 0 || d > MaxDelay {
			return fmt.Errorf("%w: keeping for %v, it must be 0 (for ever) to %v", ErrOption, d, MaxDelay)
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
	// cleanSkew is how far the clock that dated a task's id may be ahead of the database's.
	cleanSkew = time.Hour
)

// Clean removes what has been there for longer than r says, in short transactions of at most 500 tasks. It goes by the primary key,
// and only over tasks as old as r says, so its cost does not depend on what is newer. An error, or ctx's end, may come after
// some were removed: Cleaned says how many. Several may clean at once.
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
		if err == nil && part.keep > 0 {
			part.filter.Queue, part.filter.OlderThan, part.filter.Limit = q.name, part.keep, cleanBatch
			err = q.cleanTasks(ctx, part.filter, r.Archive, &done.Tasks)
		}
	}
	if err == nil && r.Attempts > 0 {
		err = q.cleanAttempts(ctx, r.Attempts, &done.Attempts)
	}
	return done, q.c.wrap("clean", q.name, uuid.Nil, err)
}

func (q *Queue) cleanTasks(ctx context.Context, f Filter, archive bool, done *int) error {
	c := q.c
	now, err := c.Now(ctx)
	if err != nil {
		return err
	}
	f.Before = firstID(now.Add(cleanSkew - f.OlderThan))
	purge, _ := state.Find(state.Purge, state.Operator)
	for {
		rows, err := c.find(ctx, c.s.Statements.FindIDs, f, &purge)
		if err != nil || len(rows) == 0 {
			return err
		}
		ids := make([]uuid.UUID, len(rows))
		for i, r := range rows {
			ids[i] = r.ID
		}
		f.After = ids[len(ids)-1]
		var moved []dialect.Row
		err = c.writeTx(ctx, func(ctx context.Context, conn dialect.Conn, _ bool) (err error) {
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

// firstID is the lowest id of a time.
func firstID(t time.Time) uuid.UUID {
	var id uuid.UUID
	binary.BigEndian.PutUint64(id[:], uint64(max(0, t.UnixMilli()))<<16)
	return id
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

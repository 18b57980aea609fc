package dbq

import (
	"context"
	"log/slog"
	"math"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/core"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/dbq-go/dbq/internal/store"
	"github.com/google/uuid"
)

// internals gives package access, and through it the packages above, access to parts of a client, a queue, a task and
// an outcome that programs do not need. Package access describes its methods.
type internals struct{}

func init() { core.Root = internals{} }

func (internals) Core(c *Client) *core.Core { return &c.core }

func (internals) Task(r dialect.Row) Task { return taskOf(r) }

func (internals) Attempt(r sqlrun.AttemptRow) Attempt { return attemptOf(r) }

func (internals) NewRow(ctx context.Context, q *Queue, t NewTask) (row store.InsertRow, err error) {
	_, rows, err := q.newRows(ctx, []NewTask{t})
	if err != nil {
		return row, err
	}
	return rows[0], nil
}

func (internals) WithClock(now func() time.Time) Option {
	return func(c *config) error {
		c.clock = now
		return nil
	}
}

func (internals) ForTest(session func(*sqlrun.Session), logger *slog.Logger) Option {
	return func(c *config) error {
		c.session = session
		if !c.given["WithLogger"] {
			c.logger = logger
		}
		return nil
	}
}

func (internals) Bounded(o Outcome) Outcome { return o.bounded() }

func (internals) Delay(o Outcome) (in time.Duration, at time.Time) {
	if o.end == retryAt {
		return 0, o.at()
	}
	return o.in(), at
}

func (internals) Check(t NewTask) error {
	_, err := t.check(math.MaxInt)
	return err
}

func (internals) ForWorker(q *Queue, id string) *Queue {
	return &Queue{c: q.c, name: q.name, worker: id}
}

func (internals) ForRemote(q *Queue, id string, exhausted func([]Task)) *Queue {
	return &Queue{c: q.c, name: q.name, worker: id, remote: true, exhausted: exhausted}
}

func (internals) Checkout(ctx context.Context, q *Queue, n int, lease time.Duration) (
	tasks, exhausted []Task, more bool, err error) {
	return q.checkout(ctx, n, lease)
}

func (internals) Settlement(l Lease, o Outcome, again, unrecorded, attemptsLeft bool, cause error) Settlement {
	return Settlement{l, o, again, unrecorded, attemptsLeft, cause}
}

func (internals) MarkStarted(ctx context.Context, q *Queue, ls []Lease) (marked, lost []Lease, err error) {
	marked, lost, err = q.onLeases(ls, func(keys []store.LeaseKey) ([]bool, error) {
		return q.c.store.MarkStarted(ctx, keys)
	})
	return marked, lost, q.c.wrap("start", q.name, uuid.Nil, err)
}

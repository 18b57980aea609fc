package admin

import (
	"context"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/bounds"
)

const (
	defaultCount = 10_000
	maxCount     = 1_000_000
)

// QueueStats counts the tasks of one queue.
type QueueStats struct {
	Queue string `json:"queue"`
	// Count has every state; a state without tasks is 0. POISON is without cancelled tasks.
	Count map[dbq.State]int64 `json:"count"`
	// AtLeast lists the states that may have more tasks than Count. Where CREATED is one of them, more tasks may be due
	// than Due; where ERROR is one, more may be parked than Parked; where POISON is one, more may be cancelled than
	// Cancelled. It is empty with CountAll.
	AtLeast []dbq.State `json:"at_least,omitempty" nullable:"false"`
	// Due counts the tasks that are due and wait for a worker, and Parked those in ERROR that wait for an operator.
	Due    int64 `json:"due"`
	Parked int64 `json:"parked"`
	// Cancelled counts the cancelled tasks, which are in POISON and not in its Count.
	Cancelled int64 `json:"cancelled"`
	// OldestDue is how long the oldest due task has been due: the queue's lag. It is exact.
	OldestDue time.Duration `json:"-"`
}

// StatsOption changes how Stats counts.
type StatsOption func(*int) error

// CountUpTo counts at most n tasks of each queue and state: 1 to a million. The default is 10,000.
func CountUpTo(n int) StatsOption {
	return func(limit *int) error {
		*limit = n
		return bounds.Count(n, maxCount)
	}
}

// CountAll counts every task. It reads the whole table, which takes seconds for ten million tasks.
func CountAll() StatsOption {
	return func(limit *int) error { *limit = 0; return nil }
}

// Stats counts the tasks of each queue by state, and returns the queues by name. By default it counts up to 10,000
// tasks of each queue and state, so its cost does not grow with the table; QueueStats.AtLeast lists the states that
// may have more. It counts up to 10,000 queues.
//
// On PostgreSQL, SQLite and Oracle, no index has the COMPLETED tasks, and on Oracle no index has the tasks in POISON
// and the parked ones. Stats counts these tasks among the newest 10,000 tasks of all queues. It omits a queue that
// has only such tasks if none of them is among the newest.
func (a *Admin) Stats(ctx context.Context, opts ...StatsOption) ([]QueueStats, error) {
	return a.stats(ctx, "", opts)
}

// StatsOf is Stats for one queue. All numbers are 0 if it has no tasks. With CountAll it reads the whole table, too.
func (a *Admin) StatsOf(ctx context.Context, queue string, opts ...StatsOption) (QueueStats, error) {
	if err := bounds.QueueName(queue); err != nil {
		return QueueStats{}, a.wrap("stats", queue, err)
	}
	out, err := a.stats(ctx, queue, opts)
	if err != nil {
		return QueueStats{}, err
	}
	return out[0], nil
}

// stats counts the tasks of one queue, or of all if queue is empty.
func (a *Admin) stats(ctx context.Context, queue string, opts []StatsOption) (out []QueueStats, err error) {
	limit := defaultCount
	for _, opt := range opts {
		if err := opt(&limit); err != nil {
			return nil, a.wrap("stats", queue, err)
		}
	}
	counted, err := a.store.Stats(ctx, queue, limit)
	for _, q := range counted {
		out = append(out, QueueStats(q))
	}
	return out, a.wrap("stats", queue, err)
}

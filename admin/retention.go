package admin

import (
	"context"
	"math"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/bounds"
	"github.com/dbq-go/dbq/internal/control"
	"github.com/dbq-go/dbq/internal/store"
)

// Cleaned counts the removals of Clean.
type Cleaned struct {
	Tasks    int // removed, or moved into the archive
	Attempts int // removed from the history
}

// Clean removes or archives a queue's tasks and attempts whose retention r has passed, in short transactions of at
// most 500 tasks. Workers, and servers of the HTTP API, clean automatically once a minute; Clean is for queues without
// them, and for a different retention.
//
// It finds tasks by their ids, which are ordered by time. The client remembers its position, and the next call
// continues there. Clean misses a task that has not ended when it is visited. The next round over all old tasks,
// which starts after a quarter of the retention, finds it. A task from a producer whose clock is ahead is found once
// its id is old enough.
//
// The history keeps the last attempts of removed tasks, unless r also removes attempts of that age, or the queue's
// settings exclude them. Tasks in the archive keep their last attempt.
//
// If Clean cannot finish, it returns an error, such as ctx's. Cleaned counts the removals so far, and the next call
// continues there. Several calls can run at once.
func (a *Admin) Clean(ctx context.Context, queue string, r dbq.Retention, opts ...Option) (Cleaned, error) {
	var done store.Cleaned
	err := bounds.QueueName(queue)
	if err == nil {
		err = store.Retention(r).Check()
	}
	var set control.Settings
	if err == nil {
		set, err = a.core.Control.Settings(ctx, queue)
	}
	if err == nil {
		ctx, _, err = a.audited(ctx, opts, store.Audit{Action: "clean queue", Queue: queue})
	}
	if err == nil {
		done, err = a.store.Clean(ctx, queue, store.Retention(r), store.History(set.History))
	}
	return Cleaned(done), a.wrap("clean", queue, err)
}

// Kept counts the tasks and entries that dbq never removes by itself. A number is -1 if the client's database user may
// not read the table.
type Kept struct {
	Archived int64 // tasks in the archive
	Audit    int64 // entries of the audit
}

// CountKept counts up to 10,000 tasks and entries, or up to the limit of an option.
func (a *Admin) CountKept(ctx context.Context, opts ...StatsOption) (Kept, error) {
	limit := defaultCount
	for _, opt := range opts {
		if err := opt(&limit); err != nil {
			return Kept{}, a.wrap("count kept", "", err)
		}
	}
	if limit == 0 {
		limit = math.MaxInt32
	}
	archived, audit, err := a.store.CountKept(ctx, limit)
	return Kept{archived, audit}, a.wrap("count kept", "", err)
}

package console

import (
	"context"
	"time"

	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/store"
	"github.com/dbq-go/dbq/schedule"
)

// The overview counts tasks of each state up to countAll in all queues, which it divides by the number of queues, but
// at most countTo and at least countLeast of each queue.
const (
	countAll   = 50_000
	countTo    = 10_000
	countLeast = 100
)

// A count is shown to all visitors for countEach for each statement that it took: that leaves a half of a statement a
// second for what is listed, for the plots and for the users who are signed in.
const countEach = 2 * time.Second

// A visitor waits for a count for at most countPatience, and then gets the last one. In a table of millions of tasks a
// count can take two seconds. countOld is when a page says how old it is.
const (
	countPatience = 100 * time.Millisecond
	countOld      = time.Minute
)

// counted are the tasks of each queue, and what happened in its last hour.
type counted struct {
	At    time.Time
	Stats []admin.QueueStats
	Hours map[string]hour
}

// keepCounted returns how long a count is shown.
func keepCounted(c counted) time.Duration {
	return time.Duration(store.StatsStatements(len(c.Stats))) * countEach
}

// count reads the tasks of each queue, and what happened in its last hour.
func (d *database) count(ctx context.Context) (c counted, err error) {
	if c.Stats, err = d.stats(ctx); err != nil {
		return c, err
	}
	c.Hours, err = d.hours.get(ctx, d.readHours)
	c.At = time.Now().UTC()
	return c, err
}

// listed is what operators have set, the workers and the schedules.
type listed struct {
	Queues    []admin.QueueInfo
	Workers   []admin.WorkerInfo
	Schedules []schedule.Info
}

// list reads the settings, limits and pauses of queues, the workers and the schedules by one statement.
func (d *database) list(ctx context.Context) (l listed, err error) {
	ctx = access.Of(d.client).Store.ListAtOnce(ctx, store.NamespaceSettings, dialect.LimitNamespace,
		dialect.PauseNamespace, store.NamespaceWorkers, store.NamespaceSchedules)
	if l.Queues, err = d.admin.Queues(ctx); err != nil {
		return l, err
	}
	if l.Workers, err = d.admin.Workers(ctx); err != nil {
		return l, err
	}
	l.Schedules, err = d.schedules.List(ctx)
	return l, err
}

// stats counts the tasks of each queue. Its cost does not grow with the number of queues as long as countLeast allows.
func (d *database) stats(ctx context.Context) ([]admin.QueueStats, error) {
	queues := len(d.counted.last().Stats)
	if queues == 0 { // it is the first reading
		var err error
		if queues, err = access.Of(d.client).Store.CountQueues(ctx); err != nil {
			return nil, err
		}
	}
	return d.admin.Stats(ctx, admin.CountUpTo(max(min(countAll/max(queues, 1), countTo), countLeast)))
}

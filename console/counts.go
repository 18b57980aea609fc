package console

import (
	"context"
	"time"

	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/store"
)

// The overview counts tasks of each state up to countAll in all queues, which it divides by the number of queues, but
// at most countTo and at least countLeast of each queue.
const (
	countAll   = 50_000
	countLeast = 100
)

// A reading of the overview is shown to all visitors for overviewEach for each statement that it took: that leaves a
// part of a statement a second for the plots and for the users who are signed in.
const overviewEach = 1500 * time.Millisecond

// staleOverview is for how long after that visitors get a reading at once, while the next one is under way: it can take
// some hundred milliseconds.
const staleOverview = time.Minute

// statements is about how many statements a reading takes: two, and those that count the tasks.
func (o overview) statements() int { return 2 + store.StatsStatements(len(o.Queues)) }

// keepOverview returns how long a reading is shown.
func keepOverview(o overview) time.Duration { return time.Duration(o.statements()) * overviewEach }

// listAtOnce returns a context in which the settings, limits and pauses of queues, the workers and the schedules are
// read by one statement.
func (d *database) listAtOnce(ctx context.Context) context.Context {
	return access.Of(d.client).Store.ListAtOnce(ctx, store.NamespaceSettings, dialect.LimitNamespace,
		dialect.PauseNamespace, store.NamespaceWorkers, store.NamespaceSchedules)
}

// stats counts the tasks of each queue. Its cost does not grow with the number of queues as long as countLeast allows.
func (d *database) stats(ctx context.Context) ([]admin.QueueStats, error) {
	queues := len(d.overview.last().Queues)
	if queues == 0 { // it is the first reading
		var err error
		if queues, err = access.Of(d.client).Store.CountQueues(ctx); err != nil {
			return nil, err
		}
	}
	return d.admin.Stats(ctx, admin.CountUpTo(max(min(countAll/max(queues, 1), countTo), countLeast)))
}

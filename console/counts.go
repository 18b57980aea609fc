package console

import (
	"context"
	"time"

	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/store"
)

// The overview counts tasks of each state up to countAll in all queues, which it divides by the number of queues, but
// at most countTo and at least countLeast of each queue.
const (
	countAll   = 50_000
	countTo    = 10_000
	countLeast = 100
)

// A count is shown to all visitors for countEach for each statement that it took: that leaves half a statement a second
// for the lists, for the plots and for the users who are signed in.
const countEach = 2 * time.Second

// A visitor waits for a count for at most countPatience, and then gets the last one. In a table of millions of tasks a
// count can take two seconds. countOld is the age from which a page shows its age.
const (
	countPatience = 100 * time.Millisecond
	countOld      = time.Minute
)

// counted has the numbers of tasks of each queue, and its statistics of the last hour.
type counted struct {
	At    time.Time
	Stats []admin.QueueStats
	Hours map[string]hour
	Kept  admin.Kept

	Failing map[string]admin.Failing // those that fail more often than usual
}

// keepCounted returns how long a count is shown.
func keepCounted(c counted) time.Duration {
	return time.Duration(store.StatsStatements(len(c.Stats))) * countEach
}

// count reads the numbers of tasks of each queue, and its statistics of the last hour.
func (d *database) count(ctx context.Context) (c counted, err error) {
	if c.Stats, err = d.stats(ctx); err != nil {
		return c, err
	}
	sizes := func(ctx context.Context) (admin.Kept, error) { return d.admin.CountKept(ctx) }
	if c.Kept, err = d.kept.get(ctx, sizes); err != nil {
		return c, err
	}
	if c.Failing, err = d.failing.get(ctx, d.readFailing); err != nil {
		return c, err
	}
	c.Hours, err = d.hours.get(ctx, d.readHours)
	c.At = time.Now().UTC()
	return c, err
}

// seenBy returns the part of a count that a user may see.
func (c counted) seenBy(v *visit) counted {
	if !v.may(auth.Read, "") { // of all queues
		c.Kept = admin.Kept{}
	}
	c.Stats = keep(c.Stats, func(s admin.QueueStats) bool { return v.may(auth.Read, s.Queue) })
	return c
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

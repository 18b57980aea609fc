package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/dbq-go/dbq/internal/store"
)

// Known reports whether the database has anything of a queue: a task in any state, a worker, a schedule, a setting, a
// limit, a pause, or statistics of the last two years. The name of an unknown queue is probably misspelled.
//
// On PostgreSQL, SQLite and Oracle, no index has the COMPLETED tasks: it looks for them among the oldest 10,000 tasks
// and the newest.
func (a *Admin) Known(ctx context.Context, queue string) (bool, error) {
	stats, err := a.StatsOf(ctx, queue, CountUpTo(1))
	if err != nil {
		return false, err
	}
	for _, n := range stats.Count {
		if n > 0 {
			return true, nil
		}
	}
	queues, err := a.Queues(ctx)
	workers, workersErr := a.Workers(ctx)
	schedules, schedulesErr := a.store.ListKV(ctx, store.NamespaceSchedules)
	now, nowErr := a.client.Now(ctx)
	if err := cmp.Or(err, workersErr, a.wrap("known", queue, schedulesErr), nowErr); err != nil {
		return false, err
	}
	if slices.ContainsFunc(queues, func(q QueueInfo) bool { return q.Queue == queue }) ||
		slices.ContainsFunc(workers, func(w WorkerInfo) bool { return w.Queue == queue }) ||
		slices.ContainsFunc(schedules, func(r store.Record) bool {
			var s struct{ Queue string }
			return json.Unmarshal([]byte(r.Value), &s) == nil && s.Queue == queue
		}) {
		return true, nil
	}
	const day = 24 * time.Hour
	counted, err := a.SeriesOf(ctx, []string{queue}, now.Add(-730*day), now, day)
	if err != nil || len(counted) > 0 {
		return err == nil, err
	}
	page, err := a.List(ctx, Filter{Queue: queue, Limit: 1}) // the oldest: Stats looks at the newest
	return len(page.Tasks) > 0, err
}

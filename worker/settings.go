package worker

import (
	"cmp"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/control"
	"github.com/dbq-go/dbq/internal/store"
)

// settings are the values that operators can change while a worker runs.
type settings struct {
	concurrency, batch, maxAttempts int
	lease, pollMax                  time.Duration
	history                         dbq.History
	retention                       dbq.Retention
	noStatistics                    bool
}

// resolve returns the settings of a worker: the operators' settings of its queue, and otherwise its own fields.
func resolve(w *Worker, s control.Settings) *settings {
	return &settings{
		concurrency:  cmp.Or(s.Concurrency, w.Concurrency),
		batch:        max(cmp.Or(s.Batch, w.Batch), w.BatchSize),
		maxAttempts:  cmp.Or(s.MaxAttempts, w.MaxAttempts),
		lease:        max(cmp.Or(time.Duration(s.Lease), w.Lease), minLease),
		pollMax:      max(cmp.Or(time.Duration(s.Poll), w.PollMax), w.PollMin),
		history:      cmp.Or(dbq.History(s.History), w.History),
		retention:    dbq.Retention(s.Retention().Or(store.Retention(w.Retention))),
		noStatistics: s.NoStatistics || w.NoStatistics,
	}
}

// attrs returns the settings as attributes of a log line.
func (s *settings) attrs() []any {
	return []any{"concurrency", s.concurrency, "batch", s.batch, "lease", s.lease.String(), "poll", s.pollMax.String(),
		"max_attempts", s.maxAttempts, "history", string(s.history)}
}

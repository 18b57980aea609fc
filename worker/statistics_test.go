package worker

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	_ "github.com/dbq-go/dbq/dialect/sqlite"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/internal/control"
	"github.com/dbq-go/dbq/internal/series"
)

// statisticsOf returns the statistics of a run that has not begun.
func statisticsOf(t *testing.T, file string) *statistics { return newRunAt(t, file).stats }

func newRunAt(t *testing.T, file string) *run {
	t.Helper()
	c, err := dbq.Open(t.Context(), "sqlite:"+file, dbq.WithMigrate())
	check.OK(t, err)
	t.Cleanup(func() { c.Close() })
	w := &Worker{Queue: c.Queue("q"), Handler: Func(func(context.Context, dbq.Task) error { return nil })}
	r, err := w.newRun(t.Context(), nil)
	check.OK(t, err)
	return r
}

// A run that ends gives up what it leads, so its successor need not wait for the end of its term.
func TestRunThatEndsResigns(t *testing.T) {
	t.Parallel()
	r := newRunAt(t, filepath.Join(t.TempDir(), "q.db"))
	for _, member := range []string{r.cleaner.member.Name, "successor"} {
		if leads, err := r.control.shared.TryLead(t.Context(), "clean q", member, time.Hour); err != nil || !leads {
			t.Errorf("%s leads: %v, %v", member, leads, err)
		}
		r.control.leave()
	}
}

// sum adds up the statistics of the last half hour and the next.
func (s *statistics) sum(t *testing.T) (p series.Period) {
	t.Helper()
	now := time.Now()
	all, err := access.Of(s.db.Client()).Store.Series(t.Context(), "q", now.Add(-30*time.Minute),
		now.Add(30*time.Minute), time.Minute)
	check.OK(t, err)
	for i := range all.Periods {
		p.Add(&all.Periods[i])
	}
	return p
}

// A run that ends before it has read the settings of its queue reads them before it reports.
func TestShortRunObeysTheQueuesSettings(t *testing.T) {
	t.Parallel()
	s := statisticsOf(t, filepath.Join(t.TempDir(), "q.db"))
	for _, off := range []bool{true, false} {
		err := s.shared.Configure(t.Context(), "q", func(set *control.Settings) { set.NoStatistics = off })
		check.OK(t, err)
		s.tally.Started.Add(1)
		s.leave()
		if got := s.sum(t).Started; (got == 0) != off {
			t.Errorf("with NoStatistics %v, %d attempts are reported", off, got)
		}
	}
}

// The statistics of a queue add up to what its workers did: attempts that began, failed and were released, and tasks
// that were completed and poisoned. A worker with NoStatistics, or an idle one, reports nothing.
func TestStatisticsAddUpToWhatHappened(t *testing.T) {
	t.Parallel()
	r := newRunAt(t, filepath.Join(t.TempDir(), "q.db"))
	q := r.stats.db.Client().Queue("q")
	handler := HandlerFunc(func(_ context.Context, task dbq.Task) dbq.Outcome {
		switch {
		case task.Kind == "poison":
			return dbq.Poisoned(nil)
		case task.Kind == "fail":
			return dbq.RetryIn(0, nil) // twice
		case task.Kind == "release" && task.Fence == 1:
			return dbq.Released(0)
		}
		return dbq.Completed(nil)
	})
	for _, n := range []int{1, 50, 0} { // without statistics, with them, and idle
		ts := make([]dbq.NewTask, n)
		for i := range ts {
			ts[i].Kind, ts[i].MaxAttempts = map[int]string{0: "poison", 1: "fail", 2: "release"}[i%5], 2
		}
		_, err := q.EnqueueMany(t.Context(), ts)
		if err == nil {
			err = (&Worker{Queue: q, Handler: handler, UntilEmpty: true, Tuning: Tuning{NoStatistics: n == 1}}).Run(t.Context())
		}
		check.OK(t, err)
	}
	got := r.stats.sum(t)
	if got.Started != 70 || got.Completed != 30 || got.Failed != 30 || got.Poisoned != 20 || got.Released != 10 {
		t.Errorf("got %+v", got)
	}
}

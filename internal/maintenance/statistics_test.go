package maintenance

import (
	"context"
	"encoding/binary"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	_ "github.com/dbq-go/dbq/dialect/sqlite"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/internal/series"
)

// newStatistics returns the statistics of a member, with a client of its own.
func newStatistics(t *testing.T, file string) (*Statistics, *dbq.Queue) {
	t.Helper()
	c, err := dbq.Open(t.Context(), "sqlite:"+file, dbq.WithMigrate())
	check.OK(t, err)
	t.Cleanup(func() { c.Close() })
	return &Statistics{Member: Member{Core: access.Of(c), Name: c.Info().ID}}, c.Queue("q")
}

// started returns counts of the queue.
func started(n int64) []series.Period {
	return []series.Period{{Queue: "q", Counts: series.Counts{Started: n}}}
}

// sum adds up the statistics of the last half hour and the next.
func (s *Statistics) sum(t *testing.T) (p series.Period) {
	t.Helper()
	now := time.Now()
	all, err := s.Core.Store.Series(t.Context(), "q", now.Add(-30*time.Minute), now.Add(30*time.Minute), time.Minute)
	check.OK(t, err)
	for i := range all.Periods {
		p.Add(&all.Periods[i])
	}
	return p
}

// A report that fails is written by the next flush, once, and reports that nothing would add up are dropped.
func TestReportsAreRepeated(t *testing.T) {
	t.Parallel()
	s, _ := newStatistics(t, filepath.Join(t.TempDir(), "q.db"))
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	s.put(t.Context(), nil, 0) // nothing to report
	s.put(t.Context(), started(3), time.Minute/2)
	s.put(t.Context(), started(4), time.Minute/2) // of the same minute
	if err := s.flush(canceled); err == nil || len(s.pending) != 2 {
		t.Fatalf("%d reports are pending after %v, want 2", len(s.pending), err)
	}
	if a, b := s.pending[0].counts[0].Since, s.pending[1].counts[0].Since; b != a+time.Minute.Microseconds() {
		t.Errorf("a minute has two reports: %d and %d", a, b)
	}
	again := s.pending[0]
	if err := s.flush(t.Context()); err != nil || len(s.pending) != 0 {
		t.Fatalf("%d reports are pending: %v", len(s.pending), err)
	}
	s.pending = append(s.pending, again) // the answer was lost
	old := report{again.source, started(1)}
	old.counts[0].Since = again.counts[0].Since - 20*time.Minute.Microseconds()
	s.pending = append(s.pending, old)
	if err := s.flush(t.Context()); err != nil || len(s.pending) != 0 {
		t.Fatalf("%d reports are pending: %v", len(s.pending), err)
	}
	if got := s.sum(t); got.Started != 7 {
		t.Errorf("%d attempts are reported, want 7", got.Started)
	}
}

// After the database's clock was set back, reports are of its time again, even of minutes that had a report.
func TestReportsFollowAClockThatWasSetBack(t *testing.T) {
	t.Parallel()
	s, _ := newStatistics(t, filepath.Join(t.TempDir(), "q.db"))
	for _, n := range []int64{3, 4} {
		s.put(t.Context(), started(n), time.Minute/2)
		s.last += time.Hour.Microseconds() // as if the clock had been ahead
	}
	s.put(t.Context(), started(5), time.Minute/2)
	check.OK(t, s.flush(t.Context()))
	if got := s.sum(t); got.Started != 12 {
		t.Errorf("%d attempts are reported, want 12", got.Started)
	}
}

// What is reported after the database's clock was ahead counts in periods of every length.
func TestAClockThatWasAheadHidesNothing(t *testing.T) {
	t.Parallel()
	s, _ := newStatistics(t, filepath.Join(t.TempDir(), "q.db"))
	st := s.Core.Store
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	report := func(after time.Duration, n int64) {
		t.Helper()
		p := series.Period{Queue: "q", Since: start.Add(after).UnixMicro(), Counts: series.Counts{Started: n}}
		check.OK(t, st.AddReport(t.Context(), "w", p))
	}
	rollUp := func(after time.Duration, want int64) {
		t.Helper()
		check.OK(t, st.RollUp(t.Context(), start.Add(after).UnixMicro()))
		for _, period := range []time.Duration{time.Minute, time.Hour, 24 * time.Hour} {
			all, err := st.Series(t.Context(), "q", start, start.AddDate(0, 0, 3), period)
			check.OK(t, err)
			var got int64
			for _, p := range all.Periods {
				got += p.Started
			}
			if got != want {
				t.Errorf("after %v, periods of %v have %d attempts, want %d", after, period, got, want)
			}
		}
	}
	report(0, 5)
	report(2*time.Hour+30*time.Minute, 7) // by the wrong clock
	rollUp(3*time.Hour, 12)
	rollUp(15*time.Minute, 12) // the clock is right again
	report(10*time.Minute, 11)
	rollUp(20*time.Minute, 23)
	rollUp(30*time.Minute, 23)
	report(time.Hour, 13)
	rollUp(5*time.Hour, 36)
	rollUp(26*time.Hour, 36)
}

// Of several members one samples, and a queue's tasks count once.
func TestOneMemberSamples(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "q.db")
	var members []*Statistics
	var q *dbq.Queue
	for range 3 {
		var s *Statistics
		s, q = newStatistics(t, file)
		members = append(members, s)
	}
	if _, err := q.EnqueueMany(t.Context(), make([]dbq.NewTask, 5)); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for _, s := range members {
		all.Go(func() {
			for range 3 {
				if err := s.Sample(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if got := members[1].sum(t); got.Created != 5 || got.Due != 5 {
		t.Errorf("%d tasks were sampled, %d of them due, want 5", got.Created, got.Due)
	}
	leaders := 0
	for _, s := range members {
		leads, err := s.Core.Control.TryLead(t.Context(), "statistics", s.Name, sampleLease)
		check.OK(t, err)
		if leads {
			leaders++
		}
	}
	if leaders != 1 {
		t.Errorf("%d members sample, want 1", leaders)
	}
}

// TestBurstsAreEstimated samples a minute of which three seconds have more tasks than a sample counts.
func TestBurstsAreEstimated(t *testing.T) {
	t.Parallel()
	const tasks, most = 60_000, 1000
	s, q := newStatistics(t, filepath.Join(t.TempDir(), "q.db"))
	minute := time.Now().Truncate(time.Minute).Add(-5 * time.Minute)
	for begin := 0; begin < tasks; begin += most {
		ts := make([]dbq.NewTask, most)
		for i := range ts {
			at := minute.Add(10*time.Second + time.Duration(begin+i)*3*time.Second/tasks)
			ts[i].ID = dbq.NewID()
			binary.BigEndian.PutUint64(ts[i].ID[:], uint64(at.UnixMilli())<<16|0x7000)
		}
		if _, err := q.EnqueueMany(t.Context(), ts); err != nil {
			t.Fatal(err)
		}
	}
	err := s.Core.Store.Sample(t.Context(), minute.UnixMicro(), func(string) bool { return false })
	check.OK(t, err)
	if n := s.sum(t).Enqueued; n < tasks*9/10 || n > tasks*11/10 {
		t.Errorf("%d tasks are estimated, want about %d", n, tasks)
	}
}

package maintenance

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/dbq-go/dbq/internal/series"
	"github.com/dbq-go/dbq/internal/store"
	"github.com/google/uuid"
)

const (
	// sampleAfter is how long after the end of a minute its reports are written and its tasks counted: transactions
	// that enqueue have mostly ended. The reports of many members are spread over sampleSpread after that.
	sampleAfter, sampleSpread = 3 * time.Second, 5 * time.Second
	// reportTimeout limits the calls of one report.
	reportTimeout = 10 * time.Second
)

// Statistics writes the counts of a process once a minute, and in one of all members samples the queues and adds the
// statistics up.
type Statistics struct {
	Member
	// Take returns the counts since the last call, of each queue with any.
	Take func() []series.Period
	// Off reports that nothing must be written now.
	Off func() bool
	// Without returns queues whose counts are not written. It is called before something is written, and may be nil.
	Without func(ctx context.Context) (map[string]bool, error)
	// Report gets the result of each minute.
	Report func(error)

	source  string        // of its reports: the member, or another id after the database's clock was set back
	ahead   time.Duration // of the database's clock before this process's
	last    int64         // when the last minute began of which there is a report
	pending []report      // that are not written yet
}

// report has the counts of a source in a minute.
type report struct {
	source string
	counts []series.Period // of queues, all since the same time
}

func (r *report) since() time.Time { return time.UnixMicro(r.counts[0].Since) }

// Run reports at the end of each minute until ctx ends.
func (s *Statistics) Run(ctx context.Context) {
	for {
		now := time.Now().Add(s.ahead)
		if !sleep(ctx, time.Minute-now.Sub(now.Truncate(time.Minute))) {
			return
		}
		counts := s.Take()
		if !sleep(ctx, sampleAfter+rand.N(sampleSpread)) {
			s.put(ctx, counts, time.Minute/2)
			return
		}
		if s.Off() {
			s.pending = nil
			continue
		}
		// The minute that has ended is the one before half a minute ago.
		s.put(ctx, counts, time.Minute/2)
		err := s.flush(ctx)
		if err == nil {
			err = s.Sample(ctx)
		}
		if ctx.Err() == nil {
			s.Report(err)
		}
	}
}

// Leave writes the counts since the last report, unless Off. Call it after Run has returned. off may be nil. It is
// called if there is something to report, and may find that it is not to be written.
func (s *Statistics) Leave(ctx context.Context, off func() bool) error {
	counts := s.Take()
	if s.Off() || len(counts) == 0 && len(s.pending) == 0 || off != nil && off() {
		return nil
	}
	s.put(ctx, counts, 0)
	return s.flush(ctx)
}

// put adds a report of the minute that includes the time ago, by the database's clock, unless there is nothing to
// report. A minute is never reported twice: later counts belong to the next one.
func (s *Statistics) put(ctx context.Context, counts []series.Period, ago time.Duration) {
	if len(counts) == 0 {
		return
	}
	if now, err := s.Core.Store.ReadNow(ctx); err == nil {
		s.ahead = time.Until(time.UnixMicro(now))
	}
	since := time.Now().Add(s.ahead - ago).Truncate(time.Minute).UnixMicro()
	switch {
	case s.source == "":
		s.source = s.Name
	case s.last-since > store.ReportsUntil.Microseconds(): // its minutes may come again, and count again
		s.last, s.source = 0, uuid.NewString()
	}
	s.last = max(since, s.last+time.Minute.Microseconds())
	for i := range counts {
		counts[i].Since = s.last
	}
	s.pending = append(s.pending, report{s.source, counts})
}

// flush writes the pending reports. It drops reports that are too old to be added up.
func (s *Statistics) flush(ctx context.Context) error {
	for len(s.pending) > 0 {
		if r := &s.pending[0]; time.Since(r.since().Add(-s.ahead)) < store.ReportsUntil {
			if err := s.write(ctx, r); err != nil {
				return s.Core.Wrap("report statistics", r.queue(), uuid.Nil, err)
			}
		}
		s.pending = s.pending[1:]
	}
	return nil
}

// queue returns the queue of a report of only one.
func (r *report) queue() string {
	if len(r.counts) != 1 {
		return ""
	}
	return r.counts[0].Queue
}

func (s *Statistics) write(ctx context.Context, r *report) error {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	counts := r.counts
	if s.Without != nil {
		without, err := s.Without(ctx)
		if err != nil {
			return err
		}
		counts = slices.DeleteFunc(slices.Clone(counts), func(p series.Period) bool { return without[p.Queue] })
	}
	if len(counts) == 0 {
		return nil
	}
	return s.Core.Store.AddReports(ctx, r.source, counts)
}

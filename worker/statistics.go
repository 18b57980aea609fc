package worker

import (
	"cmp"
	"context"
	"math/rand/v2"
	"time"

	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/control"
	"github.com/dbq-go/dbq/internal/series"
	"github.com/dbq-go/dbq/internal/store"
	"github.com/google/uuid"
)

const (
	// sampleAfter is how long after the end of a minute its reports are written and its tasks counted: transactions that
	// enqueue have mostly ended. The reports of many workers are spread over sampleSpread after that.
	sampleAfter, sampleSpread = 3 * time.Second, 5 * time.Second
	// sampleLease is how long a dead sampler keeps others from sampling.
	sampleLease = 150 * time.Second
	// sampleTimeout limits each of the sampler's steps, so that all of them end within the minute.
	sampleTimeout = 20 * time.Second
)

// statistics writes, once a minute, what the worker has done, and in one of all workers samples the queues and adds the
// statistics up. The other parts count in env.tally. It is not urgent, so it does not use the connections reserved for
// leases.
type statistics struct {
	*env
	shared *control.Control
	member string // in elections, unique for each run
	source string // of its reports: the member, or another id after the database's clock was set back

	ahead   time.Duration // of the database's clock before this process's
	last    int64         // when the last minute began of which there is a report
	pending []report      // that are not written yet
}

// report is what a source did in a minute.
type report struct {
	source string
	series.Period
}

// run reports at the end of each minute until ctx ends.
func (s *statistics) run(ctx context.Context) {
	for {
		now := time.Now().Add(s.ahead)
		if !sleep(ctx, time.Minute-now.Sub(now.Truncate(time.Minute))) {
			return
		}
		counts, some := s.tally.Since()
		if !sleep(ctx, sampleAfter+rand.N(sampleSpread)) {
			s.put(ctx, counts, some, time.Minute/2)
			return
		}
		if s.settings().noStatistics {
			s.pending = nil
			continue
		}
		// The minute that has ended is the one before half a minute ago.
		s.put(ctx, counts, some, time.Minute/2)
		err := s.flush(ctx)
		if err == nil {
			err = s.sample(ctx)
		}
		if ctx.Err() == nil {
			s.health.report(opStats, err)
		}
	}
}

// leave reports what the worker has done since the last report. It runs after run has returned.
func (s *statistics) leave() {
	ctx, cancel := context.WithTimeout(s.shutdown.final, registryTimeout)
	defer cancel()
	counts, some := s.tally.Since()
	if s.settings().noStatistics || !some && len(s.pending) == 0 {
		return
	}
	if !s.settingsRead.Load() { // the run was short
		if set, err := s.shared.Settings(ctx, s.cfg.Queue.Name()); err == nil && set.NoStatistics {
			return
		}
	}
	s.put(ctx, counts, some, 0)
	if err := s.flush(ctx); err != nil {
		s.log.write(lineNoReport, "error", errorText(err))
	}
}

// put adds a report of the minute that includes the time ago, by the database's clock, unless there is nothing to
// report. A minute is never reported twice: the next one has what came too late for it.
func (s *statistics) put(ctx context.Context, c series.Counts, some bool, ago time.Duration) {
	if !some {
		return
	}
	if now, err := access.Of(s.cfg.Queue.Client()).Store.ReadNow(ctx); err == nil {
		s.ahead = time.Until(time.UnixMicro(now))
	}
	since := time.Now().Add(s.ahead - ago).Truncate(time.Minute).UnixMicro()
	if s.last-since > store.ReportsUntil.Microseconds() { // its minutes may come again, and count again
		s.last, s.source = 0, uuid.NewString()
	}
	s.last = max(since, s.last+time.Minute.Microseconds())
	s.pending = append(s.pending, report{s.source, series.Period{Queue: s.cfg.Queue.Name(), Since: s.last, Counts: c}})
}

// flush writes the reports that are pending, but not those of so long ago that nothing would add them up any more.
func (s *statistics) flush(ctx context.Context) error {
	parts := access.Of(s.cfg.Queue.Client())
	for len(s.pending) > 0 {
		p := s.pending[0]
		if time.Since(time.UnixMicro(p.Since).Add(-s.ahead)) < store.ReportsUntil {
			call, cancel := context.WithTimeout(ctx, registryTimeout)
			err := parts.Store.AddReport(call, p.source, p.Period)
			cancel()
			if err != nil {
				return parts.Wrap("report statistics", s.cfg.Queue.Name(), uuid.Nil, err)
			}
		}
		s.pending = s.pending[1:]
	}
	return nil
}

// sample samples the queues and adds statistics up, if this worker is the one that does. A failed sample does not keep
// statistics from being added up.
func (s *statistics) sample(ctx context.Context) error {
	within := func(f func(ctx context.Context) error) error {
		ctx, cancel := context.WithTimeout(ctx, sampleTimeout)
		defer cancel()
		return f(ctx)
	}
	var now int64
	leads := false
	without := map[string]bool{}
	parts := access.Of(s.cfg.Queue.Client())
	err := within(func(ctx context.Context) (err error) {
		if leads, err = s.shared.TryLead(ctx, "statistics", s.member, sampleLease); leads && err == nil {
			now, err = parts.Store.ReadNow(ctx)
		}
		return err
	})
	if err != nil || !leads {
		return err
	}
	sampled := within(func(ctx context.Context) (err error) {
		if without, err = s.shared.WithoutStatistics(ctx); err != nil {
			return err
		}
		ended := time.UnixMicro(now).Add(-time.Minute / 2).Truncate(time.Minute)
		return parts.Store.Sample(ctx, ended.UnixMicro(), func(queue string) bool { return without[queue] })
	})
	added := within(func(ctx context.Context) error { return parts.Store.RollUp(ctx, now) })
	return parts.Wrap("sample statistics", "", uuid.Nil, cmp.Or(sampled, added))
}

// sleep waits, and returns false if ctx has ended.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

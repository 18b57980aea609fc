package worker

import (
	"context"

	"github.com/dbq-go/dbq/internal/control"
	"github.com/dbq-go/dbq/internal/maintenance"
	"github.com/dbq-go/dbq/internal/series"
)

// statistics writes the counts of the worker once a minute, and in one of all workers and servers samples the queues
// and adds the statistics up. The other parts count in env.tally. It is not urgent, so it does not use the connections
// reserved for leases.
type statistics struct {
	*env
	*maintenance.Statistics
	shared *control.Control
}

func newStatistics(e *env, m maintenance.Member, shared *control.Control) *statistics {
	s := &statistics{env: e, shared: shared}
	s.Statistics = &maintenance.Statistics{Member: m, Take: s.take,
		Off:    func() bool { return e.settings().noStatistics },
		Report: func(err error) { e.health.report(opStats, err) }}
	return s
}

// take returns the counts since the last call.
func (s *statistics) take() []series.Period {
	counts, some := s.tally.Since()
	if !some {
		return nil
	}
	return []series.Period{{Queue: s.cfg.Queue.Name(), Counts: counts}}
}

// leave writes the worker's counts since the last report. It runs after Run has returned.
func (s *statistics) leave() {
	ctx, cancel := context.WithTimeout(s.shutdown.final, registryTimeout)
	defer cancel()
	err := s.Leave(ctx, func() bool {
		if s.settingsRead.Load() {
			return false
		}
		set, err := s.shared.Settings(ctx, s.cfg.Queue.Name()) // the run was short
		return err == nil && set.NoStatistics
	})
	if err != nil {
		s.log.write(lineNoReport, "error", errorText(err))
	}
}

package maintenance

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/dbq-go/dbq/internal/control"
	"github.com/dbq-go/dbq/internal/errs"
	"github.com/dbq-go/dbq/internal/series"
	"github.com/dbq-go/dbq/internal/store"
	"github.com/google/uuid"
)

// maxWorked is how many queues a server remembers as worked on over HTTP.
const maxWorked = 10_000

// Server does the maintenance of a database for a server that hands its tasks out: for all queues, whether or not they
// have workers of their own. Its methods are safe for concurrent use.
type Server struct {
	// Tallies count the server's work. Run reports them.
	Tallies series.Tallies

	Member
	log      *slog.Logger
	advancer *Advancer

	mu      sync.Mutex
	worked  map[string]bool // the queues of which tasks were handed out: whether their retention is declared
	failing map[string]bool // the duties that are logged as failing
}

// NewServer returns a Server, which does nothing until Run is called.
func NewServer(m Member, log *slog.Logger) *Server {
	return &Server{Member: m, log: log, advancer: NewAdvancer(m.Core), worked: map[string]bool{},
		failing: map[string]bool{}}
}

// HandedOut records that tasks of a queue were handed out.
func (s *Server) HandedOut(queue string, tasks []uuid.UUID) {
	for _, id := range tasks {
		if s.advancer.Notice(id) {
			break
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.worked[queue]; !known && len(s.worked) < maxWorked {
		s.worked[queue] = false
	}
}

// Run does the maintenance until ctx ends, and then reports the counts. Errors are logged, once until a duty succeeds
// again, and tried again.
func (s *Server) Run(ctx context.Context) {
	stats := &Statistics{Member: s.Member, Take: s.Tallies.Take, Off: func() bool { return false },
		Without: s.Core.Control.WithoutStatistics, Report: func(err error) { s.report("statistics", err) }}
	var all sync.WaitGroup
	all.Go(func() { stats.Run(ctx) })
	all.Go(func() {
		if sleep(ctx, 2*advanceEvery) { // changes that an earlier server has left are then old enough
			s.advancer.Run(ctx, func(err error) { s.report("advance workflows", err) })
		}
	})
	all.Go(func() {
		for sleep(ctx, Jittered(CleanEvery)) {
			s.report("clean", s.cleanAll(ctx))
		}
	})
	all.Wait()
	final, cancel := context.WithTimeout(context.WithoutCancel(ctx), reportTimeout)
	defer cancel()
	s.report("statistics", stats.Leave(final, nil))
	s.report("resign", s.Core.Control.Resign(final, s.Name))
}

// cleanAll cleans each queue with a retention that this server leads in, and the keys of all queues. One queue that
// cannot be cleaned does not keep the others from being cleaned.
func (s *Server) cleanAll(ctx context.Context) (err error) {
	err = s.declare(ctx)
	if err == nil {
		err = s.cleanKeys(ctx)
	}
	if err != nil {
		return err
	}
	queues, err := s.Core.Control.Retentions(ctx)
	for _, q := range queues {
		if !q.Retention.Removes() {
			continue
		}
		done, failed := s.clean(ctx, q.Queue, func(ctx context.Context) (store.Cleaned, error) {
			return s.Core.Store.CleanQueue(ctx, q.Queue, q.Retention, q.History)
		})
		if done.Cleaned != (store.Cleaned{}) || done.Unfinished {
			s.log.Info("dbq: cleaned", "queue", q.Queue, "tasks", done.Tasks, "attempts", done.Attempts,
				"unfinished", done.Unfinished)
		}
		err = errors.Join(err, failed)
		if ctx.Err() != nil || errors.Is(failed, errs.ErrUnavailable) {
			break
		}
	}
	return err
}

// declare declares the default retention of queues that were worked on over HTTP, unless workers have declared theirs.
func (s *Server) declare(ctx context.Context) error {
	var queues []string
	s.mu.Lock()
	for queue, declared := range s.worked {
		if !declared {
			queues = append(queues, queue)
		}
	}
	s.mu.Unlock()
	for _, queue := range queues {
		keep := control.Retained{Queue: queue, Retention: DefaultRetention}
		if err := s.Core.Control.DeclareRetention(ctx, keep, false); err != nil {
			return err
		}
		s.mu.Lock()
		s.worked[queue] = true
		s.mu.Unlock()
	}
	return nil
}

// cleanKeys removes the keys of all queues that are no longer needed, if this server leads in that.
func (s *Server) cleanKeys(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, cleanTimeout)
	defer cancel()
	leads, err := s.Core.Control.TryLead(ctx, "clean keys", s.Name, 3*CleanEvery)
	if err == nil && leads {
		err = s.Core.Wrap("clean keys", "", uuid.Nil, s.Core.Store.CleanKeys(ctx))
	}
	return err
}

// report logs that a duty has begun to fail, or that it succeeds again.
func (s *Server) report(duty string, err error) {
	if errors.Is(err, errs.ErrClosed) || errors.Is(err, context.Canceled) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil && !s.failing[duty]:
		s.log.Error("dbq: maintenance fails; trying again", "duty", duty, "error", err)
	case err == nil && s.failing[duty]:
		s.log.Info("dbq: maintenance succeeds again", "duty", duty)
	}
	s.failing[duty] = err != nil
}

package worker

import (
	"sync/atomic"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/series"
	"github.com/dbq-go/dbq/internal/wake"
)

// env is shared by all parts of a run: the worker's fields, the current settings, the log, the health of the
// database, the shutdown, and the counters of statistics. Parts do not reach each other through it.
type env struct {
	cfg     Worker     // with its defaults
	db      *dbq.Queue // cfg.Queue if it is a database's, and otherwise nil
	source  source     // of cfg.Queue
	share   *share     // of the Group's slots; nil for a worker without a Group
	wake    *wake.Waker
	inForce atomic.Pointer[settings]
	// settingsRead reports that those in force have the operators' settings.
	settingsRead atomic.Bool
	log          *logger
	health       *health
	shutdown     *shutdown
	tally        series.Tally // what happens, for statistics over time
}

// settings returns the current settings. The controller replaces them.
func (e *env) settings() *settings { return e.inForce.Load() }

// perCall returns the maximum number of tasks in one call of the handler.
func (e *env) perCall() int {
	if e.cfg.BatchHandler != nil {
		return e.cfg.BatchSize
	}
	return 1
}

// observed reports whether there is an observer. An Observation is large, so code that makes one for each task checks
// this first.
func (e *env) observed() bool { return e.cfg.Observe != nil }

func (e *env) observe(o Observation) {
	if e.observed() {
		o.Queue = e.cfg.Queue.Name()
		e.cfg.Observe(o)
	}
}

// limits returns the limits of a task's attempt: the handler's limits for this task, and otherwise the worker's.
func (e *env) limits(t *dbq.Task) Limits {
	l := Limits{e.cfg.Timeout, e.settings().maxAttempts, e.cfg.Backoff}
	limiter, ok := e.cfg.Handler.(Limiter)
	if !ok {
		return l
	}
	own := limiter.Limits(*t)
	if own.Timeout > 0 {
		l.Timeout = own.Timeout
	}
	if own.MaxAttempts > 0 {
		l.MaxAttempts = own.MaxAttempts
	}
	if own.Backoff != nil {
		l.Backoff = own.Backoff
	}
	return l
}

// maxAttempts returns the number of failed attempts after which this worker moves a task to POISON.
func (e *env) maxAttempts(t *dbq.Task) int {
	if n := e.limits(t).MaxAttempts; n > 0 {
		return min(n, t.MaxAttempts)
	}
	return t.MaxAttempts
}

package worker

import (
	"context"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/dialect"
)

// Who paused or resumed a worker, as the log says it.
const (
	byOperator = "operator"
	bySwitch   = "switch"
)

// attrs are what operators may change, as attributes of a line.
func (l *live) attrs() []any {
	return []any{"concurrency", l.concurrency, "batch", l.batch, "lease", l.lease.String(), "poll", l.pollMax.String(),
		"max_attempts", l.maxAttempts, "history", string(l.history)}
}

// logStart says what the worker runs on and with.
func (r *run) logStart() {
	c := r.cfg.Queue.Client()
	s := c.Server()
	attrs := []any{"worker", r.cfg.ID, "engine", c.Dialect(), "server", s.Product + " " + s.Version,
		"strategy", string(c.Strategy()), "version", dbq.Version(), "paused", r.paused()}
	if t := c.Target(); t != (dialect.Target{}) { // of a client that New made it is not known
		attrs = append(attrs, "database", t.String())
	}
	r.log.write(lineStarted, append(attrs, r.now().attrs()...)...)
}

func (r *run) logStopping() {
	r.log.write(lineStopping, "running", len(r.held.flights()), "held", r.held.count(),
		"drain_timeout", seconds(r.cfg.DrainTimeout))
}

// logStop closes the log with the worker's totals.
func (r *run) logStop(err error) {
	r.log.close()
	attrs := []any{"done", r.done.Load(), "failed", r.failed.Load(), "poisoned", r.poisons.Load(),
		"lost", r.losses.Load(), "after", seconds(time.Since(r.began))}
	if err != nil {
		attrs = append(attrs, "error", errorText(err))
	}
	r.log.write(lineStopped, attrs...)
}

// logFailure says how an attempt ended that failed: state is where its task is now.
func (r *run) logFailure(st *settlement, state dbq.State) {
	t := &st.job.task
	switch {
	case state == dbq.StatePoison:
		r.log.each(linePoison, aboutTask(t, "max_attempts", r.most(t), "error", errorText(st.err))...)
	case state != dbq.StateError:
	case st.s.Retry() == dbq.Park:
		r.log.each(lineParked, aboutTask(t, "max_attempts", r.most(t), "error", errorText(st.err))...)
	default:
		r.log.each(lineFailed, aboutTask(t, "max_attempts", r.most(t), "next", st.s.Retry().String(),
			"error", errorText(st.err))...)
	}
}

// most is after how many failed attempts a task is POISON here.
func (r *run) most(t *dbq.Task) int {
	if n := r.limits(t).MaxAttempts; n > 0 {
		return min(n, t.MaxAttempts)
	}
	return t.MaxAttempts
}

// waitOn waits while the worker's Switch is off. It is false when ctx has ended.
func (r *run) waitOn(ctx context.Context) bool {
	if r.cfg.Switch == nil || !r.cfg.Switch.Paused() {
		return ctx.Err() == nil
	}
	r.log.each(linePaused, "by", bySwitch)
	if !r.cfg.Switch.wait(ctx) {
		return false
	}
	r.log.each(lineResumed, "by", bySwitch)
	return true
}

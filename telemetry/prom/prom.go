// Package prom exposes what dbq does as Prometheus metrics, through the standard client library.
//
//	m, err := prom.New(prometheus.DefaultRegisterer)
//	c, err := dbq.Open(ctx, dsn, dbq.WithObserver(m.Call))
//	err = m.Watch(c)                                                    // depths, pauses, conflicts
//	w := worker.Worker{Queue: q, Handler: h, Observe: m.Work}
//
// dashboard.json beside it is a Grafana dashboard of these metrics.
package prom

import (
	"errors"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/worker"
	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are those of a process. Make them with New.
type Metrics struct {
	registerer    prometheus.Registerer
	queues, kinds *bounded

	calls, callTasks, outcomes, states, polls, lost, stuck *prometheus.CounterVec
	took, waited, handled                                  *prometheus.HistogramVec
}

// waits are the bounds of times, in seconds, from a pick-up of half a millisecond to an hour.
var waits = []float64{.0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60, 300, 900, 3600}

// New makes the metrics and registers them. It fails when the registerer has metrics of these names already, or an option is refused.
//
// The number of series is bounded: WithMaxQueues and WithMaxKinds say how many queues and kinds have their own. A call with a name that no queue
// can have is counted under the queue "".
func New(r prometheus.Registerer, opts ...Option) (*Metrics, error) {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dbq_" + name, Help: help}, labels)
	}
	histogram := func(name, help string, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "dbq_" + name, Help: help, Buckets: waits}, labels)
	}
	m := &Metrics{
		registerer: r,
		calls:      counter("calls_total", "Calls to the database that change tasks, by operation and how they ended.", "op", "queue", "outcome"),
		callTasks:  counter("call_tasks_total", "Tasks that these calls were for.", "op", "queue"),
		took:       histogram("call_seconds", "How long these calls took, with all repetitions.", "op", "queue"),
		outcomes:   counter("outcomes_total", "Attempts that ended, by the event that the handler chose.", "queue", "kind", "event"),
		states:     counter("settled_total", "Attempts whose end was recorded, by the task's state; lost where it could not be.", "queue", "state"),
		polls:      counter("polls_total", "What workers asked the database, by what came of it: tasks, empty, error, or idle for a question without a checkout.", "queue", "result"),
		lost:       counter("leases_lost_total", "Tasks whose lease was lost while a worker had them.", "queue"),
		stuck:      counter("handlers_stuck_total", "Handlers that ignored the end of their context.", "queue"),
		waited:     histogram("pickup_seconds", "From when a task was due to its handler's start.", "queue"),
		handled:    histogram("handler_seconds", "How long handlers took.", "queue", "kind"),
	}
	for _, opt := range append([]Option{WithMaxQueues(DefaultMaxQueues), WithMaxKinds(DefaultMaxKinds)}, opts...) {
		if err := opt(m); err != nil {
			return nil, err
		}
	}
	for _, c := range []prometheus.Collector{m.calls, m.callTasks, m.took, m.outcomes, m.states, m.polls, m.lost, m.stuck, m.waited, m.handled} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// Call is for dbq.WithObserver.
func (m *Metrics) Call(e dbq.Event) {
	outcome := "ok"
	var failed *dbq.Error
	switch {
	case errors.As(e.Err, &failed):
		outcome = failed.Class.String()
	case e.Err != nil:
		outcome = "unknown"
	}
	queue := m.queueLabel(e.Queue)
	m.calls.WithLabelValues(e.Op, queue, outcome).Inc()
	m.took.WithLabelValues(e.Op, queue).Observe(e.Took.Seconds())
	if e.Err == nil {
		m.callTasks.WithLabelValues(e.Op, queue).Add(float64(e.Tasks))
	}
}

// Work is for worker.Worker.Observe.
func (m *Metrics) Work(e worker.Event) {
	queue := m.queueLabel(e.Queue)
	switch e.Kind {
	case worker.Polled:
		result := "tasks"
		switch {
		case e.Err != nil:
			result = "error"
		case e.N == 0:
			result = "empty"
		}
		m.polls.WithLabelValues(queue, result).Inc()
	case worker.Asked:
		result := "idle"
		if e.Err != nil {
			result = "error"
		}
		m.polls.WithLabelValues(queue, result).Inc()
	case worker.Started:
		m.waited.WithLabelValues(queue).Observe(e.Duration.Seconds())
	case worker.Ended:
		queue, kind := m.kindLabels(e.Queue, e.Task.Kind)
		m.outcomes.WithLabelValues(queue, kind, e.Outcome).Inc()
		m.handled.WithLabelValues(queue, kind).Observe(e.Duration.Seconds())
	case worker.Recorded:
		state := e.State.String()
		if e.Err != nil {
			state = "lost"
		}
		m.states.WithLabelValues(queue, state).Inc()
	case worker.LeaseLost:
		m.lost.WithLabelValues(queue).Inc()
	case worker.Stuck:
		m.stuck.WithLabelValues(queue).Inc()
	}
}

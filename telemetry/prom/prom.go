// Package prom exports metrics of dbq's clients and workers to Prometheus.
//
//	m, err := prom.New(prometheus.DefaultRegisterer)
//	c, err := dbq.Open(ctx, dsn, dbq.WithObserver(m.Call))
//	err = m.Watch(c)                                                    // depths, pauses, conflicts
//	w := worker.Worker{Queue: q, Handler: h, Observe: m.Work}
//
// The file dashboard.json in this directory is a Grafana dashboard for these metrics.
package prom

import (
	"errors"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/worker"
	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are the metrics of one process. Create them with New. They are safe for concurrent use.
type Metrics struct {
	registerer    prometheus.Registerer
	queues, kinds *bounded

	calls, callTasks, outcomes, states, polls, lost, stuck, noHandler *prometheus.CounterVec
	took, waited, handled                                             *prometheus.HistogramVec
}

// buckets are upper bounds of times, in seconds: from half a millisecond, a quick pick-up, to an hour.
var buckets = []float64{.0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60, 300, 900, 3600}

// New creates the metrics and registers them. It fails if the registerer already has metrics with these names, or if
// an option is invalid.
//
// The number of series is limited: see WithMaxQueues and WithMaxKinds. A call with an invalid queue name is counted
// under the queue "".
func New(r prometheus.Registerer, opts ...Option) (*Metrics, error) {
	var made []prometheus.Collector
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dbq_" + name, Help: help}, labels)
		made = append(made, c)
		return c
	}
	histogram := func(name, help string, labels ...string) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "dbq_" + name, Help: help, Buckets: buckets}, labels)
		made = append(made, h)
		return h
	}
	m := &Metrics{
		registerer: r,
		calls: counter("calls_total",
			"Calls to the database that change tasks, by operation and class of error; ok if none.", "op", "queue", "class"),
		callTasks: counter("call_tasks_total", "Tasks in these calls.", "op", "queue"),
		took:      histogram("call_seconds", "Duration of these calls, including retries.", "op", "queue"),
		outcomes: counter("outcomes_total",
			"Ended attempts, by the event of the handler's outcome.", "queue", "kind", "event"),
		states: counter("settled_total",
			"Attempts by the state stored for the task; lost if the outcome could not be stored.", "queue", "state"),
		polls: counter("polls_total",
			"Polls of workers by result: tasks, empty, error, or idle for a poll without a checkout.", "queue", "result"),
		lost:  counter("leases_lost_total", "Tasks whose lease was lost while a worker held them.", "queue"),
		stuck: counter("handlers_stuck_total", "Handlers that ignored the end of their context.", "queue"),
		noHandler: counter("no_handler_total",
			"Tasks that went back to the queue because the worker has no handler for their kind.", "queue", "kind"),
		waited:  histogram("pickup_seconds", "From a task's due time to the start of its handler.", "queue"),
		handled: histogram("handler_seconds", "Duration of handlers.", "queue", "kind"),
	}
	for _, opt := range append([]Option{WithMaxQueues(DefaultMaxQueues), WithMaxKinds(DefaultMaxKinds)}, opts...) {
		if err := opt(m); err != nil {
			return nil, err
		}
	}
	for _, c := range made {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// Call counts a call of a client. Pass it to dbq.WithObserver.
func (m *Metrics) Call(e dbq.Call) {
	class := "ok"
	var failed *dbq.Error
	switch {
	case errors.As(e.Err, &failed):
		class = failed.Class.String()
	case e.Err != nil:
		class = "unknown"
	}
	queue := m.queueLabel(e.Queue)
	m.calls.WithLabelValues(e.Op, queue, class).Inc()
	m.took.WithLabelValues(e.Op, queue).Observe(e.Took.Seconds())
	if e.Err == nil {
		m.callTasks.WithLabelValues(e.Op, queue).Add(float64(e.Tasks))
	}
}

// Work counts an observation of a worker. Set worker.Worker.Observe to it.
func (m *Metrics) Work(e worker.Observation) {
	queue := m.queueLabel(e.Queue)
	switch e.Type {
	case worker.CheckedOut:
		result := "tasks"
		if e.N == 0 {
			result = "empty"
		}
		m.polled(queue, result, e.Err)
	case worker.Queried:
		m.polled(queue, "idle", e.Err)
	case worker.Started:
		m.waited.WithLabelValues(queue).Observe(e.Duration.Seconds())
	case worker.Ended:
		queue, kind := m.kindLabels(e.Queue, e.Task.Kind)
		m.outcomes.WithLabelValues(queue, kind, string(e.Event)).Inc()
		if errors.Is(e.Err, worker.ErrNoHandler) {
			m.noHandler.WithLabelValues(queue, kind).Inc()
			return
		}
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

func (m *Metrics) polled(queue, result string, err error) {
	if err != nil {
		result = "error"
	}
	m.polls.WithLabelValues(queue, result).Inc()
}

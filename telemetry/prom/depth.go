package prom

import (
	"context"
	"sync"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/prometheus/client_golang/prometheus"
)

const (
	// statsEvery is how old counts may be, since there may be several scrapers.
	statsEvery   = 15 * time.Second
	statsTimeout = 10 * time.Second
)

var (
	depthDesc    = prometheus.NewDesc("dbq_tasks", "Tasks by state, counted up to 10000, at most 15 seconds old.", []string{"queue", "state"}, nil)
	dueDesc      = prometheus.NewDesc("dbq_due_tasks", "Tasks that are due and wait for a worker, counted like dbq_tasks.", []string{"queue"}, nil)
	ageDesc      = prometheus.NewDesc("dbq_oldest_due_seconds", "How long the oldest due task has been due.", []string{"queue"}, nil)
	pauseDesc    = prometheus.NewDesc("dbq_queue_paused", "1 while operators have paused the queue.", []string{"queue"}, nil)
	retryDesc    = prometheus.NewDesc("dbq_retries_total", "Writes that were tried again because of a conflict or a lost connection.", nil, nil)
	conflictDesc = prometheus.NewDesc("dbq_conflicts_total", "Of the writes in dbq_retries_total, those because of a conflict with somebody else's.", nil, nil)
	earDesc      = prometheus.NewDesc("dbq_listening", "1 while notifications of other processes arrive.", nil, nil)
)

// Watch registers what is asked of the client when the metrics are scraped: tasks by state, the age of the oldest due task, which queues
// are paused, and the client's own counts. One process of several is enough to tell the depths. It fails when it was called before.
func (m *Metrics) Watch(c *dbq.Client) error { return m.registerer.Register(&depth{c: c, m: m}) }

type depth struct {
	c *dbq.Client
	m *Metrics

	mu     sync.Mutex
	at     time.Time
	stats  []dbq.QueueStats
	paused map[string]bool // by queue: those with tasks, and those that are paused
}

func (d *depth) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{depthDesc, dueDesc, ageDesc, pauseDesc, retryDesc, conflictDesc, earDesc} {
		out <- desc
	}
}

func (d *depth) Collect(out chan<- prometheus.Metric) {
	out <- prometheus.MustNewConstMetric(retryDesc, prometheus.CounterValue, float64(d.c.Retried()))
	out <- prometheus.MustNewConstMetric(conflictDesc, prometheus.CounterValue, float64(d.c.Conflicts()))
	listening := 0.0
	if d.c.Listening() {
		listening = 1
	}
	out <- prometheus.MustNewConstMetric(earDesc, prometheus.GaugeValue, listening)
	stats, paused, err := d.count()
	if err != nil {
		out <- prometheus.NewInvalidMetric(depthDesc, err)
		return
	}
	for _, q := range stats {
		for state, n := range q.Count {
			out <- prometheus.MustNewConstMetric(depthDesc, prometheus.GaugeValue, float64(n), q.Queue, state.String())
		}
		out <- prometheus.MustNewConstMetric(dueDesc, prometheus.GaugeValue, float64(q.Due), q.Queue)
		out <- prometheus.MustNewConstMetric(ageDesc, prometheus.GaugeValue, q.OldestDue.Seconds(), q.Queue)
	}
	for queue, is := range paused {
		value := 0.0
		if is {
			value = 1
		}
		out <- prometheus.MustNewConstMetric(pauseDesc, prometheus.GaugeValue, value, queue)
	}
}

func (d *depth) count() ([]dbq.QueueStats, map[string]bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.at.IsZero() && time.Since(d.at) < statsEvery {
		return d.stats, d.paused, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), statsTimeout)
	defer cancel()
	stats, err := d.c.Stats(ctx)
	if err != nil {
		return nil, nil, err
	}
	queues, err := d.c.Queues(ctx)
	if err != nil {
		return nil, nil, err
	}
	paused := make(map[string]bool, len(stats))
	for _, q := range stats {
		paused[q.Queue] = false
	}
	for _, q := range queues {
		if q.Paused {
			paused[q.Queue] = true
		}
	}
	d.stats, d.paused, d.at = d.m.groupStats(stats), d.m.groupPauses(paused), time.Now()
	return d.stats, d.paused, nil
}

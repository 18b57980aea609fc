package prom

import (
	"context"
	"sync"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/prometheus/client_golang/prometheus"
)

const (
	// statsEvery is how old counts may be: each count walks over the finished tasks, too, and there may be several scrapers.
	statsEvery   = 15 * time.Second
	statsTimeout = 10 * time.Second
)

var (
	depthDesc = prometheus.NewDesc("dbq_tasks", "Tasks by state, at most 15 seconds old.", []string{"queue", "state"}, nil)
	dueDesc   = prometheus.NewDesc("dbq_due_tasks", "Tasks that are due and wait for a worker.", []string{"queue"}, nil)
	ageDesc   = prometheus.NewDesc("dbq_oldest_due_seconds", "How long the oldest due task has been due.", []string{"queue"}, nil)
	retryDesc = prometheus.NewDesc("dbq_retries_total", "Writes that were tried again because of a conflict or a lost connection.", nil, nil)
	earDesc   = prometheus.NewDesc("dbq_listening", "1 while notifications of other processes arrive.", nil, nil)
)

// Watch registers what is asked of the client when the metrics are scraped: tasks by state, the age of the oldest due task, and the
// client's own counts. One process of several is enough to tell the depths. It fails when it was called before.
func (m *Metrics) Watch(c *dbq.Client) error { return m.registerer.Register(&depth{c: c}) }

type depth struct {
	c *dbq.Client

	mu    sync.Mutex
	at    time.Time
	stats []dbq.QueueStats
}

func (d *depth) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{depthDesc, dueDesc, ageDesc, retryDesc, earDesc} {
		out <- desc
	}
}

func (d *depth) Collect(out chan<- prometheus.Metric) {
	out <- prometheus.MustNewConstMetric(retryDesc, prometheus.CounterValue, float64(d.c.Retried()))
	listening := 0.0
	if d.c.Listening() {
		listening = 1
	}
	out <- prometheus.MustNewConstMetric(earDesc, prometheus.GaugeValue, listening)
	stats, err := d.count()
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
}

func (d *depth) count() ([]dbq.QueueStats, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.at.IsZero() && time.Since(d.at) < statsEvery {
		return d.stats, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), statsTimeout)
	defer cancel()
	stats, err := d.c.Stats(ctx)
	if err == nil {
		d.stats, d.at = stats, time.Now()
	}
	return stats, err
}

package prom

import (
	"context"
	"sync"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/prometheus/client_golang/prometheus"
)

const (
	statsEvery   = 15 * time.Second // the maximum age of counts, because there may be several scrapers
	statsTimeout = 5 * time.Second  // less than the 10 seconds after which Prometheus ends a scrape
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("dbq_"+name, help, labels, nil)
}

var (
	upDesc    = desc("up", "1 if the database has answered for this scrape, or in the last 15 seconds.")
	tasksDesc = desc("tasks",
		"Tasks by state, counted up to 10000, at most 15 seconds old; POISON is without cancelled tasks.", "queue", "state")
	dueDesc   = desc("due_tasks", "Tasks that are due and wait for a worker, counted like dbq_tasks.", "queue")
	stopDesc  = desc("cancelled_tasks", "Cancelled tasks, which are in POISON, counted like dbq_tasks.", "queue")
	ageDesc   = desc("oldest_due_seconds", "How long the oldest due task has been due.", "queue")
	aliveDesc = desc("workers", "Workers that have reported lately, by the registry.", "queue")
	longDesc  = desc("longest_running_seconds", "How long the longest running handler has been running.", "queue")
	pauseDesc = desc("queue_paused", "1 while the queue is paused.", "queue")
	retryDesc = desc("retries_total", "Writes that were retried after a conflict or a lost connection.")

	conflictDesc  = desc("conflicts_total", "The part of dbq_retries_total that followed a conflict.")
	listeningDesc = desc("listening", "1 while notifications from other processes arrive.")
)

// Watch registers metrics that are read from the database on a scrape (tasks by state, the lag, and paused queues), and
// the client's counts of retries. dbq_up is 0 while the database does not answer. Call Watch in only one of the
// processes that share tables. It fails if the metrics already watch a client.
func (m *Metrics) Watch(c *dbq.Client) error { return m.registerer.Register(&depth{c: c, m: m}) }

// depth is the collector of Watch's metrics.
type depth struct {
	c *dbq.Client
	m *Metrics

	mu   sync.Mutex
	at   time.Time
	last snapshot
}

// snapshot has the numbers that were read from the database, by label.
type snapshot struct {
	stats   []admin.QueueStats
	paused  map[string]bool      // for queues that have tasks or are paused
	workers map[string]int       // live ones, for queues that have tasks or workers
	began   map[string]time.Time // when the longest running handler did
}

// Describe sends the descriptions of all metrics.
func (d *depth) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{
		upDesc, tasksDesc, dueDesc, stopDesc, ageDesc, aliveDesc, longDesc, pauseDesc, retryDesc, conflictDesc,
		listeningDesc,
	} {
		out <- desc
	}
}

// Collect sends the metrics. If the database does not answer, dbq_up is 0 and what is read from it is left out: an
// error would take all other metrics of the process away.
func (d *depth) Collect(out chan<- prometheus.Metric) {
	send := func(desc *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, kind, value, labels...)
	}
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		send(desc, prometheus.GaugeValue, value, labels...)
	}
	send(retryDesc, prometheus.CounterValue, float64(d.c.Stats().Retried))
	send(conflictDesc, prometheus.CounterValue, float64(d.c.Stats().Conflicts))
	gauge(listeningDesc, oneIf(d.c.Stats().Listening))
	now, err := d.read()
	if gauge(upDesc, oneIf(err == nil)); err != nil {
		return
	}
	for _, q := range now.stats {
		for state, n := range q.Count {
			gauge(tasksDesc, float64(n), q.Queue, state.String())
		}
		gauge(dueDesc, float64(q.Due), q.Queue)
		gauge(stopDesc, float64(q.Cancelled), q.Queue)
		gauge(ageDesc, q.OldestDue.Seconds(), q.Queue)
	}
	for queue, is := range now.paused {
		gauge(pauseDesc, oneIf(is), queue)
	}
	for queue, n := range now.workers {
		gauge(aliveDesc, float64(n), queue)
		longest := 0.
		if began, is := now.began[queue]; is {
			longest = max(time.Since(began).Seconds(), 0)
		}
		gauge(longDesc, longest, queue)
	}
}

func oneIf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// read returns the numbers of the database. It reads them at most once in statsEvery.
func (d *depth) read() (snapshot, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.at.IsZero() && time.Since(d.at) < statsEvery {
		return d.last, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), statsTimeout)
	defer cancel()
	ops := admin.New(d.c)
	stats, err := ops.Stats(ctx)
	if err != nil {
		return snapshot{}, err
	}
	queues, err := ops.Queues(ctx)
	if err != nil {
		return snapshot{}, err
	}
	workers, err := ops.Workers(ctx)
	if err != nil {
		return snapshot{}, err
	}
	paused := make(map[string]bool, len(stats))
	now := snapshot{stats: d.m.groupStats(stats), workers: map[string]int{}, began: map[string]time.Time{}}
	for _, q := range stats {
		paused[q.Queue] = false
		now.workers[d.m.queueLabel(q.Queue)] += 0
	}
	for _, q := range queues {
		if q.Paused {
			paused[q.Queue] = true
		}
	}
	for _, w := range workers {
		label := d.m.queueLabel(w.Queue)
		if w.Dead || label == "" {
			continue
		}
		now.workers[label]++
		if first, is := now.began[label]; !w.OldestSince.IsZero() && (!is || w.OldestSince.Before(first)) {
			now.began[label] = w.OldestSince
		}
	}
	now.paused = d.m.groupPauses(paused)
	d.last, d.at = now, time.Now()
	return now, nil
}

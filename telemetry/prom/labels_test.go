package prom_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/dbqtest"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/state"
	"github.com/dbq-go/dbq/telemetry/prom"
	"github.com/dbq-go/dbq/worker"
	"github.com/prometheus/client_golang/prometheus"
)

// series counts the series in a registry, and collects the values of a label.
func series(t *testing.T, r *prometheus.Registry, label string) (n int, values map[string]bool) {
	t.Helper()
	families, err := r.Gather()
	check.OK(t, err)
	values = map[string]bool{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			n++
			for _, l := range m.GetLabel() {
				if l.GetName() == label {
					values[l.GetValue()] = true
				}
			}
		}
	}
	return n, values
}

func TestRefusedNamesAreOneLabel(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	m, err := prom.New(registry)
	check.OK(t, err)
	db := dbqtest.New(t, dbq.WithObserver(m.Call))
	for _, name := range []string{"\xff", "a\xc3", "", "a\x00b", "a\nb", strings.Repeat("x", dbq.MaxQueueName+1)} {
		if _, err := db.Queue(name).Enqueue(t.Context(), dbq.NewTask{}); !errors.Is(err, dbq.ErrQueueName) {
			t.Errorf("enqueue to %q: %v", name, err)
		}
		m.Work(worker.Observation{Type: worker.CheckedOut, Queue: name, Err: dbq.ErrQueueName})
		m.Work(worker.Observation{Type: worker.Ended, Queue: "q", Task: dbq.Task{Kind: name}, Event: state.Complete})
	}
	for i := range 2000 {
		if _, err := db.Queue(fmt.Sprintf("bad\x01%d", i)).Checkout(t.Context(), 1, 1e9); !errors.Is(err, dbq.ErrQueueName) {
			t.Fatal(err)
		}
	}
	n, queues := series(t, registry, "queue")
	if n > 20 || len(queues) > 4 || !queues[""] {
		t.Errorf("%d series, queues %v", n, queues)
	}
}

func TestSeriesAreBounded(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	m, err := prom.New(registry, prom.WithMaxQueues(10), prom.WithMaxKinds(5))
	check.OK(t, err)
	db := dbqtest.New(t, dbq.WithObserver(m.Call))
	check.OK(t, m.Watch(db.Client))
	for i := range 50 {
		if _, err := db.Queue(fmt.Sprintf("q%02d", i)).Enqueue(t.Context(), dbq.NewTask{}); err != nil {
			t.Fatal(err)
		}
		task := dbq.Task{Kind: fmt.Sprintf("k%d", i)}
		m.Work(worker.Observation{Type: worker.Ended, Queue: "q00", Task: task, Event: state.Complete})
	}
	_, queues := series(t, registry, "queue")
	_, kinds := series(t, registry, "kind")
	if len(queues) != 11 || !queues["q09"] || !queues[prom.Other] || len(kinds) != 6 || !kinds[prom.Other] {
		t.Errorf("queues %v, kinds %v", queues, kinds)
	}
	families, err := registry.Gather()
	check.OK(t, err)
	for _, f := range families {
		if f.GetName() != "dbq_due_tasks" {
			continue
		}
		sum := 0.0
		for _, metric := range f.GetMetric() {
			sum += metric.GetGauge().GetValue()
		}
		if sum != 50 {
			t.Errorf("%v tasks are due in all, want 50", sum)
		}
	}
	for _, bad := range []prom.Option{prom.WithMaxQueues(0), prom.WithMaxKinds(-1)} {
		if _, err := prom.New(prometheus.NewRegistry(), bad); err == nil {
			t.Error("a limit below 1 is accepted")
		}
	}
}

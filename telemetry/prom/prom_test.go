package prom_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/dbqtest"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/internal/control"
	"github.com/dbq-go/dbq/state"
	"github.com/dbq-go/dbq/telemetry/prom"
	"github.com/dbq-go/dbq/worker"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// worked returns a registry after three tasks: one completed, one failed, one waits.
func worked(t *testing.T) *prometheus.Registry {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	m, err := prom.New(registry)
	check.OK(t, err)
	db := dbqtest.New(t, dbq.WithObserver(m.Call))
	check.OK(t, m.Watch(db.Client))
	q := db.Queue("q")
	if _, err := q.EnqueueMany(t.Context(), []dbq.NewTask{{Kind: "good"}, {Kind: "bad"}}); err != nil {
		t.Fatal(err)
	}
	handler := worker.Func(func(_ context.Context, t dbq.Task) error {
		if t.Kind == "bad" {
			return dbq.Poisoned(errors.New("bad"))
		}
		return nil
	})
	db.Run(worker.Worker{Queue: q, Observe: m.Work, Handler: handler})
	if _, err := q.Enqueue(t.Context(), dbq.NewTask{}); err != nil {
		t.Fatal(err)
	}
	// One worker polls, for the metrics that only a polling one has.
	w := worker.Worker{Queue: db.Queue("empty"), Observe: m.Work, UntilEmpty: true, Handler: worker.HandlerFunc(nil)}
	check.OK(t, w.Run(t.Context()))
	check.OK(t, admin.New(db.Client).PauseQueue(t.Context(), "paused"))
	m.Work(worker.Observation{Type: worker.LeaseLost, Queue: "q"})
	m.Work(worker.Observation{Type: worker.Stuck, Queue: "q"})
	m.Work(worker.Observation{Type: worker.Ended, Queue: "q", Task: dbq.Task{Kind: "unknown"}, Event: state.Release,
		Err: worker.ErrNoHandler})
	return registry
}

func TestMetricsCountWhatHappened(t *testing.T) {
	t.Parallel()
	err := testutil.GatherAndCompare(worked(t), strings.NewReader(`
# HELP dbq_outcomes_total Ended attempts, by the event of the handler's outcome.
# TYPE dbq_outcomes_total counter
dbq_outcomes_total{event="complete",kind="good",queue="q"} 1
dbq_outcomes_total{event="poison",kind="bad",queue="q"} 1
dbq_outcomes_total{event="release",kind="unknown",queue="q"} 1
# HELP dbq_settled_total Attempts by the state stored for the task; lost if the outcome could not be stored.
# TYPE dbq_settled_total counter
dbq_settled_total{queue="q",state="COMPLETED"} 1
dbq_settled_total{queue="q",state="POISON"} 1
# HELP dbq_polls_total Polls of workers by result: tasks, empty, error, or idle for a poll without a checkout.
# TYPE dbq_polls_total counter
dbq_polls_total{queue="empty",result="empty"} 1
# HELP dbq_tasks Tasks by state, counted up to 10000, at most 15 seconds old; POISON is without cancelled tasks.
# TYPE dbq_tasks gauge
dbq_tasks{queue="q",state="COMPLETED"} 1
dbq_tasks{queue="q",state="CREATED"} 1
dbq_tasks{queue="q",state="ERROR"} 0
dbq_tasks{queue="q",state="POISON"} 1
dbq_tasks{queue="q",state="PROCESSING"} 0
# HELP dbq_due_tasks Tasks that are due and wait for a worker, counted like dbq_tasks.
# TYPE dbq_due_tasks gauge
dbq_due_tasks{queue="q"} 1
# HELP dbq_queue_paused 1 while the queue is paused.
# TYPE dbq_queue_paused gauge
dbq_queue_paused{queue="paused"} 1
dbq_queue_paused{queue="q"} 0
`), "dbq_outcomes_total", "dbq_settled_total", "dbq_polls_total", "dbq_tasks", "dbq_due_tasks", "dbq_queue_paused")
	if err != nil {
		t.Error(err)
	}
}

// TestCancelledTasksAreCounted: cancelled tasks are a metric of their own, and none of POISON's, so that no alert on
// tasks that have failed is about them.
func TestCancelledTasksAreCounted(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	m, err := prom.New(registry)
	check.OK(t, err)
	db := dbqtest.New(t)
	check.OK(t, m.Watch(db.Client))
	q := db.Queue("q")
	added, err := q.EnqueueMany(t.Context(), make([]dbq.NewTask, 5))
	check.OK(t, err)
	if _, err := db.Queue("other").Enqueue(t.Context(), dbq.NewTask{}); err != nil {
		t.Fatal(err)
	}
	ops := admin.New(db.Client)
	for i, event := range []state.Event{admin.Cancel, admin.Cancel, admin.Cancel, admin.Reject} {
		check.OK(t, ops.Operate(t.Context(), event, added[i].ID))
	}
	// One of the cancelled ones runs after all, and what was rejected is POISON without having been cancelled.
	for i, event := range map[int]state.Event{2: admin.Reenqueue, 3: admin.Quarantine} {
		check.OK(t, ops.Operate(t.Context(), event, added[i].ID))
	}
	err = testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP dbq_cancelled_tasks Cancelled tasks, which are in POISON, counted like dbq_tasks.
# TYPE dbq_cancelled_tasks gauge
dbq_cancelled_tasks{queue="other"} 0
dbq_cancelled_tasks{queue="q"} 2
# HELP dbq_tasks Tasks by state, counted up to 10000, at most 15 seconds old; POISON is without cancelled tasks.
# TYPE dbq_tasks gauge
dbq_tasks{queue="other",state="COMPLETED"} 0
dbq_tasks{queue="other",state="CREATED"} 1
dbq_tasks{queue="other",state="ERROR"} 0
dbq_tasks{queue="other",state="POISON"} 0
dbq_tasks{queue="other",state="PROCESSING"} 0
dbq_tasks{queue="q",state="COMPLETED"} 0
dbq_tasks{queue="q",state="CREATED"} 2
dbq_tasks{queue="q",state="ERROR"} 0
dbq_tasks{queue="q",state="POISON"} 1
dbq_tasks{queue="q",state="PROCESSING"} 0
`), "dbq_cancelled_tasks", "dbq_tasks")
	if err != nil {
		t.Error(err)
	}
}

func TestMetricsAreWellFormed(t *testing.T) {
	t.Parallel()
	problems, err := testutil.GatherAndLint(worked(t))
	if err != nil || len(problems) > 0 {
		t.Errorf("got %v, %v", problems, err)
	}
}

// A panel whose metric does not exist stays empty, and nobody notices.
func TestDashboardMetricsExist(t *testing.T) {
	t.Parallel()
	families, err := worked(t).Gather()
	check.OK(t, err)
	there := map[string]bool{}
	for _, f := range families {
		for _, suffix := range []string{"", "_bucket", "_count", "_sum"} {
			there[f.GetName()+suffix] = true
		}
	}
	text, err := os.ReadFile("dashboard.json")
	check.OK(t, err)
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	check.OK(t, json.Unmarshal(text, &dashboard))
	asked := map[string]bool{}
	for _, p := range dashboard.Panels {
		if len(p.Targets) == 0 {
			t.Errorf("panel %q has no query", p.Title)
		}
		for _, target := range p.Targets {
			for _, name := range regexp.MustCompile(`dbq_[a-z_]+`).FindAllString(target.Expr, -1) {
				if asked[name] = true; !there[name] {
					t.Errorf("panel %q shows %s, which does not exist", p.Title, name)
				}
			}
		}
	}
	for _, f := range families {
		if name := f.GetName(); !asked[name] && !asked[name+"_bucket"] && !asked[name+"_count"] {
			t.Errorf("no panel shows %s", name)
		}
	}
}

// TestDeadDatabaseLeavesTheMetricsOfOthers watches two databases, one of which is closed.
func TestDeadDatabaseLeavesTheMetricsOfOthers(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	for _, name := range []string{"dead", "live"} {
		m, err := prom.New(prometheus.WrapRegistererWith(prometheus.Labels{"database": name}, registry))
		check.OK(t, err)
		db := dbqtest.New(t)
		if _, err := db.Queue("q").Enqueue(t.Context(), dbq.NewTask{}); err != nil {
			t.Fatal(err)
		}
		if name == "dead" {
			db.Close()
		}
		check.OK(t, m.Watch(db.Client))
	}
	w := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	text := w.Body.String()
	for _, want := range []string{
		`dbq_up{database="dead"} 0`, `dbq_up{database="live"} 1`, `dbq_due_tasks{database="live",queue="q"} 1`,
	} {
		if w.Code != 200 || !strings.Contains(text, want) {
			t.Errorf("%d without %s:\n%s", w.Code, want, text)
		}
	}
}

// The workers of a queue and its longest running handler come from the registry; dead workers do not count.
func TestLiveWorkersAreCounted(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	m, err := prom.New(registry)
	check.OK(t, err)
	db := dbqtest.New(t)
	check.OK(t, m.Watch(db.Client))
	shared := access.Of(db.Client).Control
	for id, since := range map[string]time.Time{"a": {}, "b": time.Now().Add(-2 * time.Hour), "c": time.Now()} {
		check.OK(t, shared.Announce(t.Context(), control.Worker{ID: id, Queue: "q", OldestSince: since}, time.Minute))
	}
	check.OK(t, shared.Announce(t.Context(), control.Worker{ID: "dead", Queue: "gone"}, time.Millisecond))
	time.Sleep(5 * time.Millisecond) // until it has missed its report
	families, err := registry.Gather()
	check.OK(t, err)
	got := map[string]float64{}
	for _, f := range families {
		for _, s := range f.GetMetric() {
			for _, l := range s.GetLabel() {
				if l.GetName() == "queue" {
					got[f.GetName()+" "+l.GetValue()] = s.GetGauge().GetValue()
				}
			}
		}
	}
	n, longest := got["dbq_workers q"], got["dbq_longest_running_seconds q"]
	if n != 3 || longest < 7200 || longest > 7300 {
		t.Errorf("%v workers, the longest handler for %v s; want 3 and two hours", n, longest)
	}
	if got["dbq_workers gone"] != 0 {
		t.Errorf("a dead worker is counted")
	}
}

package api_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	operators "github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/internal/control"
	"github.com/dbq-go/dbq/internal/maintenance"
	"github.com/dbq-go/dbq/internal/store"
	"github.com/dbq-go/dbq/worker"
)

func init() { maintenance.CleanEvery = 200 * time.Millisecond }

// run calls Run. stop ends it and waits for its last report.
func (s *site) run() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.api.Run(ctx) }()
	return func() {
		s.t.Helper()
		cancel()
		if err := <-ended; err != nil {
			s.t.Errorf("Run: %v", err)
		}
	}
}

// checkoutOf enqueues a task of a queue and checks it out.
func (s *site) checkoutOf(queue, task string) (id, lease string) {
	s.t.Helper()
	path := "/v1/db/shop/queues/" + queue
	s.must(201, "POST", path+"/tasks", task)
	t := one(s.t, s.must(200, "POST", path+"/checkout", `{"lease_seconds":0.2}`), "tasks")
	return t["id"].(string), t["lease"].(string)
}

func (s *site) settle(queue, lease, outcome string) {
	s.t.Helper()
	one(s.t, s.must(200, "POST", "/v1/db/shop/queues/"+queue+"/settle",
		`{"settlements":[{"lease":"`+lease+`","outcome":"`+outcome+`"}]}`), "settled")
}

func TestRunReportsWhatIsDoneOverHTTP(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.must(200, "PATCH", "/v1/db/shop/queues/off/settings", `{"no_statistics":true}`)
	stop := s.run()
	for _, outcome := range []string{"complete", "delete", "fail", "park", "poison", "release"} {
		_, lease := s.checkoutOf(outcome, `{}`)
		if outcome == "fail" {
			time.Sleep(10 * time.Millisecond)
		}
		s.settle(outcome, lease, outcome)
	}
	_, lease := s.checkoutOf("off", `{}`)
	s.settle("off", lease, "complete")
	s.settle("off", lease, "complete") // it is lost
	s.checkoutOf("on", `{"max_attempts":1}`)
	time.Sleep(300 * time.Millisecond) // its lease expires
	if tasks := s.must(200, "POST", "/v1/db/shop/queues/on/checkout", `{}`)["tasks"].([]any); len(tasks) != 0 {
		t.Errorf("a task without attempts is handed out: %v", tasks)
	}
	stop()
	all, err := operators.New(s.client).SeriesOf(t.Context(), nil, time.Now().Add(-time.Hour), time.Now().Add(time.Minute),
		time.Hour)
	check.OK(t, err)
	got := map[string]string{}
	for _, q := range all {
		var n [5]int64
		var run time.Duration
		for _, p := range q.Points {
			for i, v := range []int64{p.Started, p.Completed, p.Failed, p.Poisoned, p.Released} {
				n[i] += v
			}
			run = max(run, p.RunTime.P99)
		}
		got[q.Queue] = fmt.Sprint(n)
		if q.Queue == "fail" && run < 10*time.Millisecond {
			t.Errorf("the run time is %v, want at least 10 ms", run)
		}
	}
	want := map[string]string{"on": "[1 0 0 1 0]"} // started, completed, failed, poisoned, released
	for outcome, n := range map[string]string{"complete": "[1 1 0 0 0]", "delete": "[1 1 0 0 0]", "fail": "[1 0 1 0 0]",
		"park": "[1 0 1 0 0]", "poison": "[1 0 1 1 0]", "release": "[1 0 0 0 1]"} {
		want[outcome] = n
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestRunIsCalledOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.run()()
	if err := s.api.Run(t.Context()); !errors.Is(err, dbq.ErrOption) {
		t.Errorf("a second Run: %v, want ErrOption", err)
	}
}

// completedLongAgo enqueues a task and completes it, and makes that 25 hours old.
func (s *site) completedLongAgo(queue string) (id string) {
	s.t.Helper()
	const age = 25 * time.Hour
	t := dbq.NewTask{ID: dbq.NewID()}
	binary.BigEndian.PutUint64(t.ID[:], uint64(time.Now().Add(-age).UnixMilli())<<16|0x7000)
	q := s.client.Queue(queue)
	_, err := q.Enqueue(s.t.Context(), t)
	if err != nil {
		s.t.Fatal(err)
	}
	tasks, err := q.Checkout(s.t.Context(), 1, time.Minute)
	if err == nil {
		err = q.Complete(s.t.Context(), tasks[0].Lease, nil)
	}
	if err == nil {
		_, err = s.client.DB().ExecContext(s.t.Context(), "UPDATE dbq_task SET updated = updated - ? WHERE queue = ?",
			age.Microseconds(), queue)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return t.ID.String()
}

// exists reports whether a task exists.
func (s *site) exists(id string) bool {
	s.t.Helper()
	status, _ := s.send("GET", "/v1/db/shop/tasks/"+id, "")
	return status == 200
}

// Run removes what its own workers complete after the default time, and otherwise only what settings and workers of
// package worker say.
func TestRunKeepsWhatOthersKeep(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ctl := access.Of(s.client).Control
	nothing := worker.Func(func(context.Context, dbq.Task) error { return nil })
	ctx, cancel := context.WithCancel(t.Context())
	w := worker.Worker{Queue: s.client.Queue("forever"), Handler: nothing, Retention: dbq.KeepForever()}
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	declared := func(queue string) (keep control.Retained, is bool) {
		all, err := ctl.Retentions(t.Context())
		check.OK(t, err)
		for _, r := range all {
			if r.Queue == queue {
				return r, true
			}
		}
		return keep, false
	}
	check.Eventually(t, "the worker declares its retention", func() bool { _, is := declared("forever"); return is })
	cancel()
	check.OK(t, <-ended)
	old := map[string]string{}
	for _, queue := range []string{"forever", "byhand", "set", "http"} {
		old[queue] = s.completedLongAgo(queue)
	}
	stop := s.run()
	for _, queue := range []string{"forever", "http"} {
		_, lease := s.checkoutOf(queue, `{}`)
		s.settle(queue, lease, "complete")
	}
	s.must(200, "PATCH", "/v1/db/shop/queues/set/settings", `{"keep_completed_seconds":3600}`)
	for _, queue := range []string{"http", "set"} {
		check.Eventually(t, "the old task of "+queue+" is removed", func() bool { return !s.exists(old[queue]) })
	}
	stop()
	for _, queue := range []string{"forever", "byhand"} {
		if !s.exists(old[queue]) {
			t.Errorf("the old task of %s is removed", queue)
		}
	}
	if keep, _ := declared("http"); keep.Retention != maintenance.DefaultRetention {
		t.Errorf("the queue http keeps %+v, want the default", keep)
	}
	if keep, _ := declared("forever"); keep.Retention != store.Retention(dbq.KeepForever()) || keep.History != "all" {
		t.Errorf("the queue forever keeps %+v, want what its worker keeps", keep)
	}
}

// Run removes unique keys that are no longer needed, whatever retention the queues have.
func TestRunRemovesKeys(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	unique := &dbq.Unique{Key: "k", Window: dbq.MinUniquePeriod}
	_, err := s.client.Queue("q").Enqueue(t.Context(), dbq.NewTask{Unique: unique})
	check.OK(t, err)
	for _, change := range []string{"DELETE FROM dbq_task", "UPDATE dbq_unique_key SET expires = 1"} {
		if _, err := s.client.DB().ExecContext(t.Context(), change); err != nil {
			t.Fatal(err)
		}
	}
	defer s.run()()
	check.Eventually(t, "the key is removed", func() bool {
		var n int
		check.OK(t, s.client.DB().QueryRowContext(t.Context(), "SELECT count(*) FROM dbq_unique_key").Scan(&n))
		return n == 0
	})
}

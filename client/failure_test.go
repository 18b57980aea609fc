package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/state"
	"github.com/dbq-go/dbq/worker"
)

// TestLostResponsesLoseNoTask loses every third response of each kind.
func TestLostResponsesLoseNoTask(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	payloads := strings.Split(strings.Repeat("x ", 30)+"x", " ")
	es := s.enqueue(payloads...)
	var checkouts, settles, extends atomic.Int64
	s.change(on("", func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		for suffix, n := range map[string]*atomic.Int64{"/checkout": &checkouts, "/settle": &settles, "/extend": &extends} {
			if strings.HasSuffix(r.URL.Path, suffix) && n.Add(1)%3 == 1 {
				lose(w, r, next)
			}
		}
		next.ServeHTTP(w, r)
	}))
	w := s.worker(worker.Func(func(context.Context, dbq.Task) error { return nil }))
	w.UntilEmpty, w.Concurrency, w.PollMax = true, 4, time.Second // Run ends after a lease without a lost checkout
	check.OK(t, w.Run(t.Context()))
	for _, e := range es {
		if got := s.task(e); got.State != dbq.StateCompleted {
			t.Errorf("got %+v", got)
		}
		history, err := admin.New(s.db).Attempts(t.Context(), e.ID)
		check.OK(t, err)
		completed := 0
		for _, a := range history {
			if a.Outcome == dbq.AttemptCompleted {
				completed++
			}
		}
		if completed != 1 {
			t.Errorf("task %s was completed %d times: %+v", e.ID, completed, history)
		}
	}
	if settles.Load() < 3 || checkouts.Load() < 3 {
		t.Errorf("%d settles and %d checkouts", settles.Load(), checkouts.Load())
	}
}

// TestCancelledTaskEndsItsHandler also completes a task whose lease is lost: nothing is stored.
func TestCancelledTaskEndsItsHandler(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	e := s.enqueue("a")[0]
	began, ended := make(chan struct{}), make(chan error, 1)
	stop := s.start(s.worker(worker.Func(func(ctx context.Context, _ dbq.Task) error {
		close(began)
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return nil
	})))
	<-began
	check.OK(t, admin.New(s.db).Operate(t.Context(), state.Cancel, e.ID))
	if cause := <-ended; !errors.Is(cause, dbq.ErrLeaseLost) {
		t.Errorf("the cause is %v", cause)
	}
	check.OK(t, stop())
	if got := s.task(e); got.State != dbq.StatePoison || !got.Cancelled {
		t.Errorf("got %+v", got)
	}
}

// TestTaskIsRedeliveredAfterAnOutage hides a worker's heartbeats from the server. Its handler's context ends, another
// worker gets the task, and the outcome of the first is refused.
func TestTaskIsRedeliveredAfterAnOutage(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	e := s.enqueue("a")[0]
	first, second := s.worker(nil), s.worker(nil)
	first.ID, first.Lease, second.ID = "first", 300*time.Millisecond, "second"
	first.Concurrency = 1 // it does not take the task over itself
	began, taken, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	first.Handler = worker.HandlerFunc(func(ctx context.Context, _ dbq.Task) dbq.Outcome {
		close(began)
		<-ctx.Done()
		ended <- context.Cause(ctx)
		<-taken
		return dbq.Completed([]byte("first"))
	})
	second.Handler = worker.HandlerFunc(func(_ context.Context, t dbq.Task) dbq.Outcome {
		close(taken)
		return dbq.Completed([]byte("second"))
	})
	var away atomic.Bool
	s.change(on("/extend", func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if away.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		next.ServeHTTP(w, r)
	}))
	away.Store(true)
	stop := s.start(first)
	<-began
	if cause := <-ended; !errors.Is(cause, dbq.ErrLeaseLost) {
		t.Errorf("the cause is %v", cause)
	}
	stopSecond := s.start(second)
	check.Eventually(t, "the other worker completes it", func() bool { return s.task(e).State == dbq.StateCompleted })
	check.OK(t, stop())
	check.OK(t, stopSecond())
	if got := s.task(e); string(got.Result) != "second" {
		t.Errorf("got %+v", got)
	}
}

// TestTasksOfALateCheckoutAreReleased ends a worker while its checkout is under way, which then brings tasks.
func TestTasksOfALateCheckoutAreReleased(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	waiting, goOn := make(chan struct{}, 100), make(chan struct{})
	s.change(on("/checkout", func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		waiting <- struct{}{}
		<-goOn
		next.ServeHTTP(w, r)
	}))
	w := s.worker(worker.Func(func(context.Context, dbq.Task) error {
		t.Error("the handler is called")
		return nil
	}))
	w.PollMax = 20 * time.Second
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	<-waiting
	cancel()
	e := s.enqueue("a")[0]
	close(goOn)
	check.OK(t, <-ended)
	if got := s.task(e); got.State != dbq.StateCreated || got.Attempt != 0 {
		t.Errorf("got %+v", got)
	}
}

// TestRunEndsThoughTheServerIsAway stops a worker whose outcomes cannot be stored.
func TestRunEndsThoughTheServerIsAway(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	e := s.enqueue("a")[0]
	began := make(chan struct{})
	w := s.worker(worker.Func(func(context.Context, dbq.Task) error {
		close(began)
		return nil
	}))
	w.DrainTimeout, w.Grace = 100*time.Millisecond, 100*time.Millisecond
	s.change(on("/settle", func(_ http.ResponseWriter, r *http.Request, _ http.Handler) {
		_, _ = io.Copy(io.Discard, r.Body) // until then, the end of the connection is not seen
		<-r.Context().Done()
	}))
	stop := s.start(w)
	<-began
	begin := time.Now()
	check.OK(t, stop())
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("the stop took %v", took)
	}
	if got := s.task(e); got.State != dbq.StateProcessing {
		t.Errorf("got %+v", got)
	}
	if !strings.Contains(s.log.String(), "gave up settling") {
		t.Errorf("the log:\n%s", s.log)
	}
}

// TestOutcomesSurviveAnOutage stores outcomes after the server was away for longer than the lease.
func TestOutcomesSurviveAnOutage(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	es := s.enqueue("a", "b", "c")
	var away atomic.Bool
	s.change(on("", func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if away.Load() {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		next.ServeHTTP(w, r)
	}))
	var outage sync.Once // a task can be handed out again, since its lease expires meanwhile
	w := s.worker(worker.Func(func(context.Context, dbq.Task) error {
		outage.Do(func() { away.Store(true) })
		return nil
	}))
	stop := s.start(w)
	check.Eventually(t, "the outage is found", func() bool { return strings.Contains(s.log.String(), "does not answer") })
	time.Sleep(1200 * time.Millisecond)
	away.Store(false)
	for _, e := range es {
		check.Eventually(t, "the task is completed", func() bool { return s.task(e).State == dbq.StateCompleted })
	}
	check.OK(t, stop())
}

// TestOneRefusedOutcomeDelaysNoOther refuses requests with one of the outcomes.
func TestOneRefusedOutcomeDelaysNoOther(t *testing.T) {
	t.Parallel()
	for name, status := range map[string]int{"refused": 422, "failing": 500} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			es := s.enqueue("a", "bad", "c")
			s.change(refusing("planted", status))
			w := s.worker(worker.HandlerFunc(func(_ context.Context, t dbq.Task) dbq.Outcome {
				if string(t.Payload) == "bad" {
					return dbq.Completed([]byte("planted"))
				}
				return dbq.Completed(nil)
			}))
			w.DrainTimeout, w.Grace = 100*time.Millisecond, 100*time.Millisecond
			stop := s.start(w)
			for _, i := range []int{0, 2} {
				check.Eventually(t, "others are completed", func() bool { return s.task(es[i]).State == dbq.StateCompleted })
			}
			if status == 422 {
				check.Eventually(t, "it fails", func() bool { return s.task(es[1]).State == dbq.StatePoison })
				if got := s.task(es[1]); !strings.Contains(string(got.Result), "refused to settle the task") {
					t.Errorf("got %s", got.Result)
				}
			}
			check.OK(t, stop())
		})
	}
}

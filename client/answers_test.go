package client_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/client"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/worker"
)

// once answers the first request whose path ends in suffix with a problem of dbq, or only a status if name is "".
func remoteOnce(suffix, name string, status int) func(next http.Handler) http.Handler {
	var n atomic.Int64
	return on(suffix, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if n.Add(1) > 1 {
			next.ServeHTTP(w, r)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		if name != "" {
			w.Header().Set("Content-Type", "application/problem+json")
		}
		w.WriteHeader(status)
		if name != "" {
			fmt.Fprintf(w, `{"type":"urn:dbq:problem:%s"}`, name)
		}
	})
}

// One response that is not about the outcome does not replace it.
func TestOneBadResponseToASettleLosesNoOutcome(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		problem string
		status  int
	}{
		"the database refuses access": {"denied", 500}, "server": {"server", 500}, "stopping": {"closed", 503},
		"a proxy's 404": {"", 404}, "no such database": {"no-such-database", 404}, "a proxy's 502": {"", 502},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			e := s.enqueue("a")[0]
			s.change(remoteOnce("/settle", c.problem, c.status))
			var calls atomic.Int64
			w := s.worker(worker.HandlerFunc(func(context.Context, dbq.Task) dbq.Outcome {
				calls.Add(1)
				return dbq.Completed([]byte("done"))
			}))
			stop := s.start(w)
			check.Eventually(t, "it ends", func() bool { return s.task(e).Ended() })
			if got := s.task(e); got.State != dbq.StateCompleted || calls.Load() != 1 {
				t.Errorf("after %d calls that completed it, the task is %s: %s", calls.Load(), got.State, got.Result)
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A server that is stopping does not end the worker.
func TestStoppingServerDoesNotEndTheWorker(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	e := s.enqueue("a")[0]
	s.change(remoteOnce("/checkout", "closed", 503))
	w := s.worker(worker.Func(func(context.Context, dbq.Task) error { return nil }))
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	err := w.Run(ctx)
	if got := s.task(e); err != nil || got.State != dbq.StateCompleted {
		t.Errorf("Run returned %v, and the task is %s", err, got.State)
	}
}

// While no outcome can be stored, the worker holds no more tasks than it can handle at once.
func TestNothingGrowsWhileSettlesFail(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	es := s.enqueue(make([]string, 3000)...)
	var calls atomic.Int64
	s.change(on("/settle", func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusInternalServerError)
	}))
	w := s.worker(worker.Func(func(context.Context, dbq.Task) error { calls.Add(1); return nil }))
	w.Lease, w.Concurrency, w.MaxCheckout = 30*time.Second, 2, 10
	w.DrainTimeout, w.Grace = 100*time.Millisecond, 100*time.Millisecond
	stop := s.start(w)
	check.Eventually(t, "two are handled", func() bool { return calls.Load() == 2 })
	time.Sleep(time.Second) // in which it could handle all of them
	n := 0
	for _, e := range es {
		if s.task(e).State == dbq.StateProcessing {
			n++
		}
	}
	_ = stop()
	if n != 2 || calls.Load() != 2 {
		t.Errorf("with a Concurrency of 2, it holds %d tasks and has handled %d", n, calls.Load())
	}
}

// A nil queue is refused, as one of a database is.
func TestNilQueueIsRefused(t *testing.T) {
	t.Parallel()
	defer func() {
		if v := recover(); v != nil {
			t.Errorf("Run panics: %v", v)
		}
	}()
	w := worker.Worker{Queue: (*client.Queue)(nil),
		Handler: worker.Func(func(context.Context, dbq.Task) error { return nil })}
	if err := w.Run(t.Context()); err == nil {
		t.Error("Run returns nil")
	}
}

// One task that makes the server fail does not fill the log, and is not sent four times a second forever.
func TestOneFailingTaskIsQuiet(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.enqueue("bad")
	var bad atomic.Int64
	planted := refusing("planted", 500)
	s.change(func(next http.Handler) http.Handler {
		h := planted(next)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/settle") {
				bad.Add(1)
			}
			h.ServeHTTP(w, r)
		})
	})
	w := s.worker(worker.HandlerFunc(func(_ context.Context, t dbq.Task) dbq.Outcome {
		if string(t.Payload) == "bad" {
			return dbq.Completed([]byte("planted"))
		}
		return dbq.Completed(nil)
	}))
	w.Lease, w.DrainTimeout, w.Grace = 30*time.Second, 100*time.Millisecond, 100*time.Millisecond
	stop := s.start(w)
	for range 30 {
		s.enqueue("fine")
		time.Sleep(100 * time.Millisecond)
	}
	_ = stop()
	if n := strings.Count(s.log.String(), "does not answer"); n > 5 {
		t.Errorf("in 3 s the log has %d lines of a server that does not answer, of %d requests", n, bad.Load())
	}
}

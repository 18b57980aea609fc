package client_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/client"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/worker"
)

type mail struct {
	To string `json:"to"`
}

var sendMail = dbq.Kind[mail]{Name: "send-mail", Queue: "mail"}

func TestTypedHandlersAndMiddlewareRun(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	task, err := sendMail.Task(mail{"ann@example.com"})
	check.OK(t, err)
	id, err := s.queue().Enqueue(t.Context(), task)
	check.OK(t, err)
	unknown, err := s.queue().Enqueue(t.Context(), dbq.NewTask{Kind: "unknown"})
	check.OK(t, err)
	mux := worker.NewMux()
	worker.HandleResult(mux, sendMail, func(ctx context.Context, got dbq.Task, m mail) (mail, error) {
		if client.FromContext(ctx) != s.client || worker.Client(ctx) != nil {
			t.Error("the handler does not get the client")
		}
		if got.Lease.TaskID != id || got.Lease.Fence != got.Fence || got.Waited <= 0 || got.State != dbq.StateProcessing {
			t.Errorf("the handler gets %+v with the lease %+v", got, got.Lease)
		}
		return mail{m.To + ctx.Value(key{}).(string)}, nil
	})
	w := s.worker(mux)
	w.UntilEmpty, w.ID = true, "w1"
	w.Middleware = []worker.Middleware{func(next worker.Handler) worker.Handler {
		return worker.HandlerFunc(func(ctx context.Context, t dbq.Task) dbq.Outcome {
			return next.HandleTask(context.WithValue(ctx, key{}, "!"), t)
		})
	}}
	check.OK(t, w.Run(t.Context()))
	got := s.task(dbq.Enqueued{ID: id})
	if got.State != dbq.StateCompleted || string(got.Result) != `{"to":"ann@example.com!"}` ||
		!strings.HasPrefix(got.Holder, "w1") {
		t.Errorf("got %+v", got)
	}
	if got := s.task(dbq.Enqueued{ID: unknown}); got.State != dbq.StateCreated || got.Attempt != 0 {
		t.Errorf("a kind without a handler: %+v", got)
	}
}

type key struct{}

func TestEveryOutcomeIsStored(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	failure := errors.New("busy")
	at := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	for name, c := range map[string]struct {
		outcome dbq.Outcome
		state   dbq.State
		result  string
		check   func(dbq.Task) bool
	}{
		"completed": {dbq.Completed([]byte("r")), dbq.StateCompleted, "r", nil},
		"binary":    {dbq.Completed([]byte{0xff}), dbq.StateCompleted, "\xff", nil},
		"empty":     {dbq.Completed(nil), dbq.StateCompleted, "", func(t dbq.Task) bool { return t.Result == nil }},
		"failed": {dbq.Failed(failure), dbq.StateError, "busy", func(t dbq.Task) bool {
			return t.Due.After(time.Now().Add(-time.Minute)) && t.Due.Before(time.Now().Add(time.Minute)) && !t.Parked()
		}},
		"retry in": {dbq.RetryIn(time.Hour, failure), dbq.StateError, "busy", func(t dbq.Task) bool {
			return in(t, time.Hour)
		}},
		"retry at":     {dbq.RetryAt(at, failure), dbq.StateError, "busy", func(t dbq.Task) bool { return t.Due.Equal(at) }},
		"late":         {dbq.RetryAt(at.AddDate(90000, 0, 0), nil), dbq.StateError, "", nil},
		"parked":       {dbq.Parked(failure), dbq.StateError, "busy", dbq.Task.Parked},
		"poisoned":     {dbq.Poisoned(failure), dbq.StatePoison, "busy", nil},
		"released":     {dbq.Released(time.Hour), dbq.StateCreated, "", func(t dbq.Task) bool { return in(t, time.Hour) }},
		"out of range": {dbq.Released(-time.Hour).WithBackoff(0), dbq.StateCreated, "", nil},
		"text":         {dbq.Parked(failure).WithResult([]byte("text")), dbq.StateError, "text", nil},
		"long": {dbq.Completed(make([]byte, 5000)), dbq.StateCompleted, "", func(t dbq.Task) bool {
			return len(t.Result) == dbq.MaxResult && strings.Contains(string(t.Result), "cut from 5000 bytes")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := "q " + name
			id, err := s.db.Queue(q).Enqueue(t.Context(), dbq.NewTask{})
			check.OK(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			w := worker.Worker{Queue: s.client.Queue(q), Tuning: worker.Tuning{PollMax: time.Second}, Concurrency: 1,
				Handler: worker.HandlerFunc(func(context.Context, dbq.Task) dbq.Outcome {
					cancel()
					return c.outcome
				})}
			check.OK(t, w.Run(ctx))
			got := s.task(dbq.Enqueued{ID: id})
			if got.State != c.state || c.result != "" && string(got.Result) != c.result || c.check != nil && !c.check(got) {
				t.Errorf("got %+v", got)
			}
		})
	}
	id := s.enqueue("deleted")[0].ID
	s.work(worker.HandlerFunc(func(context.Context, dbq.Task) dbq.Outcome { return dbq.Deleted() }))
	if _, err := s.db.Get(t.Context(), id); !errors.Is(err, dbq.ErrNotFound) {
		t.Errorf("deleted: %v", err)
	}
}

// in reports whether a task is due about this far ahead.
func in(t dbq.Task, d time.Duration) bool {
	left := time.Until(t.Due)
	return left > d-time.Minute && left < d+time.Minute
}

func TestProgressResumes(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	e := s.enqueue("a")[0]
	var seen []string
	mux := worker.NewMux()
	mux.Handle("", worker.HandlerFunc(func(ctx context.Context, task dbq.Task) dbq.Outcome {
		seen = append(seen, string(worker.Progress(ctx)))
		if task.Attempt == 1 {
			check.OK(t, worker.SetProgress(ctx, []byte("half\xff")))
			check.Eventually(t, "progress is stored with a heartbeat", func() bool {
				return string(s.task(e).Progress) == "half\xff"
			})
			check.OK(t, worker.SetProgress(ctx, []byte("more")))
			if err := worker.SetProgress(ctx, make([]byte, dbq.MaxProgress+1)); !errors.Is(err, dbq.ErrProgress) {
				t.Errorf("too much progress: %v", err)
			}
			return dbq.RetryIn(0, errors.New("again"))
		}
		return dbq.Completed(worker.Progress(ctx))
	}))
	mux.SetPolicy("", worker.Policy{MaxAttempts: 5})
	stop := s.start(s.worker(mux))
	check.Eventually(t, "the task is completed", func() bool { return s.task(e).State == dbq.StateCompleted })
	check.OK(t, stop())
	if got := s.task(e); !slices.Equal(seen, []string{"", "more"}) || string(got.Result) != "more" || got.Attempt != 2 {
		t.Errorf("handlers saw %q; the task is %+v", seen, got)
	}
}

func TestInvalidWorkersAreRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	h := worker.Func(func(context.Context, dbq.Task) error { return nil })
	tx, inMux, field := worker.TxHandler{}, worker.NewMux(), worker.NewMux()
	worker.HandleTx(inMux, sendMail, nil)
	field.Handle("other", tx)
	for name, w := range map[string]worker.Worker{
		"no queue": {Handler: h}, "no handler": {Queue: s.queue()}, "transaction": {Queue: s.queue(), Handler: tx},
		"HandleTx": {Queue: s.queue(), Handler: inMux}, "mux": {Queue: s.queue(), Handler: field},
		"lease":       {Queue: s.queue(), Handler: h, Lease: time.Millisecond},
		"concurrency": {Queue: s.queue(), Handler: h, Concurrency: -1},
		"name":        {Queue: s.client.Queue("a//b"), Handler: h},
	} {
		if err := w.Run(t.Context()); !errors.Is(err, dbq.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	e := s.enqueue("a")[0] // behind a handler of the program's own, it is found when it is called
	s.work(worker.HandlerFunc(func(ctx context.Context, t dbq.Task) dbq.Outcome { return tx.HandleTask(ctx, t) }))
	if got := s.task(e); !got.Parked() || !strings.Contains(string(got.Result), "access to the database") {
		t.Errorf("got %+v", got)
	}
}

func TestWrongTokenEndsTheWorker(t *testing.T) {
	t.Parallel()
	const wrong = "dbq_wrongtoken"
	s := newSite(t, func(c *client.Config) { c.Token = wrong })
	s.enqueue("a")
	w := s.worker(worker.Func(func(context.Context, dbq.Task) error { return nil }))
	err := w.Run(t.Context())
	_, enqueue := s.queue().Enqueue(t.Context(), dbq.NewTask{})
	for _, err := range []error{err, enqueue} {
		if !errors.Is(err, dbq.ErrDenied) || strings.Contains(fmt.Sprintf("%+v", err), wrong) {
			t.Errorf("got %v", err)
		}
	}
	if strings.Contains(s.log.String(), wrong) {
		t.Errorf("the log has the token:\n%s", s.log)
	}
}

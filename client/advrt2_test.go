package client_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/worker"
)

// A due task whose key is in use keeps Run waiting under UntilEmpty, as Worker.UntilEmpty says.
func TestAdvUntilEmptyWaitsForLimits(t *testing.T) {
	t.Parallel()
	for name, queue := range map[string]func(s *site) worker.Queue{
		"database": func(s *site) worker.Queue { return s.db.Queue("mail") },
		"http":     func(s *site) worker.Queue { return s.queue() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			must(t, admin.New(s.db).ConfigureLimits(t.Context(), "mail", func(l *admin.QueueLimits) { l.KeyLeased = 1 }))
			for range 2 {
				_, err := s.db.Queue("mail").Enqueue(t.Context(), dbq.NewTask{Key: "k"})
				must(t, err)
			}
			if ts, err := s.db.Queue("mail").Checkout(t.Context(), 1, time.Hour); err != nil || len(ts) != 1 {
				t.Fatal(ts, err)
			}
			w := s.worker(worker.Func(func(context.Context, dbq.Task) error { return nil }))
			w.Queue, w.UntilEmpty = queue(s), true
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			must(t, w.Run(ctx))
			if ctx.Err() == nil {
				t.Error("Run returned although a due task is kept back by the limits")
			}
		})
	}
}

// A server whose client is closed under it, as when an embedding program stops, does not end its workers.
func TestAdvClosedServerDoesNotEndTheWorker(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	w := s.worker(worker.Func(func(context.Context, dbq.Task) error { return nil }))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	time.AfterFunc(500*time.Millisecond, func() { _ = s.db.Close() })
	if err := w.Run(ctx); err != nil {
		t.Errorf("Run returned %v", err)
	}
}

// Every handler with a transaction is refused when the worker starts, and parks no task.
func TestAdvTransactionsAreRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	pointer, nested, inner := worker.NewMux(), worker.NewMux(), worker.NewMux()
	pointer.Handle("x", &worker.TxHandler{})
	worker.HandleTx(inner, sendMail, nil)
	nested.Handle("", inner)
	for name, m := range map[string]*worker.Mux{"pointer": pointer, "nested": nested} {
		w := s.worker(m)
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		if err := w.Run(ctx); !errors.Is(err, worker.ErrConfig) {
			t.Errorf("%s: Run returned %v", name, err)
		}
		cancel()
	}
}

package client_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/worker"
)

// A server whose client is closed under it, as when an embedding program stops, does not end its workers.
func TestClosedServerDoesNotEndTheWorker(t *testing.T) {
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
func TestTransactionsAreRefused(t *testing.T) {
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

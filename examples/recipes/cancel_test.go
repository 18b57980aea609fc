package recipes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/google/uuid"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/worker"
)

type export struct{ User string }

var exportData = dbq.Kind[export]{Name: "export-data", Queue: "exports"}

// cancelExport serves DELETE /exports/{name}. The name is the Reference of the export's task. user returns who is
// logged in, or "".
func cancelExport(c *dbq.Client, user func(*http.Request) string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, who := r.Context(), user(r)
		id, err := c.Queue(exportData.Queue).Find(ctx, r.PathValue("name"))
		if err == nil {
			err = mayCancel(ctx, c, id, who)
		}
		if err == nil {
			err = admin.New(c).Operate(ctx, admin.Cancel, id, admin.By(who), admin.Reason("cancelled on the web page"))
		}
		switch {
		case err == nil:
			w.WriteHeader(http.StatusNoContent)
		case errors.Is(err, dbq.ErrNotFound):
			http.Error(w, "there is no such export", http.StatusNotFound)
		case errors.Is(err, dbq.ErrWrongState):
			http.Error(w, "the export has already ended", http.StatusConflict)
		default:
			http.Error(w, "the export could not be cancelled", http.StatusInternalServerError)
		}
	}
}

// mayCancel returns dbq.ErrNotFound unless the export is the user's own.
func mayCancel(ctx context.Context, c *dbq.Client, id uuid.UUID, who string) error {
	t, err := c.Get(ctx, id)
	if err != nil {
		return err
	}
	if e, err := exportData.Decode(t); err != nil || who == "" || e.User != who {
		return errors.Join(err, dbq.ErrNotFound)
	}
	return nil
}

// writeRows stops between two rows after the task is cancelled. What it returns then is ignored: its lease is lost.
func writeRows(writeRow func() error) func(ctx context.Context, t dbq.Task, e export) error {
	return func(ctx context.Context, _ dbq.Task, _ export) error {
		for range 1_000_000 {
			if ctx.Err() != nil {
				return context.Cause(ctx) // worker.ErrCancelled, with the operator and the reason
			}
			if err := writeRow(); err != nil {
				return err
			}
		}
		return nil
	}
}

func Example_cancelFromWebPage() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	c := open(ctx)
	defer c.Close()
	id, err := exportData.Enqueue(ctx, c, export{"ann"}, func(t *dbq.NewTask) { t.Reference = "export-1" })
	must(err)

	started := make(chan struct{}, 1)
	ended := make(chan error, 1)
	rows := writeRows(func() error {
		select {
		case started <- struct{}{}:
		default:
		}
		time.Sleep(time.Millisecond)
		return nil
	})
	mux := worker.NewMux()
	worker.Handle(mux, exportData, func(ctx context.Context, t dbq.Task, e export) error {
		err := rows(ctx, t, e)
		ended <- err
		return err
	})
	working, drain := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		w := worker.Worker{Queue: c.Queue(exportData.Queue), Handler: mux}
		done <- w.Run(working)
	}()
	<-started

	pages := http.NewServeMux()
	user := func(r *http.Request) string { return r.Header.Get("X-User") } // stands for the session of the user
	pages.Handle("DELETE /exports/{name}", cancelExport(c, user))
	for _, who := range []string{"bob", "ann", "ann"} {
		answer := httptest.NewRecorder()
		request := httptest.NewRequest(http.MethodDelete, "/exports/export-1", nil)
		request.Header.Set("X-User", who)
		pages.ServeHTTP(answer, request)
		fmt.Println(who, answer.Code)
	}
	fmt.Println("stopped:", errors.Is(<-ended, worker.ErrCancelled))
	drain()
	must(<-done)
	t, err := c.Get(ctx, id)
	must(err)
	fmt.Println(t.State, t.Cancelled, string(t.Result))
	// Output:
	// bob 404
	// ann 204
	// ann 409
	// stopped: true
	// POISON true cancelled by ann: cancelled on the web page
}

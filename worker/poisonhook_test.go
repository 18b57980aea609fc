package worker

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dbq-go/dbq"
)

// Calls come in order, and one that panics is not the last.
func TestPoisonHookCallsInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var calls []string
		h := newPoisonHook(&env{log: newLogger(slog.New(slog.NewTextHandler(&log, nil))),
			shutdown: newShutdown(t.Context(), t.Context()),
			cfg: Worker{OnPoison: func(_ context.Context, task dbq.Task, err error) {
				calls = append(calls, task.Kind+" "+err.Error())
				if task.Kind == "a" {
					panic("a bug")
				}
			}}})
		for _, kind := range []string{"a", "b", "c"} {
			h.add(dbq.Task{Kind: kind}, errors.New("bad"))
		}
		h.stop()
		h.run()
		h.log.close()
		h.shutdown.close()
		if got := strings.Join(calls, ", "); got != "a bad, b bad, c bad" || h.running.Load() != 0 {
			t.Errorf("the calls were %s; %d are running", got, h.running.Load())
		}
		if n := strings.Count(log.String(), "a bug"); n != 1 {
			t.Errorf("the panic is logged %d times", n)
		}
	})
}

// A call that ignores its context holds up the end of the run by Grace, and the calls after it are not made.
func TestPoisonHookEndsAfterGrace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		returns := make(chan struct{})
		var calls atomic.Int64
		h := newPoisonHook(&env{log: newLogger(slog.New(slog.NewTextHandler(&log, nil))),
			shutdown: newShutdown(t.Context(), t.Context()),
			cfg: Worker{Tuning: Tuning{Grace: time.Second}, OnPoison: func(context.Context, dbq.Task, error) {
				calls.Add(1)
				<-returns
			}}})
		for range 3 {
			h.add(dbq.Task{}, nil)
		}
		h.stop()
		began := time.Now()
		h.shutdown.endOvertime()
		h.run()
		if took := time.Since(began); took != time.Second || calls.Load() != 1 || h.running.Load() != 1 {
			t.Errorf("after %v there were %d calls and %d run, want 1 of 1 after Grace", took, calls.Load(), h.running.Load())
		}
		if !strings.Contains(log.String(), "tasks=3") {
			t.Errorf("the log does not have the 3 tasks: %s", log.String())
		}
		close(returns)
		h.log.close()
		h.shutdown.close()
	})
}

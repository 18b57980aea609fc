package worker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// The steps of the end come at the times that DrainTimeout and Grace say, or earlier when the handlers have returned.
func TestShutdownStepsFollowDrainTimeoutAndGrace(t *testing.T) {
	t.Parallel()
	const drain, grace = 10 * time.Second, 3 * time.Second
	for name, c := range map[string]struct {
		begin   func(s *shutdown, end context.CancelFunc)
		returns time.Duration // of the handlers, after their contexts have ended; 0 is never
		final   time.Duration
	}{
		"the context ends":     {func(_ *shutdown, end context.CancelFunc) { end() }, 0, drain + grace + wrapUp},
		"the queue is empty":   {func(s *shutdown, _ context.CancelFunc) { s.begin() }, 0, drain + grace + wrapUp},
		"the handlers return":  {func(s *shutdown, _ context.CancelFunc) { s.begin() }, 1, drain + wrapUp + 1},
		"both, and begun once": {func(s *shutdown, end context.CancelFunc) { end(); s.begin() }, 1, drain + wrapUp + 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, end := context.WithCancel(t.Context())
				defer end()
				s := newShutdown(t.Context(), t.Context())
				returned := make(chan struct{})
				var cancelled time.Time
				go s.watch(ctx, drain, grace, func() {
					cancelled = time.Now()
					if c.returns > 0 {
						time.AfterFunc(c.returns, func() { close(returned) })
					}
				}, returned)
				time.Sleep(time.Hour)
				began := time.Now()
				c.begin(s, end)
				<-s.overtime.Done()
				if took := time.Since(began); took != drain {
					t.Errorf("overtime ended after %v, want %v", took, drain)
				}
				<-s.final.Done()
				if took := time.Since(began); took != c.final || cancelled.Sub(began) != drain {
					t.Errorf("the handlers were cancelled after %v and all ended after %v, want %v and %v",
						cancelled.Sub(began), took, drain, c.final)
				}
			})
		})
	}
}

// close ends a run whose end was never long.
func TestShutdownEndsWhenClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShutdown(t.Context(), t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.watch(t.Context(), time.Hour, time.Hour, func() { t.Error("handlers were cancelled") }, nil)
		}()
		s.begin()
		if ok := s.wait(time.Second, nil); !ok {
			t.Error("it is over before it is closed")
		}
		s.close()
		if <-done; s.wait(time.Hour, nil) {
			t.Error("it is not over")
		}
	})
}

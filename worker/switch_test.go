package worker

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

// A worker is paused while an operator or the program pauses it.
func TestPauseEndsWhenBothHaveResumed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var s Switch
		p := &pause{log: newLogger(slog.New(slog.DiscardHandler)), program: &s}
		defer p.log.close()
		if p.on() || !p.wait(t.Context()) {
			t.Error("it is paused at first")
		}
		s.Pause()
		p.operator.Pause()
		began := time.Now()
		time.AfterFunc(time.Second, s.Resume)
		time.AfterFunc(2*time.Second, p.operator.Resume)
		if ok := p.wait(t.Context()); !ok || p.on() || time.Since(began) != 2*time.Second {
			t.Errorf("the pause lasted %v: %v", time.Since(began), ok)
		}
		s.Pause()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if p.wait(ctx) {
			t.Error("it goes on though it is paused")
		}
	})
}

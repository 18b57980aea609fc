package sqlrun

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestWriteEndsAGraceAfterItsCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "kept"))
		inner, stop := GracefulWrite(ctx)
		defer stop()
		if inner.Value(key{}) != "kept" {
			t.Error("the caller's values are gone")
		}
		cancel()
		time.Sleep(grace - time.Nanosecond)
		synctest.Wait()
		if err := inner.Err(); err != nil {
			t.Errorf("ended before the grace was over: %v", err)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if inner.Err() == nil {
			t.Error("did not end when the grace was over")
		}
	})
}

func TestWriteOutlivesADeadlineByTheGrace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		inner, stop := GracefulWrite(ctx)
		defer stop()
		<-inner.Done()
		if got := time.Since(begin); got != time.Second+grace {
			t.Errorf("ended after %v, want %v", got, time.Second+grace)
		}
	})
}

func TestEndedContextGetsNoGrace(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	inner, stop := GracefulWrite(ctx)
	defer stop()
	if inner.Err() == nil {
		t.Error("a context that had ended goes on")
	}
}

func TestWriteWithoutDeadlineIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		inner, stop := GracefulWrite(t.Context())
		defer stop()
		<-inner.Done()
		if got := time.Since(begin); got != writeTimeout {
			t.Errorf("ended after %v, want %v", got, writeTimeout)
		}
	})
}

// synctest fails when a goroutine or a timer is left.
func TestGraceLeavesNoGoroutineBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		inner, stop := GracefulWrite(ctx)
		stop()
		if inner.Err() == nil {
			t.Error("goes on after stop")
		}
		_, stop = GracefulWrite(ctx)
		cancel() // the grace runs
		synctest.Wait()
		stop()
	})
}

type key struct{}

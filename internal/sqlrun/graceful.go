package sqlrun

import (
	"context"
	"time"
)

// writeTimeout bounds a write whose caller gave no deadline.
const writeTimeout = time.Minute

// grace is how long a write that is under way may go on after its caller's context ended.
const grace = 2 * time.Second

type withoutGrace struct{}

// WithoutGrace makes writes end with ctx. Use it for writes that are safe to repeat.
func WithoutGrace(ctx context.Context) context.Context {
	return context.WithValue(ctx, withoutGrace{}, true)
}

// gracefulWrite is a context for one write that is about to be sent. Cutting it off in the middle would leave the
// caller not knowing whether it happened, so it ends a grace of 2 seconds after ctx does, not with it. A context that
// has ended already gets no grace, nor does one of WithoutGrace, and no write takes longer than a minute. Call stop
// when the write is done.
func gracefulWrite(ctx context.Context) (inner context.Context, stop func()) {
	if ctx.Err() != nil {
		return ctx, func() {}
	}
	return graceful(ctx, writeTimeout)
}

// graceful is a context that ends a grace after ctx has ended, unless it is one of WithoutGrace, or when its time is
// up.
func graceful(ctx context.Context, most time.Duration) (inner context.Context, stop func()) {
	if ctx.Value(withoutGrace{}) != nil {
		return context.WithTimeout(ctx, most)
	}
	inner, cancel := context.WithTimeout(context.WithoutCancel(ctx), most)
	detach := context.AfterFunc(ctx, func() {
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel()
		case <-inner.Done():
		}
	})
	return inner, func() {
		detach()
		cancel()
	}
}

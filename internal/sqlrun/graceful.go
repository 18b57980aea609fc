package sqlrun

import (
	"context"
	"time"
)

// writeTimeout bounds a write whose caller gave no deadline.
const writeTimeout = time.Minute

// grace is how long a running write may continue after its caller's context has ended.
const grace = 2 * time.Second

type withoutGrace struct{}

// WithoutGrace makes writes end with ctx. Use it for writes that are safe to repeat.
func WithoutGrace(ctx context.Context) context.Context {
	return context.WithValue(ctx, withoutGrace{}, true)
}

// GracefulWrite returns a context for one write. If a write is interrupted, its outcome is unknown. So the context ends
// 2 seconds after ctx, and a minute after the call at the latest. There is no such grace if ctx has already ended or is
// from WithoutGrace. Call stop when the write is done.
func GracefulWrite(ctx context.Context) (inner context.Context, stop func()) {
	if ctx.Err() != nil {
		return ctx, func() {}
	}
	return graceful(ctx, writeTimeout)
}

// graceful returns a context that ends a grace after ctx, or when most has passed. With WithoutGrace it ends with ctx.
func graceful(ctx context.Context, most time.Duration) (inner context.Context, stop func()) {
	if ctx.Value(withoutGrace{}) != nil {
		return context.WithTimeout(ctx, most)
	}
	inner, cancel := context.WithTimeout(context.WithoutCancel(ctx), most)
	detach := context.AfterFunc(ctx, func() {
		if Silent(context.Cause(ctx)) { // it has waited long enough
			cancel()
			return
		}
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

// Package tracing carries OpenTelemetry traces from those who enqueue to the handlers, in the tasks' headers (W3C Trace Context by
// default).
//
//	c, err := dbq.Open(ctx, dsn, dbq.WithHeaders(tracing.Headers(nil)))
//	w := worker.Worker{Queue: q, Handler: h, Middleware: []worker.Middleware{tracing.Middleware(provider, nil)}}
package tracing

import (
	"context"
	"errors"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/worker"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

const name = "github.com/dbq-go/dbq/telemetry/tracing"

// propagator is what a nil one means.
func propagator(p propagation.TextMapPropagator) propagation.TextMapPropagator {
	if p == nil {
		return propagation.TraceContext{}
	}
	return p
}

// Headers is for dbq.WithHeaders: each task gets the span that its enqueue happens in. A nil propagator is W3C Trace Context, which adds
// traceparent and tracestate.
func Headers(p propagation.TextMapPropagator) func(ctx context.Context) map[string]string {
	p = propagator(p)
	return func(ctx context.Context) map[string]string {
		carrier := propagation.MapCarrier{}
		p.Inject(ctx, carrier)
		return carrier
	}
}

// Middleware runs each attempt in a span that continues the trace of the task's enqueue. The span's status is an error when the attempt
// fails; Snooze and Delete are none. The propagator must be that of Headers; nil is W3C Trace Context.
func Middleware(provider trace.TracerProvider, p propagation.TextMapPropagator) worker.Middleware {
	tracer := provider.Tracer(name)
	p = propagator(p)
	return func(next worker.Handler) worker.Handler {
		return worker.HandlerFunc(func(ctx context.Context, t dbq.Task) (result []byte, err error) {
			ctx = p.Extract(ctx, propagation.MapCarrier(t.Headers))
			ctx, span := tracer.Start(ctx, "process "+t.Queue, trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(
				attribute.String("messaging.system", "dbq"),
				attribute.String("messaging.operation.type", "process"),
				attribute.String("messaging.destination.name", t.Queue),
				attribute.String("messaging.message.id", t.ID.String()),
				attribute.String("dbq.kind", t.Kind),
				attribute.Int("dbq.attempt", t.Attempt),
				attribute.Int64("dbq.fence", t.Fence),
				attribute.Float64("dbq.waited", t.Waited.Seconds()),
			))
			defer span.End() // also when the handler panics, which the worker makes an error of
			result, err = next.Handle(ctx, t)
			if err != nil && !worker.IsSuccess(err) {
				span.RecordError(err)
				span.SetStatus(codes.Error, err.Error())
			}
			if cause := context.Cause(ctx); errors.Is(cause, dbq.ErrLeaseLost) {
				span.AddEvent("lease lost")
			}
			return result, err
		})
	}
}

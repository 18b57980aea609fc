// Package tracing propagates OpenTelemetry traces from the call that enqueues a task to its handler, in the task's
// headers. The default format is W3C Trace Context.
//
//	c, err := dbq.Open(ctx, dsn, dbq.WithEnqueueHook(tracing.EnqueueHook(nil)))
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

// propagator returns p, or the default for nil.
func propagator(p propagation.TextMapPropagator) propagation.TextMapPropagator {
	if p == nil {
		return propagation.TraceContext{}
	}
	return p
}

// EnqueueHook returns a hook for dbq.WithEnqueueHook that adds the span of the call to each task. If p is nil, the
// format is W3C Trace Context: the headers traceparent and tracestate. A task whose headers leave no room gets none.
func EnqueueHook(p propagation.TextMapPropagator) func(ctx context.Context, queue string, t *dbq.NewTask) error {
	p = propagator(p)
	return func(ctx context.Context, _ string, t *dbq.NewTask) error {
		carrier := propagation.MapCarrier{}
		p.Inject(ctx, carrier)
		t.AddHeaders(carrier)
		return nil
	}
}

// Middleware runs each attempt in a span that continues the trace of the call that enqueued the task. The span's status
// is an error if the attempt failed. p must be the propagator of EnqueueHook.
func Middleware(provider trace.TracerProvider, p propagation.TextMapPropagator) worker.Middleware {
	tracer := provider.Tracer(name)
	p = propagator(p)
	return func(next worker.Handler) worker.Handler {
		return worker.HandlerFunc(func(ctx context.Context, t dbq.Task) dbq.Outcome {
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
			defer span.End() // even if the handler panics
			o := next.HandleTask(ctx, t)
			if err := o.Cause(); err != nil {
				span.RecordError(err)
				span.SetStatus(codes.Error, err.Error())
			}
			if cause := context.Cause(ctx); errors.Is(cause, dbq.ErrLeaseLost) {
				span.AddEvent("lease lost")
			}
			return o
		})
	}
}

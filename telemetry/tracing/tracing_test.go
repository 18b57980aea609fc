package tracing_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/dbqtest"
	"github.com/dbq-go/dbq/telemetry/tracing"
	"github.com/dbq-go/dbq/worker"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

func TestTraceContinuesInHandler(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewSpanRecorder()
	provider := trace.NewTracerProvider(trace.WithSpanProcessor(spans))
	db := dbqtest.New(t, dbq.WithEnqueueHook(tracing.EnqueueHook(nil)))
	q := db.Queue("q")
	ctx, request := provider.Tracer("test").Start(t.Context(), "request")
	for range 2 {
		if _, err := q.Enqueue(ctx, dbq.NewTask{Headers: map[string]string{"own": "stays"}}); err != nil {
			t.Fatal(err)
		}
	}
	request.End()
	big := map[string]string{"big": strings.Repeat("x", dbq.MaxHeaders-10)}
	if _, err := q.Enqueue(t.Context(), dbq.NewTask{Headers: big}); err != nil {
		t.Errorf("headers that leave no room for the trace: %v", err)
	}
	n := 0
	db.Run(worker.Worker{Queue: q, Middleware: []worker.Middleware{tracing.Middleware(provider, nil)},
		Handler: worker.Func(func(ctx context.Context, task dbq.Task) error {
			if n++; n == 1 {
				return dbq.Parked(errors.New("boom"))
			}
			return dbq.Deleted()
		})})
	ended := spans.Ended()
	if len(ended) != 4 {
		t.Fatalf("got %d spans, want the request and three attempts", len(ended))
	}
	for i, want := range []codes.Code{codes.Error, codes.Unset} {
		s := ended[1+i]
		of, parent := s.SpanContext(), request.SpanContext()
		if s.Parent().SpanID() != parent.SpanID() || of.TraceID() != parent.TraceID() {
			t.Errorf("attempt %d is not in the request's trace", i)
		}
		if s.Status().Code != want {
			t.Errorf("attempt %d has status %v, want %v", i, s.Status().Code, want)
		}
	}
	if ended[3].Parent().IsValid() {
		t.Error("a task enqueued outside of any trace has a parent span")
	}
	for _, task := range db.Tasks("q") {
		if task.Headers["big"] == "" && (task.Headers["own"] != "stays" || task.Headers["traceparent"] == "") {
			t.Errorf("the task's headers are %v", task.Headers)
		}
	}
}

package worker_test

import (
	"context"
	"strings"
	"testing"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/worker"
)

// brokenError panics when it is a nil pointer.
type brokenError struct{ text string }

func (e *brokenError) Error() string { return e.text }

// brokenCause has a text, and a cause that panics.
type brokenCause struct{ cause *brokenCause }

func (e *brokenCause) Error() string { return "broken" }
func (e *brokenCause) Unwrap() error { return e.cause.cause }

// A nil pointer that is returned as an error is not nil, and its methods panic: that fails the attempt, and does not
// end the worker's process.
func TestErrorWhoseMethodsPanicFailsItsAttempt(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]func() dbq.Outcome{
		"its text":           func() dbq.Outcome { return dbq.Failed((*brokenError)(nil)) },
		"its cause":          func() dbq.Outcome { return dbq.Failed((*brokenCause)(nil)) },
		"of an error":        func() dbq.Outcome { return dbq.OutcomeOf((*brokenCause)(nil)) },
		"within another one": func() dbq.Outcome { return dbq.RetryIn(0, (*brokenCause)(nil)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for how, w := range map[string]worker.Worker{
				"handler": {Handler: worker.HandlerFunc(func(context.Context, dbq.Task) dbq.Outcome { return broken() })},
				"batch handler": {BatchHandler: worker.BatchFunc(func(context.Context, []dbq.Task) []dbq.Outcome {
					return []dbq.Outcome{broken()}
				})},
			} {
				q := open(t)
				w.Queue = q
				id := enqueue(t, q, 1, dbq.NewTask{})[0]
				if _, _, err := w.Step(t.Context()); err != nil {
					t.Fatal(err)
				}
				if task := get(t, q, id); task.State != dbq.StateError || !strings.HasPrefix(string(task.Result), "panic: ") {
					t.Errorf("%s: the task is %v with %q, want ERROR with the panic", how, task.State, task.Result)
				}
			}
		})
	}
}

package workflow_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	_ "github.com/dbq-go/dbq/dialect/sqlite"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/workflow"
)

func open(t *testing.T) *dbq.Client {
	t.Helper()
	c, err := dbq.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "w.db"), dbq.WithMigrate())
	check.OK(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// fan returns a step and n steps that need it.
func fan(n int) []workflow.Step {
	steps := []workflow.Step{{Name: "first", Queue: "q"}}
	for i := range n {
		steps = append(steps, workflow.Step{Name: fmt.Sprint(i), Queue: "q", Needs: []string{"first"}})
	}
	return steps
}

func TestGetReportsThatItLeftNeedsOut(t *testing.T) {
	t.Parallel()
	c := open(t)
	w, err := workflow.Enqueue(t.Context(), c, fan(12_000))
	check.OK(t, err)
	info, err := workflow.Get(t.Context(), c, w.ID, workflow.MaxSteps)
	if err != nil || len(info.Steps) != 12_001 || len(info.Needs) != 10_000 || !info.Cut {
		t.Errorf("got %d steps, %d needs, cut %v, %v, want 12,001 steps, 10,000 needs, and cut",
			len(info.Steps), len(info.Needs), info.Cut, err)
	}
	if info, err = workflow.Get(t.Context(), c, w.ID, 10); err != nil || len(info.Steps) != 10 || !info.Cut {
		t.Errorf("got %d steps, cut %v, %v, want 10 and cut", len(info.Steps), info.Cut, err)
	}
	for _, limit := range []int{-1, workflow.MaxSteps + 1} {
		if _, err := workflow.Get(t.Context(), c, w.ID, limit); !errors.Is(err, dbq.ErrCount) {
			t.Errorf("limit %d: got %v, want ErrCount", limit, err)
		}
	}
}

// What is cancelled cancels what needs it, however long the chain is, without a worker.
func TestChainIsCancelledToItsEnd(t *testing.T) {
	t.Parallel()
	c := open(t)
	steps := []workflow.Step{{Name: "0", Queue: "q"}}
	for i := range 300 {
		steps = append(steps, workflow.Step{Name: fmt.Sprint(i + 1), Queue: "q", Needs: []string{fmt.Sprint(i)}})
	}
	w, err := workflow.Enqueue(t.Context(), c, steps)
	check.OK(t, err)
	check.OK(t, admin.New(c).Operate(t.Context(), admin.Cancel, w.TaskIDs[0]))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if last, err := c.Wait(ctx, w.TaskIDs[300]); err != nil || !last.Cancelled {
		t.Errorf("the last task is in %v, %v, want it cancelled", last.State, err)
	}
}

func TestCancelWithDryRunCountsAndChangesNothing(t *testing.T) {
	t.Parallel()
	c := open(t)
	w, err := workflow.Enqueue(t.Context(), c, fan(3))
	check.OK(t, err)
	for range 2 {
		if n, err := workflow.Cancel(t.Context(), c, w.ID, admin.DryRun()); n != 4 || err != nil {
			t.Errorf("got %d, %v, want 4", n, err)
		}
	}
}

func TestEnqueueRefusesInvalidSteps(t *testing.T) {
	t.Parallel()
	c := open(t)
	step := func(name string, needs ...string) workflow.Step {
		return workflow.Step{Name: name, Queue: "q", Needs: needs}
	}
	unencodable := workflow.NewStep("a", dbq.Kind[func()]{Name: "k", Queue: "q"}, nil)
	if _, err := workflow.Enqueue(t.Context(), c, []workflow.Step{unencodable}); !errors.Is(err, dbq.ErrPayload) {
		t.Errorf("a payload that cannot be encoded: got %v, want ErrPayload", err)
	}
	if _, err := workflow.Enqueue(t.Context(), c, []workflow.Step{{Name: "a"}}); !errors.Is(err, dbq.ErrQueueName) {
		t.Errorf("a step without a queue: got %v, want ErrQueueName", err)
	}
	var of *workflow.StepError
	_, err := workflow.Enqueue(t.Context(), c, []workflow.Step{{Name: "a", Queue: "q"}, {Name: "b", Needs: []string{"a"}}})
	if !errors.As(err, &of) || of.Step != 1 || of.Field != "Queue" {
		t.Errorf("a second step without a queue: the error is of step %+v", of)
	}
	for want, steps := range map[string][]workflow.Step{
		`a cycle: "a" needs "b" needs "c" needs "a"`:       {step("a", "b"), step("b", "c"), step("c", "a")},
		`a cycle: "b" needs "c" needs "b"`:                 {step("a", "b"), step("b", "c"), step("c", "b")},
		`step "a" needs "b", but no step has that name`:    {step("a", "b")},
		`two steps have the name "a"`:                      {step("a"), step("a")},
		`step "a" needs itself`:                            {step("a", "a")},
		`step "b" needs "a" twice`:                         {step("a"), step("b", "a", "a")},
		`the name of a step is empty`:                      {step("")},
		`OnFailure is "no", it must be one of`:             {{Name: "a", Queue: "q", OnFailure: "no"}},
		`the number of steps is 0, it must be 1 to 200000`: {},
	} {
		_, err := workflow.Enqueue(t.Context(), c, steps)
		if !errors.Is(err, workflow.ErrDefinition) || !errors.Is(err, dbq.ErrInvalid) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want ErrDefinition with %q", err, want)
		}
		field := "Needs"
		switch {
		case strings.Contains(want, "OnFailure"):
			field = "OnFailure"
		case strings.Contains(want, " name is") || strings.Contains(want, "the name"):
			field = "Name"
		}
		if of = nil; len(steps) > 0 && (!errors.As(err, &of) || of.Field != field) {
			t.Errorf("%s: the error is of the field %+v, want %s", want, of, field)
		}
	}
	if page, err := admin.New(c).List(t.Context(), admin.Filter{}); len(page.Tasks) != 0 || err != nil {
		t.Errorf("got %d tasks, %v, want none", len(page.Tasks), err)
	}
}

func TestHooksSeeEachStep(t *testing.T) {
	t.Parallel()
	unique := false
	hook := dbq.WithEnqueueHook(func(_ context.Context, queue string, t *dbq.NewTask) error {
		t.AddHeaders(map[string]string{"trace": queue, "step": "none"})
		if unique {
			t.Unique = &dbq.Unique{}
		}
		return nil
	})
	c, err := dbq.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "w.db"), dbq.WithMigrate(), hook)
	check.OK(t, err)
	defer c.Close()
	steps := fan(2)
	steps[2].Task.Headers = map[string]string{"step": "its own"}
	w, err := workflow.Enqueue(t.Context(), c, steps)
	check.OK(t, err)
	for i, step := range []string{"none", "none", "its own"} {
		task, err := c.Get(t.Context(), w.TaskIDs[i])
		if err != nil || task.Headers["trace"] != steps[i].Queue || task.Headers["step"] != step {
			t.Errorf("step %d has headers %v, %v; want trace %s, step %s", i, task.Headers, err, steps[i].Queue, step)
		}
	}
	unique = true
	if _, err := workflow.Enqueue(t.Context(), c, fan(2)); !errors.Is(err, workflow.ErrDefinition) {
		t.Errorf("a step that a hook makes unique: %v, want ErrDefinition", err)
	}
}

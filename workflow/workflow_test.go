package workflow_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	_ "github.com/dbq-go/dbq/dialect/sqlite"
	"github.com/dbq-go/dbq/workflow"
)

func open(t *testing.T) *dbq.Client {
	t.Helper()
	c, err := dbq.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "w.db"), dbq.WithMigrate())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// fan returns a step and n steps that need it.
func fan(q *dbq.Queue, n int) []workflow.Step {
	steps := []workflow.Step{{Name: "first", Queue: q}}
	for i := range n {
		steps = append(steps, workflow.Step{Name: fmt.Sprint(i), Queue: q, Needs: []string{"first"}})
	}
	return steps
}

func TestGetReportsThatItLeftEdgesOut(t *testing.T) {
	t.Parallel()
	c := open(t)
	w, err := workflow.Enqueue(t.Context(), c, fan(c.Queue("q"), 12_000))
	if err != nil {
		t.Fatal(err)
	}
	g, err := workflow.Get(t.Context(), c, w.ID, workflow.MaxSteps)
	if err != nil || len(g.Nodes) != 12_001 || len(g.Edges) != 10_000 || !g.Cut {
		t.Errorf("got %d nodes, %d edges, cut %v, %v, want 12,001 nodes, 10,000 edges, and cut",
			len(g.Nodes), len(g.Edges), g.Cut, err)
	}
	if g, err = workflow.Get(t.Context(), c, w.ID, 10); err != nil || len(g.Nodes) != 10 || !g.Cut {
		t.Errorf("got %d nodes, cut %v, %v, want 10 and cut", len(g.Nodes), g.Cut, err)
	}
	for _, limit := range []int{-1, workflow.MaxSteps + 1} {
		if _, err := workflow.Get(t.Context(), c, w.ID, limit); !errors.Is(err, dbq.ErrCount) {
			t.Errorf("limit %d: got %v, want ErrCount", limit, err)
		}
	}
}

func TestCancelWithDryRunCountsAndChangesNothing(t *testing.T) {
	t.Parallel()
	c := open(t)
	w, err := workflow.Enqueue(t.Context(), c, fan(c.Queue("q"), 3))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if n, err := workflow.Cancel(t.Context(), c, w.ID, admin.DryRun()); n != 4 || err != nil {
			t.Errorf("got %d, %v, want 4", n, err)
		}
	}
}

func TestEnqueueRefusesInvalidSteps(t *testing.T) {
	t.Parallel()
	c := open(t)
	q := c.Queue("q")
	step := func(name string, needs ...string) workflow.Step {
		return workflow.Step{Name: name, Queue: q, Needs: needs}
	}
	for want, steps := range map[string][]workflow.Step{
		`a cycle: "a" needs "b" needs "c" needs "a"`:       {step("a", "b"), step("b", "c"), step("c", "a")},
		`a cycle: "b" needs "c" needs "b"`:                 {step("a", "b"), step("b", "c"), step("c", "b")},
		`step "a" needs "b", but no step has that name`:    {step("a", "b")},
		`two steps have the name "a"`:                      {step("a"), step("a")},
		`step "a" needs itself`:                            {step("a", "a")},
		`step "b" needs "a" twice`:                         {step("a"), step("b", "a", "a")},
		`the name of a step is empty`:                      {step("")},
		`it has no Queue`:                                  {{Name: "a"}},
		`its Queue belongs to another client`:              {{Name: "a", Queue: open(t).Queue("q")}},
		`the number of steps is 0, it must be 1 to 200000`: {},
	} {
		_, err := workflow.Enqueue(t.Context(), c, steps)
		if !errors.Is(err, workflow.ErrInvalid) || !errors.Is(err, dbq.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want ErrInvalid with %q", err, want)
		}
	}
	if tasks, err := admin.New(c).List(t.Context(), admin.Filter{}); len(tasks) != 0 || err != nil {
		t.Errorf("got %d tasks, %v, want none", len(tasks), err)
	}
}

package api_test

import (
	"fmt"
	"testing"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/state"
	"github.com/dbq-go/dbq/workflow"
)

// failing makes the database refuse to change the tasks of the kind "locked".
func (s *site) failing() {
	s.t.Helper()
	if _, err := s.client.DB().ExecContext(s.t.Context(), `CREATE TRIGGER locked BEFORE UPDATE ON dbq_task
		WHEN NEW.kind = 'locked' BEGIN SELECT RAISE(ABORT, 'no'); END`); err != nil {
		s.t.Fatal(err)
	}
}

// TestEventThatFailsHalfWayReportsItsChanges makes the second of two transactions fail.
func TestEventThatFailsHalfWayReportsItsChanges(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	batch := access.Of(s.client).Store.OperateLimit(state.Cancel)
	tasks := make([]dbq.NewTask, 2*batch)
	tasks[2*batch-1].Kind = "locked"
	if _, err := s.client.Queue("mail").EnqueueMany(t.Context(), tasks); err != nil {
		t.Fatal(err)
	}
	s.failing()
	const path = "/v1/db/shop/operate/cancel"
	got := s.must(200, "POST", path, `{"filter":{"queue":"mail"},"limit":100000}`)
	if got["changed"] != float64(batch) || got["next"] == nil {
		t.Errorf("%v, want %d changed and a rest", got, batch)
	}
	rest := fmt.Sprintf(`{"filter":{"queue":"mail"},"limit":100000,"after":"%s"}`, got["next"])
	s.refused(422, "invalid", "POST", path, rest)
}

// TestWorkflowThatIsCancelledHalfWay makes the second transaction fail, which has the first steps.
func TestWorkflowThatIsCancelledHalfWay(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	steps := []workflow.Step{{Name: "first", Queue: "mail", Task: dbq.NewTask{Kind: "locked"}}}
	for i := range access.Of(s.client).Store.OperateLimit(state.Cancel) {
		steps = append(steps, workflow.Step{Name: fmt.Sprint(i), Queue: "mail", Needs: []string{"first"}})
	}
	w, err := workflow.Enqueue(t.Context(), s.client, steps)
	check.OK(t, err)
	s.failing()
	s.refused(500, "may-have-happened", "POST", "/v1/db/shop/operate/cancel",
		fmt.Sprintf(`{"filter":{"workflow":"%s"},"limit":100000}`, w.ID))
}

package engines

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/workflow"
)

// TestRolesOfWorkflows holds SECURITY.md against the engines: a worker needs each grant that it has for workflows, a
// producer needs only INSERT of them, and a monitor only SELECT.
func TestRolesOfWorkflows(t *testing.T) {
	t.Parallel()
	steps := []workflow.Step{{Name: "a", Queue: "q"}, {Name: "b", Queue: "q", Needs: []string{"a"}}}
	for _, name := range roleTargets {
		t.Run("worker/"+name, func(t *testing.T) {
			t.Parallel()
			u := inRole(t, target{name: name}, "worker")
			ctx := t.Context()
			c, err := u.open()
			check.OK(t, err)
			q := c.Queue("q")
			work := func() error { // ends a task, and carries out what follows
				if _, err := workflow.Enqueue(ctx, u.admin, steps); err != nil {
					t.Fatal(err)
				}
				ts, err := q.Checkout(ctx, 1, time.Minute)
				if err != nil || len(ts) != 1 {
					t.Fatalf("checkout of %d: %v", len(ts), err)
				}
				check.OK(t, q.Complete(ctx, ts[0].Lease, nil))
				return workflow.Resume(ctx, c)
			}
			grants := workflowGrants(t)
			for _, missing := range grants {
				for _, grant := range grants {
					if grant != missing {
						u.grant(grant)
					}
				}
				if err := work(); !errors.Is(err, dbq.ErrDenied) {
					t.Errorf("without %s: got %v, want ErrDenied", missing, err)
				}
				for _, grant := range grants {
					if grant != missing {
						u.revoke(grant)
					}
				}
			}
			for _, grant := range grants {
				u.grant(grant)
			}
			if err := work(); err != nil {
				t.Errorf("with all grants: %v", err)
			}
			if ts, err := q.Checkout(ctx, 10, time.Minute); err != nil || len(ts) != len(grants)+1 {
				t.Errorf("%d tasks that waited are due, error %v, want %d", len(ts), err, len(grants)+1)
			}
		})
		for role, right := range map[string]string{"producer": "INSERT", "monitor": "SELECT"} {
			t.Run(role+"/"+name, func(t *testing.T) {
				t.Parallel()
				u := inRole(t, target{name: name}, role)
				w, err := workflow.Enqueue(t.Context(), u.admin, steps)
				check.OK(t, err)
				c, err := u.open(dbq.WithoutNotify())
				check.OK(t, err)
				work := func() error {
					if role == "producer" {
						_, err := workflow.Enqueue(t.Context(), c, steps)
						return err
					}
					_, err := workflow.Get(t.Context(), c, w.ID, 0)
					return err
				}
				for _, grant := range workflowGrants(t) {
					if err := work(); !errors.Is(err, dbq.ErrDenied) {
						t.Errorf("without %s: got %v, want ErrDenied", grant, err)
					}
					u.grant("GRANT " + right + grant[strings.Index(grant, " ON "):])
				}
				if err := work(); err != nil {
					t.Errorf("with %s on both tables: %v", right, err)
				}
			})
		}
	}
}

// workflowGrants returns the grants of SECURITY.md for workflows.
func workflowGrants(t *testing.T) []string {
	t.Helper()
	return grantsOf(t, "workflows", "postgres")
}

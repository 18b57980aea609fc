//go:build unix

package main

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/workflow"
)

// newOrder enqueues the workflow of an order in the database file of dbq's commands: charge, pack, ship and mail.
func newOrder(u *user) workflow.Enqueued {
	c, err := dbq.Open(u.t.Context(), "sqlite:"+u.file("dbq.db"), dbq.WithMigrate(),
		dbq.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		u.t.Fatal(err)
	}
	defer c.Close()
	w, err := workflow.Enqueue(u.t.Context(), c, []workflow.Step{
		{Name: "charge", Queue: "orders"}, {Name: "pack", Queue: "orders"},
		{Name: "ship", Queue: "orders", Needs: []string{"charge", "pack"}, OnFailure: workflow.WaitStep},
		{Name: "mail", Queue: "mail", Needs: []string{"ship"}, OnFailure: workflow.IgnoreFailure},
	})
	if err != nil {
		u.t.Fatal(err)
	}
	return w
}

func TestWorkflowShowsItsSteps(t *testing.T) {
	u := newUser(t)
	w := newOrder(u)
	for _, id := range []string{w.ID.String(), w.TaskIDs[2].String()} {
		lines := strings.Split(strings.TrimSpace(u.run("workflow", id).ok()), "\n")
		if len(lines) != 5 {
			t.Fatalf("got %d lines, want a header and 4 steps: %q", len(lines), lines)
		}
		for i, want := range [][]string{{"TASK", "QUEUE", "NAME", "STATE", "NEEDS"}, {"orders", "charge", "CREATED", "-"},
			{"orders", "pack", "CREATED", "-"}, {"orders", "ship", "CREATED, waits for 2", "charge, pack"},
			{"mail", "mail", "CREATED, waits for 1", "ship"}} {
			for _, text := range want {
				if !strings.Contains(lines[i], text) {
					t.Errorf("line %q lacks %q", lines[i], text)
				}
			}
		}
	}
	u.run("show", w.TaskIDs[2].String()).has(w.ID.String(), "ship")
	if o := u.run("workflow", w.ID.String(), "--limit", "2"); !strings.Contains(o.err, "--limit") {
		t.Errorf("a workflow of more steps than --limit is cut without a note: %s", o.err)
	}
	u.run("workflow", dbq.NewID().String()).fails(exitNotFound, "no workflow has this id")
}

func TestWorkflowFormats(t *testing.T) {
	u := newUser(t)
	id := newOrder(u).ID.String()
	u.run("workflow", id, "--mermaid").has("flowchart TD\n", `n2["ship<br/>CREATED, waits for 2"]`, "n0 -- wait --> n2\n",
		"n2 -. ignore .-> n3\n")
	got := u.run("workflow", id, "--json").one()
	steps, needs := got["steps"].([]any), got["needs"].([]any)
	ship, mail := steps[2].(map[string]any), needs[2].(map[string]any)
	if got["id"] != id || len(steps) != 4 || len(needs) != 3 || ship["name"] != "ship" || ship["waits_for"] != 2.0 ||
		ship["state"] != "CREATED" || mail["parent"] != ship["task_id"] || mail["on_failure"] != "ignore" ||
		mail["met"] != false {
		t.Errorf("got the document %v", got)
	}
	u.run("workflow", id, "--json", "--mermaid").fails(exitUsage, "--json", "--mermaid")
}

func TestVerbsTakeAWorkflow(t *testing.T) {
	u := newUser(t)
	w := newOrder(u)
	other := newOrder(u)
	id := w.ID.String()
	if n := len(u.run("list", "--workflow", id, "--json").jsonLines()); n != 4 {
		t.Errorf("list has %d tasks of the workflow, want 4", n)
	}
	u.run("cancel", "--workflow", id, "--reason", "no stock").has("4")
	u.run("workflow", id).has("POISON, cancelled")
	if text := u.run("workflow", other.ID.String()).ok(); strings.Contains(text, "POISON") {
		t.Errorf("another workflow was cancelled too:\n%s", text)
	}
	u.run("reenqueue", "--workflow", id, "--state", "poison").has("0") // what was cancelled is left out
	u.run("reenqueue", "--workflow", id, "--cancelled").has("4")
	u.run("workflow", id).has("CREATED, waits for 2")
	u.run("list", "--workflow", "no").fails(exitUsage, "no")
	u.run("cancel", "--workflow", "00000000-0000-0000-0000-000000000000").fails(exitUsage, "is not a task id")
}

func TestPurgeGoesPastWhatAWorkflowNeeds(t *testing.T) {
	u := newUser(t)
	w := newOrder(u)
	free := u.run("enqueue", "-q", "orders").id()
	u.run("reject", w.TaskIDs[0].String(), w.TaskIDs[1].String(), free).ok()
	got := u.run("purge", "-q", "orders", "--parked", "--limit", "1", "--yes", "--json").one()
	if got["changed"] != 1.0 || got["more"] != true {
		t.Errorf("got %v, want one task purged, and perhaps more", got)
	}
	u.run("show", free).fails(exitNotFound, free)
	u.run("purge", "-q", "orders", "--parked", "--limit", "1", "--yes").has("0 tasks deleted")
}

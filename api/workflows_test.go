package api_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dbq-go/dbq"
	operators "github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/workflow"
)

const workflows = "/v1/db/shop/workflows"

// order is a workflow in two queues, of which the last step comes first.
const order = `{"steps": [
	{"name": "ship", "queue": "other", "kind": "ship", "payload": {"n": 7}, "needs": ["charge", "pack"],
		"on_failure": "wait"},
	{"name": "charge", "queue": "mail", "key": "ann", "headers": {"h": "x"}, "max_attempts": 1},
	{"name": "pack", "queue": "mail", "payload_base64": "/w==", "priority": 2}]}`

// steps returns the tasks of a workflow that was enqueued, by the names of their steps.
func steps(response map[string]any) map[string]string {
	out := map[string]string{}
	for _, s := range response["steps"].([]any) {
		s := s.(map[string]any)
		out[s["name"].(string)] = s["task_id"].(string)
	}
	return out
}

// The needs of a workflow are bounded: the rows of a million stop a SQLite database's only writer for 10 seconds.
func TestNeedsOfAWorkflowAreBounded(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	body := func(needs int) string {
		var of, by strings.Builder
		for i := range 100 {
			fmt.Fprintf(&of, `{"name":"a%d","queue":"mail"},`, i)
		}
		for i := range 100 {
			fmt.Fprintf(&by, `,"a%d"`, i)
		}
		for i := range needs / 100 {
			fmt.Fprintf(&of, `{"name":"b%d","queue":"mail","needs":[%s]},`, i, by.String()[1:])
		}
		return `{"steps":[` + strings.TrimSuffix(of.String(), ",") + `]}`
	}
	s.must(201, "POST", workflows, body(20_000))
	text := s.refused(422, "invalid-request", "POST", workflows, body(20_100))
	if !strings.Contains(text, "all steps have more than 20000 needs") {
		t.Errorf("the problem does not name the limit: %s", text)
	}
}

// A signal needs the right to work on the queue of its step, and nothing else of the workflow.
func TestSignalCompletesAStep(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	w := s.must(201, "POST", workflows, `{"steps": [
		{"name": "order", "queue": "other"}, {"name": "asked", "queue": "mail", "delay_seconds": 3600},
		{"name": "paid", "queue": "mail", "delay_seconds": 3600},
		{"name": "ship", "queue": "mail", "needs": ["order", "asked"]}]}`)
	id, tasks := w["id"].(string), steps(w)
	signal := workflows + "/" + id + "/signal"
	hook := s.as(auth.Principal{Name: "hook", Role: auth.Trigger, Queues: []string{"mail"}})
	hook.refused(404, "not-found", "POST", signal, `{"step":"order","value":1}`)
	hook.refused(404, "not-found", "POST", signal, `{"step":"planted"}`)
	hook.refused(422, "invalid-request", "POST", signal, `{"step":""}`)
	hook.refused(409, "wrong-state", "POST", signal, `{"step":"ship","value":1}`)
	hook.refused(422, "payload", "POST", signal, `{"step":"asked","value":"`+strings.Repeat("x", dbq.MaxResult)+`"}`)
	s.as(auth.Principal{Name: "viewer", Role: auth.Viewer}).refused(403, "forbidden", "POST", signal, `{"step":"asked"}`)
	for step, value := range map[string]string{"asked": `{"by": "ann"}`, "paid": "null"} {
		body := `{"step":"` + step + `","value":` + value + `}`
		if got := hook.must(200, "POST", signal, body); got["state"] != "COMPLETED" {
			t.Errorf("the signal for %s: %v", step, got)
		}
		hook.refused(409, "wrong-state", "POST", signal, body)
		got := s.must(200, "GET", "/v1/db/shop/tasks/"+tasks[step], "")["result"]
		if want := strings.ReplaceAll(value, " ", ""); got != want {
			t.Errorf("step %s has the result %v, want %s", step, got, want)
		}
	}
	s.refused(404, "not-found", "POST", workflows+"/"+dbq.NewID().String()+"/signal", `{"step":"asked"}`)
}

func TestWorkflowIsEnqueuedDrawnAndChanged(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	added := s.must(201, "POST", workflows, order)
	tasks := steps(added)
	path := workflows + "/" + added["id"].(string)
	ship := s.must(200, "GET", "/v1/db/shop/tasks/"+tasks["ship"], "")
	if ship["payload"] != `{"n": 7}` || ship["queue"] != "other" || ship["kind"] != "ship" || ship["blocked"] != true {
		t.Errorf("the last step is %v", ship)
	}
	if pack := s.must(200, "GET", "/v1/db/shop/tasks/"+tasks["pack"], ""); pack["payload_base64"] != "/w==" ||
		pack["priority"] != 2.0 {
		t.Errorf("a step is %v", pack)
	}
	read := s.must(200, "GET", path, "")
	if needs := read["needs"].([]any); len(needs) != 2 || needs[0].(map[string]any)["on_failure"] != "wait" {
		t.Errorf("it has %v", read)
	}

	for query, want := range map[string][]string{
		"":         {"flowchart TD\n", `["ship<br/>CREATED, waits for 2"]`, "-- wait -->"},
		"?limit=1": {"%% There are more steps"},
	} {
		status, text := s.send("GET", path+"/graph"+query, "")
		for _, w := range want {
			if status != 200 || !strings.Contains(text, w) {
				t.Errorf("%s: %d %s, want %s", query, status, text, w)
			}
		}
	}
	if got := s.must(200, "GET", path+"?limit=2", ""); len(got["steps"].([]any)) != 2 || got["cut"] != true ||
		len(got["needs"].([]any)) != 0 {
		t.Errorf("two steps: %v", got)
	}
	if got := s.must(200, "GET", path+"?limit=3", ""); len(got["steps"].([]any)) != 3 || got["cut"] != nil {
		t.Errorf("three steps: %v", got)
	}

	if got := s.must(200, "POST", path+"/cancel", `{"reason":"no stock"}`, "X-Request-Id", "r1"); got["changed"] != 3.0 {
		t.Errorf("cancel: %v", got)
	}
	if got := s.must(200, "POST", path+"/retry", `{"reason":"new stock"}`); got["changed"] != 3.0 {
		t.Errorf("retry: %v", got)
	}
	audit, err := operators.New(s.client).Audit(t.Context(), operators.AuditFilter{OldestFirst: true})
	if err != nil || len(audit.Entries) != 2 {
		t.Fatalf("the audit has %+v, %v", audit.Entries, err)
	}
	for i, want := range []string{"cancel ann no stock", "reenqueue ann new stock"} {
		if e := audit.Entries[i]; fmt.Sprint(e.Action, " ", e.By, " ", e.Reason) != want || e.Changed != 3 {
			t.Errorf("the audit has %+v, want %s", e, want)
		}
	}
	if audit.Entries[0].Request != "r1" {
		t.Errorf("the audit has %+v", audit.Entries[0])
	}
}

func TestWorkflowIsEnqueuedOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	first := s.must(201, "POST", workflows, order, "Idempotency-Key", "order-17")
	again := s.must(200, "POST", workflows, order, "Idempotency-Key", "order-17")
	if again["id"] != first["id"] || again["duplicate"] != true || fmt.Sprint(steps(again)) != fmt.Sprint(steps(first)) {
		t.Errorf("the same key gave %v, want a duplicate of %v", again, first)
	}
	other := s.must(201, "POST", workflows, order, "Idempotency-Key", "order-18")
	if other["id"] == first["id"] {
		t.Error("another key gave the same workflow")
	}
	// As long as one of its tasks exists, a repeated request adds nothing.
	tasks := steps(first)
	s.must(200, "POST", workflows+"/"+first["id"].(string)+"/cancel", `{}`)
	for _, name := range []string{"ship", "charge"} {
		s.must(200, "POST", "/v1/db/shop/tasks/"+tasks[name]+"/purge", `{}`)
	}
	if again = s.must(200, "POST", workflows, order, "Idempotency-Key", "order-17"); again["id"] != first["id"] ||
		steps(again)["pack"] != tasks["pack"] {
		t.Errorf("after two tasks were purged: %v", again)
	}

	const own = `{"steps":[{"name":"a","queue":"mail","reference":"r1"},{"name":"b","queue":"mail","needs":["a"]}]}`
	first = s.must(201, "POST", workflows, own)
	if again = s.must(200, "POST", workflows, own); again["id"] != first["id"] || again["duplicate"] != true {
		t.Errorf("the same reference gave %v, want a duplicate of %v", again, first)
	}
	s.refused(422, "invalid-request", "POST", workflows, own, "Idempotency-Key", "order-19")
	// The reference of another task.
	id := s.must(201, "POST", mail+"/tasks", `{"reference":"r2"}`)["id"].(string)
	text := s.refused(409, "duplicate", "POST", workflows, `{"steps":[{"name":"a","queue":"mail","reference":"r2"}]}`)
	if !strings.Contains(text, id) {
		t.Errorf("the problem does not name the task: %s", text)
	}
	s.refused(409, "duplicate", "POST", workflows, `{"steps":[{"name":"c","queue":"mail","reference":"r1"}]}`)
	if n := len(s.must(200, "GET", "/v1/db/shop/tasks", "")["tasks"].([]any)); n != 1+3+2+1 {
		t.Errorf("there are %d tasks, want 7", n)
	}
}

func TestInvalidWorkflowsAreProblems(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	many := strings.Repeat(`{"name":"planted","queue":"mail"},`, 10_000) + `{"name":"planted","queue":"mail"}`
	for _, c := range []struct{ problem, location, steps string }{
		{"invalid-request", "body.steps", ``},
		{"invalid-request", "body.steps", many},
		{"invalid-request", "body.steps[0]", `{"queue":"mail"}`},
		{"invalid-request", "body.steps[0]", `{"name":"planted"}`},
		{"invalid-request", "body.steps[0].id", `{"name":"a","queue":"mail","id":"0198c1f2-7a3b-7c4d-8e5f-0123456789ab"}`},
		{"invalid-request", "body.steps[0].unique", `{"name":"a","queue":"mail","unique":{"key":"planted"}}`},
		{"invalid-request", "body.steps[0].on_failure", `{"name":"a","queue":"mail","on_failure":"planted"}`},
		{"invalid-request", "body.steps[1].payload",
			`{"name":"a","queue":"mail"},{"name":"b","queue":"mail","payload":"planted","payload_base64":"cGxhbnRlZA=="}`},
		{"workflow", "body.steps[0].name", `{"name":"","queue":"mail"}`},
		{"workflow", "body.steps[1].name", `{"name":"planted","queue":"mail"},{"name":"planted","queue":"mail"}`},
		{"workflow", "body.steps[0].needs", `{"name":"a","queue":"mail","needs":["planted"]}`},
		{"workflow", "body.steps[0].needs",
			`{"name":"planted","queue":"mail","needs":["b"]},{"name":"b","queue":"mail","needs":["planted"]}`},
		{"queue-name", "body.steps[0].queue", `{"name":"a","queue":"planted\n"}`},
		{"kind", "body.steps[1]", `{"name":"a","queue":"mail"},{"name":"b","queue":"mail","kind":"planted\n"}`},
		{"delay", "body.steps[0]", `{"name":"a","queue":"mail","delay_seconds":1,"run_at":"2030-01-01T00:00:00Z"}`},
	} {
		text := s.refused(422, c.problem, "POST", workflows, `{"steps":[`+c.steps+`]}`)
		if !strings.Contains(text, `"location":"`+c.location+`"`) || strings.Contains(text, "planted") {
			t.Errorf("%.200s: %s, want a problem with %s", c.steps, text, c.location)
		}
	}
	if n := len(s.must(200, "GET", "/v1/db/shop/tasks", "")["tasks"].([]any)); n != 0 {
		t.Errorf("the refused requests added %d tasks", n)
	}
	id := s.must(201, "POST", mail+"/tasks", `{}`)["id"].(string)
	for _, path := range []string{workflows + "/" + id, workflows + "/0198c1f2-7a3b-7c4d-8e5f-0123456789ab"} {
		s.refused(404, "not-found", "POST", path+"/cancel", `{}`)
		s.refused(404, "not-found", "POST", path+"/retry", `{}`)
		s.refused(404, "not-found", "GET", path+"/graph", "")
	}
	s.refused(422, "invalid-request", "POST", workflows+"/"+id+"/planted", `{}`)
	s.refused(422, "invalid-request", "POST", workflows+"/planted/cancel", `{}`)
	s.refused(422, "invalid-request", "GET", workflows+"/"+id+"/graph?format=planted", "")
}

// TestWorkflowsAreSeenAndChangedAsAWhole uses workflows as callers that may touch only some of their queues.
func TestWorkflowsAreSeenAndChangedAsAWhole(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	path := workflows + "/" + s.must(201, "POST", workflows, order, "Idempotency-Key", "k")["id"].(string)
	mailer := s.as(auth.Principal{Name: "m", Role: auth.Operator, Queues: []string{"mail"}})
	if text := mailer.refused(403, "forbidden", "POST", workflows, order); !strings.Contains(text, "body.steps[0].queue") {
		t.Errorf("the problem does not name the step: %s", text)
	}
	for _, r := range [][3]string{
		{"GET", "", ""}, {"GET", "/graph", ""}, {"POST", "/cancel", `{}`}, {"POST", "/retry", `{}`},
	} {
		mailer.refused(404, "not-found", r[0], path+r[1], r[2])
	}
	// A key belongs to a workflow with a step in another queue.
	const one = `{"steps":[{"name":"x","queue":"mail"},{"name":"charge","queue":"mail"}]}`
	mailer.refused(409, "duplicate", "POST", workflows, one, "Idempotency-Key", "k")

	both := s.as(auth.Principal{Name: "b", Role: auth.Operator, Queues: []string{"other", "mail"}})
	both.must(201, "POST", workflows, order)
	both.must(200, "GET", path, "")
	both.refused(422, "invalid-request", "GET", path+"/graph?limit=2", "")
	if got := both.must(200, "POST", path+"/cancel", `{}`); got["changed"] != 3.0 {
		t.Errorf("cancel: %v", got)
	}

	viewer := s.as(auth.Principal{Name: "v", Role: auth.Viewer})
	viewer.refused(403, "forbidden", "POST", workflows, order)
	trigger := s.as(auth.Principal{Name: "t", Role: auth.Trigger})
	trigger.must(201, "POST", workflows, order)
	for _, s := range []*site{viewer, trigger} {
		s.refused(403, "forbidden", "POST", path+"/cancel", `{}`)
		s.refused(403, "forbidden", "POST", path+"/retry", `{}`)
		if status, text := s.send("GET", path+"/graph", ""); status != 200 || !strings.Contains(text, "ship") {
			t.Errorf("a viewer gets %d %s", status, text)
		}
	}
	elsewhere := s.as(auth.Principal{Name: "e", Role: auth.Admin, Databases: []string{"log"}})
	elsewhere.refused(403, "forbidden", "POST", workflows, order)
	elsewhere.refused(403, "forbidden", "POST", path+"/cancel", `{}`)
	elsewhere.refused(403, "forbidden", "GET", path+"/graph", "")
}

// TestLargeWorkflowsOfRestrictedCallers changes a workflow that is too large for a look at all of its queues.
func TestLargeWorkflowsOfRestrictedCallers(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: it adds 10,001 tasks")
	}
	s := newSite(t)
	var all []workflow.Step
	for i := range 10_001 {
		all = append(all, workflow.Step{Name: fmt.Sprint(i), Queue: "mail", Task: dbq.NewTask{}})
	}
	w, err := workflow.Enqueue(t.Context(), s.client, all)
	check.OK(t, err)
	mailer := s.as(auth.Principal{Name: "m", Role: auth.Operator, Queues: []string{"mail"}})
	path := workflows + "/" + w.ID.String()
	mailer.refused(403, "forbidden", "POST", path+"/cancel", `{}`)
	mailer.refused(422, "invalid-request", "GET", path+"?limit=10000", "")
	if got := s.must(200, "POST", path+"/cancel", `{}`); got["changed"] != 10_001.0 {
		t.Errorf("cancel: %v", got)
	}
}

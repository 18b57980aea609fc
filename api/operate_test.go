package api_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/dbq-go/dbq"
	operators "github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/schedule"
	"github.com/dbq-go/dbq/state"
	"github.com/dbq-go/dbq/worker"
	"github.com/dbq-go/dbq/workflow"
)

func TestEveryEventOfOperatorsIsAPath(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	id := s.must(201, "POST", mail+"/tasks", `{}`)["id"].(string)
	task := "/v1/db/shop/tasks/" + id
	for _, step := range [][2]string{ // from CREATED through every event
		{"reject", "ERROR"}, {"quarantine", "POISON"}, {"restore", "ERROR"}, {"reenqueue", "CREATED"}, {"cancel", "POISON"},
		{"reenqueue", "CREATED"},
	} {
		got := s.must(200, "POST", task+"/"+step[0], `{"reason":"a test"}`)
		if now := s.must(200, "GET", task, ""); got["state"] != step[1] || now["state"] != step[1] {
			t.Errorf("%s: %v, then %v, want %s", step[0], got["state"], now["state"], step[1])
		}
	}
	lease := one(t, s.must(200, "POST", mail+"/checkout", `{}`), "tasks")["lease"].(string)
	s.must(200, "POST", task+"/revoke", `{"reason":"a test"}`)
	if r, _ := s.must(200, "GET", task, "")["result"].(string); r != "revoked by ann: a test" {
		t.Errorf("the result is %q", r)
	}
	lost := one(t, s.must(200, "POST", mail+"/settle", `{"settlements":[{"outcome":"complete","lease":"`+lease+`"}]}`),
		"settled")
	if lost["problem"] == nil {
		t.Error("the holder of a revoked task settled it")
	}
	s.refused(409, "wrong-state", "POST", task+"/revoke", `{}`)
	s.refused(422, "invalid-request", "POST", task+"/planted", `{}`)
	s.refused(422, "option", "POST", task+"/cancel", `{"result":"only finish has one"}`)
	s.refused(422, "option", "POST", task+"/finish", `{"result":"`+strings.Repeat("x", dbq.MaxResult+1)+`"}`)
	s.must(200, "POST", task+"/finish", `{"result":{"by":"hand"}}`)
	if now := s.must(200, "GET", task, ""); now["state"] != "COMPLETED" || now["result"] != `{"by":"hand"}` {
		t.Errorf("a finished task is %v", now)
	}
	if got := s.must(200, "POST", task+"/purge", `{}`); got["state"] != "REMOVED" {
		t.Errorf("purge: %v", got)
	}
	s.refused(404, "not-found", "POST", task+"/purge", `{}`)
	for _, e := range state.ByOperator() {
		if !strings.Contains(string(s.spec), string(e.Event)) {
			t.Errorf("the description does not list %s", e.Event)
		}
	}
}

// Null is a value only of a payload and a result. Elsewhere it would be taken for a field that was left out.
func TestNullIsRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, r := range [][3]string{
		{"POST", mail + "/tasks", `{"kind":null}`}, {"POST", mail + "/tasks", `{"unique":null}`},
		{"POST", mail + "/tasks", `{"run_at":null}`}, {"POST", mail + "/tasks", `{"delay_seconds":null}`},
		{"POST", mail + "/tasks", `{"headers":{"a":null}}`}, {"POST", mail + "/tasks", `null`},
		{"POST", mail + "/tasks", `{"payload_base64":null}`}, {"POST", mail + "/tasks/batch", `{"tasks":[null]}`},
		{"POST", mail + "/checkout", `{"worker":null}`}, {"POST", mail + "/pause", `null`},
		{"POST", mail + "/settle", `{"settlements":null}`}, {"POST", mail + "/extend", `{"leases":[null]}`},
		{"PATCH", mail + "/settings", `{"concurrency":null}`}, {"PATCH", mail + "/limits", `{"concurrency":null}`},
		{"PUT", schedules + "/s", `{"queue":"mail","cron":"@daily","revision":null}`},
		{"POST", workflows, `{"steps":[{"name":"a","queue":"mail","needs":null}]}`},
		{"POST", "/v1/db/shop/operate/cancel", `{"filter":{},"limit":1,"after":null}`},
	} {
		s.refused(422, "invalid-request", r[0], r[1], r[2])
	}
	s.must(201, "POST", mail+"/tasks", `{"payload":null}`)
}

// A part of a request that cannot be read, or that says nothing, is not left out: the request would apply to more.
func TestWhatCannotBeReadWidensNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.must(201, "POST", mail+"/tasks", `{}`)
	for _, query := range []string{
		"?queue=%zz", "?queue=other;", "?queue=other&%", "?state=error&state=poison", "?other=x",
	} {
		s.refused(422, "invalid-request", "GET", "/v1/db/shop/tasks"+query, "")
		s.refused(422, "invalid-request", "POST", "/v1/db/shop/operate/cancel"+query, `{"filter":{},"limit":10}`)
	}
	for _, filter := range []string{
		`{"queue":""}`, `{"kind":""}`, `{"key":""}`, `{"reference":""}`, `{"workflow":""}`, `{"states":[]}`,
		`{"state":"error"}`, `{"queue":null}`, `{"queue":"mail","kind":null}`, `{"QUEUE":null}`, `{"states":null}`,
		`{"workflow":"00000000-0000-0000-0000-000000000000"}`, `{"entered_within_seconds":0}`,
	} {
		s.refused(422, "invalid-request", "POST", "/v1/db/shop/operate/cancel", `{"limit":10,"filter":`+filter+`}`)
	}
	s.refused(422, "invalid-request", "POST", "/v1/db/shop/operate/cancel", `{"limit":10,"filter":{},"dry_run":null}`)
	for _, query := range []string{"workflow=00000000-0000-0000-0000-000000000000", "entered_within_seconds=0"} {
		s.refused(422, "invalid-request", "GET", "/v1/db/shop/tasks?"+query, "")
	}
	if got := s.must(200, "POST", "/v1/db/shop/operate/cancel",
		`{"limit":10,"filter":{"entered_within_seconds":1e-10}}`); got["changed"] != 0.0 {
		t.Errorf("tasks that came into their state just now: %v", got)
	}
	if task := one(t, s.must(200, "GET", "/v1/db/shop/tasks", ""), "tasks"); task["state"] != "CREATED" {
		t.Errorf("the task is now %v", task)
	}
}

func TestManyTasksAreChangedByAFilter(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for i := range 5 {
		s.must(201, "POST", mail+"/tasks", fmt.Sprintf(`{"kind":"k%d"}`, i%2))
	}
	s.must(201, "POST", "/v1/db/shop/queues/other/tasks", `{}`)
	const path = "/v1/db/shop/operate/reject"
	dry := s.must(200, "POST", path, `{"filter":{"queue":"mail","kind":"k0"},"limit":100,"dry_run":true}`)
	if dry["changed"] != 3.0 || dry["dry_run"] != true || dry["next"] != nil {
		t.Errorf("dry run: %v", dry)
	}
	if got := s.must(200, "POST", path, `{"filter":{"queue":"mail","kind":"k0"},"limit":2}`); got["changed"] != 2.0 ||
		got["next"] == nil {
		t.Errorf("the first two: %v", got)
	}
	if got := s.must(200, "POST", path, `{"filter":{"states":["CREATED"]},"limit":100}`); got["changed"] != 4.0 {
		t.Errorf("the rest: %v", got)
	}
	s.refused(422, "invalid-request", "POST", path, `{"filter":{}}`)
	s.refused(422, "invalid-request", "POST", path, `{"filter":{"states":["planted"]},"limit":1}`)
	s.refused(422, "count", "POST", path, `{"filter":{},"limit":100000000}`)
}

// parkNeeded parks tasks that a workflow still needs, so that none of them can be purged, and a later one that can.
func (s *site) parkNeeded() (free string) {
	s.t.Helper()
	w, err := workflow.Enqueue(s.t.Context(), s.client, []workflow.Step{
		{Name: "a", Queue: "mail"}, {Name: "b", Queue: "mail"}, {Name: "c", Queue: "later", Needs: []string{"a", "b"}},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	free = s.must(201, "POST", mail+"/tasks", `{}`)["id"].(string)
	for _, id := range []string{w.TaskIDs[0].String(), w.TaskIDs[1].String(), free} {
		s.must(200, "POST", "/v1/db/shop/tasks/"+id+"/reject", `{}`)
	}
	return free
}

func TestTasksThatCannotChangeHideNoOthers(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	free := s.parkNeeded()
	const path = "/v1/db/shop/operate/purge"
	changed, after := 0.0, ""
	for range 3 {
		got := s.must(200, "POST", path, `{"filter":{"queue":"mail","parked":true},"limit":2`+after+`}`)
		changed += got["changed"].(float64)
		next, more := got["next"].(string)
		if !more {
			break
		}
		after = fmt.Sprintf(`,"after":%q`, next)
	}
	if changed != 1 {
		t.Errorf("%v tasks were purged, want 1", changed)
	}
	s.must(404, "GET", "/v1/db/shop/tasks/"+free, "")
	s.refused(422, "invalid-request", "POST", path, `{"filter":{},"limit":1,"after":"planted"}`)
}

func TestQueuesAreConfigured(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.must(201, "POST", mail+"/tasks", `{}`)
	s.must(204, "POST", mail+"/pause", `{"reason":"a test"}`)
	if tasks := s.must(200, "POST", mail+"/checkout", `{}`)["tasks"].([]any); len(tasks) != 0 {
		t.Errorf("a paused queue has %v", tasks)
	}
	s.must(200, "PATCH", mail+"/settings", `{"concurrency":3,"lease_seconds":60}`)
	s.must(200, "PATCH", mail+"/settings", `{"lease_seconds":0,"keep_completed_seconds":-1,"archive":true}`)
	s.must(200, "PATCH", mail+"/limits",
		`{"concurrency":1,"rate_starts":5,"rate_per_seconds":1,"rate_burst":5,"order":"skip"}`)
	q := one(t, s.must(200, "GET", "/v1/db/shop/queues", ""), "queues")
	if got := fmt.Sprint(q["settings"]); got != "map[archive:true concurrency:3 keep_completed_seconds:-1]" {
		t.Errorf("settings: %v", got)
	}
	if got := fmt.Sprint(s.must(200, "GET", mail+"/limits", "")); got !=
		"map[concurrency:1 order:skip per_key:true rate_burst:5 rate_per_seconds:1 rate_starts:5]" {
		t.Errorf("limits: %v", got)
	}
	s.must(200, "PATCH", mail+"/limits",
		`{"rate_starts":0,"order":"","key_rate_starts":3,"key_rate_per_seconds":60,"key_rate_burst":2}`)
	if got := fmt.Sprint(s.must(200, "GET", mail+"/limits", "")); got !=
		"map[concurrency:1 key_rate_burst:2 key_rate_per_seconds:60 key_rate_starts:3 per_key:true]" {
		t.Errorf("limits: %v", got)
	}
	s.refused(422, "option", "PATCH", mail+"/limits", `{"key_rate_burst":0}`)
	s.refused(404, "not-found", "DELETE", mail+"/limits", "")
	check.OK(t, operators.New(s.client).DeclareLimits(t.Context(), "mail", operators.QueueLimits{Concurrency: 4}))
	if got := one(t, s.must(200, "GET", "/v1/db/shop/queues", ""), "queues"); fmt.Sprint(got["declared_limits"]) !=
		"map[concurrency:4]" || fmt.Sprint(got["limits"]) == "map[concurrency:4]" {
		t.Errorf("with declared limits: %v", got)
	}
	if got := fmt.Sprint(s.must(200, "DELETE", mail+"/limits", "")); got != "map[concurrency:4]" {
		t.Errorf("the reset limits: %v", got)
	}
	if q["paused"] != true || q["by"] != "ann" || q["reason"] != "a test" {
		t.Errorf("paused: %v", q)
	}
	if got := s.must(200, "GET", mail+"/settings", ""); got["concurrency"] != 3.0 {
		t.Errorf("settings: %v", got)
	}
	s.must(204, "POST", mail+"/resume", `{}`)
	one(t, s.must(200, "POST", mail+"/checkout", `{}`), "tasks")
	s.refused(422, "invalid-request", "PATCH", mail+"/settings", `{"history":"planted"}`)
	s.refused(422, "max-attempts", "PATCH", mail+"/settings", `{"max_attempts":1000000}`)
}

func TestSchedulesAndWorkflowsAreShown(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ctx := t.Context()
	err := schedule.New(s.client).Put(ctx, schedule.Schedule{Name: "night ly", Cron: "30 2 * * *", Queue: "mail",
		Task: dbq.NewTask{Kind: "report", Payload: []byte("planted")}})
	check.OK(t, err)
	const path = "/v1/db/shop/schedules/night%20ly/"
	if got := one(t, s.must(200, "GET", "/v1/db/shop/schedules", ""), "schedules"); got["kind"] != "report" {
		t.Errorf("schedules: %v", got)
	}
	s.must(200, "POST", path+"pause", `{"reason":"a test"}`)
	if got := one(t, s.must(200, "GET", "/v1/db/shop/schedules", ""), "schedules"); got["by"] != "ann" {
		t.Errorf("paused: %v", got)
	}
	s.must(200, "POST", path+"resume", `{}`)
	id := s.must(200, "POST", path+"run", `{}`)["task_id"].(string)
	s.must(200, "GET", "/v1/db/shop/tasks/"+id, "")
	s.must(200, "POST", path+"delete", `{}`)
	s.refused(404, "not-found", "POST", path+"pause", `{}`)

	w, err := workflow.Enqueue(ctx, s.client, []workflow.Step{
		{Name: "a", Queue: "mail"}, {Name: "b", Queue: "other", Needs: []string{"a"}},
	})
	check.OK(t, err)
	get := "/v1/db/shop/workflows/" + w.ID.String()
	if got := s.must(200, "GET", get, ""); len(got["steps"].([]any)) != 2 || one(t, got, "needs")["met"] != false {
		t.Errorf("workflow: %v", got)
	}
	mailer := s.as(auth.Principal{Name: "m", Role: auth.Operator, Queues: []string{"mail"}})
	mailer.refused(404, "not-found", "GET", get, "")
	mailer.refused(403, "forbidden", "POST", "/v1/db/shop/operate/cancel", `{"filter":{},"limit":1}`)
	mailer.must(200, "POST", "/v1/db/shop/operate/cancel", `{"filter":{"queue":"mail"},"limit":1,"dry_run":true}`)
}

// registerWorker runs a worker until the test ends.
func registerWorker(t *testing.T, c *dbq.Client) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		none := func(context.Context, dbq.Task) dbq.Outcome { return dbq.Completed(nil) }
		w := worker.Worker{Queue: c.Queue("mail"), Handler: worker.HandlerFunc(none), Logger: slog.New(slog.DiscardHandler)}
		ended <- w.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-ended })
}

func TestWorkersAreCommanded(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	registerWorker(t, s.client)
	var list []any
	check.Eventually(t, "the worker is listed", func() bool {
		list = s.must(200, "GET", "/v1/db/shop/workers", "")["workers"].([]any)
		return len(list) > 0
	})
	w := list[0].(map[string]any)
	s.must(204, "POST", "/v1/db/shop/workers/command", fmt.Sprintf(`{"worker":%q,"command":"pause"}`, w["id"]))
	s.refused(404, "not-found", "POST", "/v1/db/shop/workers/command", `{"worker":"planted","command":"pause"}`)
	s.refused(422, "invalid-request", "POST", "/v1/db/shop/workers/command", `{"worker":"w","command":"planted"}`)
}

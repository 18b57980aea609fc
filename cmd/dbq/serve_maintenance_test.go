//go:build unix

package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/internal/store"
	"github.com/dbq-go/dbq/state"
	"github.com/dbq-go/dbq/workflow"
)

// call sends a request, which succeeds, and decodes the response into out, unless that is nil.
func (s *serving) call(method, path, body string, out any) {
	s.t.Helper()
	status, text := s.send(method, path, body)
	if status >= 300 {
		s.t.Fatalf("%s %s: %d %s", method, path, status, text)
	}
	if out != nil {
		if err := json.NewDecoder(strings.NewReader(text)).Decode(out); err != nil {
			s.t.Fatalf("%s %s: %s: %v", method, path, text, err)
		}
	}
}

// checkedOut is a task that a checkout has returned.
type checkedOut struct{ ID, Payload, Lease string }

// checkout waits for a task of a queue.
func (s *serving) checkout(queue string) (task checkedOut) {
	s.t.Helper()
	var out struct{ Tasks []checkedOut }
	s.call("POST", "/v1/db/default/queues/"+queue+"/checkout", `{"wait_seconds": 20, "worker": "w"}`, &out)
	if len(out.Tasks) != 1 {
		s.t.Fatalf("%d tasks of %s were checked out, want 1", len(out.Tasks), queue)
	}
	return out.Tasks[0]
}

// complete completes a task.
func (s *serving) complete(queue string, task checkedOut) {
	s.t.Helper()
	s.call("POST", "/v1/db/default/queues/"+queue+"/settle",
		`{"settlements": [{"outcome": "complete", "lease": "`+task.Lease+`"}]}`, nil)
}

func TestServeRemovesTasksOfQueuesWithoutGoWorkers(t *testing.T) {
	u := newUser(t)
	u.env = append(u.env, cleanEvery+"=100ms")
	s := u.serveProcess()
	const queue = "/v1/db/default/queues/mail"
	s.call("PATCH", queue+"/settings", `{"keep_completed_seconds": 0.2}`, nil)
	for range 2 {
		s.call("POST", queue+"/tasks", `{}`, nil)
	}
	task, waiting := s.checkout("mail"), s.checkout("mail")
	s.complete("mail", task)
	check.Eventually(t, "the completed task is removed", func() bool {
		status, _ := s.get("/v1/db/default/tasks/" + task.ID)
		return status == http.StatusNotFound
	})
	if status, text := s.get("/v1/db/default/tasks/" + waiting.ID); status != http.StatusOK {
		t.Errorf("the other task: %d %s", status, text)
	}
	s.stops()
}

// A server that is killed after the end of a step and before the workflow advances leaves the rows that this test
// writes: the settlement, with the record of the change for the workflow. The next server does it.
func TestServeContinuesAWorkflowAfterAKill(t *testing.T) {
	for _, engine := range servedEngines {
		t.Run(engine, func(t *testing.T) { continueAWorkflow(t, engine) })
	}
}

func continueAWorkflow(t *testing.T, engine string) {
	u := newUser(t)
	dsn, _ := ownDatabase(t, engine)
	u.env = append(u.env, cleanEvery+"=200ms")
	s := u.serveRestartable(dsn)
	c, err := dbq.Open(t.Context(), s.dsn)
	check.OK(t, err)
	defer c.Close()
	_, err = workflow.Enqueue(t.Context(), c, []workflow.Step{
		{Name: "a", Queue: "steps", Task: dbq.NewTask{Payload: []byte("a")}},
		{Name: "b", Queue: "steps", Task: dbq.NewTask{Payload: []byte("b")}, Needs: []string{"a"}},
	})
	check.OK(t, err)
	first := s.checkout("steps")
	id, err := parseID(first.ID)
	check.OK(t, err)
	task, err := c.Get(t.Context(), id)
	check.OK(t, err)
	s.kill()
	out, left, err := access.Of(c).Store.Settle(t.Context(), "steps", []store.SettleRow{
		{LeaseKey: store.LeaseKey{TaskID: id, Fence: task.Fence}, Event: state.Complete}}, true)
	if err != nil || out[0].Err != nil || len(left.Changes) != 1 {
		t.Fatalf("%+v, %d changes, %v", out, len(left.Changes), err)
	}
	s.serving = u.serveProcess("--dsn", s.dsn)
	if second := s.checkout("steps"); second.Payload != "b" {
		t.Errorf("the step after a is %q, want b", second.Payload)
	}
}

// What a server does is in the series once it has stopped, at the latest.
func TestServeReportsStatistics(t *testing.T) {
	u := newUser(t)
	s := u.serve()
	s.call("PATCH", "/v1/db/default/queues/uncounted/settings", `{"no_statistics": true}`, nil)
	for _, queue := range []string{"mail", "mail", "uncounted"} {
		s.call("POST", "/v1/db/default/queues/"+queue+"/tasks", `{}`, nil)
		s.complete(queue, s.checkout(queue))
	}
	s.stops()
	s = u.serve()
	var got struct {
		Queues []struct {
			Queue  string
			Points []struct{ Started, Completed int }
		}
	}
	s.call("GET", "/v1/db/default/series", "", &got)
	if len(got.Queues) != 1 || got.Queues[0].Queue != "mail" {
		t.Fatalf("got %+v, want the series of mail", got)
	}
	started, completed := 0, 0
	for _, p := range got.Queues[0].Points {
		started += p.Started
		completed += p.Completed
	}
	if started != 2 || completed != 2 {
		t.Errorf("%d attempts have started and %d tasks are completed, want 2", started, completed)
	}
}

// A server without maintenance, by a flag or by its configuration, removes nothing and leaves no statistics. The next
// server with maintenance removes the rest.
func TestServeWithoutMaintenance(t *testing.T) {
	u := newUser(t)
	u.env = append(u.env, cleanEvery+"=50ms")
	u.write("serve.yaml", "databases: {default: {dsn: a.db}}\nno_maintenance: true\n")
	u.run("migrate", "--dsn", "a.db").ok()
	const queue = "/v1/db/default/queues/mail"
	var left []string
	for _, flags := range [][]string{{"--dsn", "a.db", "--no-maintenance"}, {"--config", "serve.yaml"}} {
		s := u.serveProcess(flags...)
		var got struct{ Queues []any }
		if s.call("GET", "/v1/db/default/series", "", &got); len(got.Queues) != 0 {
			t.Errorf("the server before has left statistics of %d queues", len(got.Queues))
		}
		s.call("PATCH", queue+"/settings", `{"keep_completed_seconds": 0.1}`, nil)
		s.call("POST", queue+"/tasks", `{}`, nil)
		task := s.checkout("mail")
		s.complete("mail", task)
		left = append(left, task.ID)
		time.Sleep(time.Second) // 20 times as long as a server with maintenance takes
		for _, id := range left {
			if status, text := s.get("/v1/db/default/tasks/" + id); status != http.StatusOK {
				t.Errorf("with %v, a task is removed: %d %s", flags, status, text)
			}
		}
		s.stops()
	}
	s := u.serveProcess("--dsn", "a.db")
	for _, id := range left {
		check.Eventually(t, "a server with maintenance removes what is left", func() bool {
			status, _ := s.get("/v1/db/default/tasks/" + id)
			return status == http.StatusNotFound
		})
	}
	s.stops()
}

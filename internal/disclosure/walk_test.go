package disclosure_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/api"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/console"
	"github.com/dbq-go/dbq/dbqtest"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/schedule"
	"github.com/dbq-go/dbq/workflow"
	"github.com/google/uuid"
)

// caller is a caller of every request.
type caller struct{ auth.Principal }

func (c caller) Authenticate(*http.Request) (auth.Principal, error) { return c.Principal, nil }

// planted is in everything of the queue "theirs" that a response could show.
const planted = "planted"

// site is a database with the queue "ours", of which the caller sees everything, and "theirs", of which it sees
// nothing.
type site struct {
	t       *testing.T
	client  *dbq.Client
	handler http.Handler
	ids     map[string]string // what paths and queries may name, by what it is
}

func (s *site) try(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func newSite(t *testing.T) *site {
	c := dbqtest.New(t).Client
	databases, silent := map[string]*dbq.Client{"shop": c}, slog.New(slog.DiscardHandler)
	us := caller{auth.Principal{Name: "us", Role: auth.Admin, Queues: []string{"ours"}, Payloads: true}}
	a, err := api.New(api.Config{Databases: databases, Authenticator: us, Logger: silent, MaxWait: time.Millisecond})
	check.OK(t, err)
	t.Cleanup(a.Drain)
	pages, err := console.New(console.Config{Databases: databases, Authenticator: us, Logger: silent})
	check.OK(t, err)
	mux := http.NewServeMux()
	mux.Handle("/v1/", a)
	mux.Handle("/", pages)
	s := &site{t, c, mux, map[string]string{}}
	s.plant()
	return s
}

// run enqueues a task, makes an attempt of it fail, and returns its id.
func (s *site) run(queue string, task dbq.NewTask) uuid.UUID {
	s.t.Helper()
	q := s.client.Queue(queue)
	id, err := q.Enqueue(s.t.Context(), task)
	s.try(err)
	leased, err := q.Checkout(s.t.Context(), 1, time.Minute)
	s.try(err)
	if len(leased) != 1 {
		s.t.Fatalf("%d tasks were leased", len(leased))
	}
	s.try(q.Settle(s.t.Context(), leased[0].Lease, dbq.Parked(errors.New(queue+planted))))
	return id
}

func (s *site) plant() {
	ctx, a := s.t.Context(), admin.New(s.client)
	by := []admin.Option{admin.By("them"), admin.Reason("reason " + planted)}
	hidden := dbq.NewTask{
		Kind: planted + "-kind", Payload: []byte(`"` + planted + `"`), Key: planted + "-key", Reference: planted,
		Headers: map[string]string{planted: planted},
	}
	// A task of theirs was removed, and its id is used again in ours.
	both := s.run("theirs", hidden)
	s.try(a.Operate(ctx, admin.Purge, both, by...))
	_, err := s.client.Queue("ours").Enqueue(ctx, dbq.NewTask{ID: both})
	s.try(err)
	theirs := s.run("theirs", hidden)
	s.try(a.Operate(ctx, admin.Reenqueue, theirs, by...))
	ours := s.client.Queue("ours")
	own, err := ours.Enqueue(ctx, dbq.NewTask{Payload: []byte("own")})
	s.try(err)

	mixed, err := workflow.Enqueue(ctx, s.client, []workflow.Step{
		{Name: "first", Queue: "ours"}, {Name: planted + "-step", Queue: "theirs", Needs: []string{"first"}},
	})
	s.try(err)
	steps := make([]workflow.Step, 300) // a page shows 200, and the last one is not ours
	for i := range steps {
		steps[i] = workflow.Step{Name: fmt.Sprint("step", i), Queue: "ours"}
	}
	steps[299] = workflow.Step{Name: "last", Queue: "theirs", Needs: []string{"step0"}}
	large, err := workflow.Enqueue(ctx, s.client, steps)
	s.try(err)

	schedules := schedule.New(s.client)
	s.try(schedules.Put(ctx, schedule.Schedule{
		Name: "theirs-" + planted, Queue: "theirs", Every: time.Hour, Task: dbq.NewTask{Payload: []byte(planted)},
	}))
	s.try(schedules.Pause(ctx, "theirs-"+planted, schedule.By("them"), schedule.Reason(planted)))
	s.try(a.PauseQueue(ctx, "theirs", by...))
	s.try(a.ConfigureQueue(ctx, "theirs", func(q *admin.QueueSettings) { q.DeadLetter = planted }, by...))
	s.ids = map[string]string{
		"theirs": theirs.String(), "both": both.String(), "own": own.String(), "mixed": mixed.ID.String(),
		"large": large.ID.String(), "step": large.TaskIDs[0].String(), "mixed step": mixed.TaskIDs[0].String(),
	}
}

// state returns everything of their queue that a change could alter.
func (s *site) state() string {
	s.t.Helper()
	a, ctx := admin.New(s.client), s.t.Context()
	// Steps of theirs end with the steps that they need, which may be ours.
	page, err := a.List(ctx, admin.Filter{Queue: "theirs", Kind: planted + "-kind", Limit: 1000})
	s.try(err)
	audit, err := a.Audit(ctx, admin.AuditFilter{Queue: "theirs", Limit: 1000})
	s.try(err)
	queues, err := a.Queues(ctx)
	s.try(err)
	queues = slices.DeleteFunc(queues, func(q admin.QueueInfo) bool { return q.Queue == "ours" })
	schedules, err := schedule.New(s.client).List(ctx)
	s.try(err)
	for i := range page.Tasks {
		page.Tasks[i].Updated = time.Time{}
	}
	text, err := json.Marshal([]any{page.Tasks, len(audit.Entries), queues, schedules})
	s.try(err)
	return string(text)
}

// send sends a request, and reports a failure if the response shows something of their queue.
func (s *site) send(method, target, kind, body string) {
	s.t.Helper()
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Header.Set("Content-Type", kind)
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	answer := w.Body.String()
	for _, own := range []string{target, url.QueryEscape(target), "theirs-" + planted} { // what the caller has written
		answer = strings.ReplaceAll(answer, own, "")
	}
	if form, err := url.ParseQuery(body); err == nil { // a form that is refused keeps its input
		for name := range form {
			answer = strings.ReplaceAll(answer, `name="`+name+`" value="`+form.Get(name)+`"`, "")
		}
	}
	if w.Code >= 500 {
		s.t.Errorf("%s %s %s: %d", method, target, body, w.Code)
	}
	if at := strings.Index(answer, planted); at >= 0 {
		s.t.Errorf("%s %s %s: %d shows …%s…", method, target, body, w.Code, answer[max(0, at-80):min(len(answer), at+80)])
	}
}

// paths returns a path with each combination of what its parameters can be.
func (s *site) paths(path string) (out []string) {
	values := map[string][]string{
		"database": {"shop"}, "queue": {"theirs", "ours"}, "schedule": {"theirs-" + planted},
		"event": {"cancel", "purge", "reenqueue"}, "change": {"cancel", "retry", "pause", "run", "delete"},
		"how": {"cancel", "retry"}, "verb": {"pause", "run", "delete"},
	}
	for _, id := range s.ids {
		values["id"] = append(values["id"], id)
	}
	out = []string{strings.ReplaceAll(path, "{$}", "")}
	for _, m := range regexp.MustCompile(`\{(\w+)\}`).FindAllStringSubmatch(path, -1) {
		var next []string
		for _, p := range out {
			for _, v := range values[m[1]] {
				next = append(next, strings.ReplaceAll(p, m[0], v))
			}
		}
		out = next
	}
	return out
}

// queries are the filters of requests, as names and values.
func (s *site) queries() (out [][]string) {
	out = [][]string{nil, {"queue", "theirs"}, {"queue", "ours"}, {"name", "theirs-" + planted},
		{"kind", planted + "-kind"}, {"queue", "ours", "order", "archive"},
		{"queue", "theirs", "event", "cancel"}, {"event", "cancel"}}
	for _, id := range s.ids {
		out = append(out, []string{"task", id, "queue", "ours"}, []string{"task", id},
			[]string{"task", id, "queue", "ours", "event", "purge"},
			[]string{"workflow", id, "queue", "ours"},
			[]string{"from", id})
	}
	return out
}

// TestCallerOfAnotherQueueSeesAndChangesNothing sends every operation of the API and every page of the console.
func TestCallerOfAnotherQueueSeesAndChangesNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	before := s.state()
	text, err := os.ReadFile("../../docs/openapi.json")
	s.try(err)
	var spec struct {
		Paths map[string]map[string]json.RawMessage
	}
	s.try(json.Unmarshal(text, &spec))
	var requests [][2]string // methods and paths
	for path, methods := range spec.Paths {
		for method := range methods {
			requests = append(requests, [2]string{strings.ToUpper(method), path})
		}
	}
	operations := len(requests)
	source, err := os.ReadFile("../../console/console.go")
	s.try(err)
	pages := regexp.MustCompile(`"(GET|POST) (/db/\{database\}/[^"]*)"`)
	for _, m := range pages.FindAllStringSubmatch(string(source), -1) {
		requests = append(requests, [2]string{m[1], m[2]})
	}
	requests = append(requests, [2]string{"POST", "/db/{database}/enqueue"}) // patternEnqueue
	if operations < 30 || len(requests) < operations+28 {
		t.Errorf("%d operations and %d pages were found", operations, len(requests)-operations)
	}
	// Of a workflow that has more steps than a page, those that are not shown may be theirs.
	for path, code := range map[string]int{
		"/db/shop/workflow/" + s.ids["large"]: 403, "/db/shop/task/" + s.ids["step"]: 200,
		"/v1/db/shop/workflows/" + s.ids["large"]: 404, "/v1/db/shop/workflows/" + s.ids["large"] + "?limit=9": 422,
	} {
		w := httptest.NewRecorder()
		s.handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != code || strings.Contains(w.Body.String(), "step7") {
			t.Errorf("%s: %d shows a part of a workflow", path, w.Code)
		}
	}
	for _, reads := range []bool{true, false} { // the caller may change its own tasks
		for _, r := range requests {
			for _, p := range s.paths(r[1]) {
				if reads != (r[0] == http.MethodGet) {
					continue
				}
				if strings.HasPrefix(p, "/v1/") {
					s.operation(r[0], p)
				} else {
					s.page(r[0], p)
				}
			}
		}
	}
	if after := s.state(); after != before {
		t.Errorf("their queue was\n%s\nand is\n%s", before, after)
	}
}

func (s *site) operation(method, path string) {
	if method == http.MethodGet {
		s.send(method, path, "", "")
		for _, query := range []string{
			"?queue=theirs", "?queue=ours", "?task_id=" + s.ids["both"] + "&queue=ours", "?queue=ours&archived=true",
			"?limit=1", "?limit=200", "?limit=1000",
		} {
			s.send(method, path+query, "", "")
		}
		return
	}
	lease := `"lease":"x"`
	for _, body := range []string{
		`{}`, `{"reason":"x"}`, `{"filter":{},"limit":10}`, `{"filter":{"queue":"theirs"},"limit":10}`,
		`{"filter":{"queue":"ours","workflow":"` + s.ids["large"] + `"},"limit":10,"dry_run":true}`,
		`{"payload":"x","id":"` + s.ids["theirs"] + `"}`, `{"tasks":[{"reference":"x"}]}`, `{"wait_seconds":0.001}`,
		`{"settlements":[{` + lease + `,"outcome":"complete"}]}`, `{"leases":[{` + lease + `}]}`,
		`{"max_checkout":3}`, `{"concurrency":3}`, `{"worker":"x","command":"stop"}`, `{"every_seconds":60}`,
		`{"queue":"ours","every_seconds":60}`, `{"queue":"theirs","every_seconds":60}`,
		`{"queue":"ours","every_seconds":60,"keep_payload":true}`, `{"steps":[{"name":"a","queue":"theirs"}]}`,
		`{"step":"` + planted + `-step"}`,
	} {
		s.send(method, path, "application/json", body)
	}
}

func (s *site) page(method, path string) {
	for _, query := range s.queries() {
		values := url.Values{}
		for i := 0; i < len(query); i += 2 {
			values.Set(query[i], query[i+1])
		}
		if method == http.MethodGet {
			s.send(method, path+"?"+values.Encode(), "", "")
			continue
		}
		values.Set("payload", "{}")
		s.send(method, path, "application/x-www-form-urlencoded", values.Encode())
	}
}

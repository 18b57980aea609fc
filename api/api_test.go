package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/api"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/internal/wire"
)

// caller authenticates every request as one principal, or refuses it if it has no name.
type caller struct{ auth.Principal }

func (c caller) Authenticate(*http.Request) (auth.Principal, error) {
	if c.Name == "" {
		return auth.Principal{}, auth.ErrUnauthenticated
	}
	return c.Principal, nil
}

var admin = caller{auth.Principal{Name: "ann", Role: auth.Admin, Payloads: true}}

// site is an API on a database, as a test uses it.
type site struct {
	t      *testing.T
	client *dbq.Client
	url    string
	spec   []byte // openapi.json
	api    *api.API
}

func newSite(t *testing.T, change ...func(*api.Config)) *site {
	t.Helper()
	return serve(t, openClient(t), change...)
}

func serve(t *testing.T, c *dbq.Client, change ...func(*api.Config)) *site {
	t.Helper()
	cfg := api.Config{
		Databases: map[string]*dbq.Client{"shop": c}, Authenticator: admin, Logger: slog.New(slog.DiscardHandler),
	}
	for _, f := range change {
		f(&cfg)
	}
	a, err := api.New(cfg)
	check.OK(t, err)
	server := httptest.NewServer(checked(t, a))
	t.Cleanup(func() { a.Drain(); server.Close() })
	return &site{t, c, server.URL, a.OpenAPI(), a}
}

// send sends a request with a JSON body, unless it is "", and returns the status and the body of the response.
func (s *site) send(method, path, body string, headers ...string) (int, string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer.StatusCode, string(bytes.TrimSpace(b))
}

// must sends a request that succeeds with a status, and returns its response.
func (s *site) must(status int, method, path, body string, headers ...string) map[string]any {
	s.t.Helper()
	got, text := s.send(method, path, body, headers...)
	if got != status {
		s.t.Fatalf("%s %s %s: %d %s, want %d", method, path, body, got, text, status)
	}
	if status == http.StatusNoContent {
		return nil
	}
	var out map[string]any
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		s.t.Fatalf("%s %s: %v: %s", method, path, err, text)
	}
	return out
}

// refused sends a request that fails with a problem.
func (s *site) refused(status int, problem, method, path, body string, headers ...string) string {
	s.t.Helper()
	got, text := s.send(method, path, body, headers...)
	var p wire.Problem
	err := json.Unmarshal([]byte(text), &p)
	if got != status || err != nil || p.Type != wire.Prefix+problem || p.Status != status || p.RequestID == "" {
		s.t.Errorf("%s %s %s: %d %s, want %d %s", method, path, body, got, text, status, problem)
	}
	return text
}

const mail = "/v1/db/shop/queues/mail"

// one returns the only element of a list in a response.
func one(t *testing.T, answer map[string]any, list string) map[string]any {
	t.Helper()
	l, _ := answer[list].([]any)
	if len(l) != 1 {
		t.Fatalf("%s has %d elements, want 1: %v", list, len(l), answer)
	}
	return l[0].(map[string]any)
}

func TestTaskIsEnqueuedCheckedOutExtendedAndSettled(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	id := s.must(201, "POST", mail+"/tasks",
		`{"kind":"send","payload":{"to":"ann"},"reference":"m1","headers":{"a":"b"}}`)["id"]
	again := s.must(200, "POST", mail+"/tasks", `{"reference":"m1"}`)
	if again["id"] != id || again["duplicate"] != true {
		t.Errorf("the same reference gave %v, want a duplicate of %v", again, id)
	}
	task := one(t, s.must(200, "POST", mail+"/checkout", `{"worker":"w1","max":5}`), "tasks")
	if task["id"] != id || task["payload"] != `{"to":"ann"}` || task["attempt"] != 1.0 || task["state"] != "PROCESSING" {
		t.Errorf("checked out %v", task)
	}
	if holder, _ := task["holder"].(string); !strings.HasPrefix(holder, "w1#") {
		t.Errorf("the holder is %q, want w1#…", holder)
	}
	extended := one(t, s.must(200, "POST", mail+"/extend",
		`{"lease_seconds":60,"leases":[{"lease":"`+task["lease"].(string)+`","progress":"half"}]}`), "leases")
	if got := s.must(200, "GET", "/v1/db/shop/tasks/"+id.(string), ""); got["progress"] != "half" {
		t.Errorf("after the extension: %v", got)
	}
	lease := extended["lease"].(string)
	settled := one(t, s.must(200, "POST", mail+"/settle",
		`{"settlements":[{"lease":"`+lease+`","outcome":"complete","result":{"n":1}}]}`), "settled")
	if settled["state"] != "COMPLETED" {
		t.Errorf("settled: %v", settled)
	}
	lost := one(t, s.must(200, "POST", mail+"/settle", `{"settlements":[{"lease":"`+lease+`","outcome":"complete"}]}`),
		"settled")
	if p, _ := lost["problem"].(map[string]any); p["type"] != wire.Prefix+"lease-lost" {
		t.Errorf("settled again: %v", lost)
	}
	if got := s.must(200, "GET", "/v1/db/shop/tasks/"+id.(string)+"/wait", ""); got["ended"] != true {
		t.Errorf("waited: %v", got)
	}
	if got := one(t, s.must(200, "GET", "/v1/db/shop/tasks/"+id.(string)+"/attempts", ""), "attempts"); got["outcome"] !=
		"completed" {
		t.Errorf("attempts: %v", got)
	}
}

func TestUniqueWindowOutlastsItsTask(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const body = `{"unique":{"key":"k","window_seconds":3600}}`
	id := s.must(201, "POST", mail+"/tasks", body)["id"].(string)
	for _, event := range []string{"cancel", "purge"} {
		s.must(200, "POST", "/v1/db/shop/tasks/"+id+"/"+event, `{}`)
	}
	if again := s.must(200, "POST", mail+"/tasks", body); again["duplicate"] != true {
		t.Errorf("within the window: %v", again)
	}
	for _, unique := range []string{
		`{"window_seconds":0.5}`, `{"window_seconds":60,"period_seconds":60}`, `{"window_seconds":60,"while":"unfinished"}`,
	} {
		s.refused(422, "unique", "POST", mail+"/tasks", `{"unique":`+unique+`}`)
	}
}

package api_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/api"
	"github.com/dbq-go/dbq/dbqtest"
	"github.com/dbq-go/dbq/dialect/sqlite"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/internal/wire"
)

// journal keeps what is logged or sent.
type journal struct{ check.Log }

func (j *journal) log(c *api.Config) { c.Logger = slog.New(slog.NewTextHandler(j, nil)) }

// heldClient returns a client whose only connection a test can take, so that the database does not answer.
func heldClient(t *testing.T) (c *dbq.Client, take func() (release func())) {
	t.Helper()
	pool, err := sqlite.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "held.db"), nil)
	check.OK(t, err)
	t.Cleanup(func() { pool.Close() })
	pool.Write.SetMaxOpenConns(1)
	if c, err = dbq.New(t.Context(), pool.Write, sqlite.Dialect{}, dbq.WithMigrate()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c, func() func() {
		var conn *sql.Conn
		if conn, err = pool.Write.Conn(context.WithoutCancel(t.Context())); err != nil {
			t.Fatal(err)
		}
		return func() { conn.Close() }
	}
}

// TestSlowDatabaseTimesOut sends requests while the database does not answer.
func TestSlowDatabaseTimesOut(t *testing.T) {
	t.Parallel()
	client, take := heldClient(t)
	s := serve(t, client, func(c *api.Config) { c.Timeout = 200 * time.Millisecond })
	release := take()
	for _, r := range [][3]string{
		{"POST", mail + "/tasks", `{"payload":"planted"}`}, {"GET", "/v1/db/shop/tasks", ""},
		{"GET", "/v1/db/shop/queues", ""}, {"POST", "/v1/db/shop/operate/cancel", `{"filter":{"queue":"mail"},"limit":1}`},
		{"PUT", schedules + "/nightly", `{"cron":"@daily","queue":"mail"}`},
	} {
		begin := time.Now()
		if text := s.refused(504, "timeout", r[0], r[1], r[2]); strings.Contains(text, "planted") {
			t.Errorf("%s %s: the problem has the payload: %s", r[0], r[1], text)
		}
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("%s %s took %v", r[0], r[1], took)
		}
	}
	release()
	s.must(201, "POST", mail+"/tasks", `{}`)
}

// TestPanicOfAHandlerIsAProblem makes the server panic in the middle of a request.
func TestPanicOfAHandlerIsAProblem(t *testing.T) {
	t.Parallel()
	client := dbqtest.New(t, dbq.WithObserver(func(c dbq.Call) {
		if c.Queue == "panics" {
			panic("planted cause")
		}
	})).Client
	var logged journal
	s := serve(t, client, logged.log)
	text := s.refused(500, "internal", "POST", "/v1/db/shop/queues/panics/tasks", `{}`, "X-Request-Id", "the-panic")
	for _, secret := range []string{"planted", "goroutine", ".go", "runtime"} {
		if strings.Contains(text, secret) {
			t.Errorf("the problem contains %q: %s", secret, text)
		}
	}
	logged.Says(t, "msg=\"api: request\" request=the-panic")
	for _, want := range []string{"planted cause", "hostile_test.go", "status=500"} {
		if !strings.Contains(logged.String(), want) {
			t.Errorf("the log has no %q: %s", want, logged.String())
		}
	}
	s.must(201, "POST", mail+"/tasks", `{}`) // the server goes on
}

// endless is a body without an end, whose length is not declared. It counts what is read of it.
type endless struct{ read atomic.Int64 }

func (e *endless) Read(b []byte) (int, error) {
	e.read.Add(int64(len(b)))
	for i := range b {
		b[i] = ' '
	}
	return len(b), nil
}

// TestChunkedBodyIsBounded sends bodies whose length is not declared: one byte more than is allowed, one as large as is
// allowed, and one without an end.
func TestChunkedBodyIsBounded(t *testing.T) {
	t.Parallel()
	const most = 1000
	s := newSite(t, func(c *api.Config) { c.MaxBody = most })
	post := func(body io.Reader) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), "POST", s.url+mail+"/tasks", body)
		check.OK(t, err)
		if r.ContentLength = -1; r.Body == nil {
			t.Fatal("the request has no body")
		}
		r.Header.Set("Content-Type", "application/json")
		answer, err := http.DefaultClient.Do(r)
		check.OK(t, err)
		defer answer.Body.Close()
		text, _ := io.ReadAll(answer.Body)
		var p wire.Problem
		_ = json.Unmarshal(text, &p)
		return answer.StatusCode, p.Type
	}
	if status, _ := post(strings.NewReader("{}" + strings.Repeat(" ", most-2))); status != 201 {
		t.Errorf("a body of the largest size: %d", status)
	}
	for name, body := range map[string]io.Reader{
		"a byte more": strings.NewReader("{}" + strings.Repeat(" ", most-1)), "no end": &endless{},
	} {
		if status, problem := post(body); status != 413 || problem != wire.Prefix+"body-too-large" {
			t.Errorf("%s: %d %s", name, status, problem)
		}
		if e, ok := body.(*endless); ok && e.read.Load() > 10<<20 {
			t.Errorf("%d bytes were sent of a body without an end", e.read.Load())
		}
	}
	if tasks := s.must(200, "GET", "/v1/db/shop/tasks", "")["tasks"].([]any); len(tasks) != 1 {
		t.Errorf("there are %d tasks, want that of the body that is allowed", len(tasks))
	}
}

// TestRequestIDsAreKeptOrMade checks that the header, the problem and the log have the same id of a request.
func TestRequestIDsAreKeptOrMade(t *testing.T) {
	t.Parallel()
	var logged journal
	s := newSite(t, logged.log)
	seen := map[string]bool{}
	for given, kept := range map[string]bool{
		"order-17": true, "A.b_c:90": true, strings.Repeat("x", 64): true,
		"": false, strings.Repeat("x", 65): false, "a b": false, "planted\"": false, "é": false,
	} {
		r := httptest.NewRequest("GET", "/v1/db/none/tasks", nil)
		r.Header.Set("X-Request-Id", given)
		w := httptest.NewRecorder()
		s.api.ServeHTTP(w, r)
		id := w.Header().Get("X-Request-Id")
		if (id == given) != kept || len(id) < 8 || seen[id] {
			t.Errorf("%q becomes %q", given, id)
		}
		seen[id] = true
		var p wire.Problem
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || p.RequestID != id {
			t.Errorf("the problem has the id %q, want %q: %v", p.RequestID, id, err)
		}
		if !strings.Contains(logged.String(), "request="+id+" ") {
			t.Errorf("the log has no %q", id)
		}
	}
	if strings.Contains(logged.String(), "planted") {
		t.Error("the log has an id that was refused")
	}
}

// TestTimesHaveBounds sends times that JSON cannot have, or that wrap.
func TestTimesHaveBounds(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const late = "9999-12-31T23:59:59-23:59" // in the year 10000 in UTC
	s.refused(422, "option", "GET", "/v1/db/shop/series?to="+late, "")
	s.refused(422, "option", "GET", "/v1/db/shop/series?queue=mail&period_seconds=315360000&to="+late, "")
	s.must(200, "GET", "/v1/db/shop/audit?since="+late+"&until="+late, "")
	s.refused(422, "delay", "POST", mail+"/tasks", `{"run_at":"`+late+`"}`)
	s.refused(422, "delay", "POST", "/v1/db/shop/workflows", `{"steps":[{"name":"a","queue":"q","run_at":"`+late+`"}]}`)
	s.refused(422, "delay", "PUT", schedules+"/late", `{"queue":"mail","at":"`+late+`"}`)
	s.refused(422, "delay", "POST", schedules+"/preview", `{"at":"`+late+`"}`)
	for _, every := range []string{"1000000000", "2999999999", "3153600000"} {
		got := s.must(200, "POST", schedules+"/preview", `{"count":100,"every_seconds":`+every+`}`)["times"].([]any)
		for i := 1; i < len(got); i++ {
			if got[i].(string) <= got[i-1].(string) {
				t.Errorf("every %s seconds: %v follows %v", every, got[i], got[i-1])
			}
		}
	}
}

// TestAnswerThatFailsIsAProblem fails after the status was set, as an answer does that cannot be encoded.
func TestAnswerThatFailsIsAProblem(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	w := httptest.NewRecorder()
	s.api.Protect("read", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
		panic("planted")
	})).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	var p wire.Problem
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Code != 500 || p.Type != wire.Prefix+"internal" {
		t.Errorf("%d %s, %v", w.Code, w.Body, err)
	}
}

// A line of the log names the queue, the caller and, for a refusal, the problem and the field; a database that does not
// exist is not named, because a name in its place may be anything.
func TestLinesOfRequestsNameWhatWasRefused(t *testing.T) {
	t.Parallel()
	var j journal
	s := newSite(t, j.log)
	s.must(200, "GET", mail+"/settings", "")
	s.refused(422, "invalid-request", "PATCH", mail+"/settings", `{"lease_seconds":-5}`)
	s.refused(404, "no-such-database", "GET", "/v1/db/planted/queues/mail/settings", "")
	for _, text := range []string{
		"status=200 took=", "database=shop queue=mail caller=ann\n",
		`database=shop queue=mail caller=ann reason="invalid-request body.lease_seconds"`,
		"caller=ann reason=no-such-database",
	} {
		j.Says(t, text)
	}
	if strings.Contains(j.String(), "planted") {
		t.Errorf("the log has the name of a database that does not exist:\n%s", j.String())
	}
}

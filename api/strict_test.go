package api_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/api"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/dbqtest"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/internal/wire"
	"github.com/getkin/kin-openapi/openapi3"
)

// as makes every caller one of a role.
func as(role auth.Role, queues ...string) func(*api.Config) {
	return func(c *api.Config) {
		c.Authenticator = caller{auth.Principal{Name: string(role), Role: role, Queues: queues}}
	}
}

// A body is decoded as it was checked: encoding/json takes a field in any case, and the last of repeated ones.
func TestFieldIsTakenByItsExactNameAndOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for range 3 {
		s.must(201, "POST", mail+"/tasks", `{}`)
	}
	const preview, many = "/v1/db/shop/schedules/preview", "/v1/db/shop/operate/cancel"
	for _, r := range [][3]string{
		{"POST", preview, `{"every_seconds":60,"count":1,"COUNT":101}`},
		{"POST", preview, `{"every_seconds":60,"count":101,"count":1}`},
		{"POST", preview, `{"every_seconds":60,"\u0063ount":101,"count":1}`},
		{"POST", preview, `{"every_seconds":60,"Count":1}`},
		{"POST", preview, `{"every_seconds":60,"every_\u017feconds":60}`},
		{"POST", many, `{"filter":{"states":["POISON"],"STATES":["CREATED"]},"limit":9}`},
		{"POST", many, `{"filter":{"states":["POISON"]},"filter":{"queue":"mail"},"limit":9}`},
		{"POST", many, `{"filter":{"states":["POISON"],"states":["CREATED"]},"limit":9}`},
		{"POST", mail + "/tasks", `{"reference":"a","Reference":"b"}`},
		{"POST", mail + "/tasks", `{"headers":{"a":"1","a":"2"}}`},
		{"POST", mail + "/tasks", `{"unique":{"key":"a"},"unique":{"while":"pending"}}`},
		{"POST", mail + "/tasks", `{"payload":1,"Payload":2}`},
		{"POST", mail + "/tasks/batch", `{"tasks":[{"reference":"a"}],"tasks":[{}]}`},
		{"POST", mail + "/tasks/batch", `{"tasks":[{},{"KIND":"a"}]}`},
		{"PATCH", mail + "/settings", `{"Max_checkout":3}`},
		{"PUT", schedules + "/nightly", `{"cron":"@daily","queue":"mail","Queue":"other"}`},
	} {
		s.refused(422, "invalid-request", r[0], r[1], r[2])
	}
	tasks := s.must(200, "GET", "/v1/db/shop/tasks", "")["tasks"].([]any)
	for _, task := range tasks {
		if state := task.(map[string]any)["state"]; len(tasks) != 3 || state != "CREATED" {
			t.Errorf("%d tasks, one %v; want the three in CREATED", len(tasks), state)
		}
	}
	// The names in a payload are the caller's own, and numbers have any size.
	const own = `{"a":1,"A":1e400,"a":[2]}`
	id := s.must(201, "POST", mail+"/tasks", `{"payload":`+own+`}`)["id"].(string)
	if got := s.must(200, "GET", "/v1/db/shop/tasks/"+id, "")["payload"]; got != own {
		t.Errorf("the payload is %v, want %s", got, own)
	}
}

// serveAlone returns the time and the memory that a request needs. Nothing else runs, so the test is not parallel.
func serveAlone(a *api.API, path, body string) (w *httptest.ResponseRecorder, took time.Duration, allocated uint64) {
	r := httptest.NewRequest("POST", path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w = httptest.NewRecorder()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	begin := time.Now()
	a.ServeHTTP(w, r)
	took = time.Since(begin)
	runtime.ReadMemStats(&after)
	return w, took, after.TotalAlloc - before.TotalAlloc
}

// A body costs memory and time in proportion to its size, and so does its answer, whatever it contains.
func TestBodyThatIsRefusedIsCheap(t *testing.T) { //nolint:paralleltest // it measures the memory of the process
	s := newSite(t)
	many := func(element string) string {
		return strings.TrimSuffix(strings.Repeat(element+",", 1_500_000/len(element)), ",")
	}
	deep := strings.Repeat(`[`, 9000) + strings.Repeat(`]`, 9000)
	for name, r := range map[string][2]string{
		"empty settlements":    {mail + "/settle", `{"settlements":[` + many(`{}`) + `]}`},
		"empty leases":         {mail + "/extend", `{"leases":[` + many(`{}`) + `]}`},
		"tasks of other types": {mail + "/tasks/batch", `{"tasks":[` + many(`0`) + `]}`},
		"unknown fields":       {mail + "/tasks", `{"x":0,` + many(`"x":{}`) + `}`},
		"a list in a text":     {mail + "/tasks", `{"kind":[` + many(`[]`) + `]}`},
		"lists in a text":      {mail + "/tasks/batch", `{"tasks":[` + many(`{"kind":`+deep+`}`) + `]}`},
		"headers":              {mail + "/tasks", `{"headers":{` + manyNames(100_000) + `}}`},
		"states":               {"/v1/db/shop/operate/cancel", `{"limit":1,"filter":{"states":[` + many(`""`) + `]}}`},
		"needs": {"/v1/db/shop/workflows",
			`{"steps":[{"name":"a","queue":"q","needs":[` + many(`""`) + `]}]}`},
		"a body of another":  {mail + "/settle", `[` + many(`{}`) + `]`},
		"a payload of lists": {mail + "/tasks", `{"kind":7,"payload":[` + many(`[]`) + `]}`},
	} {
		w, took, allocated := serveAlone(s.api, r[0], r[1])
		if w.Code < 400 || w.Code >= 500 {
			t.Errorf("%s: %d %.200s", name, w.Code, w.Body)
		}
		if w.Body.Len() > 10_000 || strings.Count(w.Body.String(), "location") > 20 {
			t.Errorf("%s: the answer has %d bytes", name, w.Body.Len())
		}
		if most := uint64(20 * len(r[1])); allocated > most || took > 3*time.Second {
			t.Errorf("%s: %d MB in %v for %.1f MB", name, allocated>>20, took, float64(len(r[1]))/(1<<20))
		}
	}
}

func manyNames(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"%d":"",`, i)
	}
	return strings.TrimSuffix(b.String(), ",")
}

// What a caller may do is decided before its body is read.
func TestRoleIsCheckedBeforeTheBody(t *testing.T) { //nolint:paralleltest // it measures the memory of the process
	s := newSite(t, as(auth.Viewer, "mail"))
	big := `{"settlements":[` + strings.Repeat(`{},`, 5_000_000) + `{}]}`
	for _, path := range []string{
		mail + "/settle", mail + "/extend", mail + "/checkout", mail + "/tasks", mail + "/tasks/batch", mail + "/pause",
		"/v1/db/shop/workflows", "/v1/db/shop/operate/cancel", "/v1/db/shop/workers/command",
		"/v1/db/shop/tasks/0198a3b4-0000-7000-8000-000000000000/cancel", "/v1/db/shop/schedules/nightly/run",
		"/v1/db/other/schedules/preview", "/v1/db/shop/queues/other/tasks",
	} {
		w, took, allocated := serveAlone(s.api, path, big)
		if w.Code != 403 && w.Code != 404 || allocated > 1<<20 || took > time.Second {
			t.Errorf("%s: %d after %v with %d KB: %.200s", path, w.Code, took, allocated>>10, w.Body)
		}
	}
}

// Each list that a body can have is bounded before it is decoded.
func TestEveryListOfABodyIsBounded(t *testing.T) {
	t.Parallel()
	c, err := contract()
	check.OK(t, err)
	lists := 0
	var walk func(where string, s *openapi3.Schema)
	walk = func(where string, s *openapi3.Schema) {
		for name, p := range s.Properties {
			walk(where+"."+name, p.Value)
		}
		if s.Items == nil {
			return
		}
		lists++
		if s.MaxItems == nil || *s.MaxItems > dbq.MaxBulk {
			t.Errorf("%s has no maxItems", where)
		}
		walk(where, s.Items.Value)
	}
	for path, item := range c.doc.Paths.Map() {
		for method, op := range item.Operations() {
			if op.RequestBody != nil {
				walk(method+" "+path, op.RequestBody.Value.Content["application/json"].Schema.Value)
			}
		}
	}
	if lists < 6 {
		t.Errorf("%d lists were found", lists)
	}
}

// FuzzBody compares what is checked, in which every name is exact and stands once, with what encoding/json makes of a
// body.
func FuzzBody(f *testing.F) {
	a, err := api.New(api.Config{Databases: map[string]*dbq.Client{"shop": dbqtest.New(f).Client}, Authenticator: admin})
	if err != nil {
		f.Fatal(err)
	}
	for _, body := range []string{
		`{"payload":{"a":1},"delay_seconds":1.5,"unique":{"key":"k","period_seconds":60}}`,
		`{"payload_base64":"AA==","run_at":"2030-01-01T00:00:00Z","headers":{"a":"b"}}`,
		`{"payload":{}} {}`, `{"kind":"a","KIND":"b"}`, ` { "payload" : [ 1e400 , "\ud800" ] , "headers" : { } } `,
		`{"headers":{"payload":1e400}}`, `{"unique":null,"payload":"\ud83d\ude00"}`, `[]`, `{"payload":-0.5e-7}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if p := api.CheckBody(a, "POST "+"/v1/db/{database}/queues/{queue}/tasks", body); p != nil {
			if p.Status != 400 && p.Status != 422 {
				t.Errorf("%q is the problem %+v", body, p)
			}
			return
		}
		var used, checked wire.NewTask
		var fields map[string]json.RawMessage
		if errors.Join(json.Unmarshal(body, &used), json.Unmarshal(body, &fields)) != nil {
			return // such as a number that fits its schema, but no type; it is refused later
		}
		text, err := json.Marshal(fields)
		check.OK(t, errors.Join(err, json.Unmarshal(text, &checked)))
		used.Payload, checked.Payload = nil, nil // Marshal has removed its spaces
		if !utf8.Valid(body) || !reflect.DeepEqual(used, checked) {
			t.Errorf("%q is checked as %+v and used as %+v", body, checked, used)
		}
	})
}

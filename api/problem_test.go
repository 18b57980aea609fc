package api_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/api"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/internal/wire"
)

// authProblems are the errors of package auth, which package problem cannot import, with their problems.
var authProblems = map[string]struct {
	err     error
	problem string
	status  int
}{
	"ErrUnauthenticated": {auth.ErrUnauthenticated, "unauthenticated", 401},
	"ErrTooMany":         {auth.ErrTooMany, "rate-limited", 429},
	"ErrUnavailable":     {auth.ErrUnavailable, "credentials-unchecked", 503},
	"ErrCrossOrigin":     {auth.ErrCrossOrigin, "cross-origin", 403},
}

// refuses authenticates no caller.
type refuses struct{ error }

func (r refuses) Authenticate(*http.Request) (auth.Principal, error) {
	return auth.Principal{}, r.error
}

// TestErrorsOfAuthAreProblems makes an Authenticator return each error of package auth.
func TestErrorsOfAuthAreProblems(t *testing.T) {
	t.Parallel()
	client := openClient(t)
	for _, c := range authProblems {
		s := serve(t, client, func(cfg *api.Config) { cfg.Authenticator = refuses{fmt.Errorf("checking: %w", c.err)} })
		s.refused(c.status, c.problem, "GET", "/v1/databases", "")
	}
}

// sentinels returns the exported errors that the files of a package declare.
func sentinels(t *testing.T, folder string) (out []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	check.OK(t, err)
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		check.OK(t, err)
		for _, d := range file.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.VAR {
				for _, spec := range g.Specs {
					for _, name := range spec.(*ast.ValueSpec).Names {
						if strings.HasPrefix(name.Name, "Err") {
							out = append(out, name.Name)
						}
					}
				}
			}
		}
	}
	return out
}

// TestEverySentinelHasAProblem compares the errors of the Go API with the table of problems, and with docs/http.md.
func TestEverySentinelHasAProblem(t *testing.T) {
	t.Parallel()
	table, err := os.ReadFile("../internal/wire/problem.go")
	check.OK(t, err)
	page, err := os.ReadFile("../docs/http.md")
	check.OK(t, err)
	found := 0
	for _, pkg := range []struct{ name, folder string }{
		{"dbq", ".."}, {"schedule", "../schedule"}, {"workflow", "../workflow"}, {"admin", "../admin"}, {"auth", "../auth"},
	} {
		for _, name := range sentinels(t, pkg.folder) {
			found++
			full, row := pkg.name+"."+name, `\| .([a-z-]+). \| \d+ \|[^|]*`
			m := regexp.MustCompile(`(?m)^	\{` + regexp.QuoteMeta(full) + `, "([a-z-]+)", `).FindSubmatch(table)
			problem := ""
			if m != nil {
				problem = string(m[1])
			} else if pkg.name == "auth" {
				problem = authProblems[name].problem
			}
			if problem == "" {
				t.Errorf("%s has no problem", full)
				continue
			}
			m = regexp.MustCompile(`(?m)^` + row + "\\| `" + regexp.QuoteMeta(full) + "` \\|$").FindSubmatch(page)
			if m == nil || string(m[1]) != problem {
				t.Errorf("docs/http.md does not list the problem %s with the error %s", problem, full)
			}
		}
	}
	if found < 44 {
		t.Errorf("%d errors were found; where have the others gone?", found)
	}
	names := regexp.MustCompile(`(?m)Name: "([a-z-]+)", Status|^	\{(?:dbq|schedule|workflow)\.\w+, "([a-z-]+)", `)
	for _, m := range names.FindAllStringSubmatch(string(table), -1) {
		if name := m[1] + m[2]; !strings.Contains(string(page), "\n| `"+name+"` |") {
			t.Errorf("docs/http.md does not list the problem %s", name)
		}
	}
}

func TestProblemIsOfTheMostSpecificError(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		name string
	}{
		{dbq.ErrLocked, "locked"}, {dbq.ErrConflict, "conflict"}, {dbq.ErrWriterBusy, "writer-busy"},
		{fmt.Errorf("%w: %w", dbq.ErrUnavailable, dbq.ErrMayHaveHappened), "may-have-happened"},
		{dbq.ErrPriority, "priority"}, {dbq.ErrInvalid, "invalid"}, {errors.New("secret"), "internal"},
	} {
		p := api.ProblemOf(c.err)
		if p.Type != wire.Prefix+c.name || strings.Contains(p.Title+p.Detail, "secret") {
			t.Errorf("%v is the problem %+v, want %s", c.err, p, c.name)
		}
	}
}

// TestInvalidRequestsAreProblems sends what the API refuses. No problem may contain the planted value.
func TestInvalidRequestsAreProblems(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(c *api.Config) { c.MaxBody = 4000 })
	tasks, id := mail+"/tasks", "/v1/db/shop/tasks/0198c1f2-7a3b-7c4d-8e5f-0123456789ab"
	long := strings.Repeat("planted", 20)
	for _, c := range []struct {
		status                      int
		problem, method, path, body string
	}{
		{404, "no-such-route", "GET", "/planted", ""},
		{404, "no-such-route", "GET", "/v1//databases", ""},
		{404, "no-such-route", "GET", "/v1/databases/", ""},
		{405, "method-not-allowed", "PUT", tasks, "{}"},
		{404, "no-such-database", "POST", "/v1/db/planted/queues/mail/tasks", "{}"},
		{400, "invalid-json", "POST", tasks, `{"payload":"planted"`},
		{400, "invalid-json", "POST", tasks, `{"payload":"planted"} {}`},
		{422, "invalid-request", "POST", tasks, `{"planted_":"planted"}`},
		{422, "invalid-request", "POST", tasks, `{"priority":"planted"}`},
		{422, "invalid-request", "POST", tasks, `{"id":"planted"}`},
		{422, "invalid-request", "POST", tasks, `["planted"]`},
		{422, "invalid-request", "POST", tasks, `{"payload":"planted","payload_base64":"cGxhbnRlZA=="}`},
		{422, "invalid-request", "POST", tasks, `{"payload_base64":"planted!"}`},
		{422, "invalid-request", "POST", tasks, `{"run_at":"planted"}`},
		{422, "invalid-request", "POST", tasks, `{"unique":{"while":"planted"}}`},
		{422, "invalid-request", "POST", tasks + "/batch", `{"tasks":[]}`},
		{422, "invalid-request", "POST", mail + "/settle", `{"settlements":[{"lease":"planted","outcome":"planted"}]}`},
		{422, "invalid-request", "POST", mail + "/settle",
			`{"settlements":[{"lease":"planted","outcome":"fail","result":"planted"}]}`},
		{422, "invalid-request", "GET", "/v1/db/shop/tasks/planted", ""},
		{422, "invalid-request", "GET", "/v1/db/shop/tasks?state=planted", ""},
		{422, "invalid-request", "GET", "/v1/db/shop/tasks?planted_=planted", ""},
		{422, "invalid-request", "GET", "/v1/db/shop/tasks?limit=planted", ""},
		{422, "invalid-request", "GET", "/v1/db/shop/tasks?after=planted", ""},
		{422, "queue-name", "POST", "/v1/db/shop/queues/" + strings.Repeat(long, 9) + "/tasks", "{}"},
		{422, "priority", "POST", tasks, `{"priority":1000000}`},
		{422, "kind", "POST", tasks, `{"kind":"` + strings.Repeat(long, 9) + `"}`},
		{422, "delay", "POST", tasks, `{"delay_seconds":1e300}`},
		{422, "delay", "POST", tasks, `{"delay_seconds":1,"run_at":"2030-01-01T00:00:00Z"}`},
		{422, "headers", "POST", tasks, `{"headers":{"planted\u0000":"planted"}}`},
		{422, "task-id", "POST", tasks, `{"id":"00000000-0000-4000-8000-000000000000"}`},
		{422, "unique", "POST", tasks, `{"unique":{"on_conflict":"debounce"}}`},
		{422, "count", "POST", mail + "/checkout", `{"max":100000}`},
		{422, "lease-time", "POST", mail + "/checkout", `{"lease_seconds":-1}`},
		{422, "option", "POST", mail + "/checkout", `{"worker":"` + strings.Repeat(long, 9) + `"}`},
		{413, "body-too-large", "POST", tasks, `{"payload":"` + strings.Repeat(long, 99) + `"}`},
		{404, "not-found", "GET", id, ""},
		{404, "not-found", "GET", id + "/wait", ""},
		{404, "not-found", "GET", id + "/attempts", ""},
	} {
		if text := s.refused(c.status, c.problem, c.method, c.path, c.body); strings.Contains(
			strings.ReplaceAll(text, "planted_", ""), "planted") {
			t.Errorf("%s %s: the problem contains the value: %s", c.method, c.path, text)
		}
	}
	second := s.refused(422, "priority", "POST", tasks+"/batch", `{"tasks":[{},{"priority":-0},{"priority":1000000}]}`)
	if !strings.Contains(second, `"body.tasks[2]"`) {
		t.Errorf("the problem does not name the task: %s", second)
	}
	for _, header := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""} {
		s.refused(415, "media-type", "POST", tasks, "{}", "Content-Type", header)
	}
	if n := len(s.must(200, "GET", "/v1/db/shop/tasks", "")["tasks"].([]any)); n != 0 {
		t.Errorf("the refused requests added %d tasks", n)
	}
}

func TestCallersAreRestricted(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	id := s.must(201, "POST", mail+"/tasks", `{"payload":"planted","headers":{"h":"planted"}}`)["id"].(string)
	other := s.must(201, "POST", "/v1/db/shop/queues/other/tasks", `{}`)["id"].(string)
	s.as(auth.Principal{}).refused(401, "unauthenticated", "GET", "/v1/databases", "")

	viewer := s.as(auth.Principal{Name: "v", Role: auth.Viewer})
	viewer.refused(403, "forbidden", "POST", mail+"/tasks", "{}")
	viewer.refused(403, "forbidden", "POST", mail+"/checkout", "{}")
	for _, path := range []string{"/v1/db/shop/tasks/" + id, "/v1/db/shop/tasks", "/v1/db/shop/stats",
		"/v1/db/shop/tasks/" + id + "/wait?wait_seconds=0"} {
		if status, text := viewer.send("GET", path, ""); status != 200 || strings.Contains(text, "planted") {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}

	mailer := s.as(auth.Principal{Name: "m", Role: auth.Trigger, Queues: []string{"mail"}})
	mailer.must(201, "POST", mail+"/tasks", "{}")
	mailer.refused(403, "forbidden", "POST", "/v1/db/shop/queues/other/tasks", "{}")
	mailer.refused(403, "forbidden", "GET", "/v1/db/shop/tasks", "")
	mailer.must(200, "GET", "/v1/db/shop/tasks?queue=mail", "")
	mailer.refused(404, "not-found", "GET", "/v1/db/shop/tasks/"+other, "")
	mailer.refused(404, "not-found", "GET", "/v1/db/shop/tasks/"+other+"/attempts", "")
	if q := one(t, mailer.must(200, "GET", "/v1/db/shop/stats", ""), "queues"); q["queue"] != "mail" {
		t.Errorf("the stats of another queue: %v", q)
	}
	if task := one(t, mailer.must(200, "POST", mail+"/checkout", `{}`), "tasks"); task["payload"] != "planted" {
		t.Errorf("a worker gets no payload: %v", task)
	}

	elsewhere := s.as(auth.Principal{Name: "e", Role: auth.Admin, Databases: []string{"log"}})
	elsewhere.refused(403, "forbidden", "GET", "/v1/db/shop/tasks", "")
	elsewhere.refused(403, "forbidden", "GET", "/v1/db/shop/tasks/"+id, "")
	if list := elsewhere.must(200, "GET", "/v1/databases", "")["databases"].([]any); len(list) != 0 {
		t.Errorf("another caller's databases: %v", list)
	}
	s.refused(403, "cross-origin", "POST", mail+"/tasks", "{}", "Sec-Fetch-Site", "cross-site")
}

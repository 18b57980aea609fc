package api_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/api"
	"github.com/dbq-go/dbq/console"
	"github.com/dbq-go/dbq/dbqtest"
	"github.com/dbq-go/dbq/internal/check"
)

// TestHandlersAreMountedUnderAPrefix mounts the API and the console in a program's own mux, and follows every link.
func TestHandlersAreMountedUnderAPrefix(t *testing.T) {
	t.Parallel()
	databases := map[string]*dbq.Client{"shop": dbqtest.New(t).Client}
	silent := slog.New(slog.DiscardHandler)
	a, err := api.New(api.Config{Databases: databases, Authenticator: admin, Logger: silent})
	check.OK(t, err)
	pages, err := console.New(console.Config{
		Databases: databases, Authenticator: admin, Logger: silent, Prefix: "/jobs/console",
	})
	check.OK(t, err)
	mux := http.NewServeMux()
	mux.Handle("/jobs/api/", http.StripPrefix("/jobs/api", a))
	mux.Handle("/jobs/console/", pages)
	server := httptest.NewServer(mux)
	defer server.Close()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	call := func(method, path, media, body string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body))
		check.OK(t, err)
		r.Header.Set("Content-Type", media)
		answer, err := client.Do(r)
		check.OK(t, err)
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		check.OK(t, err)
		if to := answer.Header.Get("Location"); to != "" && !strings.HasPrefix(to, "/jobs/") {
			t.Errorf("%s %s leads to %s, which is outside the prefix", method, path, to)
		}
		return answer.StatusCode, string(text)
	}
	const db = "/jobs/api/v1/db/shop"
	for _, c := range []struct {
		status                    int
		method, path, media, body string
	}{
		{201, "POST", db + "/queues/a%2Fb/tasks", "application/json", `{"kind":"k"}`},
		{200, "POST", db + "/queues/a%2Fb/checkout", "application/json", `{}`},
		{201, "PUT", db + "/schedules/nightly", "application/json", `{"cron":"@daily","queue":"a/b"}`},
		{200, "GET", db + "/tasks?queue=a/b", "", ""},
		{200, "GET", "/jobs/api/v1/databases", "", ""},
		{200, "GET", "/jobs/api/v1/openapi.json", "", ""},
		{404, "GET", "/jobs/api/v1/", "", ""},
		{404, "GET", "/jobs/api/v1/databases/", "", ""},
		{405, "DELETE", "/jobs/api/v1/databases", "", ""},
		{404, "GET", "/v1/databases", "", ""},
	} {
		if status, text := call(c.method, c.path, c.media, c.body); status != c.status {
			t.Errorf("%s %s: %d %.200s, want %d", c.method, c.path, status, text, c.status)
		}
	}

	// The console is read page by page from its start, by the links of each.
	link := regexp.MustCompile(`(?:href|src|hx-get)="([^"#]+)"`)
	target := regexp.MustCompile(`(?:action|formaction|hx-post)="([^"#]+)"`)
	todo, seen := []string{"/jobs/console/"}, map[string]bool{}
	for len(todo) > 0 {
		path := strings.ReplaceAll(todo[0], "&amp;", "&")
		if todo = todo[1:]; seen[path] || len(seen) > 200 {
			continue
		}
		seen[path] = true
		if !strings.HasPrefix(path, "/jobs/console/") {
			t.Errorf("a page links to %s, which is outside the prefix", path)
			continue
		}
		status, text := call("GET", path, "", "")
		if status >= 400 {
			t.Errorf("%s: %d", path, status)
		}
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			todo = append(todo, m[1])
		}
		for _, m := range target.FindAllStringSubmatch(text, -1) {
			if !strings.HasPrefix(m[1], "/jobs/console/") {
				t.Errorf("a form of %s is sent to %s, which is outside the prefix", path, m[1])
			}
		}
	}
	if len(seen) < 20 {
		t.Errorf("%d pages were found, want all: %v", len(seen), seen)
	}
}

//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq/internal/check"
)

// serving is a dbq serve of a test.
type serving struct {
	*background
	t   *testing.T
	url string
}

// serve starts dbq serve on a free port, and waits until it serves.
func (u *user) serve(args ...string) *serving {
	u.t.Helper()
	return u.start(freePort(args)...).serving()
}

// serveProcess is serve as a process, which a test can kill.
func (u *user) serveProcess(args ...string) *serving {
	u.t.Helper()
	return u.startProcess(freePort(args)...).serving()
}

func freePort(args []string) []string {
	return append([]string{"serve", "--listen", "127.0.0.1:0", "--quiet"}, args...)
}

func (b *background) serving() *serving {
	b.u.t.Helper()
	return &serving{b, b.u.t, b.address(`on (https?://[^;]+);`)}
}

// address waits until the command has printed its address, which the pattern has as a group.
func (b *background) address(pattern string) (at string) {
	b.u.t.Helper()
	check.Eventually(b.u.t, "it prints its address", func() bool {
		select {
		case <-b.done:
			b.u.t.Fatalf("dbq %q has ended: %s", b.args, b.err)
		default:
		}
		if m := regexp.MustCompile(pattern).FindStringSubmatch(b.err.String()); m != nil {
			at = m[1]
		}
		return at != ""
	})
	return at
}

// do sends a request, with a body of JSON unless it is "", and returns the response and its body.
func (s *serving) do(method, path, body string, headers ...string) (*http.Response, string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, s.url+path, strings.NewReader(body))
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
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer, string(text)
}

// send is do with the status of the response.
func (s *serving) send(method, path, body string, headers ...string) (int, string) {
	s.t.Helper()
	answer, text := s.do(method, path, body, headers...)
	return answer.StatusCode, text
}

// get sends a GET without a body.
func (s *serving) get(path string) (int, string) {
	s.t.Helper()
	return s.send("GET", path, "")
}

func TestServeAnswersForEachDatabase(t *testing.T) {
	u := newUser(t)
	u.run("migrate", "--dsn", "a.db").ok()
	u.run("migrate", "--dsn", "b.db").ok()
	id := u.run("enqueue", "--dsn", "b.db", "--queue", "mail").id()
	s := u.serve("--dsn", "shop=a.db", "--dsn", "log=sqlite:"+u.file("b.db"))
	for path, want := range map[string]string{
		"/healthz": "ok", "/readyz": "ready", "/v1/databases": `"log"`, "/v1/db/log/tasks/" + id: id,
		"/metrics": `database="shop"`, "/v1/openapi.json": `"3.1.0"`,
	} {
		if status, body := s.get(path); status != 200 || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s, want %s", path, status, body, want)
		}
	}
	if status, _ := s.get("/v1/db/shop/tasks/" + id); status != 404 {
		t.Errorf("a task of another database: %d, want 404", status)
	}
}

func TestServeRefusesInvalidConfigurations(t *testing.T) {
	u := newUser(t)
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "serve.yaml")
		check.OK(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	const dsn = "postgres://app:planted@127.0.0.1:1/shop?connect_timeout=1"
	for _, c := range []struct {
		code int
		text string
		args []string
	}{
		{exitUsage, "serves only this machine", []string{"--listen", "0.0.0.0:0"}},
		{exitUsage, "serves only this machine", []string{"--listen", ":0"}},
		{exitUsage, "HOST:PORT", []string{"--listen", "nothing"}},
		{exitUsage, "twice", []string{"--dsn", "a=x.db", "--dsn", "a=y.db"}},
		{exitUsage, "both --tls-cert and --tls-key", []string{"--tls-cert", "x"}},
		{exitUsage, "cannot read --config", []string{"--config", "absent.yaml"}},
		{exitUsage, "there is no such field", []string{"--config", file("planted_: x")}},
		{exitUsage, "line 1", []string{"--config", file("limits: {requests: \"" + dsn + "\"}")}},
		{exitUsage, "a path is $ and any number of", []string{"--config", file("redact: [{paths: [card]}]")}},
		{exitUsage, "it has no paths", []string{"--config", file("redact: [{queue: mail}]")}},
		{exitUsage, "there is no such field", []string{"--config", file("redact: [{path: [$]}]")}},
		{exitUsage, "one of dsn, dsn_file and dsn_env", []string{"--config", file("databases: {a: {}}")}},
		{exitUsage, "the variable that dsn_env names is empty",
			[]string{"--config", file("databases: {a: {dsn_env: PLANTED_}}")}},
		{exitUnavailable, `database "a"`, []string{"--config", file("databases: {a: {dsn: \"" + dsn + "\"}}")}},
		{exitUnavailable, `database "a"`, []string{"--dsn", "a=" + dsn}},
	} {
		o := u.run(append([]string{"serve"}, c.args...)...).fails(c.code, c.text)
		if strings.Contains(strings.ReplaceAll(strings.ToLower(o.err), "planted_", ""), "planted") {
			t.Errorf("serve %q prints the password: %s", c.args, o.err)
		}
	}
}

// TestExamplesOfTheHTTPPageRun runs the blocks of docs/http.md in their order, in one shell.
func TestExamplesOfTheHTTPPageRun(t *testing.T) {
	u := newUser(t)
	for _, tool := range []string{"bash", "curl", "jq"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("the examples need %s", tool)
		}
	}
	page, err := os.ReadFile("../../docs/http.md")
	check.OK(t, err)
	script := "set -euo pipefail\n"
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	for _, m := range blocks {
		script += m[1]
	}
	if len(blocks) < 5 {
		t.Fatalf("the page has %d examples", len(blocks))
	}
	s := u.serve()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", script)
	cmd.Env = append(u.env, "URL="+s.url)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("the examples of docs/http.md: %v\n%s", err, out)
	}
}

// TestServeAcceptsTokensAndAProxy calls a server without credentials, with a token of a viewer, and as a user whom a
// proxy names.
func TestServeAcceptsTokensAndAProxy(t *testing.T) {
	u := newUser(t)
	u.run("migrate", "--dsn", "a.db").ok()
	id := u.run("enqueue", "--dsn", "a.db", "--queue", "mail", "--payload",
		`{"plain":"planted","a":[{"secret":"hidden"}]}`).id()
	secret := u.run("token", "create", "reader", "--role", "viewer", "--dsn", "a.db", "--json").one()["secret"].(string)
	u.write("serve.yaml", `
databases: {shop: {dsn: a.db}}
auth:
  tokens: shop
  proxy: {from: [127.0.0.0/8], user_header: X-User, rules: [{user: ann, role: operator, payloads: true}]}
redact: [{queue: mail, paths: [$..secret]}]
`)
	s := u.serve("--config", "serve.yaml")
	task, pause, bearer := "/v1/db/shop/tasks/"+id, "/v1/db/shop/queues/mail/pause", "Bearer "+secret
	for _, c := range []struct {
		status  int
		method  string
		path    string
		headers []string
	}{
		{200, "GET", "/healthz", nil},
		{401, "GET", task, nil},
		{401, "GET", "/metrics", nil},
		{401, "GET", task, []string{"Authorization", bearer + "x"}},
		{401, "GET", task, []string{"X-User", "bob"}},
		{200, "GET", "/metrics", []string{"Authorization", bearer}},
		{200, "GET", "/readyz/shop", nil},
		{503, "GET", "/readyz/none", nil},
		// No sender of webhooks is led to a page.
		{404, "POST", "/hooks/shop", nil},
		{404, "POST", "/hooks", nil},
		{404, "GET", "/hooks/", nil},
		{404, "POST", "/db", nil},
		{404, "POST", "/v1", nil},
		{404, "GET", "/unknown", nil},
		{404, "POST", "//v1/databases", nil},
		{404, "GET", "/hooks/../login", nil},
		{404, "GET", "//login", nil},
		{200, "GET", "/login", nil},
		{400, "POST", "/prefs", nil},   // the console has it, and this is no form
		{200, "GET", "/db/shop/", nil}, // the page that signs in
		{403, "POST", pause, []string{"Authorization", bearer}},
		{204, "POST", pause, []string{"X-User", "ann"}},
	} {
		if status, body := s.send(c.method, c.path, "{}", c.headers...); status != c.status {
			t.Errorf("%s %s %v: %d %s, want %d", c.method, c.path, c.headers, status, body, c.status)
		}
	}
	status, body := s.send("GET", task, "", "Authorization", bearer)
	if status != 200 || strings.Contains(body, "planted") {
		t.Errorf("a viewer gets %d %s, want the task without its payload", status, body)
	}
	if status, body := s.send("GET", task, "", "X-User", "ann"); status != 200 || !strings.Contains(body, "planted") {
		t.Errorf("an operator with payloads gets %d %s", status, body)
	} else if strings.Contains(body, "hidden") {
		t.Errorf("the payload is not redacted: %s", body)
	}
	u.run("serve", "--dsn", "shop=a.db", "--tokens", "log").fails(exitUsage, "not the name of a database")
}

// Whatever serves a path, a caller whose body never comes does not keep its connection.
func TestServeEndsConnectionsWhoseBodyNeverComes(t *testing.T) {
	u := newUser(t)
	u.write("serve.yaml", "databases: {shop: {dsn: a.db}}\nlimits: {body_timeout: 200ms, timeout: 2s}\n")
	u.run("migrate", "--dsn", "a.db").ok()
	s := u.serve("--config", "serve.yaml")
	conns := map[string]net.Conn{}
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/v1/databases", "/login", "//healthz", "/v1/../x"} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		check.OK(t, err)
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n", path)
		conns[path] = conn
	}
	for path, conn := range conns {
		if got, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(got), "HTTP/1.1 ") {
			t.Errorf("%s: %q, %v", path, got, err)
		}
		conn.Close()
	}
}

// With --log-json, each line of the log is an object of JSON.
func TestServerLogsJSON(t *testing.T) {
	u := newUser(t)
	u.run("migrate").ok()
	s := u.start("serve", "--listen", "127.0.0.1:0", "--log-json").serving()
	s.do("GET", "/v1/db/default/queues/q/settings", "")
	check.Eventually(t, "the request is logged", func() bool {
		return strings.Contains(s.err.String(), `"msg":"api: request"`)
	})
	for line := range strings.Lines(s.err.String()) {
		if strings.Contains(line, `"msg"`) && !json.Valid([]byte(line)) {
			t.Errorf("a line is no JSON: %s", line)
		}
	}
}

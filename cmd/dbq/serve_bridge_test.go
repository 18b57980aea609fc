//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dbq-go/dbq/bridge"
	"github.com/dbq-go/dbq/internal/check"
)

// TestServeForwardsThroughAKill forwards tasks from one file to a second one directly, and from there to a third one
// over HTTP, while the server is killed and started again.
func TestServeForwardsThroughAKill(t *testing.T) {
	u := newUser(t)
	const tasks = 300
	for _, file := range []string{"a.db", "b.db", "c.db"} {
		u.run("migrate", "--dsn", file).ok()
	}
	var lines strings.Builder
	for i := range tasks {
		fmt.Fprintf(&lines, `{"payload":"p%d","reference":"r%d"}`+"\n", i, i)
	}
	u.feed(lines.String(), "enqueue", "--dsn", "a.db", "--queue", "out", "--lines").ok()
	secret := bridge.NewSecret().Reveal()
	u.write("secret", secret)
	u.env = append(u.env, "SHOP_SECRETS="+secret)
	u.write("far.yaml", `
databases: {c: {dsn: c.db}}
receivers: [{path: /hooks/tasks, database: c, queue: in, tasks: true, secrets_env: SHOP_SECRETS}]
`)
	far := u.serve("--config", "far.yaml")
	u.write("url", far.url+"/hooks/tasks\n")
	u.write("near.yaml", `
databases: {a: {dsn: a.db}, b: {dsn: b.db}}
bridges:
  - {database: a, queue: out, forward: {database: b, queue: mid}, concurrency: 2, lease: 2s}
  - database: b
    queue: mid
    lease: 2s
    forward_url: {url_file: url, secret_files: [secret], allow_networks: [127.0.0.0/8], plain_http: true}
`)
	count := func(file, queue, state string) (n int) {
		for l := range strings.Lines(u.run("--dsn", file, "--json", "stats").ok()) {
			var q struct {
				Queue string
				Count map[string]int
			}
			if err := json.Unmarshal([]byte(l), &q); err != nil {
				t.Fatalf("%v: %s", err, l)
			}
			if q.Queue == queue {
				n = q.Count[state]
			}
		}
		return n
	}
	near := u.serveProcess("--config", "near.yaml")
	deadline := time.Now().Add(patience)
	for count("a.db", "out", "COMPLETED") == 0 && time.Now().Before(deadline) {
	}
	near.kill()
	near = u.serveProcess("--config", "near.yaml")
	for count("a.db", "out", "COMPLETED")+count("b.db", "mid", "COMPLETED") < 2*tasks && // leases end in between
		time.Now().Before(deadline) {
		time.Sleep(100 * time.Millisecond)
	}
	for _, c := range [][3]string{{"a.db", "out", "COMPLETED"}, {"b.db", "mid", "COMPLETED"}, {"c.db", "in", "CREATED"}} {
		if n := count(c[0], c[1], c[2]); n != tasks {
			t.Errorf("queue %s of %s has %d tasks in %s, want %d", c[1], c[0], n, c[2], tasks)
		}
	}
	near.stops()
	if logged := near.err.String(); strings.Contains(logged, secret[6:]) {
		t.Errorf("the log shows the secret: %s", logged)
	}
}

// TestServeSendsWebhooksAndReceivesMessages sends a task to an endpoint, and an unsigned message to the server.
func TestServeSendsWebhooksAndReceivesMessages(t *testing.T) {
	u := newUser(t)
	u.run("migrate", "--dsn", "a.db").ok()
	id := u.run("enqueue", "--dsn", "a.db", "--queue", "notify", "--payload", `{"n":1}`).id()
	got := make(chan string, 10)
	var once sync.Once
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		status := http.StatusOK
		once.Do(func() { status = http.StatusTooManyRequests })
		w.WriteHeader(status)
		got <- r.Header.Get("Webhook-Id") + " " + string(body)
	}))
	defer endpoint.Close()
	u.write("secret", bridge.NewSecret().Reveal())
	u.write("serve.yaml", `
databases: {shop: {dsn: a.db}}
bridges:
  - database: shop
    queue: notify
    webhook: {url: "`+endpoint.URL+`/x", secret_files: [secret], allow_networks: [127.0.0.0/8], plain_http: true,
      on_status: {429: retry}}
receivers:
  - {path: /hooks/shop, database: shop, queue: in, kind_from_type: true, secret_files: [secret]}
`)
	s := u.serve("--config", "serve.yaml")
	for range 2 {
		select {
		case message := <-got:
			if message != id+` {"n":1}` {
				t.Errorf("the endpoint got %s", message)
			}
		case <-time.After(patience):
			t.Fatal("no message arrived")
		}
	}
	if status, _ := s.send("POST", "/hooks/shop", "{}"); status != http.StatusBadRequest {
		t.Errorf("an unsigned message gets %d, want 400", status)
	}
}

// TestServeReportsABridgeThatIsStopped stops the worker of a bridge as an operator may do.
func TestServeReportsABridgeThatIsStopped(t *testing.T) {
	u := newUser(t)
	u.run("migrate", "--dsn", "a.db").ok()
	u.write("serve.yaml", `
databases: {shop: {dsn: a.db}}
bridges: [{database: shop, queue: out, forward: {database: shop, queue: in}}]
`)
	s := u.start("serve", "--listen", "127.0.0.1:0", "--quiet", "--config", "serve.yaml")
	u.flags = []string{"--dsn", "a.db"}
	var workers []map[string]any
	check.Eventually(t, "the bridge works", func() bool {
		workers = u.run("worker", "list", "--json").jsonLines()
		return len(workers) == 1
	})
	u.run("worker", "stop", workers[0]["id"].(string)).ok()
	s.err.waitFor(t, "database=shop queue=out")
	s.stops()
}

func TestServeRefusesInvalidBridges(t *testing.T) {
	u := newUser(t)
	u.run("migrate", "--dsn", "a.db").ok()
	u.write("secret", bridge.NewSecret().Reveal())
	u.write("wrong", "planted")
	const to = `{database: s, queue: q, `
	const back = `{database: s, queue: y, forward: {database: s, queue: q}}]`
	for config, want := range map[string]string{
		`bridges: [` + to + `}]`:                                 "it needs one of forward",
		`bridges: [` + to + `forward: {database: x, queue: y}}]`: "not the name of a database",
		`bridges: [` + to + `forward: {database: s, queue: q}}]`: "in a loop: s/q to s/q",
		`bridges: [{database: s, queue: x, forward: {database: s, queue: q}}, ` + to +
			`forward: {database: s, queue: y}}, ` + back: "loop: s/q to s/y to s/q",
		`bridges: [` + to + `forward: {database: s}}]`:                                            "queue is missing",
		`bridges: [` + to + `forward: {database: s, queue: y}, webhook: {url: x}}]`:               "it needs one of forward",
		`bridges: [` + to + `forward: {database: s, queue: y}, planted_: 1}]`:                     "there is no such field",
		`bridges: [` + to + `webhook: {url: "http://planted/x", secret_files: [secret]}}]`:        "not https",
		`bridges: [` + to + `webhook: {url: "https://a.example/planted"}}]`:                       "there is no secret",
		`bridges: [` + to + `webhook: {url: "https://a.example", secret_files: [wrong]}}]`:        "a secret is not",
		`bridges: [` + to + `webhook: {url: "https://a.example", url_file: x}}]`:                  "one of url and url_file",
		`bridges: [` + to + `webhook: {url: "https://a.example", on_stat: {}}}]`:                  "there is no such field",
		`bridges: [` + to + `forward_url: {url: "https://u:planted@a", secret_files: [secret]}}]`: "has a user",
		`receivers: [` + to + `path: /v1/x, secret_files: [secret]}]`:                             "path must be unique",
		`receivers: [` + to + `path: /hooks/../x, secret_files: [secret]}]`:                       "path must be unique",
		`receivers: [` + to + `path: /hooks/x}]`:                                                  "there is no secret",
		`receivers: [` + to + `path: /hooks/x, secrets_env: ABSENT}]`:                             "there is no secret",
		`receivers: [` + to + `path: /hooks/x, secret_files: [secret], window: 1s}]`:              "Window",
		`receivers: [{path: /hooks/x, database: s, secret_files: [secret]}]`:                      "queue is missing",
	} {
		u.write("serve.yaml", "databases: {s: {dsn: a.db}}\n"+config)
		o := u.run("serve", "--listen", "127.0.0.1:0", "--config", "serve.yaml").fails(exitUsage, want)
		if strings.Contains(strings.ReplaceAll(o.err, "planted_", ""), "planted/") || strings.Contains(o.err, ":planted@") {
			t.Errorf("%s: %s", config, o.err)
		}
	}
}

// TestServeDrainsBridges stops a server while an endpoint does not answer its webhook: it waits for drain, and not for
// the timeout of the endpoint.
func TestServeDrainsBridges(t *testing.T) {
	u := newUser(t)
	arrived := make(chan struct{}, 1)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		arrived <- struct{}{}
		<-r.Context().Done()
	}))
	defer hook.Close()
	u.run("migrate", "--dsn", "a.db").ok()
	u.run("enqueue", "--dsn", "a.db", "--queue", "hook", "--payload", "hello").ok()
	u.write("secret", bridge.NewSecret().Reveal())
	u.write("serve.yaml", `
drain: 100ms
databases: {a: {dsn: a.db}}
bridges:
  - database: a
    queue: hook
    webhook: {url: "`+hook.URL+`", timeout: 5m, secret_files: [secret], allow_networks: [127.0.0.0/8], plain_http: true}
`)
	s := u.serve("--config", "serve.yaml")
	<-arrived
	begin := time.Now()
	s.stop()
	s.wait().ok()
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("it took %v to stop", took)
	}
}

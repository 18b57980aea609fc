//go:build unix

package main

import (
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/check"
)

// TestServersShowNoSecret plants a secret wherever dbq serve has one, makes calls of all kinds fail, and searches
// everything that is printed, logged, returned or audited for one of them.
func TestServersShowNoSecret(t *testing.T) {
	u := newUser(t)
	u.env = append(u.env, logEverything+"=1")
	file := func(name, content string) string {
		path := filepath.Join(u.dir, name)
		check.OK(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	dsn := "guarded://app:planted-password@db.example:7" + filepath.Join(u.dir, "q.db") + "?token=planted-parameter"
	key := "planted-key-of-32-bytes-00000001"
	webhook := base64.StdEncoding.EncodeToString([]byte(key))
	hook := file("secret", "whsec_"+webhook)
	secrets := map[string]string{"a planted value": "planted", "the webhook's secret": webhook}
	var shown strings.Builder // all that may not contain them
	cli := func(args ...string) outcome {
		t.Helper()
		o := u.run(append([]string{"--dsn-file", filepath.Join(u.dir, "dsn")}, args...)...)
		fmt.Fprintf(&shown, "dbq %s: %s%s\n", args[0], o.out, o.err)
		return o
	}
	file("dsn", dsn)
	cli("migrate").ok()
	created := u.run("--dsn-file", "dsn", "--json", "token", "create", "ops", "--role", "admin", "--payloads").one()
	token := created["secret"].(string)
	secrets["the token's secret"] = token[len(token)-64:]

	refuses := httptest.NewServer(http.NotFoundHandler())
	defer refuses.Close()
	s := u.serveProcess("--quiet=false", "--config", file("serve.yaml", `
databases: {shop: {dsn_file: `+filepath.Join(u.dir, "dsn")+`}}
auth:
  tokens: shop
  oidc: {issuer: "http://127.0.0.1:1", audience: planted-audience, rules: [{role: viewer}]}
  proxy: {from: [127.0.0.0/8], user_header: X-User, rules: [{user: ann, role: viewer, payloads: true}]}
redact: [{paths: [$..secret]}]
bridges:
  - database: shop
    queue: away
    webhook:
      {url: "http://127.0.0.1:1/planted?planted", plain_http: true, secret_files: [`+hook+`]}
  - database: shop
    queue: out
    webhook:
      url: `+refuses.URL+`/planted-path?planted=query
      plain_http: true
      allow_networks: [127.0.0.0/8]
      secret_files: [`+hook+`]
receivers: [{path: /hooks/shop, database: shop, queue: in, secret_files: [`+hook+`]}]
`))
	bearer := []string{"Authorization", "Bearer " + token}
	call := func(method, path, body string, headers ...string) string {
		t.Helper()
		answer, text := s.do(method, path, body,
			append([]string{"Cookie", "session=planted-cookie", "X-Request-Id", "planted id"}, headers...)...)
		if !strings.HasSuffix(path, "/checkout") { // a worker gets what it needs
			fmt.Fprintf(&shown, "%s %v: %v %s\n", method, answer.Status, answer.Header, text)
		}
		return text
	}
	queue := "/v1/db/shop/queues/mail"
	var task struct{ ID string }
	enqueued := call("POST", queue+"/tasks",
		`{"payload":{"a":{"secret":"planted-payload"}},"headers":{"secret":"planted-header"}}`, bearer...)
	if json.Unmarshal([]byte(enqueued), &task) != nil || task.ID == "" {
		t.Fatalf("enqueued: %s", enqueued)
	}
	var leased struct {
		Tasks []struct{ Lease, Payload string }
	}
	if got := call("POST", queue+"/checkout", `{}`, bearer...); json.Unmarshal([]byte(got), &leased) != nil ||
		len(leased.Tasks) != 1 || !strings.Contains(leased.Tasks[0].Payload, "planted-payload") {
		t.Fatalf("checked out: %s", got)
	}
	secrets["a lease"] = leased.Tasks[0].Lease
	secrets["the key of leases"] = leaseKeyOf(t, dsn)
	wrong := "dbq_0123456789abcdef_" + strings.Repeat("5ec7e7ed", 8)
	secrets["a wrong token"] = strings.Repeat("5ec7e7ed", 8)
	claims := base64.RawURLEncoding.EncodeToString([]byte(`{"iss":"http://127.0.0.1:1","sub":"planted-subject"}`))
	secrets["the claims of a token"] = claims
	calls := func() {
		for _, credentials := range [][]string{bearer, {"X-User", "ann"}, {"X-User", "planted-user"}, nil,
			{"Authorization", "Bearer " + wrong}, {"Authorization", "Basic planted:planted"},
			{"Authorization", "Bearer planted." + claims + ".planted"}} {
			for _, r := range [][3]string{
				{"GET", "/healthz"}, {"GET", "/readyz"}, {"GET", "/metrics"}, {"GET", "/v1/openapi.json"},
				{"GET", "/v1/databases"}, {"GET", "/v1/planted"}, {"GET", "/v1/db/shop/tasks/" + task.ID},
				{"GET", "/v1/db/shop/tasks?queue=mail"}, {"GET", "/v1/db/shop/tasks?state=planted&other=planted"},
				{"GET", "/v1/db/shop/tasks/" + task.ID + "/attempts"}, {"GET", "/v1/db/shop/stats"},
				{"GET", "/"}, {"GET", "/db/shop/task/" + task.ID}, {"GET", "/db/shop/tasks"}, {"GET", "/db/shop/audit"},
				{"GET", "/db/shop/enqueue?from=" + task.ID}, {"POST", "/login", "token=planted"},
				{"GET", "/v1/db/shop/workers"}, {"POST", "/hooks/shop", "planted"},
				{"POST", "/v1/db/shop/queues/away/tasks", `{"payload":"planted"}`},
				{"GET", "/v1/db/planted/tasks"}, {"GET", "/v1/db/shop/queues"},
				{"POST", queue + "/tasks", `{"payload":"planted","kind":7}`}, {"POST", queue + "/tasks", `{"planted":`},
				{"POST", queue + "/settle", `{"settlements":[{"lease":"planted","outcome":"fail","error":"planted"}]}`},
				{"PATCH", queue + "/settings", `{"concurrency":3}`}, {"POST", queue + "/pause", `{"reason":"night"}`},
			} {
				call(r[0], r[1], r[2], credentials...)
			}
		}
	}
	calls()
	call("POST", queue+"/settle", `{"settlements":[{"outcome":"park","error":"planted: refused","lease":"`+
		leased.Tasks[0].Lease+`"}]}`, bearer...)
	calls()
	cli("audit", "list")
	cli("--json", "audit", "list")
	cli("token", "list")

	// A bridge sends to an endpoint that refuses the message.
	u.run("--dsn-file", "dsn", "enqueue", "--queue", "out", "--payload", "planted-message").ok()
	check.Eventually(t, "the task is parked", func() bool {
		return strings.Contains(cli("list", "--queue", "out").out, "parked")
	})

	// The database fails.
	db, err := sql.Open("sqlite", "file:"+filepath.Join(u.dir, "q.db")+"?_pragma=busy_timeout(30000)")
	check.OK(t, err)
	defer db.Close()
	for _, table := range []string{"dbq_step", "dbq_task", "dbq_kv"} {
		if _, err := db.Exec("DROP TABLE " + table); err != nil {
			t.Fatal(err)
		}
		calls()
	}
	for _, config := range []string{
		"databases: {shop: {dsn: '" + dsn + "&bogus=%zz'}}", "databases: {shop: {dsn: [planted]}}",
		"databases: {shop: {dsn: 'postgres://app:planted@127.0.0.1:1/x'}}\nauth: {tokens: shop}",
	} {
		o := u.run("serve", "--listen", "127.0.0.1:0", "--config", file("wrong.yaml", config))
		fmt.Fprintf(&shown, "serve with %d bytes: %s%s\n", len(config), o.out, o.err)
		if o.code == 0 {
			t.Errorf("%s is accepted", config)
		}
	}
	s.stops()
	logged := s.err.String()
	if strings.Count(logged, "api: request failed")+strings.Count(logged, "api: the request failed") == 0 {
		t.Error("the log has no failed request")
	}
	shown.WriteString(logged)
	for what, secret := range secrets {
		for l := range strings.Lines(shown.String()) {
			if strings.Contains(strings.ToLower(l), strings.ToLower(secret)) {
				t.Errorf("%s is shown: %.2000s", what, l)
			}
		}
	}
}

// leaseKeyOf returns the key that signs leases, as the database has it.
func leaseKeyOf(t *testing.T, dsn string) string {
	t.Helper()
	c, err := dbq.Open(t.Context(), dsn)
	check.OK(t, err)
	defer c.Close()
	r, exists, err := access.Of(c).Store.GetKV(t.Context(), "api", "lease-key")
	if err != nil || !exists || r.Value == "" {
		t.Fatalf("the record of the key: %v, %v", r, err)
	}
	return r.Value
}

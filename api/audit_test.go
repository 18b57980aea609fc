package api_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/auth"
)

const auditPath = "/v1/db/shop/audit"

func TestAuditIsListedInPages(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	id := s.must(201, "POST", mail+"/tasks", `{"payload":"planted","headers":{"h":"planted"}}`)["id"].(string)
	s.must(201, "PUT", schedules+"/s", `{"cron":"@daily","queue":"other","payload":"planted","headers":{"h":"planted"}}`)
	s.must(204, "POST", mail+"/pause", `{"reason":"a test"}`)
	s.must(200, "PATCH", mail+"/limits", `{"concurrency":3}`)
	s.must(200, "POST", "/v1/db/shop/tasks/"+id+"/reject", `{}`, "X-Request-Id", "r1")
	s.must(200, "POST", "/v1/db/shop/operate/reenqueue", `{"filter":{"queue":"mail"},"limit":10,"reason":"again"}`)

	const want = "reenqueue reject limit queue pause queue put schedule"
	for _, order := range []string{"newest", "oldest"} {
		var actions []string
		for after, page := "", 0; page < 4; page++ {
			got := s.must(200, "GET", auditPath+"?limit=2&order="+order+after, "")
			for _, e := range got["entries"].([]any) {
				action := e.(map[string]any)["action"].(string)
				if order == "newest" {
					actions = append(actions, action)
				} else {
					actions = append([]string{action}, actions...)
				}
			}
			next, more := got["next"].(string)
			if !more {
				break
			}
			after = "&after=" + next
		}
		if got := strings.Join(actions, " "); got != want {
			t.Errorf("%s first: %s, want %s", order, got, want)
		}
	}

	one := func(query string) map[string]any {
		t.Helper()
		return one(t, s.must(200, "GET", auditPath+"?"+query, ""), "entries")
	}
	reject := one("task_id=" + id)
	if reject["action"] != "reject" || reject["by"] != "ann" || reject["program"] != "api" || reject["request"] != "r1" ||
		reject["address"] != "127.0.0.1" || reject["task_id"] != id || reject["changed"] != 1.0 {
		t.Errorf("an event on a task: %v", reject)
	}
	if e := one("queue=other"); e["subject"] != "s" || e["after"].(map[string]any)["cron"] != "@daily" {
		t.Errorf("a schedule: %v", e)
	}
	if e := one("action=reenqueue&queue=mail&by=ann"); e["reason"] != "again" || e["changed"] != 1.0 ||
		e["filter"].(map[string]any)["queue"] != "mail" {
		t.Errorf("an event on many tasks: %v", e)
	}
	if e := one("action=pause+queue"); e["task_id"] != nil {
		t.Errorf("a pause: %v", e)
	}
	at := url.QueryEscape(reject["at"].(string))
	for query, n := range map[string]int{
		"by=bob": 0, "since=" + at: 2, "until=" + at: 3, "since=" + at + "&until=" + at: 0,
	} {
		if got := s.must(200, "GET", auditPath+"?"+query, "")["entries"].([]any); len(got) != n {
			t.Errorf("%s: %d entries, want %d", query, len(got), n)
		}
	}
	if _, text := s.send("GET", auditPath, ""); strings.Contains(text, "planted") {
		t.Errorf("the audit shows a payload: %s", text)
	}
}

func TestInvalidAuditQueriesAreProblems(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for query, problem := range map[string]string{
		"task_id=planted": "invalid-request", "after=planted": "invalid-request", "since=planted": "invalid-request",
		"limit=0": "invalid-request", "limit=1001": "invalid-request", "order=planted": "invalid-request",
		"reason=planted": "invalid-request", "by=planted%00": "filter", "action=" + strings.Repeat("planted", 90): "filter",
	} {
		text := s.refused(422, problem, "GET", auditPath+"?"+query, "")
		if strings.Contains(text, "planted") {
			t.Errorf("the problem contains the value: %s", text)
		}
	}
}

func TestOnlyAdminsReadTheAudit(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, queue := range []string{"mail", "other"} {
		s.must(204, "POST", fmt.Sprintf("/v1/db/shop/queues/%s/pause", queue), `{}`)
	}
	for _, role := range []auth.Role{auth.Viewer, auth.Trigger, auth.Operator} {
		other := s.as(auth.Principal{Name: "o", Role: role, Payloads: true})
		other.refused(403, "forbidden", "GET", auditPath, "")
		other.refused(403, "forbidden", "GET", auditPath+"?queue=mail", "")
	}
	mailer := s.as(auth.Principal{Name: "m", Role: auth.Admin, Queues: []string{"mail"}})
	mailer.refused(403, "forbidden", "GET", auditPath, "")
	mailer.refused(403, "forbidden", "GET", auditPath+"?queue=other", "")
	one(t, mailer.must(200, "GET", auditPath+"?queue=mail", ""), "entries")
	elsewhere := s.as(auth.Principal{Name: "e", Role: auth.Admin, Databases: []string{"log"}})
	elsewhere.refused(403, "forbidden", "GET", auditPath, "")
	s.refused(404, "no-such-database", "GET", "/v1/db/none/audit", "")
}

package api_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/api"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/redaction"
)

// redacting returns a site that hides the secrets of queue mail from its callers.
func redacting(t *testing.T, rules ...redaction.Rule) *site {
	t.Helper()
	return newSite(t, func(c *api.Config) { c.Redactions = rules })
}

var cards = redaction.Rule{Queue: "mail", Paths: []string{"$.card.number", "$.items[*].secret", "$..pin"}}

// shows fails if a text of a response has the planted text, or lacks the wanted one.
func shows(t *testing.T, what, text string, want ...string) {
	t.Helper()
	if strings.Contains(text, "planted") {
		t.Errorf("%s shows a hidden value: %s", what, text)
	}
	for _, w := range want {
		quoted, _ := json.Marshal(w)
		if !strings.Contains(text, w) && !strings.Contains(text, strings.Trim(string(quoted), `"`)) {
			t.Errorf("%s does not show %s: %s", what, w, text)
		}
	}
}

// TestSelectedValuesAreHiddenFromReaders reads a task in each way, in each of its states.
func TestSelectedValuesAreHiddenFromReaders(t *testing.T) {
	t.Parallel()
	s := redacting(t, cards)
	const body = `{"id": 12345678901234567890.10, "card": {"number": "planted"}, "b": 1, "a": [{"pin": ["planted"]}]}`
	id := s.must(201, "POST", mail+"/tasks",
		`{"payload":`+body+`,"headers":{"pin":"planted","trace":"t1"}}`)["id"].(string)
	task := "/v1/db/shop/tasks/" + id
	read := func(want ...string) {
		t.Helper()
		for _, path := range []string{
			task, task + "/wait?wait_seconds=0", "/v1/db/shop/tasks?queue=mail", task + "/attempts",
		} {
			status, text := s.send("GET", path, "")
			if status != 200 {
				t.Fatalf("%s: %d %s", path, status, text)
			}
			shows(t, path, text)
			if path == task {
				shows(t, path, text, append(want, `"redacted":true`)...)
			}
		}
	}
	read(`{"id": 12345678901234567890.10, "card": {"number": "[redacted]"}, "b": 1, "a": [{"pin": "[redacted]"}]}`,
		`"trace":"t1"`, `"pin":"[redacted]"`)

	leased := one(t, s.must(200, "POST", mail+"/checkout", `{}`), "tasks")
	if leased["payload"] != body || leased["redacted"] == true || leased["headers"].(map[string]any)["pin"] != "planted" {
		t.Errorf("a worker gets %v", leased)
	}
	lease := leased["lease"].(string)
	lease = one(t, s.must(200, "POST", mail+"/extend",
		`{"leases":[{"lease":"`+lease+`","progress":"{\"pin\":\"planted\",\"n\":7}"}]}`), "leases")["lease"].(string)
	read(`{"pin":"[redacted]","n":7}`)
	s.must(200, "POST", mail+"/settle",
		`{"settlements":[{"lease":"`+lease+`","outcome":"park","error":"{\"card\":\"planted\"}"}]}`)
	read(`"result":"[redacted]"`)
	if a := one(t, s.must(200, "GET", task+"/attempts", ""), "attempts"); a["error"] != "[redacted]" {
		t.Errorf("the attempt shows %v", a)
	}
	s.must(200, "POST", task+"/reenqueue", `{}`)
	lease = one(t, s.must(200, "POST", mail+"/checkout", `{}`), "tasks")["lease"].(string)
	s.must(200, "POST", mail+"/settle", `{"settlements":[{"lease":"`+lease+
		`","outcome":"complete","result":{"items":[{"secret":"planted","n":1}],"ok":true}}]}`)
	read(`{"items":[{"secret":"[redacted]","n":1}],"ok":true}`)
}

// TestWhatIsNotAnObjectOrArrayIsHiddenWhole enqueues what no path selects a part of.
func TestWhatIsNotAnObjectOrArrayIsHiddenWhole(t *testing.T) {
	t.Parallel()
	s := redacting(t, cards)
	for _, payload := range []string{
		`"payload":"card=planted"`, `"payload":"\"planted\""`, `"payload":"{\"a\":\"planted\""`,
		`"payload_base64":"/3BsYW50ZWQ="`, `"payload":4111111111111111`,
	} {
		id := s.must(201, "POST", mail+"/tasks", "{"+payload+"}")["id"].(string)
		got := s.must(200, "GET", "/v1/db/shop/tasks/"+id, "")
		if got["payload"] != "[redacted]" || got["payload_base64"] != nil {
			t.Errorf("%s is shown as %v", payload, got)
		}
	}
	id := s.must(201, "POST", mail+"/tasks", `{}`)["id"].(string)
	if got := s.must(200, "GET", "/v1/db/shop/tasks/"+id, ""); got["payload"] != nil {
		t.Errorf("no payload is shown as %v", got)
	}
}

// TestRedactionsApplyToTheirTasks compares tasks of several queues and kinds.
func TestRedactionsApplyToTheirTasks(t *testing.T) {
	t.Parallel()
	s := redacting(t,
		redaction.Rule{Queue: "mail", Kind: "pay", Paths: []string{"$.a"}},
		redaction.Rule{Kind: "pay", Paths: []string{"$.b"}},
		redaction.Rule{Database: "shop", Queue: "all", Paths: []string{"$"}})
	for _, c := range []struct{ queue, kind, want string }{
		{"mail", "pay", `{"a":"[redacted]","b":"[redacted]","c":3}`},
		{"mail", "note", `{"a":1,"b":2,"c":3}`},
		{"other", "pay", `{"a":1,"b":"[redacted]","c":3}`},
		{"all", "", `[redacted]`},
	} {
		id := s.must(201, "POST", "/v1/db/shop/queues/"+c.queue+"/tasks",
			`{"kind":"`+c.kind+`","payload":{"a":1,"b":2,"c":3}}`)["id"].(string)
		if got := s.must(200, "GET", "/v1/db/shop/tasks/"+id, ""); got["payload"] != c.want {
			t.Errorf("queue %s, kind %q: %v, want %s", c.queue, c.kind, got["payload"], c.want)
		}
	}
}

// TestDeadLetterNoticeHidesTheErrorOfItsTask sends a task of a queue with a redaction to POISON.
func TestDeadLetterNoticeHidesTheErrorOfItsTask(t *testing.T) {
	t.Parallel()
	s := redacting(t, cards)
	s.must(200, "PATCH", mail+"/settings", `{"dead_letter":"alerts"}`)
	s.must(201, "POST", mail+"/tasks", `{}`)
	lease := one(t, s.must(200, "POST", mail+"/checkout", `{}`), "tasks")["lease"].(string)
	s.must(200, "POST", mail+"/settle",
		`{"settlements":[{"lease":"`+lease+`","outcome":"poison","error":"card planted is refused"}]}`)
	notice := one(t, s.must(200, "GET", "/v1/db/shop/tasks?queue=alerts", ""), "tasks")["id"].(string)
	_, text := s.send("GET", "/v1/db/shop/tasks/"+notice, "")
	shows(t, "the notice", text, `"error":"[redacted]"`, dbq.KindPoison)
}

// TestRedactionGrantsNothing reads as a caller that may not see payloads at all.
func TestRedactionGrantsNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(c *api.Config) {
		c.Redactions = []redaction.Rule{cards}
		c.Authenticator = caller{auth.Principal{Name: "v", Role: auth.Trigger}}
	})
	id := s.must(201, "POST", mail+"/tasks", `{"payload":{"b":"planted"}}`)["id"].(string)
	_, text := s.send("GET", "/v1/db/shop/tasks/"+id, "")
	shows(t, "the task", text, `"hidden":true`)
	if strings.Contains(text, "redacted") {
		t.Errorf("it is redacted: %s", text)
	}
}

func TestInvalidRedactionsAreRefused(t *testing.T) {
	t.Parallel()
	c := newSite(t).client
	for _, r := range []redaction.Rule{{}, {Paths: []string{"card"}}, {Paths: []string{"$.a", "$[-1]"}},
		{Database: "log", Paths: []string{"$"}}, {Database: "log", Paths: []string{"$["}}} {
		_, err := api.New(api.Config{Databases: map[string]*dbq.Client{"shop": c}, Authenticator: admin,
			Redactions: []redaction.Rule{r}})
		if !errors.Is(err, dbq.ErrOption) || !strings.Contains(err.Error(), "redaction 1") {
			t.Errorf("%+v: %v", r, err)
		}
	}
}

package api_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	operators "github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/api"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/redaction"
	"github.com/dbq-go/dbq/schedule"
)

const schedules = "/v1/db/shop/schedules"

// as serves the site's database to another caller.
func (s *site) as(p auth.Principal) *site {
	s.t.Helper()
	return serve(s.t, s.client, func(c *api.Config) { c.Authenticator = caller{p} })
}

func TestScheduleIsCreatedReadAndReplaced(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const path = schedules + "/night%2Fly"
	const body = `{"cron":"30 2 * * *","zone":"Europe/Berlin","queue":"mail","kind":"report","payload":{"a":1},
		"headers":{"h":"x"},"key":"k","priority":3,"delay_seconds":1.5,"max_attempts":4,"catch_up":-1,"no_overlap":true,
		"jitter_seconds":60}`
	created := s.must(201, "PUT", path, body, "X-Request-Id", "r1")
	for field, want := range map[string]any{
		"name": "night/ly", "cron": "30 2 * * *", "zone": "Europe/Berlin", "queue": "mail", "kind": "report",
		"payload": `{"a":1}`, "key": "k", "priority": 3.0, "delay_seconds": 1.5, "max_attempts": 4.0, "catch_up": -1.0,
		"no_overlap": true, "jitter_seconds": 60.0, "hidden": nil, "redacted": nil,
	} {
		if created[field] != want {
			t.Errorf("%s is %v, want %v", field, created[field], want)
		}
	}
	read := s.must(200, "GET", path, "")
	if fmt.Sprint(read) != fmt.Sprint(created) || read["headers"].(map[string]any)["h"] != "x" {
		t.Errorf("read %v, want %v", read, created)
	}
	listed := one(t, s.must(200, "GET", schedules, ""), "schedules")
	if listed["revision"] != read["revision"] || listed["payload"] != nil || listed["headers"] != nil {
		t.Errorf("listed %v", listed)
	}
	task := s.must(200, "POST", path+"/run", `{}`)["task_id"].(string)
	if got := s.must(200, "GET", "/v1/db/shop/tasks/"+task, ""); got["payload"] != `{"a":1}` || got["key"] != "k" {
		t.Errorf("it enqueues %v", got)
	}
	replaced := s.must(200, "PUT", path, `{"every_seconds":90.5,"queue":"mail","payload_base64":"/w=="}`)
	if replaced["every_seconds"] != 90.5 || replaced["cron"] != nil || replaced["payload_base64"] != "/w==" ||
		replaced["kind"] != nil {
		t.Errorf("replaced by %v", replaced)
	}
	s.must(200, "PUT", path, `{"at":"2999-01-02T03:04:05+02:00","queue":"mail"}`)

	audit, err := operators.New(s.client).Audit(t.Context(), operators.AuditFilter{Action: "put schedule"})
	if err != nil || len(audit.Entries) != 3 {
		t.Fatalf("the audit has %v, %v", audit.Entries, err)
	}
	if e := audit.Entries[2]; e.By != "ann" || e.Program != "api" || e.Request != "r1" || e.Subject != "night/ly" ||
		strings.Contains(string(e.After), "payload") {
		t.Errorf("the audit has %+v", e)
	}
}

func TestScheduleOverwritesNoChangeOfOthers(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const path = schedules + "/s"
	s.refused(409, "changed", "PUT", path, `{"every_seconds":60,"queue":"mail","revision":"planted"}`)
	s.must(201, "PUT", path, `{"every_seconds":60,"queue":"mail","revision":""}`)
	s.refused(409, "changed", "PUT", path, `{"every_seconds":60,"queue":"mail","revision":""}`)
	old := s.must(200, "GET", path, "")["revision"].(string)
	s.must(200, "POST", path+"/pause", `{}`) // a change of the status
	s.must(200, "PUT", path, `{"every_seconds":70,"queue":"mail","revision":"`+old+`"}`)
	text := s.refused(409, "changed", "PUT", path, `{"every_seconds":80,"queue":"mail","revision":"`+old+`"}`)
	if strings.Contains(text, old) {
		t.Errorf("the problem contains the value: %s", text)
	}
	got := s.must(200, "GET", path, "")
	if got["every_seconds"] != 70.0 || got["paused"] != true {
		t.Errorf("stored: %v", got)
	}
	s.must(200, "PUT", path, `{"every_seconds":90,"queue":"mail"}`) // without a revision, whatever is stored
}

func TestInvalidSchedulesAreProblems(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const ok = `"queue":"mail","cron":"@daily"`
	for _, c := range []struct{ problem, location, body string }{
		{"invalid-request", "body", `{"queue":"mail"}`},
		{"invalid-request", "body", `{"queue":"mail","cron":"@daily","every_seconds":60}`},
		{"invalid-request", "body.zone", `{"queue":"mail","every_seconds":60,"zone":"planted"}`},
		{"invalid-request", "body", `{"cron":"@daily"}`},
		{"invalid-request", "body.reference", `{` + ok + `,"reference":"planted"}`},
		{"invalid-request", "body.unique", `{` + ok + `,"unique":{"key":"planted"}}`},
		{"invalid-request", "body.catch_up", `{` + ok + `,"catch_up":1001}`},
		{"invalid-request", "body.jitter_seconds", `{` + ok + `,"jitter_seconds":1e9}`},
		{"invalid-request", "body.payload", `{` + ok + `,"payload":"planted","payload_base64":"cGxhbnRlZA=="}`},
		{"invalid-request", "body.keep_payload", `{` + ok + `,"keep_payload":true,"payload":"planted"}`},
		{"invalid-request", "body.keep_payload", `{` + ok + `,"keep_payload":true}`},
		{"schedule", "body.cron", `{"queue":"mail","cron":"planted"}`},
		{"schedule", "body.cron", `{"queue":"mail","cron":"0 0 31 2 *"}`},
		{"schedule", "body.zone", `{` + ok + `,"zone":"planted"}`},
		{"schedule", "body.every_seconds", `{"queue":"mail","every_seconds":0.5}`},
		{"schedule", "body.at", `{"queue":"mail","at":"2020-01-01T00:00:00Z"}`},
		{"schedule", "body.payload", `{` + ok + `,"payload":"` + strings.Repeat("planted", 500) + `"}`},
		{"queue-name", "body.queue", `{"queue":"planted\n","cron":"@daily"}`},
		{"kind", "body.kind", `{` + ok + `,"kind":"planted\n"}`},
		{"key", "body.key", `{` + ok + `,"key":"planted\n"}`},
		{"priority", "body.priority", `{` + ok + `,"priority":1000000}`},
		{"max-attempts", "body.max_attempts", `{` + ok + `,"max_attempts":10000000}`},
		{"delay", "body.delay_seconds", `{` + ok + `,"delay_seconds":1e300}`},
	} {
		text := s.refused(422, c.problem, "PUT", schedules+"/s", c.body)
		if !strings.Contains(text, `"location":"`+c.location+`"`) || strings.Contains(text, "planted") {
			t.Errorf("%s: %s, want a problem with %s", c.body, text, c.location)
		}
	}
	text := s.refused(422, "schedule", "PUT", schedules+"/s", `{"queue":"mail","cron":"0 0 31 2 *"}`)
	if !strings.Contains(text, "never fires") {
		t.Errorf("a cron that never fires: %s", text)
	}
	for _, name := range []string{strings.Repeat("planted", 20), "planted%00", "planted%ff"} {
		text := s.refused(422, "schedule", "PUT", schedules+"/"+name, `{`+ok+`}`)
		if !strings.Contains(text, "path.schedule") {
			t.Errorf("an invalid name: %s", text)
		}
		s.refused(404, "not-found", "GET", schedules+"/"+name, "")
		s.refused(404, "not-found", "POST", schedules+"/"+name+"/pause", `{}`)
	}
	if list := s.must(200, "GET", schedules, "")["schedules"].([]any); len(list) != 0 {
		t.Errorf("the refused requests stored %v", list)
	}
}

func TestSchedulesAreRestrictedToQueues(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const daily = `{"cron":"@daily","queue":"mail"}`
	s.must(201, "PUT", schedules+"/mine", daily)
	s.must(201, "PUT", schedules+"/other", `{"cron":"@daily","queue":"other","payload":"planted"}`)
	mailer := s.as(auth.Principal{Name: "m", Role: auth.Operator, Queues: []string{"mail"}})
	mailer.must(200, "GET", schedules+"/mine", "")
	mailer.must(200, "PUT", schedules+"/mine", daily)
	mailer.refused(404, "not-found", "GET", schedules+"/other", "")
	mailer.refused(404, "not-found", "GET", schedules+"/other/times", "")
	mailer.refused(403, "forbidden", "PUT", schedules+"/other", daily)
	mailer.refused(403, "forbidden", "PUT", schedules+"/mine", `{"cron":"@daily","queue":"other"}`)
	mailer.must(201, "PUT", schedules+"/new", daily)
	mailer.must(200, "POST", schedules+"/preview", `{"cron":"@daily"}`)

	for _, role := range []auth.Role{auth.Viewer, auth.Trigger} {
		reader := s.as(auth.Principal{Name: "r", Role: role})
		reader.refused(403, "forbidden", "PUT", schedules+"/mine", daily)
		reader.must(200, "POST", schedules+"/preview", `{"cron":"@daily"}`)
		got := reader.must(200, "GET", schedules+"/other", "")
		if got["hidden"] != true || got["payload"] != nil || got["headers"] != nil {
			t.Errorf("a caller without payloads reads %v", got)
		}
	}
	elsewhere := s.as(auth.Principal{Name: "e", Role: auth.Admin, Databases: []string{"log"}})
	for _, r := range [][3]string{
		{"GET", schedules + "/mine", ""}, {"PUT", schedules + "/mine", daily}, {"GET", schedules + "/mine/times", ""},
		{"POST", schedules + "/preview", `{"cron":"@daily"}`},
	} {
		elsewhere.refused(403, "forbidden", r[0], r[1], r[2])
	}
	s.refused(404, "no-such-database", "PUT", "/v1/db/none/schedules/mine", daily)
	s.refused(404, "no-such-database", "POST", "/v1/db/none/schedules/preview", `{"cron":"@daily"}`)
}

// TestHiddenPayloadOfAScheduleIsKept edits a schedule as callers that may not see all of its payload.
func TestHiddenPayloadOfAScheduleIsKept(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(c *api.Config) { c.Redactions = []redaction.Rule{cards} })
	const path = schedules + "/s"
	const payload = `{"card": {"number": "planted"}, "n": 1}`
	_, text := s.send("PUT", path,
		`{"every_seconds":60,"queue":"mail","kind":"pay","payload":`+payload+`,"headers":{"pin":"planted"}}`)
	shows(t, "the response", text, `{"card": {"number": "[redacted]"}, "n": 1}`, `"redacted":true`)
	_, text = s.send("GET", path, "")
	shows(t, "the schedule", text, `{"card": {"number": "[redacted]"}, "n": 1}`, `"pin":"[redacted]"`)
	_, text = s.send("GET", schedules, "")
	shows(t, "the list", text, `"kind":"pay"`)

	s.must(200, "PUT", path, `{"every_seconds":70,"queue":"mail","kind":"pay","keep_payload":true}`)
	// Elsewhere, the payload could be read.
	for _, moved := range []string{`"queue":"other","kind":"pay"`, `"queue":"mail","kind":"other"`} {
		s.refused(422, "invalid-request", "PUT", path, `{"every_seconds":70,`+moved+`,"keep_payload":true}`)
	}
	blind := s.as(auth.Principal{Name: "b", Role: auth.Operator})
	got := blind.must(200, "PUT", path, `{"every_seconds":80,"queue":"mail","kind":"pay","keep_payload":true}`)
	if got["hidden"] != true || got["payload"] != nil {
		t.Errorf("a caller without payloads gets %v", got)
	}
	stored, err := schedule.New(s.client).Get(t.Context(), "s")
	if err != nil || string(stored.Task.Payload) != payload || stored.Task.Headers["pin"] != "planted" ||
		stored.Every != 80*time.Second {
		t.Errorf("stored: %+v, %v", stored, err)
	}
}

// times returns the times of a response.
func times(t *testing.T, response map[string]any) (out []time.Time) {
	t.Helper()
	for _, text := range response["times"].([]any) {
		at, err := time.Parse(time.RFC3339, text.(string))
		check.OK(t, err)
		out = append(out, at)
	}
	return out
}

func TestTimesOfSchedulesArePreviewed(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const path = schedules + "/preview" // a name that is part of a path
	err := schedule.New(s.client).Put(t.Context(), schedule.Schedule{Name: "preview", Every: time.Hour, Queue: "mail",
		Task: dbq.NewTask{Payload: []byte("planted")}})
	check.OK(t, err)
	stored := s.must(200, "GET", path, "")
	got := s.must(200, "GET", path+"/times", "")
	at := times(t, got)
	if len(at) != 10 || got["paused"] != nil || at[9].Sub(at[0]) != 9*time.Hour ||
		at[0].Format(time.RFC3339Nano) != stored["next"] {
		t.Errorf("%v, want the ten hours from %v", got, stored["next"])
	}
	s.must(200, "POST", path+"/pause", `{}`)
	paused := s.must(200, "GET", path+"/times?count=3", "")
	if again := times(t, paused); len(again) != 3 || !again[0].Equal(at[0]) || paused["paused"] != true {
		t.Errorf("while it is paused: %v, want %v", paused, at[:3])
	}
	for body, n := range map[string]int{
		`{"cron":"30 2 * * *","zone":"Europe/Berlin"}`: 10, `{"every_seconds":60,"count":100}`: 100,
		`{"at":"2999-01-01T00:00:00Z","count":5}`: 1, `{"at":"2020-01-01T00:00:00Z"}`: 0,
	} {
		if got := times(t, s.must(200, "POST", path, body)); len(got) != n {
			t.Errorf("%s: %d times, want %d", body, len(got), n)
		}
	}
	for body, problem := range map[string]string{
		`{}`: "invalid-request", `{"cron":"planted"}`: "schedule", `{"cron":"@daily","zone":"planted"}`: "schedule",
		`{"cron":"@daily","count":101}`: "invalid-request", `{"cron":"@daily","count":0}`: "invalid-request",
		`{"cron":"@daily","queue":"planted"}`: "invalid-request",
	} {
		if text := s.refused(422, problem, "POST", path, body); strings.Contains(text, "planted") {
			t.Errorf("the problem contains the value: %s", text)
		}
	}
	s.refused(422, "invalid-request", "GET", path+"/times?count=101", "")
	s.refused(404, "not-found", "GET", schedules+"/none/times", "")
}

// TestReasonsOfChangesOfSchedulesAreKept checks that a caller that may read the audit of one queue finds the changes of
// its schedules, with their reasons.
func TestReasonsOfChangesOfSchedulesAreKept(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.must(201, "PUT", schedules+"/nightly", `{"cron":"@daily","queue":"mail"}`)
	reader := s.as(auth.Principal{Name: "m", Role: auth.Admin, Queues: []string{"mail"}})
	for _, change := range []string{"pause", "resume", "run", "delete"} {
		s.must(200, "POST", schedules+"/nightly/"+change, `{"reason":"why `+change+`"}`)
		got := one(t, reader.must(200, "GET", "/v1/db/shop/audit?queue=mail&action="+change+"%20schedule", ""), "entries")
		if got["reason"] != "why "+change || got["by"] != "ann" || got["queue"] != "mail" {
			t.Errorf("%s: the audit has %v", change, got)
		}
	}
}

package api_test

import (
	"testing"

	"github.com/dbq-go/dbq/auth"
)

// TestResponderRemovesNothing calls every operation that changes something as a caller that may act on tasks
// of others, but not remove them.
func TestResponderRemovesNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const db = "/v1/db/shop"
	s.must(201, "PUT", schedules+"/nightly", `{"cron":"@daily","queue":"mail"}`)
	responder := s.as(auth.Principal{Name: "r", Role: auth.Responder})

	id := responder.must(201, "POST", mail+"/tasks", `{"payload":"planted"}`)["id"].(string)
	task := db + "/tasks/" + id
	for _, event := range []string{"cancel", "reenqueue", "reject", "quarantine", "restore", "reenqueue"} {
		responder.must(200, "POST", task+"/"+event, `{}`)
	}
	responder.must(200, "POST", db+"/operate/cancel", `{"filter":{"queue":"mail"},"limit":9}`)
	responder.must(204, "POST", mail+"/pause", `{}`)
	responder.must(204, "POST", mail+"/resume", `{}`)
	for _, change := range []string{"pause", "resume", "run"} {
		responder.must(200, "POST", schedules+"/nightly/"+change, `{}`)
	}
	flow := responder.must(201, "POST", db+"/workflows", `{"steps":[{"name":"a","queue":"mail"}]}`)["id"].(string)
	responder.must(200, "POST", db+"/workflows/"+flow+"/cancel", `{}`)

	for _, r := range [][3]string{
		{"POST", task + "/purge", `{}`},
		{"POST", task + "/finish", `{}`},
		{"POST", db + "/workflows/" + flow + "/signal", `{"step":"a"}`},
		{"POST", db + "/operate/purge", `{"filter":{"queue":"mail"},"limit":9}`},
		{"POST", db + "/operate/purge", `{"filter":{"queue":"mail"},"limit":9,"dry_run":true}`},
		{"POST", schedules + "/nightly/delete", `{}`},
		{"PUT", schedules + "/nightly", `{"cron":"@hourly","queue":"mail"}`},
		{"PATCH", mail + "/settings", `{"keep_completed_seconds":1}`}, // retention removes tasks
		{"PATCH", mail + "/limits", `{"concurrency":1}`},
		{"POST", db + "/workers/command", `{"worker":"w","command":"stop"}`},
		{"POST", mail + "/checkout", `{}`}, // what is checked out can be removed
		{"POST", mail + "/extend", `{"leases":[{"lease":"x"}]}`},
		{"POST", mail + "/settle", `{"settlements":[{"lease":"x","outcome":"delete"}]}`},
		{"GET", db + "/audit", ""},
	} {
		responder.refused(403, "forbidden", r[0], r[1], r[2])
	}
	s.must(200, "GET", task, "")
	s.must(200, "GET", schedules+"/nightly", "")
}

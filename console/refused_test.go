package console_test

import (
	"strings"
	"testing"

	"github.com/dbq-go/dbq/admin"
)

// TestRefusedFormsKeepTheirInput sends forms with an invalid field, and looks for the others.
func TestRefusedFormsKeepTheirInput(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	page := s.post(422, "/db/shop/enqueue", "queue", "mail", "kind", "welcome", "payload", "\n{\r\n 1", "json", "yes",
		"reference", "order-7", "key", "acme", "priority", "3", "delay", "15m", "max_attempts", "4", "headers", "a: b")
	s.shows(page, `action="/db/shop/enqueue"`, `aria-invalid="true" aria-describedby="payload-error" autofocus`,
		`id="payload-error" role="alert">The payload is not valid JSON.`,
		`value="mail"`, `value="welcome"`, "\n\n{\n 1</textarea>", `value="yes" checked`, `value="order-7"`,
		`value="acme"`, `value="3"`, `value="15m"`, `value="4"`, "a: b</textarea>")
	page = s.post(422, "/db/shop/enqueue", "queue", "mail", "payload", "%", "encoding", "base64", "headers", `{"a":`,
		"header_format", "json")
	s.shows(page, "not valid base64", "%</textarea>", `name="encoding"`, `name="header_format"`)
	long := strings.Repeat("x", 300)
	for field, wrong := range map[string][2]string{
		"queue": {long, "queue name"}, "kind": {long, "kind"}, "key": {long, "key"}, "reference": {long, "reference"},
		"priority": {"first", "whole number"}, "max_attempts": {"9999999", "9999999"},
		"delay": {"soon", "Delay: write a time"}, "headers": {"a", "name: value"},
	} {
		page := s.post(422, "/db/shop/enqueue", "queue", "mail", "payload", "{}", field, wrong[0]) // the last one counts
		s.shows(page, `id="`+field+`-error" role="alert">`, wrong[1], wrong[0])
		s.hides(page, `required autofocus`)
	}

	page = s.post(422, "/db/shop/queue/limits", "queue", "mail", "version", "of then", "running", "7",
		"rate_starts", "many", "rate_per", "2m", "per_key", "yes", "order", "skip")
	s.shows(page, "Queue mail",
		`id="rate_starts-error" role="alert">Rate starts must be a whole number.`,
		`aria-invalid="true" aria-describedby="rate_starts-error" autofocus`, `value="7"`,
		`value="many"`, `value="2m"`, `value="yes" checked`, `"skip" selected`, `value="of then"`)
	page = s.post(422, "/db/shop/queue/settings", "queue", "mail", "concurrency", "5", "poll", "soon",
		"dead_letter", "dead", "history", "failures", "keep_completed", "7d", "keep_poison", "forever", "archive", "yes",
		"no_statistics", "yes")
	s.shows(page, `id="poll-error" role="alert">Poll: write a time`, `value="5"`, `value="soon"`,
		`value="dead"`, `"failures" selected`, `value="7d"`, `value="forever"`, `name="archive" value="yes" checked`,
		`name="no_statistics" value="yes" checked`)
	for field, message := range map[string]string{
		"keep_completed": "Keep completed: write a time", "keep_poison": "or forever", "keep_parked": "Keep parked: ",
		"keep_attempts": "Keep attempts: ", "concurrency": "whole number", "max_checkout": "Max checkout", "lease": "Lease: ",
		"max_attempts": "Max attempts",
	} {
		s.shows(s.post(422, "/db/shop/queue/settings", "queue", "mail", field, "213504d -"), `value="213504d -"`,
			`id="`+field+`-error" role="alert">`, message)
	}
	for field, wrong := range map[string][2]string{ // without the call, the class and the form of durations of Go
		"keep_parked": {"36501d", "The retention of parked tasks is 36501d, it must be up to 36500d, or Forever."},
		"concurrency": {"100000", "Concurrency is 100000, it must be 0 to "},
		"lease":       {"10d", "The lease is 10d, it must be "},
		"dead_letter": {"mail", "Queue &#34;mail&#34; cannot be its own dead-letter queue."},
	} {
		page := s.post(422, "/db/shop/queue/settings", "queue", "mail", field, wrong[0], "max_checkout", "17")
		s.shows(page, `id="`+field+`-error" role="alert">`+wrong[1], `value="17"`)
		s.hides(page, "dbq: ", "invalid option", "h0m0s")
	}
	// What is about no field that has a message is above the form.
	page = s.post(422, "/db/shop/queue/settings", "queue", "mail", "history", "some", "max_checkout", "17")
	s.shows(page, "history must be all", `role="alert" tabindex="-1" autofocus>The input is invalid: `, `value="17"`)
	s.hides(page, "dbq: ", "invalid option")
	set, err := admin.New(s.client).QueueSettings(t.Context(), "mail")
	if err != nil || set != (admin.QueueSettings{}) {
		t.Errorf("refused forms have set %+v: %v", set, err)
	}

	for field, message := range map[string]string{
		"older": "In its state for at least: write a time", "newer": "In its state for at most: write a time",
		"workflow": "The workflow is not the id", "since": "Since: write a time",
	} {
		page = s.get(422, "/db/shop/tasks", "queue", "mail", "kind", "welcome", field, "soon")
		s.shows(page, `role="search"`, `id="`+field+`-error" role="alert">`+message,
			`value="welcome"`, `value="soon"`)
		s.hides(page, "No task matches")
	}
}

// TestAllInvalidFieldsAreShownAtOnce sends forms with several invalid fields. The first one gets the focus.
func TestAllInvalidFieldsAreShownAtOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	wrong := func(page string, fields ...string) {
		t.Helper()
		for _, field := range fields {
			s.shows(page, `id="`+field+`-error" role="alert">`)
		}
		if n := strings.Count(page, `-error" role="alert">`); n != len(fields) {
			t.Errorf("%d fields are invalid, want %d", n, len(fields))
		}
		s.hides(page, "dbq: ", "invalid option")
	}
	page := s.get(422, "/db/shop/tasks", "older", "banana", "newer", "0s", "workflow", "xyz", "since", "soon")
	wrong(page, "older", "newer", "workflow", "since")
	if n := strings.Count(page, " autofocus"); n != 1 {
		t.Errorf("%d fields get the focus, want one", n)
	}
	wrong(s.post(422, "/db/shop/queue/limits", "queue", "mail", "running", "x", "rate_starts", "5",
		"rate_burst", "2000000", "key_running", "2000000", "key_rate_starts", "2000000", "key_rate_per", "1y"),
		"running", "rate_per", "rate_burst", "key_running", "key_rate_starts", "key_rate_per")
	wrong(s.post(422, "/db/shop/queue/settings", "queue", "mail", "concurrency", "x", "poll", "soon", "lease", "10d",
		"dead_letter", "mail", "keep_parked", "36501d"), "concurrency", "poll", "lease", "dead_letter", "keep_parked")
	wrong(s.post(422, "/db/shop/enqueue", "queue", "", "kind", strings.Repeat("x", 300), "payload", "{", "json", "yes",
		"priority", "77", "delay", "soon", "max_attempts", "x", "headers", "y"),
		"queue", "kind", "payload", "priority", "delay", "max_attempts", "headers")
	page = s.get(422, "/db/shop/audit", "since", "soon", "until", "later", "task", "x")
	wrong(page, "since", "until", "task")
	page = s.post(422, "/db/shop/schedule/save", "name", "", "queue", "", "cron", "61 * * * *", "zone", "Berlinn",
		"jitter", "9d", "priority", "77", "payload", "{}", "delay", "soon", "catch_up", "1")
	wrong(page, "name", "queue", "cron", "zone", "jitter", "priority", "delay")
	wrong(s.post(422, "/db/shop/schedule/save", "name", "n", "queue", "mail", "every", "soon", "zone", "Berlinn",
		"payload", "{}"), "every", "zone")

	// A rate without a burst has one of 1.
	s.post(303, "/db/shop/queue/limits", "queue", "mail", "rate_starts", "5", "rate_per", "1m", "rate_burst", "")
	limits, err := admin.New(s.client).QueueLimits(t.Context(), "mail")
	if err != nil || limits.Rate.Burst != 1 {
		t.Errorf("the burst is %d, want 1: %v", limits.Rate.Burst, err)
	}
}

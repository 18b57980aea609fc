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
		`id="payload-error" role="alert">The input is invalid: the payload is not valid JSON.`,
		`value="mail"`, `value="welcome"`, "\n\n{\n 1</textarea>", `value="yes" checked`, `value="order-7"`,
		`value="acme"`, `value="3"`, `value="15m"`, `value="4"`, "a: b</textarea>")
	page = s.post(422, "/db/shop/enqueue", "queue", "mail", "payload", "%", "encoding", "base64", "headers", `{"a":`,
		"header_format", "json")
	s.shows(page, "not valid base64", "%</textarea>", `name="encoding"`, `name="header_format"`)
	long := strings.Repeat("x", 300)
	for field, wrong := range map[string][2]string{
		"queue": {long, "queue name"}, "kind": {long, "kind"}, "key": {long, "key"}, "reference": {long, "reference"},
		"priority": {"first", "whole number"}, "max_attempts": {"9999999", "9999999"},
		"delay": {"soon", "delay: write a time"}, "headers": {"a", "name: value"},
	} {
		page := s.post(422, "/db/shop/enqueue", "queue", "mail", "payload", "{}", field, wrong[0]) // the last one counts
		s.shows(page, `id="`+field+`-error" role="alert">The input is invalid: `, wrong[1], wrong[0])
		s.hides(page, `required autofocus`)
	}

	page = s.post(422, "/db/shop/queue/limits", "queue", "mail", "version", "of then", "leased", "7",
		"rate_starts", "many", "rate_per", "2m", "per_key", "yes", "order", "skip")
	s.shows(page, "Queue mail",
		`id="rate_starts-error" role="alert">The input is invalid: rate starts must be a whole number.`,
		`aria-invalid="true" aria-describedby="rate_starts-error" autofocus`, `value="7"`,
		`value="many"`, `value="2m"`, `value="yes" checked`, `"skip" selected`, `value="of then"`)
	page = s.post(422, "/db/shop/queue/settings", "queue", "mail", "concurrency", "5", "poll", "soon",
		"dead_letter", "dead", "history", "failures", "keep_completed", "7d", "keep_poison", "forever", "archive", "yes",
		"no_statistics", "yes")
	s.shows(page, `id="poll-error" role="alert">The input is invalid: poll: write a time`, `value="5"`, `value="soon"`,
		`value="dead"`, `"failures" selected`, `value="7d"`, `value="forever"`, `name="archive" value="yes" checked`,
		`name="no_statistics" value="yes" checked`)
	for field, message := range map[string]string{
		"keep_completed": "keep completed: write a time", "keep_poison": "or forever", "keep_parked": "keep parked: ",
		"keep_attempts": "keep attempts: ", "concurrency": "whole number", "max_checkout": "max checkout", "lease": "lease: ",
		"max_attempts": "max attempts",
	} {
		s.shows(s.post(422, "/db/shop/queue/settings", "queue", "mail", field, "213504d -"), `value="213504d -"`,
			`id="`+field+`-error" role="alert">The input is invalid: `, message)
	}
	// What only the database's side refuses is above the form.
	for field, wrong := range map[string][2]string{
		"keep_parked": {"36501d", "the retention of parked tasks"}, "history": {"some", "history"},
		"concurrency": {"100000", "concurrency"}, "dead_letter": {"mail", "its own dead-letter queue"},
	} {
		page := s.post(422, "/db/shop/queue/settings", "queue", "mail", field, wrong[0], "max_checkout", "17")
		s.shows(page, wrong[1], `role="alert" tabindex="-1" autofocus>The input is invalid: `, `value="17"`)
	}
	set, err := admin.New(s.client).QueueSettings(t.Context(), "mail")
	if err != nil || set != (admin.QueueSettings{}) {
		t.Errorf("refused forms have set %+v: %v", set, err)
	}

	for field, message := range map[string]string{
		"older": "in its state for at least: write a time", "newer": "in its state for at most: write a time",
		"workflow": "the workflow is not the id",
	} {
		page = s.get(422, "/db/shop/tasks", "queue", "mail", "kind", "welcome", field, "soon")
		s.shows(page, `role="search"`, `id="`+field+`-error" role="alert">The input is invalid: `+message,
			`value="welcome"`, `value="soon"`)
		s.hides(page, "No task matches")
	}
}

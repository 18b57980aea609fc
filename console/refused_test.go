package console_test

import "testing"

// TestRefusedFormsKeepTheirInput sends forms with an invalid field, and looks for the others.
func TestRefusedFormsKeepTheirInput(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	page := s.post(422, "/db/shop/enqueue", "queue", "mail", "kind", "welcome", "payload", "\n{\r\n 1", "json", "yes",
		"reference", "order-7", "key", "acme", "priority", "3", "delay", "15m", "max_attempts", "4", "headers", "a: b")
	s.shows(page, `action="/db/shop/enqueue"`, `role="alert">The input is invalid: the payload is not valid JSON.`,
		`value="mail"`, `value="welcome"`, "\n\n{\n 1</textarea>", `value="yes" checked`, `value="order-7"`,
		`value="acme"`, `value="3"`, `value="15m"`, `value="4"`, "a: b</textarea>")
	page = s.post(422, "/db/shop/enqueue", "queue", "mail", "payload", "%", "encoding", "base64", "headers", `{"a":`,
		"header_format", "json")
	s.shows(page, "not valid base64", "%</textarea>", `name="encoding"`, `name="header_format"`)

	page = s.post(422, "/db/shop/queue/limits", "queue", "mail", "version", "of then", "leased", "7", "starts", "many",
		"per", "2m", "per_key", "yes", "order", "skip")
	s.shows(page, "Queue mail", `role="alert">The input is invalid: starts must be a whole number.`, `value="7"`,
		`value="many"`, `value="2m"`, `value="yes" checked`, `"skip" selected`, `value="of then"`)
	page = s.post(422, "/db/shop/queue/settings", "queue", "mail", "concurrency", "5", "poll", "soon",
		"dead_letter", "dead")
	s.shows(page, `role="alert">The input is invalid: poll: write a time`, `value="5"`, `value="soon"`, `value="dead"`)

	page = s.get(422, "/db/shop/tasks", "queue", "mail", "kind", "welcome", "older", "soon")
	s.shows(page, `role="search"`, `role="alert">The input is invalid: in state for`, `value="welcome"`, `value="soon"`)
	s.hides(page, "No task matches")
}

package console_test

import (
	"testing"

	"github.com/dbq-go/dbq"
)

// TestTypedFiltersAreAdded types filters into the field of a list, which leads to an address with each by its name.
func TestTypedFiltersAreAdded(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	const path = "/db/shop/tasks"
	for typed, want := range map[string]string{
		"kind:welcome":             path + "?kind=welcome&queue=mail",
		`key:"acme inc" older:10m`: path + "?key=acme+inc&older=10m&queue=mail",
		"state:poisoned":           path + "?queue=mail&state=POISON",
		"state:parked":             path + "?mark=parked&queue=mail&state=ERROR",
		"STATE:created worker:w1":  path + "?holder=w1&queue=mail&state=created",
		"queue: kind:a:b":          path + "?kind=a%3Ab",
	} {
		if to := s.redirect(path + encode([]string{"queue", "mail", "q", typed}, "?")); to != want {
			t.Errorf("%q leads to %q, want %q", typed, to, want)
		}
	}
	s.enqueue("mail", dbq.NewTask{Kind: "welcome"})
	page := s.get(422, path, "queue", "mail", "q", "welcome")
	s.shows(page, `id="q-error"`, "such as kind:welcome", `value="welcome" aria-label`, ">welcome <code")
	s.shows(s.get(422, path, "q", "size:1"), "is no filter")

	page = s.get(200, path, "queue", "mail", "kind", "welcome", "state", "CREATED")
	s.shows(page, "Waiting tasks of mail", `aria-label="Remove kind welcome"`,
		`href="/db/shop/tasks?queue=mail&amp;state=CREATED" aria-label="Remove kind`,
		`href="/db/shop/tasks?kind=welcome&amp;queue=mail&amp;state=CREATED" aria-current="true"`)
}

package console_test

import (
	"html"
	"regexp"
	"strings"
	"testing"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/internal/check"
)

func TestPoisonedTasksAreGroupedAndRedriven(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	s.shows(s.get(200, "/db/shop/poison"), "No task is poisoned")
	s.poison("mail", dbq.NewTask{Kind: "welcome"}, "dial 10.0.0.7:25: refused\nstack")
	s.poison("mail", dbq.NewTask{Kind: "welcome"}, "dial 10.0.0.8:25: refused\nother stack")
	s.poison("mail", dbq.NewTask{Kind: "welcome"}, "mailbox is full")
	cancelled := s.enqueue("mail", dbq.NewTask{Kind: "unwanted"})
	check.OK(t, admin.New(s.client).Operate(t.Context(), admin.Cancel, cancelled.ID))
	s.post(303, "/db/shop/queue/settings", "queue", "mail", "dead_letter", "alerts")
	s.shows(s.get(200, "/db/shop/poison"), `poison?queue=mail">mail`, `<td class="num at-side">3</td>`)
	page := s.get(200, "/db/shop/poison", "queue", "mail")
	s.shows(page, "3 poisoned tasks of", "alerts", "mailbox is full", `<td class="num fit">2</td>`,
		`<td class="num fit">1</td>`)
	s.hides(page, "unwanted", "stack")

	// The link of a group finds exactly its tasks.
	m := regexp.MustCompile(`>2</td>\s*<th[^>]*><a href="([^"]+)"`).FindStringSubmatch(page)
	if m == nil {
		t.Fatal("the group has no link")
	}
	if n := strings.Count(s.get(200, html.UnescapeString(m[1])), ">welcome <code"); n != 2 {
		t.Errorf("the link of a group of 2 tasks finds %d", n)
	}
	// The actions of a group change exactly its tasks.
	m = regexp.MustCompile(`href="([^"]+)">(?:<svg[^<]*<[^<]*</svg>)?Retry these 2…`).FindStringSubmatch(page)
	if m == nil {
		t.Fatal("the group has no action")
	}
	s.shows(s.get(200, html.UnescapeString(m[1])), "Retry 2 tasks?", "3 tasks were searched")
	s.shows(page, "Delete these 2…", "Retry this one…")

	m = regexp.MustCompile(`href="([^"]+event=reenqueue[^"]*)" aria-label="Retry all of mail"`).FindStringSubmatch(
		s.get(200, "/db/shop/poison"))
	if m == nil {
		t.Fatal("there is no redrive")
	}
	s.shows(s.get(200, html.UnescapeString(m[1])), "Retry 3 tasks?")
	s.post(303, "/db/shop/bulk", "queue", "mail", "state", "POISON", "mark", "not-cancelled", "event", "reenqueue")
	s.shows(s.get(200, "/db/shop/poison", "queue", "mail"), "is poisoned</h1>")
	if got := s.task(dbq.Enqueued{ID: cancelled.ID}); got.State != dbq.StatePoison {
		t.Errorf("the cancelled task is %s, want POISON", got.State)
	}

	bob := serve(t, s.client, user{auth.Principal{Name: "bob", Role: auth.Viewer, Queues: []string{"mail"}}}, "")
	s.poison("mail", dbq.NewTask{Kind: "welcome"}, "planted-secret")
	page = bob.get(200, "/db/shop/poison", "queue", "mail")
	bob.shows(page, "welcome", "does not show the texts of errors")
	bob.hides(page, "planted-secret", "reenqueue")
	bob.get(403, "/db/shop/poison", "queue", "bills")
}

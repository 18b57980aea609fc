package console_test

import (
	"html"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/dbqtest"
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
	s.shows(s.get(200, "/db/shop/poison"), `poison?queue=mail">mail`, `<td class="num at-side">3</td>`,
		"mailbox is full")
	page := s.get(200, "/db/shop/poison", "queue", "mail")
	s.shows(page, "3 poisoned tasks, by kind and error", "alerts", "mailbox is full", `<td class="num fit">2</td>`,
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
	s.shows(s.get(200, "/db/shop/poison", "queue", "mail"), "No task is poisoned.")
	if got := s.task(dbq.Enqueued{ID: cancelled.ID}); got.State != dbq.StatePoison {
		t.Errorf("the cancelled task is %s, want POISON", got.State)
	}

	bob := serve(t, s.client, user{auth.Principal{Name: "bob", Role: auth.Viewer, Queues: []string{"mail"}}}, "")
	s.poison("mail", dbq.NewTask{Kind: "welcome"}, "planted-secret")
	page = bob.get(200, "/db/shop/poison", "queue", "mail")
	bob.hides(bob.get(200, "/db/shop/poison"), "planted-secret")
	bob.shows(page, "welcome", "does not show the texts of errors")
	bob.hides(page, "planted-secret", "reenqueue")
	bob.get(403, "/db/shop/poison", "queue", "bills")
}

// TestPoisonedQueuesSinceATime lists the queues whose last task was poisoned since a time, those with the most first.
func TestPoisonedQueuesSinceATime(t *testing.T) {
	t.Parallel()
	db := dbqtest.New(t)
	s := serve(t, db.Client, ann, "")
	s.poison("bills", dbq.NewTask{Kind: "invoice"}, "no such account")
	db.Advance(3 * time.Hour)
	for range 2 {
		s.poison("mail", dbq.NewTask{Kind: "welcome"}, "mailbox is full")
	}
	page := s.get(200, "/db/shop/poison")
	s.shows(page, "2 queues", "no such account", "mailbox is full", ">invoice</a>")
	if strings.Index(page, "mailbox is full") > strings.Index(page, "no such account") {
		t.Error("the queue with the most poisoned tasks is not first")
	}
	page = s.get(200, "/db/shop/poison", "since", "2h")
	s.shows(page, "1 queue<", "mailbox is full", `value="2h"`, "poison?queue=mail&amp;since=2")
	s.hides(page, "no such account")
	db.Advance(time.Hour)
	s.shows(s.get(200, "/db/shop/poison", "since", "30m"), "No task was poisoned since then.")
	s.shows(s.get(422, "/db/shop/poison", "since", "soon"), `id="since-error"`, `value="soon"`)
}

package console_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/internal/check"
)

// keyLine returns the cells of a key's row.
func (s *site) keyLine(page, key string) string {
	s.t.Helper()
	_, rest, found := strings.Cut(page, `key=`+key+`&amp;`)
	row, _, _ := strings.Cut(rest, "</tr>")
	if !found {
		s.t.Fatalf("the page has no key %s: %s", key, page)
	}
	text := regexp.MustCompile(`<[^>]*>`).ReplaceAllString("<"+row, " ")
	return strings.Join(strings.Fields(text), " ")
}

func TestKeysShowWhoWaitsAndWhy(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	s.shows(s.get(200, "/db/shop/keys", "queue", "mail"), "No task of this queue", "no limit of running tasks")
	ops := admin.New(s.client)
	limit := func(l admin.QueueLimits) {
		t.Helper()
		check.OK(t, ops.ConfigureLimits(t.Context(), "mail", func(to *admin.QueueLimits) { *to = l }))
	}
	limit(admin.QueueLimits{Concurrency: 1, KeyConcurrency: 1})
	first := s.enqueue("mail", dbq.NewTask{Key: "acme"})
	s.enqueue("mail", dbq.NewTask{Key: "acme"})
	s.enqueue("mail", dbq.NewTask{Key: "acme", Delay: time.Hour})
	s.enqueue("mail", dbq.NewTask{})
	leased, err := s.client.Queue("mail").Checkout(t.Context(), 5, time.Minute)
	if err != nil || len(leased) != 1 || leased[0].ID != first.ID {
		t.Fatal(leased, err)
	}
	page := s.get(200, "/db/shop/keys", "queue", "mail")
	s.shows(page, "Running tasks: 1 of 1", "The queue's limit is reached", "each key: at most 1")
	if got := s.keyLine(page, "acme"); !strings.Contains(got, "1 1 waiting 1 0 ") ||
		!strings.Contains(got, "as many run as the limit of a key allows") {
		t.Errorf("the row of acme is %q", got)
	}

	// With an order, the page names the task that all others wait for.
	limit(admin.QueueLimits{Order: admin.OrderBlock})
	check.OK(t, ops.Operate(t.Context(), admin.Revoke, first.ID))
	page = s.get(200, "/db/shop/keys", "queue", "mail")
	s.shows(page, "one after the other", "/task/"+first.ID.String())
	if got := s.keyLine(page, "acme"); !strings.Contains(got, "0 1 waiting 1 1 ") ||
		!strings.Contains(got, "is first: Parked") {
		t.Errorf("the row of acme is %q", got)
	}
	limit(admin.QueueLimits{Order: admin.OrderSkip})
	s.hides(s.get(200, "/db/shop/keys", "queue", "mail"), "/task/"+first.ID.String())

	bob := serve(t, s.client, user{auth.Principal{Name: "bob", Role: auth.Viewer, Queues: []string{"bills"}}}, "")
	bob.get(403, "/db/shop/keys", "queue", "mail")
	bob.get(403, "/db/shop/keys")
}

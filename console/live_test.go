package console_test

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/schedule"
)

// live returns the part of a page that refreshes itself.
func (s *site) live(page string) string {
	s.t.Helper()
	start := strings.Index(page, `<div id="live"`)
	if start < 0 {
		s.t.Fatal("no part of the page refreshes itself")
	}
	depth := 0
	for _, at := range regexp.MustCompile(`</?div\b`).FindAllStringIndex(page[start:], -1) {
		if depth++; page[start+at[0]+1] == '/' {
			depth -= 2
		}
		if depth == 0 {
			return page[start : start+at[1]]
		}
	}
	s.t.Fatal("the part that refreshes itself has no end")
	return ""
}

func TestAttemptsAndAuditOfATaskAreLive(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	task := s.enqueue("mail", dbq.NewTask{})
	a, mail := admin.New(s.client), s.client.Queue("mail")
	leased, err := mail.Checkout(t.Context(), 1, time.Minute)
	check.OK(t, err)
	check.OK(t, mail.Settle(t.Context(), leased[0].Lease, dbq.Failed(errors.New("no route"))))
	check.OK(t, a.Operate(t.Context(), admin.Reenqueue, task.ID, admin.Reason("sent twice")))
	s.shows(s.live(s.get(200, taskPath(task))), ">Failed<", "no route", "sent twice")
}

// TestKeysFindTheQueuesOfTheOverview looks for what the keys g q, j, k and / go to; the browser's tests press them.
func TestKeysFindTheQueuesOfTheOverview(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	s.enqueue("mail", dbq.NewTask{})
	page := s.get(200, "/db/shop/")
	s.shows(page, "<dt><kbd>g</kbd> then <kbd>o</kbd> <kbd>q</kbd>", "data-search")
	s.shows(s.live(page), `data-queues><table class="rows cards">`, `id="queues"`)
	s.hides(s.live(page), "data-search") // a refresh would change what is being typed
}

// TestListsRefreshThemselves looks for the parts of lists that are read again while they are open.
func TestListsRefreshThemselves(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	s.poison("mail", dbq.NewTask{}, "no route")
	s.enqueue("mail", dbq.NewTask{Key: "acme"})
	check.OK(t, schedule.New(s.client).Put(t.Context(),
		schedule.Schedule{Name: "hourly", Queue: "mail", Every: time.Hour}))
	for path, shows := range map[string]string{
		"/db/shop/poison?queue=mail": "no route", "/db/shop/keys?queue=mail": "acme", "/db/shop/schedules": "hourly",
		"/db/shop/workers": "", "/db/shop/": "mail",
	} {
		s.shows(s.live(s.get(200, path)), shows, `hx-trigger="every `)
	}
	since := s.live(s.get(200, "/db/shop/poison?queue=mail&since=2h"))
	if !regexp.MustCompile(`hx-get="/db/shop/poison\?queue=mail&amp;since=20\d\d-`).MatchString(since) {
		t.Errorf("the part is not read again since the same time: %s", since)
	}
	check.OK(t, schedule.New(s.client).Pause(t.Context(), "hourly"))
	s.shows(s.get(200, "/db/shop/schedule", "name", "hourly"), "none of these fires")
}

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
	s.shows(s.live(s.get(200, taskPath(task))), "failed after", "no route", "sent twice")
}

// TestKeysFindTheQueuesOfTheOverview looks for what the keys g q, j, k and / go to; the browser's tests press them.
func TestKeysFindTheQueuesOfTheOverview(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	s.enqueue("mail", dbq.NewTask{})
	page := s.get(200, "/db/shop/")
	s.shows(page, "<dt><kbd>g</kbd> then <kbd>o</kbd> <kbd>q</kbd>", "data-search")
	s.shows(s.live(page), `data-queues><table class="rows">`, `id="queues"`)
	s.hides(s.live(page), "data-search") // a refresh would change what is being typed
}

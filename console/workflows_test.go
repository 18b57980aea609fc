package console_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/workflow"
)

// TestWorkflowsAreListed: the newest first, on pages, and to each user only those of whose queues it may read all.
func TestWorkflowsAreListed(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	s.shows(s.get(200, "/db/shop/workflows"), "There are none.")
	var added []workflow.Enqueued
	for i := range 25 {
		kind := dbq.Kind[int]{Name: "step", Queue: []string{"mail", "bills"}[i%2]}
		w, err := workflow.Enqueue(t.Context(), s.client, []workflow.Step{
			workflow.NewStep(fmt.Sprint("first ", i), kind, 1), workflow.NewStep("next", kind, 1, fmt.Sprint("first ", i)),
		})
		check.OK(t, err)
		added = append(added, w)
	}
	done, err := s.client.Queue("mail").Checkout(t.Context(), 1, time.Hour)
	check.OK(t, err)
	check.OK(t, s.client.Queue("mail").Complete(t.Context(), done[0].Lease, nil))

	leased, err := s.client.Queue("bills").Checkout(t.Context(), 2, time.Hour)
	check.OK(t, err)
	for _, task := range leased {
		check.OK(t, s.client.Queue("bills").Settle(t.Context(), task.Lease, dbq.Poisoned(errors.New("declined"))))
	}

	page := s.get(200, "/db/shop/workflows")
	s.shows(page, "first 24 and 1 other step", "first 24 waits in mail", "Next page")
	if n := strings.Count(page, "and 1 other step"); n != 20 {
		t.Errorf("a page lists %d workflows, want 20", n)
	}
	if newer, older := strings.Index(page, "first 24 "), strings.Index(page, "first 23 "); newer > older {
		t.Error("the newest is not first")
	}
	path, form := s.followed(page, "Next page")
	page = s.get(200, path+encode(form, "?"))
	s.shows(page, "first 0 and", "next waits in mail", added[0].ID.String(), "First page")
	if n := strings.Count(page, "and 1 other step"); n != 5 {
		t.Errorf("the second page lists %d workflows, want 5", n)
	}
	for state, want := range map[string]int{"failed": 2, "completed": 0, "running": 20} {
		page := s.get(200, "/db/shop/workflows", "state", state)
		if n := strings.Count(page, "and 1 other step"); n != want {
			t.Errorf("%d workflows are listed as %s, want %d", n, state, want)
		}
		s.shows(page, `?state=`+state+`" aria-current="true"`)
	}
	page = s.get(200, "/db/shop/workflows", "state", "failed")
	s.shows(page, "Searched 25 workflows.", "first 1 poisoned in bills")
	s.hides(page, "search further")
	s.shows(s.get(200, "/db/shop/workflows", "state", "completed"), "None of them is completed.")
	path, form = s.followed(s.get(200, "/db/shop/workflows", "state", "running"), "search further")
	page = s.get(200, path+encode(form, "?"))
	s.shows(page, "first 0 and", "First page")
	s.hides(page, "first 1 ", "first 24 and")
	s.get(422, "/db/shop/workflows", "state", "lost")

	bob := serve(t, s.client, user{auth.Principal{Name: "bob", Role: auth.Viewer, Queues: []string{"mail"}}}, "")
	page = bob.get(200, "/db/shop/workflows")
	bob.shows(page, "first 24 and")
	bob.hides(page, "first 23 and", added[23].ID.String())
	s.get(404, "/db/shop/workflows", "at", "nothing")
}

package console_test

import (
	"testing"

	"github.com/dbq-go/dbq"
)

// TestNamesKeepTheirSpaces acts on a key and on a queue whose names differ from others by spaces alone.
func TestNamesKeepTheirSpaces(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	blank := s.enqueue("mail", dbq.NewTask{Key: " "})
	acme := s.enqueue("mail", dbq.NewTask{Key: "acme"})
	page := s.get(200, "/db/shop/tasks", "queue", "mail", "key", " ")
	s.shows(page, blank.ID.String())
	s.hides(page, acme.ID.String())
	s.post(303, "/db/shop/bulk", "event", "cancel", "queue", "mail", "key", " ")
	if got := s.task(dbq.Enqueued{ID: blank.ID}); got.State != dbq.StatePoison {
		t.Errorf("the task of the key is %v, want POISON", got.State)
	}
	if got := s.task(dbq.Enqueued{ID: acme.ID}); got.State != dbq.StateCreated {
		t.Errorf("the task of another key is %v, want CREATED", got.State)
	}
	s.enqueue("mail ", dbq.NewTask{})
	s.post(303, "/db/shop/queue/pause", "queue", "mail ")
	s.shows(s.get(200, "/db/shop/queue", "queue", "mail "), "is paused")
	s.hides(s.get(200, "/db/shop/queue", "queue", "mail"), "is paused")
}

// TestZeroInAFilterSelectsNotAll sends filters of which nothing would be left.
func TestZeroInAFilterSelectsNotAll(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	task := s.enqueue("mail", dbq.NewTask{})
	for _, f := range [][]string{
		{"workflow", "00000000-0000-0000-0000-000000000000"}, {"newer", "0s"}, {"newer", "0.1ns"},
	} {
		s.post(422, "/db/shop/bulk", append([]string{"event", "cancel"}, f...)...)
	}
	if got := s.task(dbq.Enqueued{ID: task.ID}); got.State != dbq.StateCreated {
		t.Errorf("the task is %v, want CREATED", got.State)
	}
}

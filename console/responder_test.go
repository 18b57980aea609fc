package console_test

import (
	"testing"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/schedule"
)

// TestResponderSeesOnlyItsActions shows the pages to a user who may act on tasks but remove nothing.
func TestResponderSeesOnlyItsActions(t *testing.T) {
	t.Parallel()
	owner := newSite(t, ann)
	task := owner.enqueue("mail", dbq.NewTask{})
	err := schedule.New(owner.client).Put(t.Context(), schedule.Schedule{Name: "nightly", Cron: "@daily", Queue: "mail"})
	check.OK(t, err)
	s := serve(t, owner.client, user{auth.Principal{Name: "bob", Role: auth.Responder}}, "")
	path := "/db/shop/task/" + task.ID.String()
	owner.post(303, path+"/cancel", "reason", "r") // so that it could be purged
	// The owner's pages show what the responder's must not.
	owner.shows(owner.get(200, path), path+`/reenqueue"`, path+`/purge"`)
	owner.shows(owner.get(200, "/db/shop/schedule", "name", "nightly"), "Run now", "Delete nightly", "Edit…")

	page := s.get(200, path)
	s.shows(page, path+`/reenqueue"`)
	s.hides(page, path+"/purge", "Delete…")
	page = s.get(200, "/db/shop/tasks", "queue", "mail")
	s.hides(page, `value="purge"`)
	s.shows(page, `value="cancel"`)
	page = s.get(200, "/db/shop/schedule", "name", "nightly")
	s.shows(page, "Run now", "Pause")
	s.hides(page, "Delete nightly", "Edit…")
	s.hides(s.get(200, "/db/shop/schedules"), "New schedule…")
	page = s.get(200, "/db/shop/queue", "queue", "mail") // with the values, and without their forms
	s.shows(page, "Slots of a worker", "the workers' own")
	s.hides(page, "queue/settings", "queue/limits")

	s.get(403, path+"/purge")
	s.post(403, path+"/purge", "reason", "r")
	s.post(403, "/db/shop/bulk", "queue", "mail", "event", "purge")
	s.post(403, "/db/shop/schedule/delete", "name", "nightly")
	s.post(403, "/db/shop/queue/settings", "queue", "mail")
	s.post(303, path+"/reenqueue", "reason", "r")
}

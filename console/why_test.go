package console_test

import (
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/dbqtest"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/internal/control"
)

// TestPagesSayWhyTasksWait has a queue whose rate is used up, and removes the rate.
func TestPagesSayWhyTasksWait(t *testing.T) {
	t.Parallel()
	db := dbqtest.New(t)
	s := serve(t, db.Client, ann, "")
	check.OK(t, admin.New(db.Client).ConfigureLimits(t.Context(), "webhooks", func(l *admin.QueueLimits) {
		l.Rate = admin.Rate{Starts: 1, Per: time.Hour, Burst: 1}
	}))
	running, waiting := s.enqueue("webhooks", dbq.NewTask{}), s.enqueue("webhooks", dbq.NewTask{Key: "acme"})
	leased, err := db.Queue("webhooks").Checkout(t.Context(), 5, time.Hour)
	if err != nil || len(leased) != 1 || leased[0].ID != running.ID {
		t.Fatal(leased, err)
	}
	db.Advance(2 * time.Minute)
	check.OK(t, access.Of(db.Client).Control.Announce(t.Context(),
		control.Worker{ID: "w", Queue: "webhooks", State: control.WorkerRunning, Concurrency: 4, Holding: 1}, time.Hour))
	const answer = "1 waiting. Starts are limited to 1 an hour: "
	queue := s.get(200, "/db/shop/queue", "queue", "webhooks")
	for name, page := range map[string]string{
		"queue": queue, "keys": s.get(200, "/db/shop/keys", "queue", "webhooks"),
		"part": s.get(200, "/db/shop/queue", "queue", "webhooks", "part", "figures"),
	} {
		if !strings.Contains(page, answer) || !strings.Contains(page, `class="verdict warn"`) {
			t.Errorf("%s does not say why the task waits: %s", name, page)
		}
	}
	s.shows(queue, "Not the reason: pause", "Empty at about <time ")
	s.hides(s.get(200, taskPath(waiting)), "Empty at about") // which is about the queue
	s.hides(s.get(200, "/db/shop/queue", "queue", "webhooks", "part", "series"), answer)
	s.shows(s.live(s.get(200, taskPath(waiting))), "Starts are limited to 1 an hour: ")
	s.hides(s.get(200, taskPath(running)), "Starts are limited")
	s.shows(s.get(200, "/db/shop/"), "Queue webhooks has waited for its rate for ", answer)
	bob := serve(t, db.Client, user{auth.Principal{Name: "bob", Role: auth.Viewer, Queues: []string{"mail"}}}, "")
	bob.hides(bob.get(200, "/db/shop/"), "webhooks", "Starts are limited")

	s.get(200, "/db/shop/queue", "queue", "fresh")
	s.post(303, "/db/shop/enqueue", "queue", "fresh", "payload", "{}")
	fresh, err := admin.New(db.Client).List(t.Context(), admin.Filter{Queue: "fresh"})
	check.OK(t, err)
	s.shows(s.get(200, taskPath(fresh.Tasks[0])), "No worker has reported") // which the last count does not know

	s.post(303, "/db/shop/queue/limits", "queue", "webhooks")
	s.hides(s.get(200, "/db/shop/queue", "queue", "webhooks"), "Starts are limited")
	s.post(303, "/db/shop/queue/pause", "queue", "webhooks", "reason", "month end")
	s.shows(s.get(200, "/db/shop/queue", "queue", "webhooks"), "Queue webhooks is paused by ann: month end.")
	s.shows(s.get(200, taskPath(waiting)), "Queue webhooks is paused by ann: month end.")
}

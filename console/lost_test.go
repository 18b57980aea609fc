package console_test

import (
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/dbqtest"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/internal/control"
	"github.com/google/uuid"
)

// TestTasksOfAWorkerThatVanishedAreFound has a worker that stops reporting while it runs a task.
func TestTasksOfAWorkerThatVanishedAreFound(t *testing.T) {
	t.Parallel()
	db := dbqtest.New(t)
	s := serve(t, db.Client, ann, "")
	task := s.enqueue("mail", dbq.NewTask{})
	q := access.ForWorker(db.Queue("mail"), "img-2")
	leased, err := q.Checkout(t.Context(), 1, time.Minute)
	if err != nil || len(leased) != 1 {
		t.Fatal(leased, err)
	}
	check.OK(t, access.Of(db.Client).Control.Announce(t.Context(), control.Worker{ID: "img-2", Queue: "mail",
		State: control.WorkerRunning, Concurrency: 2, Holding: 1, Held: []uuid.UUID{task.ID}}, time.Minute))
	s.shows(s.get(200, taskPath(task)), "runs on worker img-2", `class="running"`)
	db.Advance(23 * time.Hour)
	page := s.get(200, taskPath(task))
	s.shows(page, "Its worker img-2", "has let the lease expire")
	s.hides(page, "runs on worker img-2", "runs; its lease lasts")
	s.post(303, "/db/shop/queue/pause", "queue", "bills") // everything is read again
	page = s.get(200, "/db/shop/workers")
	s.shows(page, "Stopped without notice", `href="/db/shop/task/`+task.ID.String()+`"`, "when it last reported",
		`href="/db/shop/tasks?holder=img-2&amp;queue=mail&amp;state=PROCESSING"`)
	s.shows(s.get(200, "/db/shop/tasks?holder=img-2&queue=mail&state=PROCESSING"), task.ID.String())
}

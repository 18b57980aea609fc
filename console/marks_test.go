package console_test

import (
	"testing"
	"time"

	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/internal/control"
	"github.com/dbq-go/dbq/internal/series"
)

// TestPlotsHaveMarks: the page of a queue lists what may be the reason of a change in its plots, and shows what
// operators did only to those who may read the audit.
func TestPlotsHaveMarks(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	s.report("mail", 30*time.Minute, series.Counts{Completed: 7})
	s.hides(s.get(200, "/db/shop/queue", "queue", "mail"), `id="marks"`)
	check.OK(t, admin.New(s.client).PauseQueue(t.Context(), "mail", admin.By("eve"), admin.Reason("month end")))
	for _, id := range []string{"a", "b"} {
		w := control.Worker{ID: id, Queue: "mail", State: control.WorkerRunning, Started: time.Now().Truncate(time.Minute)}
		check.OK(t, access.Of(s.client).Control.Announce(t.Context(), w, time.Hour))
	}
	fresh := serve(t, s.client, ann, "")
	page := fresh.get(200, "/db/shop/queue", "queue", "mail")
	fresh.shows(page, "2 changes in this time", "eve: pause queue, “month end”", "2 workers started")
	bob := serve(t, s.client, user{auth.Principal{Name: "bob", Role: auth.Operator}}, "")
	page = bob.get(200, "/db/shop/queue", "queue", "mail")
	bob.shows(page, "One change in this time", "2 workers started")
	bob.hides(page, "pause queue, “")
}

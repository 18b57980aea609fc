package console_test

import (
	"strings"
	"testing"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/internal/check"
)

// A queue is known from its first task or setting on, whenever the overview was read.
func TestAQueueNewerThanTheOverviewIsKnown(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	s.get(200, "/db/shop/")
	if _, err := s.client.Queue("fresh").Enqueue(t.Context(), dbq.NewTask{}); err != nil {
		t.Fatal(err)
	}
	set := func(q *admin.QueueSettings) { q.Concurrency = 3 }
	check.OK(t, admin.New(s.client).ConfigureQueue(t.Context(), "set", set))
	for queue, known := range map[string]bool{"fresh": true, "set": true, "nosuch": false} {
		page := s.get(200, "/db/shop/queue", "queue", queue)
		unknown := strings.Contains(page, "has no tasks, settings or workers")
		if unknown == known || strings.Contains(page, "queue/pause") != known {
			t.Errorf("%s: the page says that it is unknown: %t", queue, unknown)
		}
	}
}

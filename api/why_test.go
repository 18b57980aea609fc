package api_test

import (
	"strings"
	"testing"

	"github.com/dbq-go/dbq/auth"
)

// TestWhyTasksWait reads the verdict on a queue without a worker, then on a paused one, and as a caller of another
// queue.
func TestWhyTasksWait(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	if got := s.must(200, "GET", mail+"/why", ""); got["cause"] != "empty" || got["answer"] != "Nothing waits." {
		t.Errorf("an empty queue: %v", got)
	}
	s.must(201, "POST", mail+"/tasks", `{}`)
	got := s.must(200, "GET", mail+"/why", "")
	if got["cause"] != "no_worker" || got["due"] != 1.0 || got["waiting"] != 1.0 || got["queue"] != "mail" {
		t.Errorf("a queue without a worker: %v", got)
	}
	if _, ok := got["oldest_due_seconds"].(float64); !ok {
		t.Errorf("the oldest has been due for %v", got["oldest_due_seconds"])
	}
	s.must(204, "POST", mail+"/pause", `{"reason":"month end"}`)
	got = s.must(200, "GET", mail+"/why", "")
	if answer, _ := got["answer"].(string); got["cause"] != "paused" || !strings.Contains(answer, "month end") {
		t.Errorf("a paused queue: %v", got)
	}
	s.refused(422, "queue-name", "GET", "/v1/db/shop/queues/%00/why", "")
	other := s.as(auth.Principal{Name: "o", Role: auth.Viewer, Queues: []string{"other"}})
	other.refused(403, "forbidden", "GET", mail+"/why", "")
}

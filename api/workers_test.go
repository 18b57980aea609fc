package api_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/dbq-go/dbq/api"
)

// listed returns the list of workers after a report as of now.
func (s *site) listed(now time.Time) []any {
	s.t.Helper()
	if err := api.ReportWorkers(context.Background(), s.api, now); err != nil {
		s.t.Fatal(err)
	}
	return s.must(200, "GET", "/v1/db/shop/workers", "")["workers"].([]any)
}

func TestWorkersOverHTTPAreListed(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	id := s.must(201, "POST", mail+"/tasks", `{}`)["id"]
	lease := one(t, s.must(200, "POST", mail+"/checkout", `{"worker":"w"}`), "tasks")["lease"].(string)
	now := time.Now()
	for range 2 {
		list := s.listed(now)
		if len(list) != 1 {
			t.Fatalf("%d workers, want 1", len(list))
		}
		w := list[0].(map[string]any)
		got := fmt.Sprint(w["id"], w["queue"], w["state"], w["holding"], w["remote"], w["dead"])
		if want := fmt.Sprint("http/mail/w", "mail", "running", 1, true, false); got != want {
			t.Errorf("listed as %s, want %s", got, want)
		}
		if held, _ := w["held"].([]any); len(held) != 1 || held[0] != id {
			t.Errorf("it holds %v, want %v", w["held"], id)
		}
	}
	s.refused(422, "option", "POST", "/v1/db/shop/workers/command", `{"worker":"http/mail/w","command":"pause"}`)
	s.must(200, "POST", mail+"/settle", `{"settlements":[{"lease":"`+lease+`","outcome":"fail"}]}`)
	w := s.listed(now)[0].(map[string]any)
	if got := fmt.Sprint(w["holding"], w["done"], w["failed"]); got != "0 1 1" {
		t.Errorf("after a failed attempt, it holds, has done and failed %s, want 0 1 1", got)
	}
	if list := s.listed(now.Add(2 * time.Minute)); len(list) != 0 {
		t.Errorf("a silent worker is listed: %v", list)
	}
}

func TestListedWorkersOverHTTPAreBounded(t *testing.T) {
	t.Parallel()
	s, begin := newSite(t), time.Now()
	for i := range 1001 {
		s.must(200, "POST", mail+"/checkout", fmt.Sprintf(`{"worker":"w%d"}`, i))
	}
	s.must(200, "POST", mail+"/checkout", `{}`)
	// Those of one queue hide none of another one.
	s.must(200, "POST", "/v1/db/shop/queues/other/checkout", `{"worker":"w"}`)
	// As of the beginning none is silent, however long the requests took.
	if list := s.listed(begin); len(list) != 1001 {
		t.Errorf("%d workers are listed, want 1000 and that of the other queue", len(list))
	}
}

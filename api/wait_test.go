package api_test

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	operators "github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/api"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/state"
)

// A wait shows no task of another queue that has the id by now.
func TestWaitShowsNoTaskOfAnotherQueue(t *testing.T) {
	t.Parallel()
	ours := auth.Principal{Name: "us", Role: auth.Viewer, Queues: []string{"ours"}, Payloads: true}
	s := newSite(t, func(c *api.Config) { c.Authenticator = caller{ours} })
	id, err := s.client.Queue("ours").Enqueue(t.Context(), dbq.NewTask{Delay: time.Hour})
	check.OK(t, err)
	w, done := httptest.NewRecorder(), make(chan struct{})
	go func() {
		defer close(done)
		s.api.ServeHTTP(w, httptest.NewRequest("GET", "/v1/db/shop/tasks/"+id.String()+"/wait?wait_seconds=60", nil))
	}()
	time.Sleep(300 * time.Millisecond) // most likely it waits by now; the answer is the same if it does not
	ops := operators.New(s.client)
	for _, event := range []state.Event{operators.Reject, operators.Purge} {
		check.OK(t, ops.Operate(t.Context(), event, id))
	}
	theirs := s.client.Queue("theirs")
	if _, err := theirs.Enqueue(t.Context(), dbq.NewTask{ID: id, Payload: []byte("planted")}); err != nil {
		t.Fatal(err)
	}
	leased, err := theirs.Checkout(t.Context(), 1, time.Minute)
	if err != nil || len(leased) != 1 {
		t.Fatal(leased, err)
	}
	check.OK(t, theirs.Settle(t.Context(), leased[0].Lease, dbq.Completed([]byte("planted"))))
	<-done
	if strings.Contains(w.Body.String(), "theirs") { // most likely it is 404; a wait that saw the rejection shows ours
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

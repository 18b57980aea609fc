package api_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/api"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/internal/check"
)

// unread is a connection whose far side does not read.
type unread struct {
	header  http.Header
	status  int
	reached chan struct{}
	end     chan struct{}
}

func (u *unread) Header() http.Header    { return u.header }
func (u *unread) WriteHeader(status int) { u.status = status }
func (u *unread) Write(b []byte) (int, error) {
	select {
	case u.reached <- struct{}{}:
	default:
	}
	<-u.end
	return len(b), nil
}

// leaveUnread sends a request of a caller that does not read the response, and returns its status once it is sent.
func (s *site) leaveUnread(caller, method, path, body string) int {
	s.t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Name", caller)
	w := &unread{http.Header{}, 0, make(chan struct{}, 1), make(chan struct{})}
	done := make(chan struct{})
	go func() { defer close(done); s.api.ServeHTTP(w, r) }()
	s.t.Cleanup(func() { close(w.end); <-done })
	select {
	case <-w.reached:
	case <-time.After(20 * time.Second):
		s.t.Fatal("it is not answered")
	}
	return w.status
}

// A caller that does not read its series keeps no other caller from theirs.
func TestUnreadSeriesLeaveRoomForOthers(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(c *api.Config) { c.Authenticator = named{} })
	s.leaveUnread("greedy", "GET", "/v1/db/shop/series", "")
	s.must(200, "GET", "/v1/db/shop/series", "", "X-Name", "ann")
}

// seeing is named, with the right to see payloads.
type seeing struct{ named }

func (a seeing) Authenticate(r *http.Request) (auth.Principal, error) {
	p, err := a.named.Authenticate(r)
	p.Payloads = true
	return p, err
}

// What one caller does not read takes at most half of MaxMemory, and the next caller has room. Tasks of a checkout that
// is refused are due again.
func TestUnreadResponsesCountAsMemory(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(c *api.Config) { c.Authenticator, c.MaxMemory = seeing{}, 9<<20 })
	payload := bytes.Repeat([]byte{1}, 1_000_000)
	tasks, err := s.client.Queue("mail").EnqueueMany(t.Context(),
		[]dbq.NewTask{{Payload: payload}, {Payload: payload}, {Payload: payload}})
	check.OK(t, err)
	checkout := func(caller string) int { return s.leaveUnread(caller, "POST", mail+"/checkout", `{"max":1}`) }
	for i, want := range []int{200, 200, 503} { // 2 MB each
		if got := checkout("greedy"); got != want {
			t.Errorf("checkout %d of one caller: %d, want %d", i+1, got, want)
		}
	}
	if got := s.leaveUnread("greedy", "GET", "/v1/db/shop/tasks/"+tasks[0].ID.String(), ""); got != 503 {
		t.Errorf("it reads a task, too: %d", got)
	}
	s.must(200, "GET", "/v1/db/shop/tasks", "", "X-Name", "greedy") // small responses do not count
	if got := checkout("ann"); got != 200 {
		t.Errorf("a checkout of another caller: %d", got)
	}
}

// Bodies count as memory before they have arrived, and what is decoded from them counts, too. A request that runs alone
// is served, whatever it counts.
func TestBodiesCountAsMemory(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(c *api.Config) { c.Authenticator, c.MaxMemory = named{}, 1<<20 })
	values := `{"tasks":[{}` + strings.Repeat(`,{}`, 30_000) + `]}` // of 90 kB, and 6 MB when it is decoded
	s.must(200, "POST", mail+"/tasks/batch", values, "X-Name", "ann")
	s.hold(1, "greedy", fmt.Sprintf("POST %s/tasks HTTP/1.1\r\nHost: x\r\nX-Name: %%s\r\n"+
		"Content-Type: application/json\r\nContent-Length: 500000\r\n\r\n%s", mail, strings.Repeat(" ", 100_000)))
	large := `{"payload":"` + strings.Repeat("x", 100_000) + `"}`
	s.refused(503, "overloaded", "POST", mail+"/tasks", large, "X-Name", "greedy")
	s.must(201, "POST", mail+"/tasks", `{}`, "X-Name", "greedy")
	s.must(201, "POST", mail+"/tasks", large, "X-Name", "ann")
	s.refused(503, "overloaded", "POST", mail+"/tasks/batch", values, "X-Name", "ann")
}

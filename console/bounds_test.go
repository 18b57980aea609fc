package console_test

import (
	"bytes"
	"context"
	"fmt"
	"html"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/console"
	"github.com/dbq-go/dbq/dbqtest"
	"github.com/dbq-go/dbq/internal/check"
)

// TestSmallPayloadMakesNoLargePage enqueues JSON that indenting would make thousands of times larger.
func TestSmallPayloadMakesNoLargePage(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	nested := func(depth int, within string) string {
		return strings.Repeat("[", depth) + within + strings.Repeat("]", depth)
	}
	for name, payload := range map[string]string{
		"deep":          nested(9_000, ""),
		"wide and deep": nested(100, strings.Repeat("1,", 30_000)+"1"),
	} {
		page := s.get(200, taskPath(s.enqueue("mail", dbq.NewTask{Payload: []byte(payload)})))
		if len(page) > 512<<10 {
			t.Errorf("%s: %d bytes of JSON make a page of %d bytes", name, len(payload), len(page))
		}
		s.shows(page, payload)
	}
	brackets := `{"text":"` + nested(200, `\"`) + `"}`
	page := s.get(200, taskPath(s.enqueue("mail", dbq.NewTask{Payload: []byte(brackets)})))
	s.shows(html.UnescapeString(page), "{\n  \"text\": \""+nested(200, `\"`)+"\"\n}")
}

// do sends a request with headers, and returns the page if it has the status.
func (s *site) do(status int, method, path, body string, headers ...string) string {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := s.http.Do(r)
	return s.body(status, answer, err)
}

const formType = "application/x-www-form-urlencoded"

// TestOnlyTheFormOfATaskMayBeLarge sends forms of a megabyte to pages with small forms, and to users without rights.
func TestOnlyTheFormOfATaskMayBeLarge(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	large := "x=" + strings.Repeat("y", 1<<20)
	for _, path := range []string{"/login", "/db/shop/bulk", "/db/shop/queue/pause", "/nothing"} {
		s.shows(s.do(413, "POST", path, large, "Content-Type", formType), "too large")
	}
	s.do(303, "POST", "/db/shop/enqueue", large+"&queue=mail&payload=1", "Content-Type", formType)
	viewer := serve(t, s.client, user{auth.Principal{Name: "bob", Role: auth.Viewer}}, "")
	viewer.do(413, "POST", "/db/shop/enqueue", large+"&queue=mail", "Content-Type", formType)
}

// TestFormThatCannotBeReadChangesNothing sends forms that lose a field of the filter if they are read in part.
func TestFormThatCannotBeReadChangesNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	task := s.enqueue("bills", dbq.NewTask{})
	const form = "event=cancel&queue=mail"
	for name, c := range map[string]struct{ path, kind, body string }{
		"bad escape":      {"/db/shop/bulk", formType, "event=cancel&queue=%zz"},
		"semicolon":       {"/db/shop/bulk", formType, "event=cancel&queue=a;b"},
		"bad query":       {"/db/shop/bulk?key=%zz", formType, "event=cancel"},
		"multipart":       {"/db/shop/bulk?event=cancel", "multipart/form-data; boundary=b", "--b--"},
		"plain text":      {"/db/shop/bulk?event=cancel", "text/plain", form},
		"no content type": {"/db/shop/bulk?event=cancel", "", form},
	} {
		if page := s.do(400, "POST", c.path, c.body, "Content-Type", c.kind); !strings.Contains(page, "cannot be read") {
			t.Errorf("%s: %s", name, page)
		}
	}
	s.get(400, "/db/shop/tasks?queue=%zz")
	s.post(422, "/db/shop/bulk", "event", "cancel", "mark", "parkd")
	if got := s.task(dbq.Enqueued{ID: task.ID}); got.State != dbq.StateCreated {
		t.Errorf("a task outside the filter is %v, want CREATED", got.State)
	}
}

// held is an authenticator that holds each request until it is released.
type held struct {
	user
	arrived chan struct{}
	release chan struct{}
}

func (h held) Authenticate(r *http.Request) (auth.Principal, error) {
	h.arrived <- struct{}{}
	<-h.release
	return h.user.Authenticate(r)
}

// TestRequestsAtOnceAreLimited keeps one request running while others come.
func TestRequestsAtOnceAreLimited(t *testing.T) {
	t.Parallel()
	h := held{ann, make(chan struct{}, 10), make(chan struct{})}
	s := serveWith(t, console.Config{
		Databases: map[string]*dbq.Client{"shop": dbqtest.New(t).Client}, Authenticator: h, MaxRequests: 1,
	})
	first := make(chan error, 1)
	go func() {
		answer, err := s.http.Get(s.url + "/db/shop/workers")
		if err == nil {
			answer.Body.Close()
		}
		first <- err
	}()
	<-h.arrived
	s.shows(s.get(503, "/db/shop/workers"), "The server is busy")
	s.shows(s.post(503, "/login", "token", "x"), "The server is busy")
	close(h.release)
	check.OK(t, <-first)
	s.get(200, "/db/shop/workers")
}

// TestFormsOfACallerAreLimited sends forms of one user and of another one, and signs in with wrong tokens.
func TestFormsOfACallerAreLimited(t *testing.T) {
	t.Parallel()
	client := dbqtest.New(t).Client
	proxy := auth.Proxy{
		From: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, UserHeader: "X-User",
		Rules: auth.Rules{{Role: auth.Admin}},
	}
	s := serveWith(t, console.Config{
		Databases: map[string]*dbq.Client{"shop": client}, Authenticator: proxy, CallerRate: 0.001, CallerBurst: 2,
	})
	pause := func(status int, user string) string {
		return s.do(status, "POST", "/db/shop/queue/pause", "queue=mail", "X-User", user, "Content-Type", formType)
	}
	pause(303, "ann")
	pause(303, "ann")
	s.shows(pause(429, "ann"), "Too many changes at once")
	s.do(200, "GET", "/db/shop/", "", "X-User", "ann") // reading goes on
	pause(303, "bob")
	for _, status := range []int{401, 401, 429} {
		s.post(status, "/login", "token", "wrong")
	}
	s.get(200, "/login")
}

// TestOneUserLeavesRoomForOthers sends forms that do not arrive.
func TestOneUserLeavesRoomForOthers(t *testing.T) {
	t.Parallel()
	proxy := auth.Proxy{
		From: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, UserHeader: "X-User",
		Rules: auth.Rules{{Role: auth.Admin}},
	}
	s := serveWith(t, console.Config{
		Databases: map[string]*dbq.Client{"shop": dbqtest.New(t).Client}, Authenticator: proxy, MaxRequests: 4,
	})
	for _, form := range []string{"/db/shop/queue/pause", "/db/shop/enqueue"} {
		for range 10 {
			conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
			check.OK(t, err)
			defer conn.Close()
			fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nX-User: bob\r\n", form)
			fmt.Fprintf(conn, "Content-Type: %s\r\nContent-Length: 32000\r\n\r\n", formType)
		}
	}
	time.Sleep(200 * time.Millisecond) // what comes too late holds less
	s.do(200, "GET", "/db/shop/workers", "", "X-User", "bob")
	s.do(200, "GET", "/db/shop/workers", "", "X-User", "ann")
	s.do(303, "POST", "/db/shop/enqueue", "queue=mail&payload="+strings.Repeat("x", 100_000), "X-User", "ann",
		"Content-Type", formType)
}

// TestHangUpIsNoError ends a request before it is answered.
func TestHangUpIsNoError(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	c, err := console.New(console.Config{
		Databases: map[string]*dbq.Client{"shop": dbqtest.New(t).Client}, Authenticator: ann,
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	check.OK(t, err)
	gone, end := context.WithCancel(t.Context())
	end()
	for _, path := range []string{"/db/shop/", "/db/shop/tasks", "/db/shop/audit", "/db/shop/schedules"} {
		c.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", path, nil).WithContext(gone))
	}
	if log.Len() > 0 {
		t.Errorf("the log has %s", log.String())
	}
}

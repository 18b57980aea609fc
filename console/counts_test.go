package console

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/dbqtest"
	"github.com/dbq-go/dbq/internal/check"
)

// operator signs everybody in.
type operator struct{}

func (operator) Authenticate(*http.Request) (auth.Principal, error) {
	return auth.Principal{Name: "ann", Role: auth.Operator}, nil
}

// TestChangeShowsAtOnceWhileTasksAreCounted pauses a queue of a database that takes long to count its tasks: pages show
// the last count, and say so when it is old, and the pause.
func TestChangeShowsAtOnceWhileTasksAreCounted(t *testing.T) {
	t.Parallel()
	client := dbqtest.New(t).Client
	if _, err := client.Queue("mail").EnqueueMany(t.Context(), make([]dbq.NewTask, 42)); err != nil {
		t.Fatal(err)
	}
	c, err := New(Config{Databases: map[string]*dbq.Client{"shop": client}, Authenticator: operator{}})
	check.OK(t, err)
	ask := func(method, path string, body url.Values) string {
		t.Helper()
		r := httptest.NewRequest(method, path, strings.NewReader(body.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		begin := time.Now()
		c.ServeHTTP(w, r)
		if w.Code >= 400 {
			t.Fatalf("%s %s has the status %d: %s", method, path, w.Code, w.Body)
		}
		if took := time.Since(begin); took > 20*time.Second {
			t.Errorf("%s %s took %v, although a page does not wait for a count", method, path, took)
		}
		return w.Body.String()
	}
	c.Prepare(t.Context())
	d := c.databases["shop"]
	begun, release := make(chan struct{}), make(chan struct{})
	begin := sync.OnceFunc(func() { close(begun) })
	var ended chan struct{}
	for started := false; !started; {
		d.counted.mu.Lock()
		d.counted.newest, d.counted.value.At = nil, time.Now().Add(-2*countOld)
		d.counted.mu.Unlock()
		ended = make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = d.counted.get(t.Context(), func(context.Context) (counted, error) {
				begin()
				<-release
				return counted{}, nil
			})
		}()
		select {
		case <-begun:
			started = true
		case <-ended: // it shared a count that was still under way
		}
	}
	for _, path := range []string{"/db/shop/", "/db/shop/queue?queue=mail"} {
		page := ask(http.MethodGet, path, nil)
		if !strings.Contains(page, ">42<") || !strings.Contains(page, "A new count is under way") {
			t.Errorf("%s does not show the last count, or that it is old: %s", path, page)
		}
	}
	ask(http.MethodPost, "/db/shop/queue/pause", url.Values{"queue": {"mail"}})
	for _, path := range []string{"/db/shop/", "/db/shop/queue?queue=mail"} {
		page := ask(http.MethodGet, path, nil)
		if !strings.Contains(page, "Queue mail is paused") {
			t.Errorf("%s does not show that the queue is paused: %s", path, page)
		}
	}
	close(release)
	<-ended
}

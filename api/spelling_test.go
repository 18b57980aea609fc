package api_test

import (
	"bytes"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/api"
	"github.com/dbq-go/dbq/auth"
)

// A MaxMemory of up to 128 KiB limits nothing.
func TestSmallMaxMemoryLimits(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(c *api.Config) { c.Authenticator, c.MaxMemory = seeing{}, 128<<10 })
	payload := bytes.Repeat([]byte{1}, 1_000_000)
	if _, err := s.client.Queue("mail").EnqueueMany(t.Context(), []dbq.NewTask{{Payload: payload}, {Payload: payload},
		{Payload: payload}, {Payload: payload}}); err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		got := s.leaveUnread("greedy", "POST", mail+"/checkout", `{"max":1}`)
		if i == 3 && got != 503 {
			t.Errorf("unread checkout %d of 2 MB, with a MaxMemory of 128 KiB: %d", i+1, got)
		}
	}
}

// slowFor answers for the bearer token known, in any spelling of its header, and does not answer while hung is set.
type slowFor struct {
	hung  *atomic.Bool
	began chan struct{}
}

func (s slowFor) Authenticate(r *http.Request) (auth.Principal, error) {
	if token, ok := auth.Bearer(r); !ok || token != "known" && token != "other" {
		return auth.Principal{}, auth.ErrUnauthenticated
	} else if token == "known" && s.hung.Load() {
		s.began <- struct{}{}
		<-r.Context().Done()
		return auth.Principal{}, r.Context().Err()
	} else {
		return auth.Principal{Name: token, Role: auth.Admin}, nil
	}
}

// One token in several spellings of the header is several callers, which together take all places.
func TestOneTokenIsOneCaller(t *testing.T) {
	t.Parallel()
	a := slowFor{new(atomic.Bool), make(chan struct{}, 99)}
	s := newSite(t, func(c *api.Config) { c.Authenticator, c.MaxRequests = a, 4 })
	spellings := []string{"Bearer known", "bearer known", "BEARER known", "BeareR known"}
	for _, header := range append(spellings, "Bearer other") {
		s.must(200, "GET", "/v1/databases", "", "Authorization", header)
	}
	a.hung.Store(true)
	for _, header := range spellings {
		s.hold(3, "x", fmt.Sprintf("GET /v1/databases HTTP/1.1\r\nHost: x\r\nX-Name: %%s\r\n"+
			"Authorization: %s\r\n\r\n", header))
	}
	for range 2 { // the other two wait for a place
		<-a.began
	}
	s.must(200, "GET", "/v1/databases", "", "Authorization", "Bearer other")
}

package api_test

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/api"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/internal/check"
)

// named authenticates each request as the principal that its header names.
type named struct{}

func (named) Authenticate(r *http.Request) (auth.Principal, error) {
	return auth.Principal{Name: r.Header.Get("X-Name"), Role: auth.Admin}, nil
}

func TestEachCallerHasItsOwnRate(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(c *api.Config) { c.Authenticator, c.CallerRate, c.CallerBurst = named{}, 0.1, 3 })
	for range 3 {
		s.must(200, "GET", "/v1/databases", "", "X-Name", "ann")
	}
	s.refused(429, "rate-limited", "GET", "/v1/databases", "", "X-Name", "ann")
	s.must(200, "GET", "/v1/databases", "", "X-Name", "bob")

	r, err := http.NewRequest("POST", s.url+mail+"/tasks", strings.NewReader("{}"))
	check.OK(t, err)
	r.Header.Set("X-Name", "ann")
	r.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(r)
	check.OK(t, err)
	response.Body.Close()
	after, err := strconv.Atoi(response.Header.Get("Retry-After"))
	if response.StatusCode != 429 || err != nil || after < 8 || after > 10 {
		t.Errorf("status %d, Retry-After %q, want 429 and up to 10 seconds", response.StatusCode,
			response.Header.Get("Retry-After"))
	}
	if tasks := s.must(200, "GET", "/v1/db/shop/tasks", "", "X-Name", "bob")["tasks"].([]any); len(tasks) != 0 {
		t.Errorf("the refused request added %v", tasks)
	}
}

func TestInvalidRatesAreRefused(t *testing.T) {
	t.Parallel()
	c := newSite(t).client
	for _, change := range []func(*api.Config){
		func(c *api.Config) { c.CallerRate = -1 }, func(c *api.Config) { c.CallerBurst = 1 },
		func(c *api.Config) { c.CallerRate, c.CallerBurst = 1, -1 },
	} {
		cfg := api.Config{Authenticator: admin}
		cfg.Databases = map[string]*dbq.Client{"shop": c}
		change(&cfg)
		if _, err := api.New(cfg); err == nil {
			t.Errorf("%+v is accepted", cfg)
		}
	}
}

// slow counts how many requests it authenticates at once.
type slow struct{ now, most, calls atomic.Int64 }

func (s *slow) Authenticate(*http.Request) (auth.Principal, error) {
	s.calls.Add(1)
	now := s.now.Add(1)
	defer s.now.Add(-1)
	for most := s.most.Load(); now > most && !s.most.CompareAndSwap(most, now); most = s.most.Load() {
	}
	time.Sleep(20 * time.Millisecond)
	return auth.Principal{}, auth.ErrUnauthenticated
}

// TestFloodIsAuthenticatedInBounds sends many requests with wrong credentials at once.
func TestFloodIsAuthenticatedInBounds(t *testing.T) {
	t.Parallel()
	var a slow
	s := newSite(t, func(c *api.Config) { c.Authenticator, c.MaxRequests = &a, 2 })
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if status, text := s.send("GET", "/v1/databases", ""); status != 401 && status != 503 {
				t.Errorf("%d %s", status, text)
			}
		})
	}
	all.Wait()
	if a.most.Load() > 2 || a.calls.Load() == 0 {
		t.Errorf("%d requests were authenticated at once, want at most 2", a.most.Load())
	}
}

// stalled does not answer for credentials that it does not know.
type stalled struct{ began chan struct{} }

func (s stalled) Authenticate(r *http.Request) (auth.Principal, error) {
	if r.Header.Get("Authorization") != "Bearer known" {
		s.began <- struct{}{}
		<-r.Context().Done()
		return auth.Principal{}, r.Context().Err()
	}
	return auth.Principal{Name: "ann", Role: auth.Admin}, nil
}

// Callers whose credentials are unknown leave half of the places in which requests are authenticated to the others.
func TestUnknownCallersLeaveRoomForKnownOnes(t *testing.T) {
	t.Parallel()
	a := stalled{make(chan struct{}, 9)}
	s := newSite(t, func(c *api.Config) { c.Authenticator, c.MaxRequests = a, 4 })
	s.must(200, "GET", "/v1/databases", "", "Authorization", "Bearer known")
	for range 9 {
		s.hold(1, "stranger", "GET /v1/databases HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n")
	}
	for range 2 {
		<-a.began
	}
	s.must(200, "GET", "/v1/databases", "", "Authorization", "Bearer known")
	if n := len(a.began); n > 0 {
		t.Errorf("%d more than 2 of 4 places have callers that are unknown", n)
	}
}

// silent is an authenticator whose server does not respond.
type silent struct{}

func (silent) Authenticate(r *http.Request) (auth.Principal, error) {
	<-r.Context().Done()
	return auth.Principal{}, r.Context().Err()
}

func TestAuthenticationEndsInTime(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(c *api.Config) { c.Authenticator, c.Timeout = silent{}, time.Hour })
	s.refused(503, "credentials-unchecked", "GET", "/v1/databases", "")
}

package api_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	operators "github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/api"
	"github.com/dbq-go/dbq/internal/check"
)

// A refusal does not wait for a body that never comes.
func TestRefusalDoesNotWaitForTheBody(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(c *api.Config) { c.Authenticator, c.BodyTimeout = caller{}, 100*time.Millisecond })
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	check.OK(t, err)
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	fmt.Fprintf(conn, "POST %s/tasks HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n", mail)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	check.OK(t, err)
	defer response.Body.Close()
	if response.StatusCode != http.StatusUnauthorized {
		t.Errorf("got %s", response.Status)
	}
}

// A request that waits for longer than a body may take is not ended by the limit of the body.
func TestWaitOutlastsTheLimitOfTheBody(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(c *api.Config) { c.BodyTimeout = 50 * time.Millisecond })
	start := time.Now()
	s.must(200, "POST", mail+"/checkout", `{"worker":"w","wait_seconds":0.4}`)
	if took := time.Since(start); took < 400*time.Millisecond {
		t.Errorf("it waited %v", took)
	}
}

// The audit names the caller of each change, with its address and the id of the request.
func TestChangesAreAttributed(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.must(200, "PATCH", mail+"/limits", `{"concurrency":3}`, "X-Request-Id", "r1")
	s.must(200, "PATCH", mail+"/settings", `{"max_checkout":3}`, "X-Request-Id", "r2")
	s.must(204, "POST", mail+"/pause", `{}`, "X-Request-Id", "r3")
	audit, err := operators.New(s.client).Audit(t.Context(), operators.AuditFilter{})
	check.OK(t, err)
	found := map[string]bool{}
	for _, e := range audit.Entries {
		found[e.Request] = e.By == "ann" && e.Program == "api" && e.Address == "127.0.0.1"
	}
	if len(audit.Entries) != 3 || !found["r1"] || !found["r2"] || !found["r3"] {
		t.Errorf("the audit has %+v", audit.Entries)
	}
}

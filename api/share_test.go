package api_test

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq/api"
)

// hold sends n requests of one caller that do not end, and waits until the server has read what was sent.
func (s *site) hold(n int, caller, request string) {
	s.t.Helper()
	for range n {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			s.t.Fatal(err)
		}
		s.t.Cleanup(func() { conn.Close() })
		if _, err := fmt.Fprintf(conn, request, caller); err != nil {
			s.t.Fatal(err)
		}
	}
	time.Sleep(200 * time.Millisecond) // what comes too late holds less
}

// One caller cannot use up the server: not with bodies that never arrive, nor with large ones, nor with waits.
func TestOneCallerLeavesRoomForOthers(t *testing.T) {
	t.Parallel()
	const other = "/v1/db/shop/queues/other"
	const head = "POST " + mail + "%s HTTP/1.1\r\nHost: x\r\nX-Name: %%s\r\nContent-Type: application/json\r\n" +
		"Content-Length: %d\r\n\r\n%s"
	for name, request := range map[string]string{
		"no body":         fmt.Sprintf(head, "/tasks", 1000, ""),
		"half a body":     fmt.Sprintf(head, "/tasks", 200_000, `{"payload":"`+strings.Repeat("x", 100_000)),
		"waits for tasks": fmt.Sprintf(head, "/checkout", 19, `{"wait_seconds":30}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, func(c *api.Config) { c.Authenticator, c.MaxRequests, c.MaxWaiting = named{}, 10, 10 })
			s.hold(40, "greedy", request)
			for _, caller := range []string{"ann", "bob"} {
				s.must(201, "POST", other+"/tasks", `{"payload":"`+strings.Repeat("x", 200_000)+`"}`, "X-Name", caller)
				s.must(200, "POST", other+"/checkout", `{"wait_seconds":0.01}`, "X-Name", caller)
			}
		})
	}
}

// A database that does not answer takes no place of another one, even if all callers have one name.
func TestHungDatabaseLeavesRoomForOthers(t *testing.T) {
	t.Parallel()
	held, take := heldClient(t)
	s := serve(t, openClient(t), func(c *api.Config) {
		c.Databases["held"], c.MaxRequests, c.Timeout = held, 4, 2*time.Second
	})
	release := take()
	defer release()
	const tasks = "POST /v1/db/held/queues/mail/tasks HTTP/1.1\r\nHost: x\r\nX-Name: %s\r\n" +
		"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
	s.hold(8, "ann", tasks)
	s.hold(2, "ann", "GET /v1/db/held/series HTTP/1.1\r\nHost: x\r\nX-Name: %s\r\n\r\n")
	s.refused(503, "overloaded", "GET", "/v1/db/held/tasks", "")
	s.must(201, "POST", mail+"/tasks", `{}`)
	s.must(200, "GET", "/v1/db/shop/series", "")
}

// A body that has not arrived takes nothing from its caller either.
func TestBodyThatHasNotArrivedHoldsNoPlace(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(c *api.Config) { c.Authenticator, c.MaxRequests = named{}, 2 })
	s.hold(10, "ann", "POST "+mail+"/tasks HTTP/1.1\r\nHost: x\r\nX-Name: %s\r\n"+
		"Content-Type: application/json\r\nContent-Length: 100000\r\n\r\n{")
	s.must(201, "POST", mail+"/tasks", `{}`, "X-Name", "ann")
}

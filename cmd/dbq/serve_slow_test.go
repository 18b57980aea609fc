//go:build unix

package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq/internal/check"
)

// slowRequest is a POST to the database default whose body a test sends in parts.
type slowRequest struct {
	conn net.Conn
	from *bufio.Reader // of conn
	rest string        // of the body
}

// slowly sends the headers of a request, and waits until its handler reads the body.
func (s *serving) slowly(t *testing.T, path, body string) *slowRequest {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	check.OK(t, err)
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	r := &slowRequest{conn, bufio.NewReader(conn), body}
	r.send(t, fmt.Sprintf("POST /v1/db/default%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+
		"Content-Length: %d\r\nExpect: 100-continue\r\n\r\n", path, len(body)))
	if line, err := r.from.ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
		t.Fatalf("the server does not ask for the body: %q, %v", line, err)
	}
	_, _ = r.from.ReadString('\n') // the empty line after it
	return r
}

func (r *slowRequest) send(t *testing.T, part string) {
	t.Helper()
	if _, err := io.WriteString(r.conn, part); err != nil {
		t.Fatal(err)
	}
}

// answer waits for the response.
func (r *slowRequest) answer(t *testing.T) (int, string) {
	t.Helper()
	response, err := http.ReadResponse(r.from, nil)
	check.OK(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	check.OK(t, err)
	return response.StatusCode, string(body)
}

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
)

// slowRequest is a POST to the database default whose body a test sends in parts.
type slowRequest struct {
	conn net.Conn
	rest string // of the body
}

// slowly sends the headers of a request.
func (s *serving) slowly(t *testing.T, path, body string) *slowRequest {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	r := &slowRequest{conn, body}
	r.send(t, fmt.Sprintf("POST /v1/db/default%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+
		"Content-Length: %d\r\n\r\n", path, len(body)))
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
	response, err := http.ReadResponse(bufio.NewReader(r.conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

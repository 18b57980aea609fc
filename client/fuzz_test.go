package client_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"unicode"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/client"
	"github.com/dbq-go/dbq/internal/check"
)

// transport responds with a function.
type transport func(*http.Request) *http.Response

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r), nil }

// FuzzResponse gets any response: it is a result or an error, which is one line of text without the token.
func FuzzResponse(f *testing.F) {
	f.Add(uint16(201), "application/json", "", `{"id":"01a217bb-bd5c-7e23-ab30-97e7ec3729c9","duplicate":false}`)
	f.Add(uint16(422), "application/problem+json", "120", `{"type":"urn:dbq:problem:priority","request_id":"`+secret+
		`","errors":[{"location":"body","message":"`+secret+`"}]}`)
	f.Add(uint16(503), "text/html", "Thu, 26 Nov 2026 12:00:00 GMT", secret)
	f.Fuzz(func(t *testing.T, status uint16, media, retryAfter, body string) {
		c, err := client.New(client.Config{URL: "http://127.0.0.1:1", Token: secret, RetryFor: -1,
			HTTPClient: &http.Client{Transport: transport(func(r *http.Request) *http.Response {
				return &http.Response{StatusCode: int(status), Request: r, Body: io.NopCloser(strings.NewReader(body)),
					Header: http.Header{"Content-Type": {media}, "Retry-After": {retryAfter}}}
			})}})
		check.OK(t, err)
		got, err := c.Queue("mail").Enqueue(t.Context(), dbq.NewTask{})
		if err == nil && (status < 200 || status > 299 || !json.Valid([]byte(body))) {
			t.Errorf("%d %q is the result %v", status, body, got)
		}
		if err != nil && (strings.Contains(err.Error(), secret) || strings.ContainsFunc(err.Error(), unicode.IsControl)) {
			t.Errorf("%d %q is the error %q", status, body, err)
		}
	})
}

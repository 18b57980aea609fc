package console_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/auth"
	"github.com/dbq-go/dbq/console"
	"github.com/dbq-go/dbq/dbqtest"
)

// FuzzPage sends any query and form to each page: no answer is an error of the server, or has a script of the input.
func FuzzPage(f *testing.F) {
	paths := []string{"", "queue", "keys", "tasks", "poison", "bulk", "enqueue", "workers", "schedules", "schedule",
		"schedule/edit", "server", "audit", "queue/limits", "queue/settings", "queue/pause", "queue/resume",
		"schedule/save", "schedule/run", "schedule/delete", "task/01a217bb-bd5c-7e23-ab30-97e7ec3729c9",
		"task/01a217bb-bd5c-7e23-ab30-97e7ec3729c9/cancel", "workflow/01a217bb-bd5c-7e23-ab30-97e7ec3729c9",
		"workflow/01a217bb-bd5c-7e23-ab30-97e7ec3729c9/retry", "workflows", "jump",
		"task/01a217bb-bd5c-7e23-ab30-97e7ec3729c9/file/payload"}
	c, err := console.New(console.Config{
		Databases: map[string]*dbq.Client{"shop": dbqtest.New(f).Client}, Authenticator: ann,
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		f.Fatal(err)
	}
	for i := range paths {
		f.Add(uint8(i), false, "queue=mail&state=CREATED&older=1h&order=oldest&after=x&event=cancel&error=%3Cscript%3E")
		f.Add(uint8(i), true, "queue=mail&name=n&cron=@daily&payload=%7B%7D&running=5&per=1m&starts=2&version=1&kind=%22")
	}
	f.Fuzz(func(t *testing.T, page uint8, post bool, values string) {
		path := paths[int(page)%len(paths)]
		r := &http.Request{Method: http.MethodGet, URL: &url.URL{Path: "/db/shop/" + path, RawQuery: values},
			Header: http.Header{}, Body: http.NoBody, Host: "localhost", RemoteAddr: "127.0.0.1:1"}
		if post {
			r.Method, r.URL.RawQuery, r.ContentLength = http.MethodPost, "", int64(len(values))
			r.Body = io.NopCloser(strings.NewReader(values))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		got := httptest.NewRecorder()
		c.ServeHTTP(got, r.WithContext(t.Context()))
		if found := inlined.FindString(got.Body.String()); got.Code >= 500 || found != "" {
			t.Errorf("%s %s with %q: %d with %q: %s", r.Method, path, values, got.Code, found, got.Body)
		}
	})
}

// FuzzSignIn signs in with any token and any page to return to, and reads a page with any cookies: only the token signs
// in, the answer leads to no other site, and no cookie makes an error of the server or a script.
func FuzzSignIn(f *testing.F) {
	const secret = "dbq_secret"
	c, err := console.New(console.Config{
		Databases: map[string]*dbq.Client{"shop": dbqtest.New(f).Client}, Logger: slog.New(slog.DiscardHandler),
		Authenticator: bearer(secret),
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(secret, "/db/shop/tasks?queue=mail", "dbq_session=1."+secret)
	f.Add(secret, "//evil.example", "dbq_flash=PHNjcmlwdD4; dbq_session=1."+secret)
	f.Add(secret, "/", "dbq_session=2.x; dbq_session_2="+secret)
	f.Add(secret, "/", "dbq_session=-1."+secret)
	f.Add("other", "/.//evil.example", "dbq_session=\"dbq_secret\"; dbq_session=1.x")
	f.Fuzz(func(t *testing.T, token, to, cookies string) {
		form := url.Values{"token": {token}, "to": {to}}.Encode()
		r := &http.Request{Method: http.MethodPost, URL: &url.URL{Path: "/login"}, Host: "localhost",
			Header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, ContentLength: int64(len(form)),
			Body: io.NopCloser(strings.NewReader(form)), RemoteAddr: "127.0.0.1:1"}
		got := httptest.NewRecorder()
		c.ServeHTTP(got, r.WithContext(t.Context()))
		if signedIn := got.Code == http.StatusSeeOther; signedIn != (strings.TrimSpace(token) == secret) &&
			got.Code != http.StatusTooManyRequests {
			t.Errorf("token %q: %d", token, got.Code)
		}
		location := got.Header().Get("Location")
		if l, err := url.Parse(location); err != nil || l.Host != "" || l.Scheme != "" || strings.HasPrefix(location, "//") ||
			strings.ContainsAny(location, "\\\t\r\n") {
			t.Errorf("%q leads to %q", to, location)
		}
		r = &http.Request{Method: http.MethodGet, URL: &url.URL{Path: "/db/shop/"}, Header: http.Header{"Cookie": {cookies}},
			Body: http.NoBody, Host: "localhost", RemoteAddr: "127.0.0.1:1"}
		got = httptest.NewRecorder()
		c.ServeHTTP(got, r.WithContext(t.Context()))
		if found := inlined.FindString(got.Body.String()); got.Code >= 500 || found != "" ||
			got.Code == http.StatusOK && !strings.Contains(cookies, secret) {
			t.Errorf("cookies %q: %d with %q", cookies, got.Code, found)
		}
	})
}

// bearer accepts one token.
type bearer string

func (b bearer) Authenticate(r *http.Request) (auth.Principal, error) {
	if token, _ := auth.Bearer(r); token != string(b) {
		return auth.Principal{}, auth.ErrUnauthenticated
	}
	return auth.Principal{Name: "ann", Role: auth.Admin}, nil
}

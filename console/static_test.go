package console_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/console"
	"github.com/dbq-go/dbq/internal/check"
)

// answer sends a request as it is: the transport does not decompress the response.
func (s *site) answer(path string, headers ...string) (*http.Response, string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.url+path, nil)
	check.OK(s.t, err)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := (&http.Transport{DisableCompression: true}).RoundTrip(r)
	check.OK(s.t, err)
	defer answer.Body.Close()
	body := io.Reader(answer.Body)
	if answer.Header.Get("Content-Encoding") == "gzip" {
		body, err = gzip.NewReader(body)
		check.OK(s.t, err)
	}
	text, err := io.ReadAll(body)
	check.OK(s.t, err)
	return answer, string(text)
}

// TestStaticFilesAreKeptForEver reads the files that a page names, and then those of another version.
func TestStaticFilesAreKeptForEver(t *testing.T) {
	t.Parallel()
	s := serveWith(t, console.Config{Databases: map[string]*dbq.Client{"shop": openClient(t)}, Authenticator: ann,
		Prefix: "/dbq"})
	page := s.get(200, "/db/shop/queue", "queue", "mail")
	names := regexp.MustCompile(`(?:href|src)="/dbq(/static/[^"]+)"`).FindAllStringSubmatch(page, -1)
	if len(names) < 5 {
		t.Fatalf("the page names %q", names)
	}
	for _, m := range names {
		if !regexp.MustCompile(`\.[0-9a-f]{12}\.(css|js|svg)$`).MatchString(m[1]) {
			t.Errorf("%s has no hash", m[1])
		}
		whole, text := s.answer(m[1])
		small, same := s.answer(m[1], "Accept-Encoding", "br, gzip")
		if whole.StatusCode != 200 || whole.Header.Get("Cache-Control") != "public, max-age=31536000, immutable" ||
			whole.Header.Get("Content-Encoding") != "" || text != same || text == "" {
			t.Errorf("%s has the status %s and the header %v", m[1], whole.Status, whole.Header)
		}
		saved := small.Header.Get("Content-Encoding") == "gzip" && small.ContentLength < int64(len(text))*2/3
		if len(text) > 1024 && !saved {
			t.Errorf("%s of %d bytes is sent as %d", m[1], len(text), small.ContentLength)
		}
		again, body := s.answer(m[1], "If-None-Match", `"x", `+whole.Header.Get("ETag"))
		if again.StatusCode != 304 || body != "" {
			t.Errorf("%s has the status %s although the browser has it", m[1], again.Status)
		}
	}
	for path, status := range map[string]int{
		"/static/console.css": 200, "/static/console.0123456789ab.css": 200, "/static/vendored.txt": 200,
		"/static/": 404, "/static/none.css": 404, "/static/none.0123456789ab.css": 404,
	} {
		got, _ := s.answer(path)
		if got.StatusCode != status || status == 200 && got.Header.Get("Cache-Control") != "no-cache" {
			t.Errorf("%s has the status %s and is kept %q, want %d", path, got.Status, got.Header.Get("Cache-Control"), status)
		}
	}
}

// TestPagesAreCompressed reads a page as browsers do that can and cannot read gzip.
func TestPagesAreCompressed(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	s.enqueue("mail", dbq.NewTask{})
	for accepts, want := range map[string]string{
		"": "", "gzip": "gzip", "deflate, GZIP;q=0.5": "gzip", "gzip;q=0": "", "gzip; q=0.0, br": "", "br": "",
		"gzip;q=x": "",
	} {
		answer, text := s.answer("/db/shop/queue?queue=mail", "Accept-Encoding", accepts)
		if got := answer.Header.Get("Content-Encoding"); got != want || !strings.Contains(text, "</html>") {
			t.Errorf("%q is answered with %q: %s", accepts, got, text)
		}
		if answer.Header.Get("Vary") != "Accept-Encoding" || answer.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%q: the header is %v", accepts, answer.Header)
		}
	}
}

// TestRefreshThatChangesNothingIsEmpty refreshes pages, before and after a change.
func TestRefreshThatChangesNothingIsEmpty(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	task := s.enqueue("mail", dbq.NewTask{})
	s.poison("bills", dbq.NewTask{}, "no route")
	paths := []string{"/db/shop/workers", "/db/shop/poison?queue=bills", "/db/shop/schedules", taskPath(task)}
	for _, path := range paths {
		first, _ := s.answer(path, "HX-Request", "true")
		tag := first.Header.Get("ETag")
		if first.StatusCode != 200 || tag == "" {
			t.Fatalf("%s: %s, %v", path, first.Status, first.Header)
		}
		if plain, text := s.answer(path, "If-None-Match", tag); plain.StatusCode != 200 || text == "" {
			t.Errorf("%s: a browser that opens the page gets %s", path, plain.Status) // it keeps no page
		}
		if path == taskPath(task) {
			continue // its verdict says how long it has waited
		}
		again, text := s.answer(path, "HX-Request", "true", "If-None-Match", tag)
		if again.StatusCode != 304 || text != "" {
			t.Errorf("%s: a refresh gets %s: %s", path, again.Status, text)
		}
	}
	first, _ := s.answer("/db/shop/poison?queue=bills", "HX-Request", "true")
	s.poison("bills", dbq.NewTask{}, "no route")
	again, text := s.answer("/db/shop/poison?queue=bills", "HX-Request", "true", "If-None-Match", first.Header.Get("ETag"))
	if again.StatusCode != 200 || !strings.Contains(text, "no route") {
		t.Errorf("a refresh after a change gets %s", again.Status)
	}
}

package console_test

import (
	"bytes"
	"html"
	"maps"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/google/uuid"
)

// Elements of the form that enqueues a task.
var (
	textareas = regexp.MustCompile(`(?s)<textarea name="([^"]+)"[^>]*>(.*?)</textarea>`)
	inputs    = regexp.MustCompile(`<input ([^>]*)>`)
	attribute = regexp.MustCompile(`([a-z]+)="([^"]*)"`)
)

// submitted returns the fields of a page's form as a browser sends them: it drops a newline at the beginning of a
// textarea, ends lines with CRLF, and leaves out boxes that are not checked.
func submitted(page string) []string {
	var form []string
	page = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\x00", "\uFFFD").Replace(page)
	for _, m := range textareas.FindAllStringSubmatch(page, -1) {
		text := html.UnescapeString(strings.TrimPrefix(m[2], "\n"))
		form = append(form, m[1], strings.NewReplacer("\r\n", "\r\n", "\r", "\r\n", "\n", "\r\n").Replace(text))
	}
	for _, m := range inputs.FindAllStringSubmatch(page, -1) {
		var name, value string
		for _, a := range attribute.FindAllStringSubmatch(m[1], -1) {
			switch a[1] {
			case "name":
				name = a[2]
			case "value":
				value = html.UnescapeString(a[2])
			}
		}
		if !strings.Contains(m[1], `"checkbox"`) || strings.Contains(m[1], " checked") {
			form = append(form, name, strings.NewReplacer("\r", "", "\n", "").Replace(value))
		}
	}
	return form
}

// TestCopyThatIsNotEditedIsTheSame enqueues copies of tasks whose texts a form would change.
func TestCopyThatIsNotEditedIsTheSame(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	for name, task := range map[string]dbq.NewTask{
		"json":            {Payload: []byte(`{"to":"<b>&amp;\u0000\r\n"}`), Headers: map[string]string{"a": "b: c"}},
		"lines":           {Payload: []byte("one\ntwo\n\n"), Kind: " padded ", Key: " acme"},
		"windows lines":   {Payload: []byte("one\r\ntwo\r\n")},
		"carriage return": {Payload: []byte("one\rtwo")},
		"leading lines":   {Payload: []byte("\n\n{}")},
		"NUL":             {Payload: []byte("a\x00b")},
		"bytes":           {Payload: []byte{0xff, 0xfe, 0, '\n', '\r'}},
		"nothing":         {},
		"headers": {Headers: map[string]string{
			"multi": "one\ntwo: 2\r\n", " padded ": " value ", "colon:": "x", "nul": "a\x00b", "empty": "",
		}},
	} {
		from := s.enqueue("mail", task)
		page := s.get(200, "/db/shop/enqueue", "from", from.ID.String())
		to, err := url.Parse(s.post(303, "/db/shop/enqueue", submitted(page)...))
		check.OK(t, err)
		got := s.task(dbq.Enqueued{ID: uuid.MustParse(strings.TrimPrefix(to.Path, "/db/shop/task/"))})
		if got.ID == from.ID || !bytes.Equal(got.Payload, from.Payload) || !maps.Equal(got.Headers, from.Headers) ||
			got.Kind != from.Kind || got.Key != from.Key || got.MaxAttempts != from.MaxAttempts {
			t.Errorf("%s: the copy is %q with %q, want %q with %q", name, got.Payload, got.Headers, from.Payload, from.Headers)
		}
	}
}

func TestFormOfATaskIsChecked(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	s.shows(s.post(422, "/db/shop/enqueue", "queue", "mail", "payload", "*", "encoding", "base64"), "not valid base64")
	s.shows(s.post(422, "/db/shop/enqueue", "queue", "mail", "headers", "[1]", "header_format", "json"), "JSON object")
	large := s.enqueue("mail", dbq.NewTask{Payload: bytes.Repeat([]byte{0xff}, 6<<20)})
	s.shows(s.get(422, "/db/shop/enqueue", "from", large.ID.String()), "too large to edit")
}

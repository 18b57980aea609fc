package console_test

import (
	"html"
	"strings"
	"testing"

	"github.com/dbq-go/dbq"
)

// TestSmallPayloadMakesNoLargePage enqueues JSON that indenting would make thousands of times larger.
func TestSmallPayloadMakesNoLargePage(t *testing.T) {
	t.Parallel()
	s := newSite(t, ann)
	nested := func(depth int, within string) string {
		return strings.Repeat("[", depth) + within + strings.Repeat("]", depth)
	}
	for name, payload := range map[string]string{
		"deep":          nested(9_000, ""),
		"wide and deep": nested(100, strings.Repeat("1,", 30_000)+"1"),
	} {
		page := s.get(200, taskPath(s.enqueue("mail", dbq.NewTask{Payload: []byte(payload)})))
		if len(page) > 512<<10 {
			t.Errorf("%s: %d bytes of JSON make a page of %d bytes", name, len(payload), len(page))
		}
		s.shows(page, payload)
	}
	brackets := `{"text":"` + nested(200, `\"`) + `"}`
	page := s.get(200, taskPath(s.enqueue("mail", dbq.NewTask{Payload: []byte(brackets)})))
	s.shows(html.UnescapeString(page), "{\n  \"text\": \""+nested(200, `\"`)+"\"\n}")
}

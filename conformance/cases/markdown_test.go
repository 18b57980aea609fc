package cases

import (
	"strings"
	"testing"
)

// TestMarkdown looks at the generated page.
func TestMarkdown(t *testing.T) {
	page := Markdown()
	for _, want := range []string{"\n| Lease | ", " ExpiredIsRedelivered*,", "\n| Transitions | 234 | each action"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
}

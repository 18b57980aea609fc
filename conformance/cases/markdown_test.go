package cases

import (
	"strings"
	"testing"
)

// TestMarkdown looks at the generated page.
func TestMarkdown(t *testing.T) {
	page := Markdown()
	for _, want := range []string{"## Lease\n", "| ExpiredIsRedelivered* |", "| PROCESSING-leased |", "| CREATED-due |",
		"removed |"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
}

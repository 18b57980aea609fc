package rules

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/internal/check"
)

// TestGlossaryIsSorted checks that the terms of docs/glossary.md are in alphabetical order, each once.
func TestGlossaryIsSorted(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/glossary.md")
	check.OK(t, err)
	var terms []string
	for _, m := range regexp.MustCompile(`(?m)^\*\*(.+?)\.\*\*`).FindAllSubmatch(page, -1) {
		terms = append(terms, strings.ToLower(string(m[1])))
	}
	if len(terms) < 50 {
		t.Fatalf("%d terms; the format of the page has changed", len(terms))
	}
	for i, term := range terms[1:] {
		if term <= terms[i] {
			t.Errorf("%q follows %q", term, terms[i])
		}
	}
}

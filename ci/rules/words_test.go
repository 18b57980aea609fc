package rules

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// banned are phrases that do not read as English, and second words for a term of the glossary, each with the text to
// write instead.
var banned = [][2]string{
	{`leases? (?:that )?(?:ran|run|runs|has run|have run) out`, "the lease expires, expired"},
	{`in work`, "leased, or PROCESSING"},
	{`bury|buries|buried`, "poison, or move to POISON"},
	{`attempts? (?:is|are) spent|spent attempts`, "exhausted"},
	{`for (?:those )?who|who (?:tells|wants|asks|waits|looks)`, "the caller, the worker, the operator, you"},
	{`without more`, "by default"},
	{`comes? to light`, "becomes visible"},
	{`looks? what`, "checks"},
	{`(?:is|are) said`, "is reported"},
	{`was not had`, "could not be acquired, or a lock wait timeout"},
	{`belfry|doorbell|the bell|rung`, "wake-up, notifier, hub, scan"},
	{`kin|alike rows`, "uniform batch"},
	{`as it were|so to speak`, "(leave it out)"},
	{`an operator ordered`, "stopped by an operator"},
	{`asks again`, "queries again"},
}

// TestWords checks comments, strings and pages for banned words, as whole words.
func TestWords(t *testing.T) {
	var phrases []string
	for _, b := range banned {
		phrases = append(phrases, b[0])
	}
	word := func(pattern string) *regexp.Regexp { return regexp.MustCompile(`(?i)\b(?:` + pattern + `)\b`) }
	any := word(strings.Join(phrases, "|"))
	sources(t, func(file string, content []byte) {
		text := slices.Contains([]string{".go", ".sql", ".md", ".txt", ".sh"}, path.Ext(file))
		measured := strings.HasPrefix(file, "docs/reports/") || file == "docs/benchmarks.md"
		if !text || measured || file == "ci/rules/words_test.go" {
			return
		}
		for _, at := range any.FindAllIndex(content, -1) {
			found, line := content[at[0]:at[1]], 1+strings.Count(string(content[:at[0]]), "\n")
			for _, b := range banned {
				if word(b[0]).Match(found) {
					t.Errorf("%s:%d: %q; write %q", file, line, found, b[1])
				}
			}
		}
	})
}

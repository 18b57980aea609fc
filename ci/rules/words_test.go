package rules

import (
	"bytes"
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
	{`belfry|doorbell|the bell|rung`, "wake-up, notifier, hub, search"},
	{`kin|alike rows`, "uniform batch"},
	{`as it were|so to speak`, "(leave it out)"},
	{`an operator ordered`, "stopped by an operator"},
	{`asks again`, "queries again"},
	{`scan cursors?|scans? for expired|scans? from the start`, "search"},
	// The project's spelling is American, except "cancelled", which is a name of the API.
	{`(?:behaviour|colour|favour|honour|labour|neighbour)\w*`, "the American spelling: -or"},
	{`(?:author|custom|initial|minim|normal|optim|organ|priorit|recogn|serial|summar|synchron)is(?:e[ds]?|ing|ation)`,
		"the American spelling: -ize"},
	{`analyse[dr]?|analysing|catalogues?|cent(?:re|res)|defence|grey|licence[ds]?|learnt|misspelt|spelt`,
		"the American spelling: analyze, catalog, center, defense, gray, license, learned, spelled"},
}

// unplain are phrases that make a sentence hard to read, for everything but tests.
var unplain = [][2]string{
	{`(?:is|are|was|were) told`, "gets, receives, is reported"},
	{`told (?:as|of)|tells? of`, "is reported as, reports"},
	{`(?:database|server|statement|row|dialect) (?:tells|says)`, "reports, contains, shows"},
	{`(?:somebody|nobody) else|nobody (?:has|can|may|but)`, "another worker, no other transaction, only"},
	{`kept for long enough`, "whose retention has passed"},
	{`goes? on without`, "continues without"},
	{`settings? in force`, "the current settings"},
	{`all the same`, "still, nevertheless"},
	{`broke off|broken off|breaks off`, "rolled back, interrupted"},
	{`stands? in`, "replaces, is in"},
	{`whoever`, "the caller, the program, the transaction that"},
	{`in vain`, "without success"},
	{`so many attempts`, "a number of attempts"},
	{`believes? in`, "accepts"},
	{`asks? (?:a|the) (?:server|database|library)`, "queries"},
}

// vague matches the beginning of a comment that says that its subject is, has or returns "what", instead of naming it.
var vague = regexp.MustCompile(`(?m)^\s*(?://|--) (?:(?:An?|The) )?[\w.]+ (?:is|are|has|have|returns?) what\b`)

// A list of phrases, and one expression for all of them.
type phrases struct {
	of  [][2]string
	any *regexp.Regexp
}

func newPhrases(of [][2]string) phrases {
	var patterns []string
	for _, p := range of {
		patterns = append(patterns, p[0])
	}
	return phrases{of, word(strings.Join(patterns, "|"))}
}

// word is an expression for whole words. Where a phrase has a space, the text may begin a new line of a comment or
// string.
func word(pattern string) *regexp.Regexp {
	const gap = `(?:[ \t]+|[ "+]*\n[ \t/#>"-]*)`
	return regexp.MustCompile(`(?i)\b(?:` + strings.ReplaceAll(pattern, " ", gap) + `)\b`)
}

// report reports each phrase in a file, and the text to write instead.
func (p phrases) report(t *testing.T, file string, content []byte) {
	for _, at := range p.any.FindAllIndex(content, -1) {
		found, line := content[at[0]:at[1]], 1+strings.Count(string(content[:at[0]]), "\n")
		for _, b := range p.of {
			if word(b[0]).Match(found) {
				t.Errorf("%s:%d: %q; write %q", file, line, found, b[1])
			}
		}
	}
}

// TestWords checks comments, strings and pages for these phrases, as whole words.
func TestWords(t *testing.T) {
	everywhere, read := newPhrases(banned), newPhrases(unplain)
	sources(t, func(file string, content []byte) {
		text := slices.Contains([]string{".go", ".sql", ".md", ".txt", ".sh"}, path.Ext(file))
		if !text || file == "docs/benchmarks.md" || file == "ci/rules/words_test.go" {
			return
		}
		everywhere.report(t, file, bytes.ReplaceAll(content, []byte("getkin/kin-openapi"), nil)) // the name of a module
		if strings.HasSuffix(file, "_test.go") {
			return
		}
		read.report(t, file, content)
		for _, at := range vague.FindAllIndex(content, -1) {
			line := 1 + bytes.Count(content[:at[0]], []byte("\n"))
			t.Errorf("%s:%d: %q; name the thing", file, line, bytes.TrimSpace(content[at[0]:at[1]]))
		}
	})
}

package rules

import (
	"regexp"
	"strings"
	"testing"
)

var (
	// testName is the name of a test function, or of a law of the conformance suite.
	testName = regexp.MustCompile(`(?m)^func Test([A-Z]\w*)\(|\{Name: "([A-Z]\w*)",(?: \w+: \w+,)* run`)
	nameWord = regexp.MustCompile(`[A-Z]+(?:[a-z0-9]+|$)|[A-Z][a-z0-9]*`)
)

// unclear are words of names that leave open what is tested, each with what to write instead.
var unclear = map[string]string{
	"Asked": "Requested, Queried", "Asks": "Queries", "Everybody": "All", "Hears": "Is called, Receives",
	"Knows": "the result that shows it", "Nobody": "No, None", "Ours": "the owner", "Said": "Reported, Printed",
	"Says": "Reports, Names", "Tells": "Reports, Names", "Told": "Notified, Known",
}

// TestNamesOfTests checks that the names of tests and laws state what is tested, in the words of the glossary.
func TestNamesOfTests(t *testing.T) {
	sources(t, func(file string, content []byte) {
		if !strings.HasSuffix(file, "_test.go") && !strings.HasPrefix(file, "conformance/cases/") {
			return
		}
		for _, m := range testName.FindAllSubmatch(content, -1) {
			name := string(m[1]) + string(m[2])
			for _, word := range nameWord.FindAllString(name, -1) {
				if instead, ok := unclear[word]; ok {
					t.Errorf("%s: %s: %q is unclear; write %s", file, name, word, instead)
				}
			}
		}
	})
}

package rules

import (
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/internal/check"
)

// named matches groups of laws, and perhaps one law, in a -run pattern: after a strategy, or in a variable of .ci/run.
var named = regexp.MustCompile(
	`(?:/(?:skip-locked|advisory|cas|\.\*)/|groups=")\^?\(?([A-Z][A-Za-z|]*)\)?(?:/([A-Z]\w+))?`)

// TestNamedLawsExist checks the groups and laws that scripts and pages pass to go test, which passes when a pattern
// matches nothing.
func TestNamedLawsExist(t *testing.T) {
	page, err := os.ReadFile(path.Join(repository, "docs/conformance.md"))
	check.OK(t, err)
	found := 0
	sources(t, func(file string, content []byte) {
		script := slices.Contains([]string{".sh", ".yml", ".md"}, path.Ext(file)) || file == ".ci/run"
		if !script {
			return
		}
		for _, m := range named.FindAllStringSubmatch(string(content), -1) {
			for group := range strings.SplitSeq(m[1], "|") {
				found++
				if !strings.Contains(string(page), "\n| "+group+" | ") {
					t.Errorf("%s: %q names the group %s, which docs/conformance.md does not list", file, m[0], group)
				}
			}
			if m[2] != "" && !regexp.MustCompile(`[ ,]`+m[2]+`\*?[ ,]`).Match(page) {
				t.Errorf("%s: %q names the law %s, which docs/conformance.md does not list", file, m[0], m[2])
			}
		}
	})
	if found < 10 {
		t.Errorf("found %d names; has the form of the scripts changed?", found)
	}
}

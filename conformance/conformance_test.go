package conformance_test

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/conformance"
	_ "github.com/dbq-go/dbq/dialect/sqlite"
)

func TestMain(m *testing.M) {
	conformance.Child()
	_ = flag.Set("test.parallel", "6") // the default of go test -parallel: cases mostly wait
	os.Exit(m.Run())
}

func sqliteDSN(dir string) string { return "sqlite:" + filepath.Join(dir, "queue.db") }

// TestCaseNames keeps the names fit for reports and for go test -run: each once, without blanks, in one run of each
// group.
func TestCaseNames(t *testing.T) {
	seen := map[string]bool{}
	var groups []string
	for _, c := range conformance.Cases() {
		name := c.FullName()
		if seen[name] {
			t.Errorf("%s is there twice", name)
		}
		seen[name] = true
		if c.Group == "" || c.Name == "" || strings.ContainsAny(name, " \t#") {
			t.Errorf("%q is not a name for a case", name)
		}
		if !strings.HasSuffix(c.Law, ".") || strings.ContainsAny(c.Law, "\n") {
			t.Errorf("the law of %s is not a sentence: %q", name, c.Law)
		}
		if len(groups) == 0 || groups[len(groups)-1] != c.Group {
			groups = append(groups, c.Group)
		}
	}
	if unique := slices.Compact(slices.Sorted(slices.Values(groups))); len(unique) != len(groups) {
		t.Errorf("a group's cases do not stand together: %v", groups)
	}
}

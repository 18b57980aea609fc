package dialecttest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/check"
)

// A misspelled name would become visible when the statement is first run, which may be long after the client opened.
func TestPrivateStatementsAreRunByTheirNames(t *testing.T) {
	onEachEngine(t, func(t *testing.T, e engine) {
		literals := literalsOf(t, "../../"+e.dialect.Name(), "../../kit/batch")
		for name := range e.dialect.Statements(dialect.Names{Prefix: "dbq_"}).Private {
			first, last, _ := strings.Cut(name, " ")
			if !literals[name] && !(literals[first+" "] && literals[last]) { // as in "take "+which
				t.Errorf("no code runs the statement %q", name)
			}
		}
	})
}

// literalsOf are the texts in the code of some directories that may be names of statements.
func literalsOf(t *testing.T, directories ...string) map[string]bool {
	t.Helper()
	literal, out := regexp.MustCompile(`"([a-z_ ]+)"`), map[string]bool{}
	for _, directory := range directories {
		files, err := filepath.Glob(directory + "/*.go")
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", directory, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			code, err := os.ReadFile(file)
			check.OK(t, err)
			for _, m := range literal.FindAllStringSubmatch(string(code), -1) {
				out[m[1]] = true
			}
		}
	}
	return out
}

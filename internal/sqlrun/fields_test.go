package sqlrun

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/internal/check"
)

// The comments of the statements whose columns are in no tag list them.
func TestCommentsListColumns(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("../../dialect/statements.go")
	check.OK(t, err)
	listed := regexp.MustCompile(`(?s)// Columns: ([^.]*)\.\n\t(\w+) Batch`)
	found := listed.FindAllStringSubmatch(string(source), -1)
	for _, m := range found {
		got := strings.Fields(strings.NewReplacer("//", "", ",", "").Replace(m[1]))
		want := slices.Sorted(slices.Values(FieldOf(m[2]).Columns))
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("the comment of %s lists the columns %q, want %q", m[2], got, want)
		}
	}
	if len(found) != 2 {
		t.Errorf("%d comments list columns, want those of Insert and AddStatistics", len(found))
	}
}

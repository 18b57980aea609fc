package sqlrun

import (
	"fmt"
	"regexp"
	"strings"
)

// UnionText returns one query that runs the query text n times and adds to each row, as part, which time it is from.
// Each time has values of its own for the given names: those of :name are :name_0, :name_1 and so on. Rows are in no
// order.
//
// It copies the text, so each part has the plan that it has alone. An engine plans a join with a list of values in its
// own way, and not every engine has lateral joins.
func UnionText(text string, n int, names ...string) string {
	own := regexp.MustCompile(`(^|[^:]):(` + strings.Join(names, "|") + `)\b`)
	text = withoutComment(text)
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteString("\nUNION ALL\n")
		}
		fmt.Fprintf(&b, "SELECT %d AS part, x.* FROM (%s) x", i, own.ReplaceAllString(text, fmt.Sprintf("${1}:${2}_%d", i)))
	}
	return b.String()
}

// PartName returns the name in UnionText that :name has in a part.
func PartName(name string, part int) string { return fmt.Sprintf("%s_%d", name, part) }

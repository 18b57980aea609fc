package main

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/conformance"
	"github.com/dbq-go/dbq/internal/check"
)

// TestReportsAreOfThisSuite: no published count is of a group that the suite does not have any more, or of more laws
// than it has; all are of the same suite; and README.md has their date.
func TestReportsAreOfThisSuite(t *testing.T) {
	t.Parallel()
	all, err := readCounts("../../" + reportsFile)
	check.OK(t, err)
	readme, err := os.ReadFile("../../README.md")
	check.OK(t, err)
	laws := map[string]int{}
	for _, law := range conformance.Cases() {
		laws[law.Group]++
	}
	ran := func(v tested) (n int) {
		for column := colPassed; column <= colSkipped; column++ {
			n += all.sum(column, func(line []string) bool {
				return line[colProduct] == v.product && line[colVersion] == v.version && line[colStrategy] == v.strategy
			})
		}
		return n
	}
	versions := all.tested()
	for _, v := range versions {
		if date := "ran on " + v.date; !strings.Contains(string(readme), date) {
			t.Errorf("%s %s: README.md does not say that the suite %s", v.product, v.version, date)
		}
		if got, want := ran(v), ran(versions[0]); got != want {
			t.Errorf("the report on %s %s has %d laws, that on %s %d: renew the older one", v.product, v.version, got,
				versions[0].product, want)
		}
	}
	for _, line := range all {
		n := 0
		for _, text := range line[colPassed:] {
			k, err := strconv.Atoi(text)
			check.OK(t, err)
			n += k
		}
		if n > laws[line[colGroup]] {
			t.Errorf("%v: the suite has %d laws in this group: renew the report (ci/README.md)", line, laws[line[colGroup]])
		}
	}
}

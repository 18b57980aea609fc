package console

import (
	_ "embed"
	"encoding/csv"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/dbq-go/dbq"
)

// reportsCSV has the counts of the last reports of the conformance suite (ci/README.md).
//
//go:embed reports.csv
var reportsCSV string

// report is the result of the last run of the conformance suite on one version of a product.
type report struct {
	Product, Version, Date string
	Groups                 []reportGroup
}

// reportGroup counts the laws of a group under one strategy.
type reportGroup struct {
	Strategy, Name          string
	Passed, Failed, Skipped int
}

var reports = readReports(reportsCSV)

func readReports(text string) (out []report) {
	lines, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		panic(err) // the file is part of the program
	}
	count := func(text string) int {
		n, err := strconv.Atoi(text)
		if err != nil {
			panic(err)
		}
		return n
	}
	for _, line := range lines[1:] {
		last := len(out) - 1
		if last < 0 || out[last].Product != line[0] || out[last].Version != line[1] {
			out, last = append(out, report{Product: line[0], Version: line[1], Date: line[2]}), last+1
		}
		out[last].Groups = append(out[last].Groups,
			reportGroup{line[3], line[4], count(line[5]), count(line[6]), count(line[7])})
	}
	return out
}

// nearest returns the report of the version of a product that is nearest to a server's, by the first numbers of both.
func nearest(all []report, product, version string) (best report, found bool) {
	same := -1
	for _, r := range all {
		if r.Product != product {
			continue
		}
		// Reports are ordered by version: of equally near ones, the last is the newest.
		if n := sameNumbers(r.Version, version); n >= same {
			best, same, found = r, n, true
		}
	}
	return best, found
}

// sameNumbers counts the numbers with which two versions begin alike.
func sameNumbers(a, b string) (n int) {
	notDigit := func(r rune) bool { return r < '0' || r > '9' }
	x, y := strings.FieldsFunc(a, notDigit), strings.FieldsFunc(b, notDigit)
	for n < min(len(x), len(y)) && x[n] == y[n] {
		n++
	}
	return n
}

// of keeps the counts under a strategy, and under the first one of the report: laws that do not depend on the strategy
// ran only under that one.
func (r report) of(strategy string) (out report) {
	out = r
	out.Groups = slices.DeleteFunc(slices.Clone(r.Groups), func(g reportGroup) bool {
		return g.Strategy != strategy && g.Strategy != r.Groups[0].Strategy
	})
	return out
}

// Total sums the groups.
func (r report) Total() (sum reportGroup) {
	for _, g := range r.Groups {
		sum.Passed, sum.Failed, sum.Skipped = sum.Passed+g.Passed, sum.Failed+g.Failed, sum.Skipped+g.Skipped
	}
	return sum
}

// serverPage shows the known facts about the database's server, and the results of the conformance suite for its
// product.
func (c *Console) serverPage(v *visit) error {
	info := v.db.client.Info()
	r, found := nearest(reports, info.Server.Product, info.Server.Version)
	if found {
		r = r.of(string(info.Strategy))
	}
	v.show(http.StatusOK, "server", "Server of "+v.db.name, struct {
		Info   dbq.Info
		Report report
		Found  bool
		Exact  bool // the report is of this version
		Run    bool // the suite ran under this strategy
	}{info, r, found, r.Version == info.Server.Version, slices.ContainsFunc(r.Groups, func(g reportGroup) bool {
		return g.Strategy == string(info.Strategy)
	})})
	return nil
}

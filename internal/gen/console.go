package main

import (
	"encoding/csv"
	"strconv"
	"strings"

	"github.com/dbq-go/dbq/conformance"
)

// consoleReports returns what the console shows of the reports, as console/reports.csv: for each group of laws and each
// strategy, how many passed, failed and were skipped. Package console cannot import package conformance, which would
// link the suite into applications.
func consoleReports(reports []report) (string, error) {
	lines := [][]string{{"product", "version", "date", "strategy", "group", "passed", "failed", "skipped"}}
	for _, r := range reports {
		type part struct{ strategy, group string }
		var order []part
		counts := map[part]map[conformance.Status]int{}
		for _, result := range r.Results {
			p := part{string(result.Strategy), result.Case.Group}
			if counts[p] == nil {
				order, counts[p] = append(order, p), map[conformance.Status]int{}
			}
			counts[p][result.Status()]++
		}
		for _, p := range order {
			line := []string{r.Product, r.Version, r.Started.Format("2006-01-02"), p.strategy, p.group}
			for _, s := range []conformance.Status{conformance.Passed, conformance.Failed, conformance.Skipped} {
				line = append(line, strconv.Itoa(counts[p][s]))
			}
			lines = append(lines, line)
		}
	}
	var out strings.Builder
	w := csv.NewWriter(&out)
	err := w.WriteAll(lines)
	return out.String(), err
}

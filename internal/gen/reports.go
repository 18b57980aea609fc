package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/dbq-go/dbq/conformance"
	"github.com/dbq-go/dbq/dialect"
)

// withoutReport lists products that have a dialect but no report yet.
var withoutReport = []string{"Oracle"}

// strategies lists the columns of the table.
var strategies = []dialect.Strategy{dialect.SkipLocked, dialect.Advisory, dialect.CAS}

// A report is a file of docs/reports.
type report struct {
	name string // of the file, without its ending
	conformance.Report
}

// readReports reads the reports in a directory and sorts them as the table shows them.
func readReports(dir string) ([]report, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	var out []report
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		rep, err := conformance.ReadReport(bytes.NewReader(text))
		base := strings.TrimSuffix(path, ".json")
		if err == nil && rep.Match != "" {
			err = fmt.Errorf("covers only the cases that match %q; run the whole suite", rep.Match)
		}
		if err == nil {
			_, err = os.Stat(base + ".md") // dbq conform writes both
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		out = append(out, report{filepath.Base(base), rep})
	}
	slices.SortFunc(out, func(a, b report) int {
		return cmp.Or(cmp.Compare(a.Product, b.Product),
			slices.Compare(numbers(a.Version), numbers(b.Version)), cmp.Compare(a.name, b.name))
	})
	return out, nil
}

// numbers returns the numbers in a version, so that 9.7 sorts before 10.11.
func numbers(version string) (out []int) {
	for part := range strings.FieldsFuncSeq(version, func(r rune) bool { return r < '0' || r > '9' }) {
		if n, err := strconv.Atoi(part); err == nil {
			out = append(out, n)
		}
	}
	return out
}

// addedSince returns the names of the suite's cases that the report does not have, because they are newer.
func (r report) addedSince() (names []string) {
	ran := map[string]bool{}
	for _, result := range r.Results {
		ran[result.Case.FullName()] = true
	}
	for _, c := range conformance.Cases() {
		if name := c.FullName(); !ran[name] {
			names = append(names, name)
		}
	}
	return names
}

// reportTable returns the table of reports for docs/engines.md. Its links are relative to docs.
func reportTable(reports []report) string {
	var b strings.Builder
	b.WriteString("| engine | version |")
	for _, s := range strategies {
		fmt.Fprintf(&b, " `%s` |", s)
	}
	b.WriteString(" skipped | added since | report |\n|---|---|" +
		strings.Repeat("---|", len(strategies)) + "---|---|---|\n")
	seen := map[string]bool{}
	for _, r := range reports {
		seen[r.Product] = true
		fmt.Fprintf(&b, "| %s | %s |", r.Product, r.Version)
		for _, s := range strategies {
			fmt.Fprintf(&b, " %s |", sum(r.Report, s))
		}
		fmt.Fprintf(&b, " %d | %d | [%s](reports/%s.md) |\n",
			r.Count(conformance.Skipped), len(r.addedSince()), r.Started.Format("2006-01-02"), r.name)
	}
	for _, product := range withoutReport {
		if !seen[product] {
			fmt.Fprintf(&b, "| %s | not yet run against a server |%s |  |  |\n", product, strings.Repeat("  |", len(strategies)))
		}
	}
	return b.String()
}

// sum counts the cases that passed and failed under one strategy.
func sum(r conformance.Report, s dialect.Strategy) string {
	if !slices.Contains(r.Strategies, s) {
		return "–"
	}
	part := r.Of(s)
	text := fmt.Sprintf("%d passed", part.Count(conformance.Passed))
	if failed := part.Count(conformance.Failed); failed > 0 {
		text += fmt.Sprintf(", **%d failed**", failed)
	}
	return text
}

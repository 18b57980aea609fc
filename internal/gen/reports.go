package main

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/dbq-go/dbq/conformance"
)

// reportsFile has the counts of the last report on each version of a product: a line for each strategy and group of
// laws. It is in package console, which shows them, and which cannot import package conformance: that would link the
// suite into applications.
const reportsFile = "console/reports.csv"

// counts are the lines of reportsFile, by product and version. The first strategy of a version is its default, under
// which laws that do not depend on the strategy were run.
type counts [][]string

// The columns of a line.
const (
	colProduct = iota
	colVersion
	colDate
	colStrategy
	colGroup
	colPassed
	colFailed
	colSkipped
)

func readCounts(path string) (counts, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	lines, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil || len(lines) == 0 || len(lines[0]) <= colSkipped {
		return nil, fmt.Errorf("%s has no counts (%v)", path, err)
	}
	return lines[1:], nil
}

func (c counts) write(path string) error {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	head := []string{"product", "version", "date", "strategy", "group", "passed", "failed", "skipped"}
	if err := w.WriteAll(append([][]string{head}, c...)); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}

// addReports adds the counts of reports, which are files of JSON.
func addReports(path string, reports []string) error {
	if len(reports) == 0 {
		return nil
	}
	all, err := readCounts(path)
	if err != nil {
		return err
	}
	for _, name := range reports {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		r, err := conformance.ReadReport(bytes.NewReader(text))
		if err == nil {
			all, err = all.with(r)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return all.write(path)
}

// with adds the counts of a report, which replace earlier counts of the same product and major version.
func (c counts) with(r conformance.Report) (counts, error) {
	if r.Match != "" {
		return nil, fmt.Errorf("the report covers only the cases that match %q; run the whole suite", r.Match)
	}
	out := slices.DeleteFunc(slices.Clone(c), func(line []string) bool {
		return line[colProduct] == r.Product && numbers(line[colVersion])[0] == numbers(r.Version)[0]
	})
	for _, s := range r.Strategies {
		var groups []string
		by := map[string]map[conformance.Status]int{}
		for _, result := range r.Of(s).Results {
			g := result.Case.Group
			if by[g] == nil {
				groups, by[g] = append(groups, g), map[conformance.Status]int{}
			}
			by[g][result.Status()]++
		}
		for _, g := range groups {
			line := []string{r.Product, r.Version, r.Started.Format("2006-01-02"), string(s), g}
			for _, status := range []conformance.Status{conformance.Passed, conformance.Failed, conformance.Skipped} {
				line = append(line, strconv.Itoa(by[g][status]))
			}
			out = append(out, line)
		}
	}
	slices.SortStableFunc(out, func(a, b []string) int {
		return cmp.Or(cmp.Compare(a[colProduct], b[colProduct]),
			slices.Compare(numbers(a[colVersion]), numbers(b[colVersion])))
	})
	return out, nil
}

// numbers returns the numbers in a version, so that 9.7 sorts before 10.11. There is at least one.
func numbers(version string) (out []int) {
	for part := range strings.FieldsFuncSeq(version, func(r rune) bool { return r < '0' || r > '9' }) {
		if n, err := strconv.Atoi(part); err == nil {
			out = append(out, n)
		}
	}
	return append(out, 0)
}

// sum adds the numbers of the lines that fit.
func (c counts) sum(column int, fits func(line []string) bool) (n int) {
	for _, line := range c {
		if k, err := strconv.Atoi(line[column]); err == nil && fits(line) {
			n += k
		}
	}
	return n
}

// tested is a version of a product in a table of counts.
type tested struct{ product, version, date, strategy string }

// tested returns the versions with their default strategies.
func (c counts) tested() (out []tested) {
	for _, line := range c {
		t := tested{line[colProduct], line[colVersion], line[colDate], line[colStrategy]}
		if len(out) == 0 || out[len(out)-1].product != t.product || out[len(out)-1].version != t.version {
			out = append(out, t)
		}
	}
	return out
}

// table returns the table of docs/engines.md: how many laws of each group passed on each version.
func (c counts) table() string {
	versions := c.tested()
	var b strings.Builder
	row := func(title, laws string, cell func(t tested) string) {
		fmt.Fprintf(&b, "| %s | %s |", title, laws)
		for _, t := range versions {
			fmt.Fprintf(&b, " %s |", cell(t))
		}
		b.WriteString("\n")
	}
	leading := regexp.MustCompile(`^[\d.]*\d`)
	row("group", "laws today", func(t tested) string { return t.product + " " + leading.FindString(t.version) })
	b.WriteString("|---|--:|" + strings.Repeat("--:|", len(versions)) + "\n")
	row("date of the run", "", func(t tested) string { return t.date })
	// passed counts the lines of a version under a strategy, of one group or all.
	passed := func(t tested, strategy, group string) string {
		fits := func(line []string) bool {
			return line[colProduct] == t.product && line[colVersion] == t.version && line[colStrategy] == strategy &&
				(group == "" || line[colGroup] == group)
		}
		if !slices.ContainsFunc(c, fits) {
			return "–"
		}
		text := strconv.Itoa(c.sum(colPassed, fits))
		if n := c.sum(colSkipped, fits); n > 0 {
			text += fmt.Sprintf(", %d skipped", n)
		}
		if n := c.sum(colFailed, fits); n > 0 {
			text += fmt.Sprintf(", **%d failed**", n)
		}
		return text
	}
	var groups []string
	laws := map[string]int{}
	for _, law := range conformance.Cases() {
		if laws[law.Group]++; laws[law.Group] == 1 {
			groups = append(groups, law.Group)
		}
	}
	for _, g := range groups {
		row(g, strconv.Itoa(laws[g]), func(t tested) string { return passed(t, t.strategy, g) })
	}
	row("**all**", strconv.Itoa(len(conformance.Cases())), func(t tested) string { return passed(t, t.strategy, "") })
	for _, s := range []string{"advisory", "cas"} {
		row("again under `"+s+"`", "", func(t tested) string {
			if t.strategy == s {
				return "–"
			}
			return passed(t, s, "")
		})
	}
	return b.String()
}

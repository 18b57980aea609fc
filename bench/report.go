package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A result is one line of the report.
type result struct {
	Group     string  `json:"group"`
	Figure    figure  `json:"figure"`
	Unit      string  `json:"unit"`
	Contender string  `json:"contender"`
	Role      role    `json:"role"`
	Tasks     int     `json:"tasks"`
	Median    float64 `json:"median"`
	Min       float64 `json:"min"`
	Max       float64 `json:"max"`
	// PerPeer and PerFloor are the median divided by that of the best peer and of the floor, PerBase by that of the
	// figure's first line. 0 means none.
	PerPeer  float64 `json:"per_best_peer,omitempty"`
	PerFloor float64 `json:"per_floor,omitempty"`
	PerBase  float64 `json:"per_base,omitempty"`
	// Statements is how many statements one call runs.
	Statements float64 `json:"statements,omitempty"`
}

// part is one part of the figures, and what it was measured on.
type part struct {
	Name    string   `json:"name"`
	When    string   `json:"when"`
	Took    string   `json:"took"`
	Command string   `json:"command"`
	Machine string   `json:"machine"`
	Engines []string `json:"engines"`
	Skipped []string `json:"skipped,omitempty"`
	Rounds  int      `json:"rounds"`
	Results []result `json:"results"`
}

type report struct {
	Parts []part `json:"parts"`
}

const savedName = "benchmarks.json"

// save replaces a part in a directory's saved results, and renders the page.
func save(directory string, p part) error {
	r, err := saved(directory)
	if err != nil {
		return err
	}
	r.Parts = append(slices.DeleteFunc(r.Parts, func(old part) bool { return old.Name == p.Name }), p)
	slices.SortFunc(r.Parts, func(a, b part) int {
		return slices.Index(allParts, a.Name) - slices.Index(allParts, b.Name)
	})
	var b strings.Builder
	if err := r.writeJSON(&b); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(directory, savedName), []byte(b.String()), 0o644); err != nil {
		return err
	}
	return render(directory)
}

// saved returns a directory's saved results; none is not an error.
func saved(directory string) (r report, err error) {
	text, err := os.ReadFile(filepath.Join(directory, savedName))
	if os.IsNotExist(err) {
		return r, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	return r, err
}

// figures returns all figures in the order of the report.
func figures() []figure {
	all := []figure{bulk}
	for _, n := range producerCounts {
		all = append(all, singleFigure(n))
	}
	all = append(all, drain, drainDelete, meanwhile, clientCPU)
	for _, n := range processCounts {
		all = append(all, processFigure(n))
	}
	all = append(all, statements, written, emptyCheckouts, conflicts,
		pickupP50, pickupP95, pickupP99, loadedP50, loadedP95, loadedP99, calledP50, calledP95, calledP99)
	for _, n := range []int{1, 4, 16} {
		all = append(all, costFigure(n))
	}
	return append(all, grownDrain, heldDrain, scheduleRest, scheduleFires, sharedFires, scheduleDelay, limitedDrain,
		httpEnqueue1, httpDrain1, httpEnqueue100, httpDrain100, consoleCold, consoleWarm, consoleSample, consoleStart)
}

// results returns the results by group, figure and contender.
func results(entries []*entry, s samples) []result {
	var all []result
	for _, group := range groupsOf(entries) {
		for _, f := range figures() {
			rows := rowsOf(entries, s, group, f)
			best, low := bestOf(rows, peer), bestOf(rows, floor)
			if f == drainDelete { // a peer that keeps what is completed is one to compare with, too
				best = max(best, bestOf(rowsOf(entries, s, group, drain), peer))
			}
			for _, r := range rows {
				if best > 0 && r.Role != floor {
					r.PerPeer = r.Median / best
				}
				if low > 0 {
					r.PerFloor = r.Median / low
				}
				all = append(all, r)
			}
		}
	}
	return all
}

func groupsOf(entries []*entry) []string {
	var groups []string
	for _, e := range entries {
		if !slices.Contains(groups, e.group) {
			groups = append(groups, e.group)
		}
	}
	return groups
}

func rowsOf(entries []*entry, s samples, group string, f figure) []result {
	var rows []result
	for _, e := range entries {
		if e.group != group || s[e] == nil || s[e][f] == nil {
			continue
		}
		values := slices.Sorted(slices.Values(s[e][f].values))
		name := e.name
		if e.deletes && f != drainDelete && f != bulk && !strings.HasPrefix(string(f), "single") {
			name += deleting
		}
		rows = append(rows, result{
			Group: group, Figure: f, Unit: f.unit(), Contender: name, Role: e.role, Tasks: s[e][f].tasks,
			Median: median(values), Min: values[0], Max: values[len(values)-1],
		})
	}
	return rows
}

func median(sorted []float64) float64 {
	mid := len(sorted) / 2
	if len(sorted)%2 == 0 {
		return (sorted[mid-1] + sorted[mid]) / 2
	}
	return sorted[mid]
}

// bestOf returns the best median of a role, or 0 if there is none.
func bestOf(rows []result, r role) float64 {
	best := 0.0
	for _, row := range rows {
		if row.Role == r && (best == 0 || row.Figure.moreIsBetter() == (row.Median > best)) {
			best = row.Median
		}
	}
	return best
}

func (r *report) writeJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// writeText writes the report for a terminal.
func (r *report) writeText(w io.Writer) error {
	var b strings.Builder
	for _, p := range r.Parts {
		fmt.Fprintf(&b, "\n%s: %s, %s, %d rounds in %s\n%s\n",
			p.Name, p.Command, p.Machine, p.Rounds, p.Took, strings.Join(p.Engines, "\n"))
		last := ""
		for _, row := range p.Results {
			if title := row.Group + ": " + string(row.Figure); title != last {
				last = title
				fmt.Fprintf(&b, "\n%-72s %12s  %20s  %6s  %7s\n", title, row.Unit, "min - max", "x peer", "x floor")
			}
			fmt.Fprintf(&b, "  %-70s %12s  %20s  %6s  %7s\n",
				row.Contender, amount(row.Median), amount(row.Min)+" - "+amount(row.Max),
				ratio(row.PerPeer), ratio(max(row.PerFloor, row.PerBase)))
		}
	}
	fmt.Fprint(&b, "\ngoals\n")
	for _, g := range r.goals() {
		fmt.Fprintf(&b, "  %-11s  %s: %s, %s wanted\n", g.verdict(), g.text, g.gotText(), g.wantText())
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// amount formats a number, with more decimals the smaller it is.
func amount(x float64) string {
	switch {
	case x >= 100 || x == 0:
		return fmt.Sprintf("%.0f", x)
	case x >= 1:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.3f", x)
}

func ratio(x float64) string {
	if x == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", x)
}

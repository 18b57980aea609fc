package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// A result is one line of the report.
type result struct {
	Group     string  `json:"group"`
	Figure    figure  `json:"figure"`
	Contender string  `json:"contender"`
	Role      role    `json:"role"`
	Tasks     int     `json:"tasks"`
	Median    float64 `json:"median_per_second"`
	Min       float64 `json:"min_per_second"`
	Max       float64 `json:"max_per_second"`
	// PerPeer and PerFloor are the median divided by that of the fastest peer, and of the floor; 0 when there is none.
	PerPeer  float64 `json:"per_best_peer,omitempty"`
	PerFloor float64 `json:"per_floor,omitempty"`
}

// report is a run and what it ran on.
type report struct {
	When    string   `json:"when"`
	Command string   `json:"command"`
	Machine string   `json:"machine"`
	Engines []string `json:"engines"`
	Rounds  int      `json:"rounds"`
	Results []result `json:"results"`
}

// results are in the order of groups, figures and contenders.
func results(entries []*entry, s samples, n int) []result {
	var all []result
	for _, group := range groupsOf(entries) {
		for _, f := range figures {
			rows := rowsOf(entries, s, n, group, f)
			best, low := bestOf(rows, peer), bestOf(rows, floor)
			if f == drainDelete && best == 0 { // no peer deletes: what they keep is what there is to compare with
				best = bestOf(rowsOf(entries, s, n, group, drain), peer)
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

func rowsOf(entries []*entry, s samples, n int, group string, f figure) []result {
	var rows []result
	for _, e := range entries {
		rates := slices.Sorted(slices.Values(s[e][f]))
		if e.group != group || len(rates) == 0 {
			continue
		}
		tasks := e.tasks(n)
		switch f {
		case single:
			tasks = max(tasks/singleShare, leastSingles)
		case singles:
			tasks = max(tasks/singleShare, leastSingles) * manyProducers
		}
		rows = append(rows, result{Group: group, Figure: f, Contender: e.name, Role: e.role, Tasks: tasks,
			Median: median(rates), Min: rates[0], Max: rates[len(rates)-1]})
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

func bestOf(rows []result, r role) float64 {
	best := 0.0
	for _, row := range rows {
		if row.Role == r {
			best = max(best, row.Median)
		}
	}
	return best
}

func (r *report) writeJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// writeText is for a terminal.
func (r *report) writeText(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%s\n%s\n", r.Machine, strings.Join(r.Engines, "\n"))
	last := ""
	for _, row := range r.Results {
		if title := row.Group + ": " + string(row.Figure); title != last && err == nil {
			last = title
			_, err = fmt.Fprintf(w, "\n%-50s %9s  %17s  %6s  %6s\n", title, "tasks/s", "min - max", "x peer", "x floor")
		}
		if err == nil {
			_, err = fmt.Fprintf(w, "  %-48s %9.0f  %8.0f -%7.0f  %6s  %6s\n", row.Contender, row.Median, row.Min, row.Max,
				ratio(row.PerPeer), ratio(row.PerFloor))
		}
	}
	return err
}

func ratio(x float64) string {
	if x == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", x)
}

const intro = `<!-- Written by: %s. Do not edit. -->
# Benchmarks

Measured in one run, on one machine that ran the client and the server, with the contenders taking turns in each of %d rounds. Figures are
tasks per second: the median, with the least and the most of the rounds. **x peer** is the median divided by that of the fastest peer, **x floor** by that of the floor.
Ratios carry over to other machines better than figures do. Every task has a payload of %d bytes of JSON, which every handler decodes and then
does nothing; every round checks that each task was handled and stored as completed exactly once.

- **dbq, loop** is Checkout of %d and Settle in %d goroutines; **dbq, worker** is package worker with %d handlers.
- **floor** is three set-based statements over dbq's own table and indexes: insert all, mark all, finish all. Nothing that handles tasks one
  by one can be faster. Its drain is the last two.
- **River** v0.51 runs with the settings of its own benchmark: 2,000 workers, a fetch each 2 ms, InsertManyFast (COPY) for bulk. It has no
  complete-and-delete, so that is compared with its drain.
- **backlite** v0.6 runs with %d workers on one connection, the best found, and with a tenth of the tasks: its claim sorts all that wait, so fewer
  are faster.

- %s
- %s
- %s, %d rounds
`

// writeMarkdown is docs/benchmarks.md.
func (r *report) writeMarkdown(w io.Writer) error {
	_, err := fmt.Fprintf(w, intro, r.Command, r.Rounds, payloadSize, loopBatch, loopGoroutines, handlers, backliteWorkers,
		r.Machine, strings.Join(r.Engines, "\n- "), r.When, r.Rounds)
	group, f := "", figure("")
	for _, row := range r.Results {
		if err != nil {
			return err
		}
		if row.Group != group {
			group, f = row.Group, ""
			_, err = fmt.Fprintf(w, "\n## %s\n", group)
		}
		if row.Figure != f && err == nil {
			f = row.Figure
			_, err = fmt.Fprintf(w, "\n| %s | tasks/s | min - max | x peer | x floor | tasks |\n|---|--:|--:|--:|--:|--:|\n", f)
		}
		if err == nil {
			_, err = fmt.Fprintf(w, "| %s | %.0f | %.0f - %.0f | %s | %s | %d |\n", row.Contender, row.Median, row.Min, row.Max,
				ratio(row.PerPeer), ratio(row.PerFloor), row.Tasks)
		}
	}
	return err
}

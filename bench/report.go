package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A result has the figures of one contender: of each, the median, the minimum and the maximum of the rounds.
type result struct {
	Group     string                `json:"group"`
	Contender string                `json:"contender"`
	Role      role                  `json:"role"`
	Figures   map[figure][3]float64 `json:"figures"`
}

// part is one part of the figures, and what it was measured on.
type part struct {
	Name    string   `json:"name"`
	When    string   `json:"when"`
	Command string   `json:"command"`
	Machine string   `json:"machine"`
	Engines []string `json:"engines"`
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
	order := func(p part) int { return slices.IndexFunc(parts, func(k partKind) bool { return k.name == p.Name }) }
	r.Parts = append(slices.DeleteFunc(r.Parts, func(old part) bool { return old.Name == p.Name }), p)
	slices.SortFunc(r.Parts, func(a, b part) int { return order(a) - order(b) })
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	text = linesOf(text, "name", "group")
	if err := os.WriteFile(filepath.Join(directory, savedName), text, 0o644); err != nil {
		return err
	}
	return render(directory)
}

// linesOf begins a new line of JSON with each object whose first field has one of these names.
func linesOf(text []byte, first ...string) []byte {
	out := string(text)
	for _, name := range first {
		out = strings.ReplaceAll(out, `{"`+name+`":`, "\n"+`{"`+name+`":`)
	}
	return []byte(out + "\n")
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

// results returns the figures of the contenders.
func (s samples) results(entries []*entry) []result {
	var all []result
	for _, e := range entries {
		r := result{e.group, e.name, e.role, map[figure][3]float64{}}
		for f, values := range s[e] {
			slices.Sort(values)
			r.Figures[f] = [3]float64{rounded(median(values)), rounded(values[0]), rounded(values[len(values)-1])}
		}
		if len(r.Figures) > 0 {
			all = append(all, r)
		}
	}
	return all
}

func median(sorted []float64) float64 {
	mid := len(sorted) / 2
	if len(sorted)%2 == 0 {
		return (sorted[mid-1] + sorted[mid]) / 2
	}
	return sorted[mid]
}

// rounded rounds to five digits.
func rounded(x float64) float64 {
	out, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 5, 64), 64)
	if err != nil {
		return x
	}
	return out
}

// amount formats a number, with more decimals the smaller it is.
func amount(x float64) string {
	switch {
	case x >= 100 || x == 0:
		return fmt.Sprintf("%.0f", x)
	case x >= 1:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.2f", x)
}

const intro = `<!-- Written by bench out of benchmarks.json. Do not edit. -->
# Benchmarks

[Performance](performance.md) explains these results. Each part was measured in one run, on one machine that ran both
the clients and the servers. The contenders took turns in each round. A figure is the median of the rounds, with their
minimum and maximum in parentheses. Ratios carry over to other machines better than figures do.

Every task has a payload of %d bytes of JSON, which its handler decodes; handlers do nothing else. Every run checks that
each task was handled and completed exactly once.

- **dbq, loop** is Checkout of %d and Settle in %d goroutines. **dbq, worker** is package worker with %d handlers; it
  records each attempt unless the name says otherwise. Without the name of a strategy, it is the engine's default.
  **Deleting** contenders remove what is completed, the others keep it.
- **floor** is three set-based statements over dbq's own table and indexes: insert all, mark all, finish all. Nothing
  that handles tasks one by one can be faster. Its drain is the last two statements.
- **River** v0.51 runs with the settings of its own benchmark: 2,000 workers, a fetch every 2 ms, InsertManyFast (COPY)
  for bulk. It is not measured on SQLite.
- **backlite** v0.6 runs with %d workers on one connection, the best setting found. It gets a tenth of the tasks: its
  claim sorts all waiting tasks, so fewer are faster.
- **goqite's technique** is one UPDATE … RETURNING and one DELETE for each message. **Solid Queue's technique** is its
  tables and statements with claims of %d in %d loops. Both are plain loops in Go, with a fifth of the tasks.

## Goals

| | measured | goal | |
|---|--:|--:|---|
`

// plotName is the plot that the page shows, of all drains.
const plotName = "benchmarks.svg"

// render writes the page of a directory and its plot from the results saved there.
func render(directory string) error {
	r, err := saved(directory)
	if err != nil {
		return err
	}
	if len(r.Parts) == 0 {
		return fmt.Errorf("%s holds nothing: measure with -save first", filepath.Join(directory, savedName))
	}
	var b strings.Builder
	fmt.Fprintf(&b, intro, payloadSize, ourBatch, loopGoroutines, handlers, backliteWorkers, solidClaim, solidThreads)
	for _, g := range r.goals() {
		b.WriteString(g.line())
	}
	listed := map[string]bool{}
	for _, p := range r.Parts {
		b.WriteString(p.page(listed))
		if p.Name == partThroughput {
			fmt.Fprintf(&b, "\n![%s](%s)\n", drain, plotName)
			if err := os.WriteFile(filepath.Join(directory, plotName), []byte(chart(p.Results, drain)), 0o644); err != nil {
				return err
			}
		}
	}
	return os.WriteFile(filepath.Join(directory, "benchmarks.md"), []byte(b.String()), 0o644)
}

// page returns a part as Markdown: what it was measured on, and its tables. It leaves out settings of an engine that an
// earlier part has listed.
func (p part) page(listed map[string]bool) string {
	var b strings.Builder
	for _, k := range parts {
		if k.name == p.Name {
			fmt.Fprintf(&b, "\n## %s\n\n", k.title)
			if k.note != "" {
				fmt.Fprintf(&b, "%s\n\n", k.note)
			}
		}
	}
	fmt.Fprintf(&b, "`%s`, %s, %s\n", p.Command, p.When, p.Machine)
	separator := "\n"
	for _, line := range p.Engines {
		if !listed[line] {
			fmt.Fprintf(&b, "%s- %s\n", separator, line)
			listed[line], separator = true, ""
		}
	}
	var shown []figure
	for _, f := range figures {
		if slices.ContainsFunc(p.Results, func(r result) bool { return r.Figures[f] != [3]float64{} }) {
			shown = append(shown, f)
		}
	}
	groups, contenders := distinct(p.Results, func(r result) string { return r.Group }),
		distinct(p.Results, func(r result) string { return r.Contender })
	if len(contenders) <= len(shown) {
		b.WriteString("\n| engine | contender |")
		for _, f := range shown {
			fmt.Fprintf(&b, " %s, %s |", f, f.unit())
		}
		b.WriteString("\n|---|---|" + strings.Repeat("--:|", len(shown)) + "\n")
		for _, r := range p.Results {
			fmt.Fprintf(&b, "| %s | %s |", r.Group, r.Contender)
			for _, f := range shown {
				fmt.Fprintf(&b, " %s |", r.cell(f))
			}
			b.WriteString("\n")
		}
		return b.String()
	}
	for _, f := range shown {
		fmt.Fprintf(&b, "\n| %s, %s | %s |\n|---|%s\n", f, f.unit(), strings.Join(groups, " | "),
			strings.Repeat("--:|", len(groups)))
		for _, contender := range contenders {
			row, measured := "| "+contender+" |", false
			for _, group := range groups {
				cell := ""
				for _, r := range p.Results {
					if r.Group == group && r.Contender == contender {
						cell = r.cell(f)
					}
				}
				row, measured = row+" "+cell+" |", measured || cell != ""
			}
			if measured {
				b.WriteString(row + "\n")
			}
		}
	}
	return b.String()
}

// distinct returns the values of a field, in the order in which they first appear.
func distinct(results []result, field func(result) string) (all []string) {
	for _, r := range results {
		if v := field(r); !slices.Contains(all, v) {
			all = append(all, v)
		}
	}
	return all
}

// cell formats a figure, with its range if the rounds differ. It is empty if the figure was not measured.
func (r result) cell(f figure) string {
	v, ok := r.Figures[f]
	switch {
	case !ok:
		return ""
	case v[1] == v[2]:
		return amount(v[0])
	}
	return fmt.Sprintf("%s (%s–%s)", amount(v[0]), amount(v[1]), amount(v[2]))
}

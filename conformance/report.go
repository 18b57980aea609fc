package conformance

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dbq-go/dbq/dialect"
)

// A Report is the result of Check. WriteText and WriteJUnit format it; WriteJSON writes all of it, for ReadReport.
type Report struct {
	Product    string
	Version    string // of the server
	Pooler     string // in front of the server, sharing its sessions; "" if there is none
	Dialect    string // the dialect's name
	DBQ        string // dbq's version, "devel" in a build that has none
	Strategies []dialect.Strategy
	Started    time.Time
	Duration   time.Duration // of the whole run, in which several cases ran at once
	Seed       uint64
	Load       int
	Match      string // if not "", only matching cases were run
	Results    []Result
	// Leftovers names the tables that could not be removed. Drop them by hand.
	Leftovers []string
}

// A Result is the result of one case under one strategy.
type Result struct {
	Case      Case
	Strategy  dialect.Strategy
	Failures  []string
	Skipped   string // why the law was not checked; "" if it was
	Conflicts int64  // conflicts that its clients retried; see dbq.ClientStats
	Duration  time.Duration
}

// A Status is the status of a case.
type Status string

// The statuses of a case.
const (
	Passed  Status = "passed"
	Failed  Status = "failed"
	Skipped Status = "skipped"
)

// Status returns Failed if there are Failures, Skipped if the law was not checked, and Passed otherwise.
func (r Result) Status() Status {
	switch {
	case len(r.Failures) > 0:
		return Failed
	case r.Skipped != "":
		return Skipped
	}
	return Passed
}

// Passed reports whether the case was run and had no failures.
func (r Result) Passed() bool { return r.Status() == Passed }

// Name returns strategy/group/name, the same as the subtest of Run.
func (r Result) Name() string { return string(r.Strategy) + "/" + r.Case.FullName() }

// String returns the result in one line, for showing progress.
func (r Result) String() string {
	line := fmt.Sprintf("%-7s %s (%.2fs)", r.Status(), r.Name(), r.Duration.Seconds())
	if r.Status() == Skipped {
		line += ": " + r.Skipped
	}
	return line
}

// Server describes the tested server: the product, its version, and a pooler in front of it.
func (r Report) Server() string {
	if r.Pooler == "" {
		return r.Product + " " + r.Version
	}
	return r.Product + " " + r.Version + " behind " + r.Pooler
}

// Failed returns the results with failures.
func (r Report) Failed() []Result {
	var out []Result
	for _, res := range r.Results {
		if res.Status() == Failed {
			out = append(out, res)
		}
	}
	return out
}

// Count returns how many results have a status.
func (r Report) Count(s Status) (n int) {
	for _, res := range r.Results {
		if res.Status() == s {
			n++
		}
	}
	return n
}

// of returns a report with only the results that match.
func (r Report) of(fits func(Result) bool) (part Report) {
	for _, res := range r.Results {
		if fits(res) {
			part.Results = append(part.Results, res)
		}
	}
	return part
}

// Of returns the part of the report for one strategy. Cases that do not depend on the strategy were run only under
// the first one.
func (r Report) Of(s dialect.Strategy) Report {
	part := r
	part.Strategies = []dialect.Strategy{s}
	part.Results = r.of(func(res Result) bool { return res.Strategy == s }).Results
	return part
}

// Conflicts returns how many conflicts the cases retried. The number has no bearing on the promises.
func (r Report) Conflicts() (n int64) {
	for _, res := range r.Results {
		n += res.Conflicts
	}
	return n
}

// conflicts returns the number for each strategy, as text.
func (r Report) conflicts() string {
	var parts []string
	for _, s := range r.Strategies {
		parts = append(parts, fmt.Sprintf("%s %d", s, r.Of(s).Conflicts()))
	}
	return strings.Join(parts, ", ")
}

// WriteText writes the report for people: a table of the groups, the skipped cases with the reasons, and each broken
// law with the observation. Its last line is the verdict.
func (r Report) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, dialect %s, dbq %s\nstrategies %s, %s, seed %d, load %d\nconflicts retried: %s\n\n", r.Server(),
		r.Dialect, r.DBQ, join(r.Strategies, ", "), r.Started.Format("2006-01-02 15:04:05 UTC"), r.Seed, r.Load,
		r.conflicts())
	r.writeGroups(&b)
	r.writeSkipped(&b)
	for _, res := range r.Failed() {
		fmt.Fprintf(&b, "\nfailed  %s (%.2fs)\n  law   %s\n", res.Name(), res.Duration.Seconds(), res.Case.Law)
		for _, f := range res.Failures {
			fmt.Fprintf(&b, "  seen  %s\n", strings.ReplaceAll(f, "\n", "\n        "))
		}
	}
	for _, name := range r.Leftovers {
		fmt.Fprintf(&b, "\nleft behind, could not be removed: %s\n", name)
	}
	fmt.Fprintf(&b, "\n%s\n", r.Verdict())
	_, err := io.WriteString(w, b.String())
	return err
}

// writeSkipped writes each reason with the cases that were skipped for it, in the order of the results.
func (r Report) writeSkipped(w io.Writer) {
	var reasons []string
	cases := map[string][]string{}
	for _, res := range r.Results {
		if res.Status() != Skipped {
			continue
		}
		if cases[res.Skipped] == nil {
			reasons = append(reasons, res.Skipped)
		}
		cases[res.Skipped] = append(cases[res.Skipped], res.Name())
	}
	for _, why := range reasons {
		fmt.Fprintf(w, "\nskipped (%d): %s\n  %s\n", len(cases[why]), why, strings.Join(cases[why], "\n  "))
	}
}

// Verdict returns the report in one sentence.
func (r Report) Verdict() string {
	counts := fmt.Sprintf("%d passed, %d failed, %d skipped, in %v", r.Count(Passed), r.Count(Failed), r.Count(Skipped),
		r.Duration.Round(time.Second))
	verb, part := "keeps", ""
	if r.Count(Failed) > 0 {
		verb = "breaks"
	}
	if r.Match != "" {
		part = fmt.Sprintf(" as far as the cases that match %q go", r.Match)
	}
	return fmt.Sprintf("%s %s dbq's promises%s: %s", r.Server(), verb, part, counts)
}

func (r Report) writeGroups(w io.Writer) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(tw, "group\tpassed\tfailed\tskipped\tseconds\t\n")
	for _, g := range r.groups() {
		fmt.Fprintf(tw, "%s\t%d\t%d\t%d\t%.1f\t\n", g.name, g.Count(Passed), g.Count(Failed), g.Count(Skipped), g.seconds())
	}
	_ = tw.Flush() // into memory
}

// A groupReport is a group's part of a report.
type groupReport struct {
	name string
	Report
}

// groups returns the groups that have results, in the suite's order.
func (r Report) groups() (out []groupReport) {
	var names []string
	for _, res := range r.Results {
		if !slices.Contains(names, res.Case.Group) {
			names = append(names, res.Case.Group)
		}
	}
	for _, name := range names {
		out = append(out, groupReport{name, r.of(func(res Result) bool { return res.Case.Group == name })})
	}
	return out
}

// seconds returns the total time of all results.
func (r Report) seconds() (sum float64) {
	for _, res := range r.Results {
		sum += res.Duration.Seconds()
	}
	return sum
}

func join[T ~string](list []T, sep string) string {
	texts := make([]string, len(list))
	for i, s := range list {
		texts[i] = string(s)
	}
	return strings.Join(texts, sep)
}

package conformance

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dbq-go/dbq/dialect"
)

// Report is what Check found.
type Report struct {
	Product    string             `json:"product"`
	Version    string             `json:"version"`
	Strategies []dialect.Strategy `json:"strategies"`
	Started    time.Time          `json:"started"`
	Seed       uint64             `json:"seed"`
	Results    []Result           `json:"results"`
}

// Result is what became of one case under one strategy. It passed when there are no Failures and it was not Skipped.
type Result struct {
	Case     Case
	Strategy dialect.Strategy
	Failures []string
	Skipped  string // the reason
	Duration time.Duration
}

// An Outcome is what became of a case, as reports say it.
type Outcome string

// The outcomes of a case.
const (
	Held       Outcome = "held"
	Broken     Outcome = "broken"
	NotChecked Outcome = "not checked"
)

// Outcome says whether the law was seen to hold.
func (r Result) Outcome() Outcome {
	switch {
	case len(r.Failures) > 0:
		return Broken
	case r.Skipped != "":
		return NotChecked
	}
	return Held
}

// Passed reports whether the law was seen to hold.
func (r Result) Passed() bool { return r.Outcome() == Held }

// Name is strategy/group/name, as subtests of Run are named.
func (r Result) Name() string { return string(r.Strategy) + "/" + r.Case.FullName() }

// String is the result in one line, for showing progress.
func (r Result) String() string {
	line := fmt.Sprintf("%-11s %s (%.2fs)", r.Outcome(), r.Name(), r.Duration.Seconds())
	if r.Outcome() == NotChecked {
		line += ": " + r.Skipped
	}
	return line
}

// MarshalJSON writes a result flat: case, law, strategy, outcome, failures, reason and seconds.
func (r Result) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Case     string           `json:"case"`
		Law      string           `json:"law"`
		Strategy dialect.Strategy `json:"strategy"`
		Outcome  Outcome          `json:"outcome"`
		Failures []string         `json:"failures,omitempty"`
		Reason   string           `json:"reason,omitempty"` // for not being checked
		Seconds  float64          `json:"seconds"`
	}{r.Case.FullName(), r.Case.Law, r.Strategy, r.Outcome(), r.Failures, r.Skipped, r.Duration.Seconds()})
}

// Failed lists the results with failures.
func (r Report) Failed() []Result {
	var out []Result
	for _, res := range r.Results {
		if res.Outcome() == Broken {
			out = append(out, res)
		}
	}
	return out
}

// Count is how many results had an outcome.
func (r Report) Count(o Outcome) (n int) {
	for _, res := range r.Results {
		if res.Outcome() == o {
			n++
		}
	}
	return n
}

// WriteText writes the report for a person: a table of the groups, then what was not checked and why, then each broken law with
// what was seen instead. Its last line is the verdict.
func (r Report) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s, strategies %s, %s, seed %d\n\n", r.Product, r.Version, join(r.Strategies, ", "),
		r.Started.Format("2006-01-02 15:04:05 UTC"), r.Seed)
	r.writeGroups(&b)
	r.writeNotChecked(&b)
	for _, res := range r.Failed() {
		fmt.Fprintf(&b, "\nbroken  %s (%.2fs)\n  law   %s\n", res.Name(), res.Duration.Seconds(), res.Case.Law)
		for _, f := range res.Failures {
			fmt.Fprintf(&b, "  seen  %s\n", strings.ReplaceAll(f, "\n", "\n        "))
		}
	}
	fmt.Fprintf(&b, "\n%s\n", r.Verdict())
	_, err := io.WriteString(w, b.String())
	return err
}

// writeNotChecked writes each reason with the cases it kept from being checked.
func (r Report) writeNotChecked(w io.Writer) {
	var reasons []string
	names := map[string][]string{}
	for _, res := range r.Results {
		if res.Outcome() != NotChecked {
			continue
		}
		if names[res.Skipped] == nil {
			reasons = append(reasons, res.Skipped)
		}
		names[res.Skipped] = append(names[res.Skipped], res.Name())
	}
	for _, reason := range reasons {
		fmt.Fprintf(w, "\nnot checked (%d): %s\n", len(names[reason]), reason)
		for _, name := range names[reason] {
			fmt.Fprintf(w, "  %s\n", name)
		}
	}
}

// Verdict is the report in one sentence.
func (r Report) Verdict() string {
	var all time.Duration
	for _, res := range r.Results {
		all += res.Duration
	}
	counts := fmt.Sprintf("%d held, %d broken, %d not checked, in %v", r.Count(Held), r.Count(Broken), r.Count(NotChecked), all.Round(time.Second))
	if r.Count(Broken) > 0 {
		return fmt.Sprintf("%s %s breaks dbq's promises: %s", r.Product, r.Version, counts)
	}
	return fmt.Sprintf("%s %s keeps dbq's promises: %s", r.Product, r.Version, counts)
}

func (r Report) writeGroups(w io.Writer) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(tw, "group\theld\tbroken\tnot checked\tseconds\t\n")
	for _, cases := range groups() {
		if len(cases) == 0 {
			continue
		}
		part := Report{}
		seconds := 0.0
		for _, res := range r.Results {
			if res.Case.Group == cases[0].Group {
				part.Results = append(part.Results, res)
				seconds += res.Duration.Seconds()
			}
		}
		fmt.Fprintf(tw, "%s\t%d\t%d\t%d\t%.1f\t\n", cases[0].Group, part.Count(Held), part.Count(Broken), part.Count(NotChecked), seconds)
	}
	_ = tw.Flush() // into memory
}

func join[T ~string](list []T, sep string) string {
	texts := make([]string, len(list))
	for i, s := range list {
		texts[i] = string(s)
	}
	return strings.Join(texts, sep)
}

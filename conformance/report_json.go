package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/dbq-go/dbq/dialect"
)

// reportJSON is the JSON form of a report. Fields can be added, but never renamed.
type reportJSON struct {
	Product    string                     `json:"product"`
	Version    string                     `json:"version"`
	Pooler     string                     `json:"pooler,omitempty"`
	Dialect    string                     `json:"dialect"`
	DBQ        string                     `json:"dbq"`
	Strategies []dialect.Strategy         `json:"strategies"`
	Started    time.Time                  `json:"started"`
	Seconds    float64                    `json:"seconds"`
	Seed       uint64                     `json:"seed"`
	Load       int                        `json:"load"`
	Match      string                     `json:"match,omitempty"`
	Conflicts  map[dialect.Strategy]int64 `json:"conflicts"` // each strategy's sum
	Verdict    string                     `json:"verdict"`   // the same
	Leftovers  []string                   `json:"leftovers,omitempty"`
	Results    []Result                   `json:"results"`
}

// resultJSON is the JSON form of a result.
type resultJSON struct {
	Case      string           `json:"case"` // group/name
	Law       string           `json:"law"`
	Strategy  dialect.Strategy `json:"strategy"`
	Status    Status           `json:"status"`
	Failures  []string         `json:"failures,omitempty"`
	Reason    string           `json:"reason,omitempty"` // why it was skipped
	Conflicts int64            `json:"conflicts,omitempty"`
	Seconds   float64          `json:"seconds"`
}

// MarshalJSON writes the report with each strategy's conflicts and the verdict.
func (r Report) MarshalJSON() ([]byte, error) { return json.Marshal(r.json()) }

func (r Report) json() reportJSON {
	conflicts := map[dialect.Strategy]int64{}
	for _, s := range r.Strategies {
		conflicts[s] = r.Of(s).Conflicts()
	}
	return reportJSON{r.Product, r.Version, r.Pooler, r.Dialect, r.DBQ, r.Strategies, r.Started, seconds(r.Duration),
		r.Seed, r.Load, r.Match,
		conflicts, r.Verdict(), r.Leftovers, r.Results}
}

// UnmarshalJSON reads the output of MarshalJSON.
func (r *Report) UnmarshalJSON(data []byte) error {
	var j reportJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	*r = Report{Product: j.Product, Version: j.Version, Pooler: j.Pooler, Dialect: j.Dialect, DBQ: j.DBQ,
		Strategies: j.Strategies, Started: j.Started,
		Duration: duration(j.Seconds), Seed: j.Seed, Load: j.Load, Match: j.Match, Results: j.Results, Leftovers: j.Leftovers}
	return nil
}

// MarshalJSON writes a result flat: case, law, strategy, status, failures, reason, conflicts and seconds.
func (r Result) MarshalJSON() ([]byte, error) {
	return json.Marshal(resultJSON{r.Case.FullName(), r.Case.Law, r.Strategy, r.Status(), r.Failures, r.Skipped,
		r.Conflicts, seconds(r.Duration)})
}

// UnmarshalJSON reads the output of MarshalJSON. The case has its names and its law, and cannot be run.
func (r *Result) UnmarshalJSON(data []byte) error {
	var j resultJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	group, name, ok := strings.Cut(j.Case, "/")
	if !ok {
		return fmt.Errorf("conformance: %q is not the name of a case", j.Case)
	}
	*r = Result{Case: Case{Group: group, Name: name, Law: j.Law}, Strategy: j.Strategy, Failures: j.Failures,
		Skipped:   j.Reason,
		Conflicts: j.Conflicts, Duration: duration(j.Seconds)}
	if r.Status() != j.Status {
		return fmt.Errorf("conformance: the status of %s is %q; its failures and reason imply %q", j.Case, j.Status,
			r.Status())
	}
	return nil
}

// WriteJSON writes the whole report. Each result is a line, so that two reports can be compared line by line.
func (r Report) WriteJSON(w io.Writer) error {
	j := r.json()
	j.Results = []Result{}
	head, err := json.MarshalIndent(j, "", "  ")
	if err != nil {
		return err
	}
	head, open := bytes.CutSuffix(head, []byte("]\n}"))
	if !open {
		return fmt.Errorf("conformance: the results are not the last of a report's fields")
	}
	var b bytes.Buffer
	b.Write(head)
	for i, res := range r.Results {
		line, err := json.Marshal(res)
		if err != nil {
			return err
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString("\n    ")
		b.Write(line)
	}
	b.WriteString("\n  ]\n}\n")
	_, err = w.Write(b.Bytes())
	return err
}

// ReadReport reads the output of WriteJSON.
func ReadReport(from io.Reader) (Report, error) {
	var r Report
	if err := json.NewDecoder(from).Decode(&r); err != nil {
		return Report{}, fmt.Errorf("conformance: not a report: %w", err)
	}
	if r.Product == "" || len(r.Strategies) == 0 {
		return Report{}, fmt.Errorf("conformance: not a report: the product or the strategy is missing")
	}
	return r, nil
}

// seconds rounds to milliseconds; smaller differences are meaningless.
func seconds(d time.Duration) float64 { return math.Round(d.Seconds()*1000) / 1000 }

func duration(seconds float64) time.Duration {
	return time.Duration(math.Round(seconds*1000)) * time.Millisecond
}

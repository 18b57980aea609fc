package conformance_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/conformance"
	_ "github.com/dbq-go/dbq/dialect/sqlite"
)

func TestMain(m *testing.M) {
	conformance.Child()
	os.Exit(m.Run())
}

func sqliteDSN(dir string) string { return "sqlite:" + filepath.Join(dir, "queue.db") }

// TestConformance runs the suite on SQLite, which needs no server; conformance/engines runs it on the others.
func TestConformance(t *testing.T) {
	conformance.Run(t, conformance.Harness{DSN: sqliteDSN, Processes: true})
}

// TestCaseNames keeps the names fit for reports and for go test -run: each once, without blanks, in one run of each group.
func TestCaseNames(t *testing.T) {
	seen := map[string]bool{}
	var groups []string
	for _, c := range conformance.Cases() {
		name := c.FullName()
		if seen[name] {
			t.Errorf("%s is there twice", name)
		}
		seen[name] = true
		if c.Group == "" || c.Name == "" || strings.ContainsAny(name, " \t#") {
			t.Errorf("%q is not a name for a case", name)
		}
		if !strings.HasSuffix(c.Law, ".") || strings.ContainsAny(c.Law, "\n") {
			t.Errorf("the law of %s is not a sentence: %q", name, c.Law)
		}
		if len(groups) == 0 || groups[len(groups)-1] != c.Group {
			groups = append(groups, c.Group)
		}
	}
	if unique := slices.Compact(slices.Sorted(slices.Values(groups))); len(unique) != len(groups) {
		t.Errorf("a group's cases do not stand together: %v", groups)
	}
}

// TestCheck runs a part of the suite as a program would, and reads the report that it gets.
func TestCheck(t *testing.T) {
	known := map[string]string{}
	for _, c := range conformance.Cases() {
		if c.Group != "Clock" {
			known[c.FullName()] = "not needed here"
		}
	}
	var lines []string
	report, err := conformance.Check(t.Context(), conformance.Harness{DSN: sqliteDSN, Known: known, Seed: 7}, func(r conformance.Result) {
		lines = append(lines, r.String())
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Results) != len(conformance.Cases()) || len(lines) != len(report.Results) {
		t.Errorf("%d results and %d lines for %d cases", len(report.Results), len(lines), len(conformance.Cases()))
	}
	if n := report.Count(conformance.Held); n != len(report.Results)-len(known) || len(report.Failed()) != 0 {
		t.Errorf("%d held and %d are broken, want %d and 0", n, len(report.Failed()), len(report.Results)-len(known))
	}

	report.Results[0].Failures = []string{"got 1\nwant 2"}
	var text strings.Builder
	if err := report.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"SQLite ", "strategies cas", "seed 7", "broken  cas/Schema/FromEmpty", "law   Migrating an empty database",
		"seen  got 1\n        want 2", "not checked (", "known: not needed here\n  cas/Schema/TwiceIsNoop\n", "breaks dbq's promises"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, text.String())
		}
	}
	data, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"product":"SQLite"`, `"case":"Clock/SkewedClientsAgree"`, `"outcome":"held"`, `"failures":["got 1\nwant 2"]`} {
		if !strings.Contains(string(data), want) {
			t.Errorf("the JSON lacks %s", want)
		}
	}
}

// TestMarkdown looks at the generated page.
func TestMarkdown(t *testing.T) {
	page := conformance.Markdown()
	for _, want := range []string{"## Lease\n", "| ExpiredIsRedelivered* |", "| PROCESSING-leased |", "| CREATED-due |", "removed |"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
}

package conformance_test

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/conformance"
	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/internal/sqlrun"
)

// TestCheck runs a part of the suite as a program would, and reads the report that it gets.
func TestCheck(t *testing.T) {
	t.Parallel()
	const known = "Clock/SkewedClientsAgree"
	h := conformance.Harness{DSN: sqliteDSN, Match: regexp.MustCompile("^(Clock|Schema)/"), Seed: 7, Load: 1,
		Known: map[string]string{known: "not needed here"}}
	var news []conformance.Progress
	report, err := conformance.Check(t.Context(), h, func(p conformance.Progress) { news = append(news, p) })
	check.OK(t, err)
	want := 0
	for _, c := range conformance.Cases() {
		if h.Match.MatchString(c.FullName()) {
			if got := report.Results[want].Case.FullName(); got != c.FullName() {
				t.Errorf("result %d is of %s, want %s: the suite's order", want, got, c.FullName())
			}
			want++
		}
	}
	if len(report.Results) != want || len(news) != want+1 || len(report.Failed()) != 0 ||
		report.Count(conformance.Passed) < want-3 {
		t.Errorf("%d results, %d of them passed, and %d news of %d cases: %v", len(report.Results),
			report.Count(conformance.Passed), len(news), want,
			report.Failed())
	}
	if first := news[0]; first.Result != nil || first.Total != want || first.Report.Product != "SQLite" ||
		first.Tables == "" {
		t.Errorf("the first news are %+v", first)
	}
	for i, p := range news[1:] {
		if p.Done != i+1 || p.Result == nil {
			t.Errorf("news %d: %d done, result %v", i+1, p.Done, p.Result)
		}
	}
	if report.Dialect != "sqlite" || report.DBQ == "" || report.Seed != 7 || report.Load != 1 || report.Duration <= 0 {
		t.Errorf("the report is of %+v", report)
	}
}

func TestCheckRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		h    conformance.Harness
		want error
		says string
	}{
		"a pattern that matches nothing": {conformance.Harness{Match: regexp.MustCompile("nosuch")},
			conformance.ErrNoCase, "Contention"},
		"a strategy that the server does not do": {conformance.Harness{Strategies: []dialect.Strategy{"hope"}},
			dbq.ErrOption, "only cas"},
		"a DSN that nobody knows": {conformance.Harness{DSN: func(string) string { return "nosuch://x" }},
			dbq.ErrUnknownScheme, "nosuch"},
	} {
		if c.h.DSN == nil {
			c.h.DSN = sqliteDSN
		}
		if _, err := conformance.Check(t.Context(), c.h, nil); !errors.Is(err, c.want) ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An interrupted check leaves no tables and says nothing about the cases that it cut off.
func TestCheckInterrupted(t *testing.T) {
	t.Parallel()
	dsn := "sqlite:" + filepath.Join(t.TempDir(), "q.db") + "?synchronous=normal"
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	report, err := conformance.Check(ctx, conformance.Harness{DSN: func(string) string { return dsn }, Parallel: 3},
		func(p conformance.Progress) {
			if p.Done == 20 {
				time.AfterFunc(5*time.Millisecond, cancel) // in the middle of the next ones
			}
		})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("got error %v, want %v", err, context.Canceled)
	}
	for _, r := range report.Failed() {
		t.Errorf("%v: %q", r, r.Failures)
	}
	if n := len(report.Results); n < 20 || n > len(conformance.Cases())/2 || len(report.Leftovers) > 0 {
		t.Errorf("%d results, left behind %v", n, report.Leftovers)
	}
	_, pool, err := sqlrun.Open(t.Context(), dsn, nil)
	check.OK(t, err)
	defer pool.Close()
	var left int
	if err := pool.Read.QueryRowContext(t.Context(),
		"SELECT count(*) FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'").Scan(&left); err != nil || left > 0 {
		t.Errorf("%d tables, indexes and views are left (%v)", left, err)
	}
}

// sample is a report with each outcome, and with texts that a format might trip over.
func sample() conformance.Report {
	law := conformance.Case{Group: "Lease", Name: "A|b", Law: "A lease <of> one & \"two\" holds."}
	other := conformance.Case{Group: "Clock", Name: "C", Law: "It is late."}
	return conformance.Report{
		Product: "SQLite", Version: "3.1", Pooler: "a | pooler", Dialect: "sqlite", DBQ: "v1.2.3",
		Strategies: []dialect.Strategy{"skip-locked", "cas"},
		Started:    time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Duration: 12 * time.Second, Seed: 1<<63 + 7, Load: 2,
		Match:     "L.*|C",
		Leftovers: []string{"c1_2_*"},
		Results: []conformance.Result{
			{Case: law, Strategy: "skip-locked", Duration: 1500 * time.Millisecond, Conflicts: 3},
			{Case: other, Strategy: "skip-locked", Skipped: "no | clock"},
			{Case: law, Strategy: "cas", Failures: []string{"got 1\nwant 2", "a\x00control\x1b"}, Conflicts: 4},
		},
	}
}

func TestReportRoundTripsThroughJSON(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	check.OK(t, sample().WriteJSON(&b))
	text := b.String()
	got, err := conformance.ReadReport(&b)
	if err != nil || !reflect.DeepEqual(got, sample()) {
		t.Errorf("error %v\ngot  %+v\nwant %+v", err, got, sample())
	}
	for _, want := range []string{`"skip-locked": 3`, `"cas": 4`, `"verdict": "SQLite 3.1 behind a | pooler breaks`,
		`"status":"skipped"`} {
		if !strings.Contains(text, want) {
			t.Errorf("the JSON lacks %s:\n%s", want, text)
		}
	}
	for _, bad := range []string{"", "{}", "[1]", strings.Replace(text, `"status":"failed"`, `"status":"passed"`, 1),
		strings.Replace(text, "Clock/C", "Clock", 1)} {
		if _, err := conformance.ReadReport(strings.NewReader(bad)); err == nil {
			t.Errorf("it was read as a report: %.80s", bad)
		}
	}
}

func TestReportAsJUnit(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	check.OK(t, sample().WriteJUnit(&b))
	var got struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Skipped  int `xml:"skipped,attr"`
		Suites   []struct {
			Name  string `xml:"name,attr"`
			Cases []struct {
				Class   string `xml:"classname,attr"`
				Name    string `xml:"name,attr"`
				Time    string `xml:"time,attr"`
				Failure *struct {
					Message string `xml:"message,attr"`
					Text    string `xml:",chardata"`
				} `xml:"failure"`
				Skipped *struct {
					Message string `xml:"message,attr"`
				} `xml:"skipped"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatalf("%v:\n%s", err, b.String())
	}
	if got.Tests != 3 || got.Failures != 1 || got.Skipped != 1 || len(got.Suites) != 2 {
		t.Fatalf("%+v", got)
	}
	passed, skipped, failed := got.Suites[0].Cases[0], got.Suites[0].Cases[1], got.Suites[1].Cases[0]
	if passed.Class != "skip-locked.Lease" || passed.Name != "A|b" || passed.Time != "1.500" || passed.Failure != nil ||
		passed.Skipped != nil {
		t.Errorf("passed: %+v", passed)
	}
	if skipped.Skipped == nil || skipped.Skipped.Message != "no | clock" {
		t.Errorf("skipped: %+v", skipped)
	}
	if failed.Failure == nil || !strings.Contains(failed.Failure.Message, sample().Results[0].Case.Law) ||
		!strings.Contains(failed.Failure.Text, "want 2") {
		t.Errorf("failed: %+v", failed)
	}
}

func TestReportAsText(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	check.OK(t, sample().WriteText(&text))
	for _, want := range []string{"SQLite 3.1 behind a | pooler, dialect sqlite, dbq v1.2.3",
		"strategies skip-locked, cas", "seed 9223372036854775815", "load 2",
		"conflicts retried: skip-locked 3, cas 4", "failed  cas/Lease/A|b", "law   A lease <of> one",
		"seen  got 1\n        want 2",
		"skipped (1): no | clock\n  skip-locked/Clock/C\n", "left behind, could not be removed: c1_2_*",
		"breaks dbq's promises as far as"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the text lacks %q:\n%s", want, text.String())
		}
	}
}

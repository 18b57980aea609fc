package main

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/conformance"
)

// TestReportsAreOfThisSuite: no published report names a case that the suite does not have any more, and none was made
// by an older suite than the others. The table of docs/engines.md counts the cases that were added since.
func TestReportsAreOfThisSuite(t *testing.T) {
	t.Parallel()
	reports, err := readReports("../../docs/reports")
	if err != nil {
		t.Fatal(err)
	}
	suite := map[string]bool{}
	for _, c := range conformance.Cases() {
		suite[c.FullName()] = true
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range reports {
		if ran := "ran on " + r.Started.Format("2006-01-02"); !strings.Contains(string(readme), ran) {
			t.Errorf("%s.json: README.md does not say that the suite %s", r.name, ran)
		}
		ran := map[string]bool{}
		for _, result := range r.Results {
			ran[result.Case.FullName()] = true
		}
		for _, name := range slices.Sorted(maps.Keys(ran)) {
			if !suite[name] {
				t.Errorf("%s.json: the suite has no case %s any more: renew the report (ci/README.md)", r.name, name)
			}
		}
		if got, want := r.addedSince(), reports[0].addedSince(); !slices.Equal(got, want) {
			t.Errorf("%s.json has not run %v, and %s.json %v: renew the older one", r.name, got, reports[0].name, want)
		}
	}
}

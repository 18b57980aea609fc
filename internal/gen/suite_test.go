package main

import (
	"maps"
	"slices"
	"testing"

	"github.com/dbq-go/dbq/conformance"
)

// TestReportsAreOfThisSuite: every published report has run each case of the suite as it is now, and no other.
func TestReportsAreOfThisSuite(t *testing.T) {
	if testing.Short() {
		t.Skip("a new law is in the reports once the suite has run on every engine")
	}
	t.Parallel()
	reports, err := readReports("../../docs/reports")
	if err != nil {
		t.Fatal(err)
	}
	suite := map[string]bool{}
	for _, c := range conformance.Cases() {
		suite[c.FullName()] = true
	}
	for _, r := range reports {
		ran := map[string]bool{}
		for _, result := range r.Results {
			ran[result.Case.FullName()] = true
		}
		for _, name := range slices.Sorted(maps.Keys(ran)) {
			if !suite[name] {
				t.Errorf("%s.json: the suite has no case %s any more: renew the report (ci/README.md)", r.name, name)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(suite)) {
			if !ran[name] {
				t.Errorf("%s.json: case %s is newer than the report: renew it (ci/README.md)", r.name, name)
			}
		}
	}
}

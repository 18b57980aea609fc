package conformance

import (
	"slices"
	"testing"

	"github.com/dbq-go/dbq/conformance/cases"
	"github.com/dbq-go/dbq/dialect"
)

// Short leaves out whole kinds of cases and no other: Faults, slow ones, and strategies other than the default.
func TestShort(t *testing.T) {
	t.Parallel()
	strategies := []dialect.Strategy{dialect.SkipLocked, dialect.Advisory, dialect.CAS}
	var named []string
	for _, j := range newSuite(Harness{Select: Short}).jobs(strategies) {
		switch best := j.strategy == strategies[0]; {
		case best && j.Group == "Faults", j.strategy == dialect.CAS:
			named = append(named, j.FullName())
		case !best || j.Slow:
			t.Errorf("Short runs %s under %s", j.FullName(), j.strategy)
		}
	}
	if want := slices.Concat(shortFaults, shortCAS); len(named) != len(want) {
		t.Errorf("Short runs %q of Faults and under CAS, want %q", named, want)
	}
	for _, c := range cases.All() {
		if c.Group != "Faults" && !c.Slow && !Short(caseOf(c), dialect.CAS, dialect.CAS) {
			t.Errorf("Short leaves out %s", c.FullName())
		}
	}
}

// Short keeps a case that catches each mutant: a defect of these kinds does not pass a check of a change.
func TestShortCatchesEveryMutant(t *testing.T) {
	t.Parallel()
	kept := map[string]bool{}
	for _, j := range newSuite(Harness{Select: Short}).jobs([]dialect.Strategy{dialect.CAS}) {
		kept[j.FullName()] = true
	}
	for _, m := range mutants() {
		catches := slices.Concat(m.caught, m.races)
		if !slices.ContainsFunc(catches, func(name string) bool { return kept[name] }) {
			t.Errorf("%s is caught only by cases that Short leaves out: %q", m.name, catches)
		}
	}
}

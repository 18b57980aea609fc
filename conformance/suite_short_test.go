package conformance

import (
	"testing"

	"github.com/dbq-go/dbq/dialect"
)

// Short leaves out no law under the default strategy, and under the others none of the groups that a strategy decides.
func TestShortOmitsOnlyRepetitions(t *testing.T) {
	t.Parallel()
	strategies := []dialect.Strategy{dialect.SkipLocked, dialect.CAS}
	full, short := newSuite(Harness{}).jobs(strategies), newSuite(Harness{Short: true}).jobs(strategies)
	left := map[string]bool{}
	for _, j := range short {
		left[string(j.strategy)+" "+j.FullName()] = true
	}
	for _, j := range full {
		decided := j.Group == "Checkout" || j.Group == "Lease" || j.Group == "Contention"
		if got, want := left[string(j.strategy)+" "+j.FullName()], j.strategy == strategies[0] || decided; got != want {
			t.Errorf("%s under %s is run: %v, want %v", j.FullName(), j.strategy, got, want)
		}
	}
}

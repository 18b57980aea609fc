package engines

import (
	"hash/fnv"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/dbq-go/dbq/conformance"
	"github.com/dbq-go/dbq/dialect"
)

// A selector is a Harness.Select.
type selector = func(c conformance.Case, strategy, best dialect.Strategy) bool

// fifths is how many runs of go test -short with DBQ_TEST_FIFTH of 0, 1, … run every case.
const fifths = 5

// selection returns the cases to run on a target, or why there are none: every case, but under -short the cases of
// conformance.Short on the newest version of each product and, of all others, the fifth that DBQ_TEST_FIFTH names.
func selection(t *testing.T, target target) (selector, string) {
	if !testing.Short() || target.whole() {
		return nil, ""
	}
	fifth, text := -1, os.Getenv("DBQ_TEST_FIFTH")
	if n, err := strconv.Atoi(text); err == nil && n >= 0 && n < fifths {
		fifth = n
	} else if text != "" {
		t.Fatalf("DBQ_TEST_FIFTH=%s: write a number from 0 to %d", text, fifths-1)
	}
	short := !superseded(target) || target.required() && fifth < 0
	if !short && fifth < 0 {
		return nil, "-short tests " + target.newest + " instead: use make test-all, or DBQ_TEST_WHOLE=" + target.name
	}
	return func(c conformance.Case, strategy, best dialect.Strategy) bool {
		return short && conformance.Short(c, strategy, best) ||
			fifthOf(target.name+"/"+string(strategy)+"/"+c.FullName()) == fifth
	}, ""
}

// fifthOf is the fifth to which a case belongs on a target under a strategy.
func fifthOf(name string) int {
	h := fnv.New32a()
	h.Write([]byte(name))
	return int(h.Sum32() % fifths)
}

// superseded reports whether the newest version of the target's product is tested, too.
func superseded(t target) bool {
	return t.newest != "" && os.Getenv(target{name: t.newest}.variable()) != ""
}

// present lists SQLite and the targets whose servers the environment names, under -short only the newest version of
// each product.
func present() []target {
	return slices.DeleteFunc(slices.Clone(targets), func(t target) bool {
		return t.file == nil && os.Getenv(t.variable()) == "" || testing.Short() && superseded(t)
	})
}

// Every case belongs to one of the fifths on each target, and none of them is empty.
func TestFifthsAreComplete(t *testing.T) {
	t.Parallel()
	for _, target := range targets {
		count := make([]int, fifths)
		for _, c := range conformance.Cases() {
			count[fifthOf(target.name+"/cas/"+c.FullName())]++
		}
		if total := len(conformance.Cases()); slices.Min(count) < total/fifths/2 {
			t.Errorf("%s: the fifths have %v of %d cases", target.name, count, total)
		}
	}
}

package callers

import (
	"fmt"
	"math"
	"testing"

	"github.com/dbq-go/dbq/internal/check"
)

func TestEachCallerIsLimitedAlone(t *testing.T) {
	t.Parallel()
	l, err := New(0.001, 2)
	check.OK(t, err)
	for i, free := range []bool{true, true, false, false} {
		if wait := l.Wait("ann"); (wait == 0) != free {
			t.Errorf("request %d must wait %v", i+1, wait)
		}
	}
	if wait := l.Wait("bob"); wait != 0 {
		t.Errorf("another caller must wait %v", wait)
	}
	none, err := New(0, 0)
	check.OK(t, err)
	for range 1000 {
		if wait := none.Wait("ann"); wait != 0 {
			t.Fatalf("without a limit, a caller must wait %v", wait)
		}
	}
}

func TestNumberOfCallersIsBounded(t *testing.T) {
	t.Parallel()
	l, err := New(0.001, 1)
	check.OK(t, err)
	for i := range maxCallers + 100 {
		if wait := l.Wait(fmt.Sprint(i)); wait != 0 {
			t.Fatalf("caller %d must wait %v", i, wait)
		}
	}
	if n := len(l.byName); n > maxCallers {
		t.Errorf("%d callers are known, want at most %d", n, maxCallers)
	}
}

func TestInvalidLimitsAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rate  float64
		burst int
	}{{-1, 0}, {math.NaN(), 0}, {math.Inf(1), 0}, {1, -1}, {0, 1}} {
		if _, err := New(c.rate, c.burst); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}

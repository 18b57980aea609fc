package callers

import "testing"

// One caller gets half of the places, two get a third each, and there is room for another one.
func TestPlacesAreShared(t *testing.T) {
	t.Parallel()
	p := NewPlaces(100)
	take := func(name string) (n int) {
		for p.Take(name) {
			n++
		}
		return n
	}
	if n := take("ann"); n != 50 {
		t.Errorf("one caller gets %d places of 100", n)
	}
	if n := take("bob"); n != 25 {
		t.Errorf("another caller gets %d places of the 50 that are left", n)
	}
	if !p.Take("eve") {
		t.Error("a third caller gets no place")
	}
	for range 50 {
		p.Release("ann")
	}
	if n := take("ann"); n != 37 {
		t.Errorf("a caller gets %d places of the 74 that are left", n)
	}
	if one := NewPlaces(1); !one.Take("ann") || one.Take("ann") || one.Take("bob") {
		t.Error("the only place is not taken once")
	}
}

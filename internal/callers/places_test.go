package callers

import (
	"fmt"
	"testing"
)

// One caller gets half of the places, and each further one half of the rest: seven that take all that they can use up
// 100. What a caller returns, others can take.
func TestPlacesAreShared(t *testing.T) {
	t.Parallel()
	p := NewPlaces(100)
	take := func(name string) (n int) {
		for p.Take(name, 1) {
			n++
		}
		return n
	}
	for i, want := range []int{50, 25, 13, 6, 3, 2, 1, 0} {
		if n := take(fmt.Sprint(i)); n != want {
			t.Errorf("caller %d gets %d places, want %d", i+1, n, want)
		}
	}
	p.Release("0", 50)
	for _, c := range []struct {
		name string
		want int
	}{{"new", 25}, {"0", 13}} {
		if n := take(c.name); n != c.want {
			t.Errorf("of what was returned, %s gets %d places, want %d", c.name, n, c.want)
		}
	}
}

// A caller that holds nothing can take all places at once, and one that holds some no more than are free.
func TestManyPlacesAreTakenAtOnce(t *testing.T) {
	t.Parallel()
	p := NewPlaces(100)
	if !p.Take("ann", 100) || p.Take("bob", 1) {
		t.Error("all places are not taken")
	}
	p.Release("ann", 60)
	if p.Take("ann", 21) || !p.Take("ann", 20) || !p.Take("bob", 40) {
		t.Error("60 places are not shared")
	}
}

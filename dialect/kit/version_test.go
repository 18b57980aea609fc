package kit

import "testing"

func TestAtLeast(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{
		"3.42.0": true, "3.42": true, "3.53.4": true, "4.0.0": true, "3.100.0": true,
		"3.41.9": false, "2.99.0": false, "3": false, "": false, "three.42": false,
	} {
		if got := AtLeast(version, 3, 42); got != want {
			t.Errorf("%q: got %v, want %v", version, got, want)
		}
	}
}

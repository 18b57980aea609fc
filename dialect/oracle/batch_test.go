package oracle

import (
	"slices"
	"testing"
)

func TestInsertsAreBlocksOfFewShapes(t *testing.T) {
	t.Parallel()
	payloads := func(n, long int) (out [][]byte) {
		for range n {
			out = append(out, make([]byte, inlineBytes))
		}
		for range long {
			out = append(out, make([]byte, inlineBytes+1))
		}
		return out
	}
	for name, c := range map[string]struct {
		payloads [][]byte
		want     []int // where the blocks end
	}{
		"one":                  {payloads(1, 0), []int{1}},
		"in few sizes":         {payloads(138, 0), []int{100, 120, 130, 135, 137, 138}},
		"long ones apart":      {payloads(2, 5), []int{2, 7}},
		"both":                 {payloads(3, 3), []int{2, 3, 5, 6}},
		"long ones in between": {slices.Concat(payloads(1, 1), payloads(1, 0)), []int{1, 2, 3}},
	} {
		var got []int
		for from := 0; from < len(c.payloads); from = got[len(got)-1] {
			got = append(got, from+len(block(c.payloads, from)))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: the blocks end at %v, want %v", name, got, c.want)
		}
	}
}

package dialect

import (
	"slices"
	"testing"
)

func TestABatchIsCutIntoParts(t *testing.T) {
	t.Parallel()
	payloads := func(sizes ...int) Args {
		col := make(Col[[]byte], len(sizes))
		for i, size := range sizes {
			col[i] = make([]byte, size)
		}
		return Args{"payload": col}
	}
	sizes := []int{5, 2, 1}
	for name, c := range map[string]struct {
		b    Batch
		args Args
		n    int
		want []int
	}{
		"nothing":              {Batch{Max: 3}, nil, 0, nil},
		"up to Max":            {Batch{Max: 3}, nil, 7, []int{3, 6, 7}},
		"in few sizes":         {Batch{Max: 5, Sizes: sizes}, nil, 13, []int{5, 10, 12, 13}},
		"long ones apart":      {Batch{Max: 9, Apart: "payload", Long: 2}, payloads(1, 2, 3, 9, 0, 3), 6, []int{2, 4, 5, 6}},
		"both":                 {Batch{Max: 9, Sizes: sizes, Apart: "payload", Long: 2}, payloads(1, 2, 2, 9, 9, 9), 6, []int{2, 3, 5, 6}},
		"without such a value": {Batch{Max: 9, Apart: "payload", Long: 2}, Args{}, 3, []int{3}},
	} {
		var got []int
		for from := 0; from < c.n; from = got[len(got)-1] {
			got = append(got, c.b.end(c.args, from, c.n))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: the parts end at %v, want %v", name, got, c.want)
		}
	}
}

package search

import (
	"testing"

	"github.com/dbq-go/dbq/dialect"
)

func TestWindow(t *testing.T) {
	t.Parallel()
	seen := make([]dialect.Row, 8)
	for i := range seen {
		seen[i].Fence = int64(i)
	}
	for _, c := range []struct{ seen, round, limit, want int }{
		{8, 0, 3, 3},
		{2, 0, 3, 2},
		{2, 1, 3, 2},
		{3, 1, 3, 3},
		{0, 1, 3, 0},
	} {
		got := Window(seen[:c.seen], c.round, c.limit)
		if len(got) != c.want || c.want > 0 && got[0].Fence != 0 {
			t.Errorf("%+v: got %v", c, got)
		}
	}
	begins := map[int64]bool{}
	for range 1000 {
		got := Window(seen, 1, 3)
		if len(got) != 3 || got[2].Fence != got[0].Fence+2 {
			t.Fatalf("got %v", got)
		}
		begins[got[0].Fence] = true
	}
	if len(begins) != 6 {
		t.Errorf("later rounds begin at %v only", begins)
	}
}

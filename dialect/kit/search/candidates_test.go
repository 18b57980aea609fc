package search

import (
	"slices"
	"testing"

	"github.com/dbq-go/dbq/dialect"
	"github.com/google/uuid"
)

func someRows(n int) []dialect.Row {
	rows := make([]dialect.Row, n)
	for i := range rows {
		rows[i].ID, rows[i].Fence = uuid.New(), int64(i)
	}
	return rows
}

func TestChooseFirst(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ seen, limit, want int }{{8, 3, 3}, {3, 3, 3}, {2, 3, 2}, {0, 3, 0}} {
		got := (&Candidates{}).Choose(someRows(c.seen), c.limit)
		if len(got) != c.want || c.want > 0 && got[0].Fence != 0 {
			t.Errorf("%+v: got %v", c, got)
		}
	}
}

// TestChooseAgain begins its later choices anywhere among the next candidates.
func TestChooseAgain(t *testing.T) {
	t.Parallel()
	seen, begins := someRows(9), map[int64]bool{}
	for range 1000 {
		var c Candidates
		c.Leased(c.Choose(slices.Clone(seen), 1), nil)
		if n := c.Read(3); n != 13 {
			t.Fatalf("it reads %d candidates", n)
		}
		got := c.Choose(slices.Clone(seen), 3)
		if len(got) != 3 || got[2].Fence != got[0].Fence+2 {
			t.Fatalf("got %v", got)
		}
		begins[got[0].Fence] = true
	}
	if len(begins) != 6 || begins[0] {
		t.Errorf("later choices begin at %v", begins)
	}
}

// TestChooseNoneTwice meets only tasks that others have locked.
func TestChooseNoneTwice(t *testing.T) {
	t.Parallel()
	for limit := 1; limit < 4; limit++ {
		var c Candidates
		seen, tried := someRows(10*limit), map[uuid.UUID]bool{}
		for round := range Rounds {
			chosen := c.Choose(slices.Clone(seen[:min(c.Read(limit), len(seen))]), limit)
			for _, row := range chosen {
				tried[row.ID] = true
			}
			if want := (round + 1) * limit; !c.Leased(chosen, nil) || len(tried) != want {
				t.Errorf("limit %d: after round %d it has tried %d tasks, want %d", limit, round, len(tried), want)
			}
		}
	}
}

package batch

import (
	"slices"
	"testing"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/kit"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

func TestTakeOver(t *testing.T) {
	t.Parallel()
	holder, ended := "w#1", int64(7)
	row := func(id byte, attempt int) dialect.Row {
		return dialect.Row{ID: uuid.UUID{id}, Fence: 3, State: state.Processing, Holder: &holder, LeaseUntil: &ended,
			Updated: 5, Attempt: attempt, MaxAttempts: 2, KnownStarted: 1}
	}
	locked := []dialect.Row{row(3, 2), row(2, 1), row(1, 1)}
	seen := slices.Clone(locked)
	for i := range seen {
		seen[i].WasUntil = &ended
	}
	for _, failing := range []string{"", "claim", "claimed", "poison"} {
		r := &recorder{rows: map[string][]dialect.Row{"claimed": {{ID: uuid.UUID{2}}, {ID: uuid.UUID{3}}}}, failing: failing}
		s := &dialect.Session{Runner: r}
		s.Statements.Private = map[string]dialect.Batch{"claim": {SQL: "claim", Max: 1}, "claimed": {SQL: "claimed", Max: 1}}
		again, exhausted, err := TakeOver(t.Context(), s, conn{r: r}, slices.Clone(locked), seen, time.Second,
			func(exhausted []dialect.Row) error {
				if len(exhausted) != 1 || exhausted[0].Fence != 3 {
					t.Errorf("poison got %+v", exhausted)
				}
				return r.note("poison")
			})
		if failing != "" {
			if err == nil || again != nil || exhausted != nil {
				t.Errorf("%s failed: got %v, %v and %v", failing, again, exhausted, err)
			}
			continue
		}
		if err != nil || len(again) != 1 || len(exhausted) != 1 {
			t.Fatalf("got %v, %v and %v", again, exhausted, err)
		}
		for _, got := range []dialect.Row{again[0], exhausted[0]} {
			if got.WasHolder != &holder || *got.WasTaken != 5 || got.WasUntil != &ended {
				t.Errorf("%v does not say whose lease expired, and when: %+v", got.ID, got)
			}
		}
		if a := again[0]; a.ID[0] != 2 || a.Attempt != 2 || a.Fence != 3 || a.State != state.Processing {
			t.Errorf("to be leased again: %+v", a)
		}
		x := exhausted[0]
		if x.ID[0] != 3 || x.Attempt != 2 || x.Fence != 4 || x.State != state.Poison || x.LeaseUntil != nil {
			t.Errorf("poisoned: %+v", x)
		}
	}
}

func TestTakeOverOfNoRowsRunsNoStatement(t *testing.T) {
	t.Parallel()
	r := &recorder{}
	again, exhausted, err := TakeOver(t.Context(), &dialect.Session{Runner: r}, conn{r: r}, nil, nil, time.Second,
		func([]dialect.Row) error { return nil })
	if err != nil || again != nil || exhausted != nil || r.ran != nil {
		t.Errorf("got %v, %v and %v by %v", again, exhausted, err, r.ran)
	}
}

func TestKeysAreSortedByID(t *testing.T) {
	t.Parallel()
	args := kit.Keys([]dialect.Row{{ID: uuid.UUID{2}, Fence: 5}, {ID: uuid.UUID{1}, Fence: 9}})
	ids, fences := args["id"].(dialect.Col[uuid.UUID]), args["fence"].(dialect.Col[int64])
	if !slices.Equal(ids, []uuid.UUID{{1}, {2}}) || !slices.Equal(fences, []int64{9, 5}) {
		t.Errorf("got %v", args)
	}
}

package store

import (
	"testing"

	"github.com/dbq-go/dbq/dialect"
	"github.com/google/uuid"
)

func TestKeysReadAheadAreOfTheirTurn(t *testing.T) {
	t.Parallel()
	row := func() dialect.Row { return dialect.Row{ID: uuid.New()} }
	last, next := row(), row()
	for name, c := range map[string]struct {
		rows  []dialect.Row
		after string
		ok    bool
	}{
		"of the turn":                      {[]dialect.Row{next}, "k7", true},
		"none":                             {nil, "k7", true},
		"another client has had a turn":    {[]dialect.Row{next}, "k9", false},
		"with a task of the turn before":   {[]dialect.Row{next, last}, "k7", false},
		"a turn of no key has been before": {[]dialect.Row{next}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var g turnGuess
			if g.get() != nil {
				t.Fatal("a client guesses before its first turn")
			}
			g.set("k7", []dialect.Row{last})
			a := ahead{keys: &c.rows, limit: 5, guess: g.get()}
			rows, limit, ok := a.keysOf(c.after, &g)
			if ok != c.ok || ok && (len(rows) != len(c.rows) || limit != 5) {
				t.Errorf("got %d keys of %d, %v", len(rows), limit, ok)
			}
			if _, _, again := a.keysOf(c.after, &g); again {
				t.Error("the keys are used twice")
			}
			pause := 0
			for g.get() == nil {
				if pause++; pause > guessPause {
					t.Fatal("the client guesses no more")
				}
			}
			if want := map[bool]int{true: 0, false: guessPause}[c.ok]; pause != want {
				t.Errorf("%d checkouts did not guess, want %d", pause, want)
			}
		})
	}
}

func TestKeysReadUnderTheLockAreOfItsTurn(t *testing.T) {
	t.Parallel()
	var g turnGuess
	a := ahead{keys: &[]dialect.Row{{ID: uuid.New()}}, limit: 5}
	if rows, limit, ok := a.keysOf("k9", &g); !ok || len(rows) != 1 || limit != 5 {
		t.Errorf("got %d keys of %d, %v", len(rows), limit, ok)
	}
}

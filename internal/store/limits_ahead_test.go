package store

import (
	"testing"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/google/uuid"
)

func TestKeysReadAheadAreOfTheirTurn(t *testing.T) {
	t.Parallel()
	const version, limit, now = 7, 2, 1_000_000_000
	row := func() dialect.Row { return dialect.Row{ID: uuid.New(), Now: now} }
	last, first, second := row(), row(), row()
	two := []dialect.Row{first, second}
	for name, c := range map[string]struct {
		rows    []dialect.Row
		after   string
		version int64
		wait    time.Duration
		ok      bool
	}{
		"of the turn":                       {two, "k7", version + 1, guessFor, true},
		"after a long wait":                 {two, "k7", version + 1, guessFor + time.Microsecond, false},
		"another client has had a turn":     {two, "k9", version + 3, 0, false},
		"others have served all keys":       {two, "k7", version + 3, 0, false},
		"the turn before was rolled back":   {two, "k5", version, 0, false},
		"the turn before has leased fewer":  {two, "k6", version + 1, 0, false},
		"with a task of the turn before":    {[]dialect.Row{first, last}, "k7", version + 1, 0, false},
		"fewer keys than wanted":            {[]dialect.Row{first}, "k7", version + 1, 0, true},
		"after the last key, in a new turn": {two, "", version + 1, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := &limitState{}
			if st.turn.get() != nil {
				t.Fatal("a client guesses before its first turn")
			}
			st.turn.set("k7", version, []dialect.Row{last})
			within := checkoutWithin{state: st, ahead: ahead{keys: &c.rows, limit: limit, guess: st.turn.get()},
				old: Record{Version: c.version, Now: now + c.wait.Microseconds()}}
			rows, wanted, ok := within.keysAfter(c.after)
			if ok != c.ok || ok && (len(rows) != len(c.rows) || wanted != limit) {
				t.Errorf("got %d keys of %d, %v", len(rows), wanted, ok)
			}
			if _, _, again := within.keysAfter(c.after); again {
				t.Error("the keys are used twice")
			}
			pause := 0
			for st.turn.get() == nil {
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
	within := checkoutWithin{state: &limitState{}, ahead: ahead{keys: &[]dialect.Row{{ID: uuid.New()}}, limit: 5}}
	if rows, limit, ok := within.keysAfter("k9"); !ok || len(rows) != 1 || limit != 5 {
		t.Errorf("got %d keys of %d, %v", len(rows), limit, ok)
	}
}

func TestClientGuessesOnAfterTheLastKey(t *testing.T) {
	t.Parallel()
	st := &limitState{}
	st.turn.set("k7", 1, nil)
	within := checkoutWithin{state: st, ahead: ahead{keys: new([]dialect.Row), limit: 5, guess: st.turn.get()},
		old: Record{Version: 2}}
	if _, _, ok := within.keysAfter("k7"); ok {
		t.Error("no keys are taken for the keys that follow, though some may have been added since")
	}
	if st.turn.get() == nil {
		t.Error("the next checkout does not guess")
	}
}

func TestNoGuessAfterATurnOfManyTasks(t *testing.T) {
	t.Parallel()
	var g turnGuess
	g.set("k7", 1, make([]dialect.Row, keysOnce))
	if g.get() == nil {
		t.Errorf("no guess after %d tasks", keysOnce)
	}
	g.set("k7", 1, make([]dialect.Row, keysOnce+1))
	if g.get() != nil {
		t.Errorf("a guess after %d tasks", keysOnce+1)
	}
}

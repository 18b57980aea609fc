package search

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/check"
)

// A walker searches a queue whose clock says 1e9.
type walker struct {
	t      *testing.T
	cursor Cursor
}

const walkerNow = 1_000_000_000

func walk(t *testing.T, f func(w *walker)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { f(&walker{t: t}) })
}

// search takes found tasks of up to limit, all due at a time, and checks whether it began at the cursor.
func (w *walker) search(limit, found int, due int64, took time.Duration, ahead bool) Scan {
	w.t.Helper()
	l := w.cursor.Begin(limit)
	if l.FromCursor != ahead {
		w.t.Errorf("a search for %d began at the cursor: %v, want %v", limit, l.FromCursor, ahead)
	}
	rows := make([]dialect.Row, found)
	for i := range rows {
		rows[i] = dialect.Row{Priority: 5, WasDue: due, Now: walkerNow}
	}
	deadTuples, now := func() (bool, error) { return true, nil }, func() (int64, error) { return walkerNow, nil }
	if err := l.Found(dialect.CheckoutResult{Rows: rows}, took, deadTuples, now); err != nil {
		w.t.Fatal(err)
	}
	return l
}

func TestLargeFullCheckoutLeavesCursor(t *testing.T) {
	walk(t, func(w *walker) {
		w.search(100, 100, 7, time.Millisecond, false)
		if l := w.search(100, 100, 8, time.Millisecond, true); l.Since[5] != 7 || l.Since[4] != 0 {
			t.Errorf("the second begins at %v, want 7 in priority 5", l.Since)
		}
		w.search(1, 1, 8, time.Millisecond, false) // a small one keeps the order
		w.search(100, 100, 9, time.Millisecond, true)
		time.Sleep(cursorFor + time.Millisecond)
		w.search(100, 100, 9, time.Millisecond, false)
		w.search(100, 99, 9, time.Millisecond, true)
		time.Sleep(cursorFor + time.Millisecond)
		w.search(100, 99, 9, time.Millisecond, false)
		w.search(100, 99, 9, time.Millisecond, false) // no backlog, no cursor
	})
}

func TestBackdatedTaskResetsCursor(t *testing.T) {
	walk(t, func(w *walker) {
		w.search(100, 100, 7, time.Millisecond, false)
		w.cursor.Backdated(lateEnqueue)
		w.search(100, 100, 7, time.Millisecond, true)
		w.cursor.Backdated(lateEnqueue + 1)
		w.search(100, 100, 7, time.Millisecond, false)
	})
}

func TestOneOfSeveralCheckoutsSearchesFromStart(t *testing.T) {
	walk(t, func(w *walker) {
		w.search(100, 100, 7, time.Millisecond, false)
		time.Sleep(cursorFor + time.Millisecond)
		if w.cursor.Begin(100).FromCursor || !w.cursor.Begin(100).FromCursor {
			t.Error("not the first of two alone searches from the start")
		}
	})
}

func TestSlowSearchesAreRareAndSmallCheckoutsUseCursor(t *testing.T) {
	walk(t, func(w *walker) {
		w.search(10, 3, 7, time.Second, false)
		if l := w.search(10, 0, 0, 0, true); l.Since[0] != walkerNow-lateEnqueue.Microseconds() || l.Since[9] != l.Since[0] {
			t.Errorf("begins at %v, want a while before now", l.Since)
		}
		time.Sleep(searchShare*time.Second - time.Millisecond)
		w.search(10, 0, 0, 0, true)
		time.Sleep(2 * time.Millisecond)
		w.search(10, 0, 0, time.Hour, false)
		time.Sleep(cursorMost - time.Millisecond)
		w.search(10, 0, 0, 0, true)
		w.cursor.Reset()
		w.search(10, 0, 0, time.Millisecond, false) // quick again
		w.search(10, 0, 0, time.Millisecond, false)
	})
}

// While searches are slow, the better priorities that a search went through are passed, too, but not what may still be
// committed.
func TestSlowSearchPassesBetterPriorities(t *testing.T) {
	walk(t, func(w *walker) {
		w.search(10, 10, 7, time.Second, false)
		l := w.cursor.Begin(10)
		if most := walkerNow - lateEnqueue.Microseconds(); l.Since[5] != 7 || l.Since[4] != most || l.Since[6] != 0 {
			t.Errorf("begins at %v, want 7 in priority 5, %d in better ones, and the start in others", l.Since, most)
		}
	})
}

func TestLongSearchWithoutDeadTuplesIsNotSlow(t *testing.T) {
	walk(t, func(w *walker) {
		l := w.cursor.Begin(1)
		must(t, l.Found(dialect.CheckoutResult{}, time.Hour, func() (bool, error) { return false, nil }, nil))
		w.search(1, 0, 0, time.Millisecond, false)
	})
}

func TestOldestLeasedIsFoundWhenSearchesAreSlow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var w ExpiredCursor
		asked := int64(-1)
		oldest := func() int64 {
			asked = -1
			at, err := w.find(func(oldest int64) (int64, error) {
				asked = oldest
				return 7, nil
			})
			must(t, err)
			return at
		}
		want := func(what string, at, wantAt, wantAsked int64) {
			t.Helper()
			if at != wantAt || asked != wantAsked {
				t.Errorf("%s: from %d on, asked from %d on; want %d and %d", what, at, asked, wantAt, wantAsked)
			}
		}
		want("at first", oldest(), 0, -1)
		w.SetSlow(true)
		want("after a slow search", oldest(), 7, 0)
		want("once", oldest(), 7, -1)
		must(t, w.Searched(time.Hour, 0, func() (bool, error) { return true, nil }))
		want("after another", oldest(), 7, 7)
		time.Sleep(oldestFor + time.Millisecond)
		want("when it is old", oldest(), 7, 0)
		w.Reset()
		want("when it is over", oldest(), 7, 0)
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	check.OK(t, err)
}

func TestCursorResetsWhenSomethingIsDue(t *testing.T) {
	walk(t, func(w *walker) {
		ask := func(due int64) {
			if _, err := w.cursor.Begin(1).Checked(dialect.Row{Due: &due, Now: walkerNow}, time.Millisecond, nil); err != nil {
				w.t.Fatal(err)
			}
		}
		w.search(100, 100, 7, time.Millisecond, false)
		w.search(100, 20, 9, time.Millisecond, true) // the end of the backlog
		ask(walkerNow + 1)
		w.search(100, 0, 0, time.Millisecond, true)
		ask(3)
		w.search(100, 1, 3, time.Millisecond, false)
	})
}

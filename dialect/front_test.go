package dialect

import (
	"testing"
	"testing/synctest"
	"time"
)

// A walker looks through a queue whose clock says 1e9, at looks of a length.
type walker struct {
	t     *testing.T
	front Front
}

const walkerNow = 1_000_000_000

func walk(t *testing.T, f func(w *walker)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { f(&walker{t: t}) })
}

// look takes found tasks of up to limit, all due at a time, and holds whether it began at the front.
func (w *walker) look(limit, found int, due int64, took time.Duration, ahead bool) Look {
	w.t.Helper()
	l := w.front.Look(limit)
	if l.Ahead != ahead {
		w.t.Errorf("a look for %d began at the front: %v, want %v", limit, l.Ahead, ahead)
	}
	rows := make([]Row, found)
	for i := range rows {
		rows[i] = Row{Priority: 5, WasDue: due, Now: walkerNow}
	}
	if err := l.Found(rows, took, func() (bool, error) { return true, nil }, func() (int64, error) { return walkerNow, nil }); err != nil {
		w.t.Fatal(err)
	}
	return l
}

func TestALargeCheckoutThatFilledUpLeavesAFrontForASecond(t *testing.T) {
	walk(t, func(w *walker) {
		w.look(100, 100, 7, time.Millisecond, false)
		if l := w.look(100, 100, 8, time.Millisecond, true); l.Since[5] != 7 || l.Since[4] != 0 {
			t.Errorf("the second begins at %v, want 7 in priority 5", l.Since)
		}
		w.look(1, 1, 8, time.Millisecond, false) // a small one keeps the order
		w.look(100, 100, 9, time.Millisecond, true)
		time.Sleep(frontFor + time.Millisecond)
		w.look(100, 100, 9, time.Millisecond, false)
		w.look(100, 99, 9, time.Millisecond, true)
		time.Sleep(frontFor + time.Millisecond)
		w.look(100, 99, 9, time.Millisecond, false)
		w.look(100, 99, 9, time.Millisecond, false) // no backlog, no front
	})
}

func TestTheFrontEndsWhenThisClientAddsATaskThatHasBeenDueForLong(t *testing.T) {
	walk(t, func(w *walker) {
		w.look(100, 100, 7, time.Millisecond, false)
		w.front.Late(lateEnqueue)
		w.look(100, 100, 7, time.Millisecond, true)
		w.front.Late(lateEnqueue + 1)
		w.look(100, 100, 7, time.Millisecond, false)
	})
}

func TestSeveralCheckoutsLookFromTheStartInTurns(t *testing.T) {
	walk(t, func(w *walker) {
		w.look(100, 100, 7, time.Millisecond, false)
		time.Sleep(frontFor + time.Millisecond)
		if w.front.Look(100).Ahead || !w.front.Look(100).Ahead {
			t.Error("not the first of two alone looks from the start")
		}
	})
}

func TestASlowLookIsMadeSeldomAndSmallCheckoutsFollowTheFront(t *testing.T) {
	walk(t, func(w *walker) {
		w.look(10, 3, 7, time.Second, false)
		if l := w.look(10, 0, 0, 0, true); l.Since[0] != walkerNow-lateEnqueue.Microseconds() || l.Since[9] != l.Since[0] {
			t.Errorf("begins at %v, want a while before now", l.Since)
		}
		time.Sleep(lookShare*time.Second - time.Millisecond)
		w.look(10, 0, 0, 0, true)
		time.Sleep(2 * time.Millisecond)
		w.look(10, 0, 0, time.Hour, false)
		time.Sleep(frontMost - time.Millisecond)
		w.look(10, 0, 0, 0, true)
		w.front.End()
		w.look(10, 0, 0, time.Millisecond, false) // quick again
		w.look(10, 0, 0, time.Millisecond, false)
	})
}

// While looks are slow, the better priorities that a search went through are passed, too, but not what may still be committed.
func TestASlowLookPassesTheBetterPriorities(t *testing.T) {
	walk(t, func(w *walker) {
		w.look(10, 10, 7, time.Second, false)
		l := w.front.Look(10)
		if most := walkerNow - lateEnqueue.Microseconds(); l.Since[5] != 7 || l.Since[4] != most || l.Since[6] != 0 {
			t.Errorf("begins at %v, want 7 in priority 5, %d in better ones, and the start in others", l.Since, most)
		}
	})
}

func TestALookThatTookLongIsQuickWhenNothingIsDead(t *testing.T) {
	walk(t, func(w *walker) {
		l := w.front.Look(1)
		must(t, l.Found(nil, time.Hour, func() (bool, error) { return false, nil }, nil))
		w.look(1, 0, 0, time.Millisecond, false)
	})
}

func TestTheOldestTaskInWorkIsFoundOutWhenItMatters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var w Working
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
		w.Was(true)
		want("after a slow search", oldest(), 7, 0)
		want("once", oldest(), 7, -1)
		must(t, w.Searched(time.Hour, 0, func() (bool, error) { return true, nil }))
		want("after another", oldest(), 7, 7)
		time.Sleep(oldestFor + time.Millisecond)
		want("when it is old", oldest(), 7, 0)
		w.End()
		want("when it is over", oldest(), 7, 0)
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestTheFrontEndsWhenSomethingIsSaidToBeDue(t *testing.T) {
	walk(t, func(w *walker) {
		ask := func(due int64) {
			if _, err := w.front.Look(1).Asked(Row{Due: &due, Now: walkerNow}, time.Millisecond, nil); err != nil {
				w.t.Fatal(err)
			}
		}
		w.look(100, 100, 7, time.Millisecond, false)
		w.look(100, 20, 9, time.Millisecond, true) // the end of the backlog
		ask(walkerNow + 1)
		w.look(100, 0, 0, time.Millisecond, true)
		ask(3)
		w.look(100, 1, 3, time.Millisecond, false)
	})
}

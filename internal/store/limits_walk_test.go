package store

import (
	"testing"
	"time"
)

func TestVainWalkEndsWhenItHasComeRound(t *testing.T) {
	t.Parallel()
	type step struct {
		from, at string
		goOn     bool
	}
	for name, steps := range map[string][]step{
		"from the start":        {{"", "c", true}, {"c", "f", true}, {"f", "a", false}, {"a", "d", true}, {"d", "b", false}},
		"from the middle":       {{"m", "p", true}, {"p", "c", true}, {"c", "m", false}},
		"with another client":   {{"c", "f", true}, {"m", "p", true}, {"x", "b", true}, {"e", "g", false}},
		"another has come past": {{"c", "f", true}, {"d", "e", false}},
		"after a rollback":      {{"a", "f", true}, {"a", "f", true}, {"f", "b", false}},
	} {
		var w vainWalk
		for i, s := range steps {
			if goOn := w.stopped(s.from, s.at); goOn != s.goOn {
				t.Errorf("%s: step %d from %q to %q: it goes on: %v", name, i+1, s.from, s.at, goOn)
			}
		}
	}
}

func TestVainWalkReturnsWaitOfSoonestKey(t *testing.T) {
	t.Parallel()
	var w vainWalk
	want := func(now int64, wait, soonest time.Duration) {
		t.Helper()
		if got := w.soonest(now, wait); got != soonest {
			t.Errorf("at %d, with a wait of %d: %d, want %d", now, wait, got, soonest)
		}
	}
	want(100, 0, 0)
	want(100, 50, 50)
	want(110, 0, 0) // the walk was over
	w.stopped("a", "c")
	want(200, 50, 50)
	w.stopped("c", "e")
	want(210, 90, 40)
	w.stopped("e", "g")
	want(220, 10, 10)
	want(240, 0, 1) // its time has come
	want(240, 30, 1)
	w.ended()
	want(250, 50, 1)
	want(250, 50, 50)
}

func TestSpareKeysFollowWhatTheLastWalkCouldNotUse(t *testing.T) {
	t.Parallel()
	var s spareKeys
	for i, step := range []struct{ unused, spare int }{{0, 0}, {3, 6}, {0, 5}, {2, 4}, {100, maxSpareKeys}, {0, 31}} {
		if s.unused(step.unused); s.count() != step.spare {
			t.Errorf("step %d: %d spare keys after %d of no use, want %d", i+1, s.count(), step.unused, step.spare)
		}
	}
}

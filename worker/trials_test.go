package worker

import (
	"testing"
	"time"

	"github.com/dbq-go/dbq"
)

// lapsedTask is a task that a worker has leased after some lapses.
func lapsedTask(lapses int) *leased { return &leased{task: dbq.Task{Lapses: lapses}} }

// begins reports whether a suspect can start now, and whether it is on trial.
func begins(s *trials, l *leased) (ok, trial bool) {
	ok = s.begin(l, false)
	return ok, ok && l.onTrial()
}

// pass runs suspects until n more have passed.
func pass(s *trials, n int) {
	for range n {
		l := lapsedTask(suspectAfter)
		s.begin(l, false)
		s.end(l, true)
	}
}

// A suspect on trial runs beside no other suspect.
func TestTrialExcludesOtherSuspects(t *testing.T) {
	t.Parallel()
	s := new(trials)
	first, second := lapsedTask(2), lapsedTask(2)
	if ok, trial := begins(s, first); !ok || !trial {
		t.Fatalf("the first suspect began: %v, on trial: %v, want both", ok, trial)
	}
	if s.begin(second, true) {
		t.Errorf("another suspect began beside a trial")
	}
	time.AfterFunc(suspectWait/10, func() { s.end(first, true) })
	if !s.begin(second, true) || second.onTrial() {
		t.Errorf("a suspect that another one vouches for did not begin without a trial")
	}
	if ok, _ := begins(s, lapsedTask(2)); !ok {
		t.Errorf("a suspect did not begin beside one that is not on trial")
	}
	if ok, _ := begins(s, lapsedTask(4)); ok {
		t.Errorf("a trial began beside another suspect")
	}
}

// With each lapse, twice as many must vouch for a suspect, so it is on trial sooner or later.
func TestEachLapseDoublesTheSuspicion(t *testing.T) {
	t.Parallel()
	s, passed := new(trials), 0
	for lapses := suspectAfter; lapses < 12; lapses++ {
		pass(s, 1<<(lapses-suspectAfter)-1-passed)
		l := lapsedTask(lapses)
		if _, trial := begins(s, l); !trial {
			t.Errorf("after %d lapses, it is not on trial", lapses)
		}
		s.end(l, false) // its handler was not called
		pass(s, 1)
		passed = 1 << (lapses - suspectAfter)
		if ok, trial := begins(s, l); !ok || trial {
			t.Errorf("after %d lapses, and %d suspects that passed, it began: %v, on trial: %v", lapses, passed, ok, trial)
		}
		s.end(l, false)
	}
	if _, trial := begins(s, lapsedTask(99)); !trial {
		t.Errorf("after 99 lapses, it is not on trial")
	}
}

// A suspect whose handler was given up, and may still run, vouches for no other.
func TestSuspectThatHangsVouchesForNone(t *testing.T) {
	t.Parallel()
	s, l := new(trials), lapsedTask(suspectAfter)
	s.begin(l, false)
	s.end(l, false)
	s.end(l, true) // it returns after all
	if ok, trial := begins(s, lapsedTask(suspectAfter)); !ok || !trial {
		t.Errorf("after a suspect was given up, the next one began: %v, on trial: %v, want both", ok, trial)
	}
}

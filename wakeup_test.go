package dbq

import (
	"testing"
	"time"
)

func TestADenseStreamOfTimesPutsNoneOff(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	var u upcoming
	arrived := 0
	for now := time.Duration(1); now < 500*ms; now += ms / 4 {
		u.add(arrival{at: now + 50*ms, tasks: 1})
		for _, a := range u.take(now) {
			if late := now - a.at; late < 0 || late > ms {
				t.Fatalf("at %v what was due at %v arrived", now, a.at)
			}
			arrived += a.tasks
		}
		if len(u.known) > 52 {
			t.Fatalf("at %v there are %d times to come within 50 ms", now, len(u.known))
		}
	}
	for _, a := range u.take(time.Second) {
		arrived += a.tasks
	}
	if arrived != 2000 {
		t.Errorf("%d tasks arrived, want 2000", arrived)
	}
}

func TestTimesForWhichThereIsNoRoomAreAskedAbout(t *testing.T) {
	t.Parallel()
	var u upcoming
	for i := 2 * maxUpcoming; i > 0; i-- {
		u.add(arrival{at: time.Duration(i) * time.Second, tasks: 1})
	}
	u.expected = time.Millisecond
	if got := u.next(); got != time.Millisecond {
		t.Errorf("next is %v, want what the database said", got)
	}
	all := u.take(maxUpcoming * time.Second)
	if len(all) != maxUpcoming+1 || !all[maxUpcoming].ask {
		t.Errorf("%d times arrived, want %d and a question", len(all), maxUpcoming)
	}
	if got := u.next(); got != (maxUpcoming+1)*time.Second {
		t.Errorf("next is %v, want the first for which there was no room", got)
	}
	if rest := u.take(time.Hour * 24); len(rest) != 1 || !rest[0].ask || u.next() != 0 {
		t.Errorf("got %v, want one question", rest)
	}
}

// bells makes n bells of a queue that nothing but the test rings.
func bells(t *testing.T, n int) (place, []*Bell) {
	t.Helper()
	c := inMemory(t)
	out := make([]*Bell, n)
	for i := range out {
		out[i] = c.Queue(t.Name()).Bell() // in-memory databases are one place
		t.Cleanup(out[i].Close)
	}
	return c.place, out
}

// rung are which bells have rung.
func rung(bs []*Bell) (out []int) {
	for i, b := range bs {
		select {
		case <-b.C():
			out = append(out, i)
		default:
		}
	}
	return out
}

func wantRung(t *testing.T, what string, bs []*Bell, want int) {
	t.Helper()
	if got := rung(bs); len(got) != want {
		t.Errorf("%s: bells %v rang, want %d of them", what, got, want)
	}
}

func TestAsManyBellsRingAsAreNeeded(t *testing.T) {
	t.Parallel()
	p, bs := bells(t, 5)
	for _, b := range bs[:4] {
		b.Wait(10)
	}
	p.wake(t.Name(), wakeup{now: 1}, false)
	wantRung(t, "one task", bs, 1)
	p.wake(t.Name(), wakeup{now: 11}, false)
	wantRung(t, "eleven tasks", bs, 2)
	if rest := p.wake(t.Name(), wakeup{now: 25}, false); rest != 15 {
		t.Errorf("for %d tasks no bell waited, want 15", rest)
	}
	wantRung(t, "more than one can take", bs, 1)
	bs[4].Wait(10)
	bs[0].Wait(10)
	bs[1].Wait(10)
	wantRung(t, "what was missed is for those that wait next", bs, 2)
}

func TestARingThatIsNotFollowedIsPassedOn(t *testing.T) {
	t.Parallel()
	p, bs := bells(t, 3)
	bs[0].Wait(1)
	p.wake(t.Name(), wakeup{now: 1}, false)
	wantRung(t, "the first", bs, 1)
	bs[1].Wait(1)
	bs[0].Pass() // it was received, and its owner is paused
	wantRung(t, "passed on", bs[1:], 1)
	bs[1].Close() // before its owner has looked
	bs[2].Wait(1)
	wantRung(t, "closed", bs, 1)
	bs[2].Look()
	bs[2].Pass()
	bs[0].Wait(1)
	wantRung(t, "after a look", bs, 0)
}

func TestWhatALookHasSeenRingsNoMore(t *testing.T) {
	t.Parallel()
	p, bs := bells(t, 1)
	b := bs[0]
	p.wake(t.Name(), wakeup{now: 3}, false)
	b.Look()
	b.Found(3, false)
	b.Wait(1)
	wantRung(t, "missed before the look", bs, 0)
	b.Look()
	p.wake(t.Name(), wakeup{now: 1}, false)
	b.Found(0, false)
	b.Wait(1)
	wantRung(t, "missed during the look", bs, 1)
}

// hear lets a bell hear of a task, and reports whether it rings without hesitation.
func hear(p place, queue string, b *Bell) bool {
	b.Wait(1)
	p.heard(queue, wakeup{later: []arrival{{tasks: 1}}})
	return len(rung([]*Bell{b})) == 1
}

func TestAProcessThatIsFirstTwiceHesitatesNoMore(t *testing.T) {
	t.Parallel()
	p, bs := bells(t, 1)
	b := bs[0]
	for i := range 2 {
		if hear(p, t.Name(), b) {
			t.Fatalf("after it was first %d times it does not hesitate", i)
		}
		b.Look()
		b.Found(1, false) // by polling
		b.of.mu.Lock()    // as if it had been a while ago
		b.of.early, b.of.asks, b.of.upcoming = 0, 0, upcoming{}
		b.of.mu.Unlock()
	}
	for range 3 { // once in a while it comes too late, as after a checkout of its own
		for _, n := range []int{1, 0, 1} {
			if !hear(p, t.Name(), b) {
				t.Fatal("a process that was first hesitates")
			}
			b.Look()
			b.Found(n, false)
		}
	}
	for range 2 {
		hear(p, t.Name(), b)
		b.Look()
		b.Found(0, false)
	}
	if hear(p, t.Name(), b) {
		t.Error("a process that came too late twice does not hesitate")
	}
}

func TestNotificationsAreRead(t *testing.T) {
	t.Parallel()
	word := (&telling{now: 3, later: []told{{time.Unix(0, 0).Add(1500 * time.Microsecond), 2, true}}}).take(time.Unix(0, 0), false)
	if word != "0:3,2:2?" {
		t.Fatalf("the word is %q", word)
	}
	u := toldBy(word)
	if len(u.later) != 2 || u.later[0] != (arrival{tasks: 3}) || u.later[1] != (arrival{at: 2 * time.Millisecond, tasks: 2, ask: true}) {
		t.Errorf("read as %+v", u)
	}
	for _, word := range []string{"", "x", "1", "1:", ":1", "-1:1", "1:-1", "1:1:1", "99999999999999999999:1"} {
		if u := toldBy(word); len(u.later) != 1 || u.later[0] != (arrival{tasks: 1, ask: true}) {
			t.Errorf("%q is read as %+v, want a question", word, u)
		}
	}
	if u := toldBy("9000000000000000000:1"); u.later[0].at != farthest {
		t.Errorf("a time beyond all is read as %v", u.later[0].at)
	}
}

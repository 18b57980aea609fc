package wake

import (
	"testing"
	"time"
)

func TestDenseScheduleDelaysNoTime(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	var s schedule
	taken := 0
	for now := time.Duration(1); now < 500*ms; now += ms / 4 {
		s.add(dueTime{at: now + 50*ms, Wakeup: Wakeup{tasks: 1}})
		for _, d := range s.take(now) {
			if late := now - d.at; late < 0 || late > ms {
				t.Fatalf("at %v what was due at %v was taken", now, d.at)
			}
			taken += d.tasks
		}
		if len(s.times) > 52 {
			t.Fatalf("at %v there are %d times to come within 50 ms", now, len(s.times))
		}
	}
	for _, d := range s.take(time.Second) {
		taken += d.tasks
	}
	if taken != 2000 {
		t.Errorf("%d tasks were taken, want 2000", taken)
	}
}

func TestTimesBeyondCapacityAreUncertain(t *testing.T) {
	t.Parallel()
	var s schedule
	for i := 2 * maxScheduled; i > 0; i-- {
		s.add(dueTime{at: time.Duration(i) * time.Second, Wakeup: Wakeup{tasks: 1}})
	}
	s.expected = time.Millisecond
	if got := s.next(); got != time.Millisecond {
		t.Errorf("next is %v, want what the database reported", got)
	}
	all := s.take(maxScheduled * time.Second)
	if len(all) != maxScheduled+1 || !all[maxScheduled].Uncertain {
		t.Errorf("%d times were taken, want %d and an uncertain one", len(all), maxScheduled)
	}
	if got := s.next(); got != (maxScheduled+1)*time.Second {
		t.Errorf("next is %v, want the first for which there was no room", got)
	}
	if rest := s.take(time.Hour * 24); len(rest) != 1 || !rest[0].Uncertain || s.next() != 0 {
		t.Errorf("got %v, want one uncertain time", rest)
	}
}

func TestMessagesRoundTrip(t *testing.T) {
	t.Parallel()
	const start = time.Hour
	m := &message{}
	m.add(Due{now: 3, later: []dueTime{
		{at: start + 1500*time.Microsecond, Wakeup: Wakeup{tasks: 2, Uncertain: true}},
	}}, start)
	text := m.take(start, false)
	if text != "0:3,2:2?" {
		t.Fatalf("the message is %q", text)
	}
	want := dueTime{at: 2 * time.Millisecond, Wakeup: Wakeup{tasks: 2, Uncertain: true}}
	if got := decode(text); len(got) != 2 || got[0] != (dueTime{Wakeup: Wakeup{tasks: 3}}) || got[1] != want {
		t.Errorf("read as %+v", got)
	}
	unknown := dueTime{Wakeup: Wakeup{tasks: 1, Uncertain: true}}
	for _, text := range []string{"", "x", "1", "1:", ":1", "-1:1", "1:-1", "1:1:1", "99999999999999999999:1"} {
		if got := decode(text); len(got) != 1 || got[0] != unknown {
			t.Errorf("%q is read as %+v, want an uncertain task", text, got)
		}
	}
	if got := decode("9000000000000000000:1"); got[0].at != farthest {
		t.Errorf("a time beyond all is read as %v", got[0].at)
	}
	if got := decode("0:9223372036854775807"); got[0].tasks != maxAnnounced {
		t.Errorf("a number beyond all is read as %d", got[0].tasks)
	}
}

package worker

import (
	"math"
	"slices"
	"testing"
	"time"
)

// simulated is a worker in a simulation: executors that call handlers of a fixed duration, and a pace that decides
// about checkouts.
type simulated struct {
	pace      pace
	ends      []time.Duration // of the calls under way
	begun     []time.Duration
	ready     int
	due       time.Duration // when the checkout under way returns
	want      int           // and how many tasks it requested; 0 if none is under way
	requested time.Duration
	idle      int
}

// burst has workers of some executors each do n tasks, and returns how long that takes. steps are simulated.
func burst(workers []*simulated, n int, handler, checkout time.Duration) time.Duration {
	left, doing := n, n
	step := min(handler, checkout) / 5
	for now := time.Duration(0); ; now += step {
		for _, w := range workers {
			if w.want > 0 && now >= w.due {
				got := min(w.want, left)
				left -= got
				w.ready += got
				w.want = 0
				w.pace.checkedOut(now - w.requested)
			}
			for i := 0; i < len(w.ends); i++ {
				if now >= w.ends[i] {
					w.pace.handled(1, w.ends[i]-w.begun[i])
					w.ends, w.begun = slices.Delete(w.ends, i, i+1), slices.Delete(w.begun, i, i+1)
					w.idle++
					doing--
					i--
				}
			}
			for ; w.idle > 0 && w.ready > 0; w.idle-- {
				w.ready--
				w.ends, w.begun = append(w.ends, now+handler), append(w.begun, now)
			}
			ages := make([]time.Duration, len(w.begun))
			for i, b := range w.begun {
				ages[i] = now - b
			}
			ahead, _ := w.pace.decide(w.idle, ages, 4000)
			target := w.idle + ahead
			if missing := target - w.ready; w.want == 0 && left > 0 && missing >= max(1, min(target/2, 1000)) {
				w.want, w.requested, w.due = min(missing, 1000), now, now+checkout
			}
		}
		if doing == 0 {
			return now
		}
	}
}

// Two workers share a burst so that it takes little longer than by a perfect division, cold and warm.
func TestBurstIsSharedFairly(t *testing.T) {
	t.Parallel()
	for _, executors := range []int{1, 10} {
		for _, handler := range []time.Duration{time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond,
			500 * time.Millisecond,
			10 * time.Second} {
			for _, checkout := range []time.Duration{time.Millisecond, 3 * time.Millisecond} {
				workers := []*simulated{{idle: executors}, {idle: executors}}
				if handler > time.Second { // the finer steps of its simulation would show nothing else
					checkout *= 20
				}
				n := max(10, int(200*time.Millisecond/handler)) * 2 * executors
				ideal := handler * time.Duration(n) / time.Duration(2*executors)
				for _, run := range []string{"cold", "warm"} {
					took := burst(workers, n, handler, checkout)
					if took > ideal*11/10+2*checkout {
						t.Errorf("%d executors, %v tasks, checkouts of %v, %s: %v, want %v",
							executors, handler, checkout, run, took, ideal)
					}
				}
			}
		}
	}
}

func TestPaceDecidesHowManyToLeaseAhead(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	running := func(n int, age time.Duration) []time.Duration { return slices.Repeat([]time.Duration{age}, n) }
	for name, c := range map[string]struct {
		handler, checkout time.Duration
		idle              int
		running           []time.Duration
		before            int // decided before
		want              int
		again             time.Duration
	}{
		"cold":                       {0, 0, 10, nil, 0, 0, math.MaxInt64},
		"no checkout measured":       {ms, 0, 0, running(10, 0), 0, 0, math.MaxInt64},
		"slow tasks, just begun":     {500 * ms, 5 * ms, 0, running(10, 0), 0, 0, 490*ms + 1},
		"slow tasks, soon done":      {500 * ms, 5 * ms, 0, running(10, 495*ms), 0, 10, math.MaxInt64},
		"slow tasks, idle executors": {500 * ms, 5 * ms, 10, nil, 0, 0, math.MaxInt64},
		"fast tasks":                 {ms, 5 * ms, 0, running(10, 0), 100, 100, math.MaxInt64},
		"fast tasks, at first":       {ms, 5 * ms, 0, running(10, 0), 0, 40, math.MaxInt64},
		"tasks without work":         {1, 5 * ms, 10, nil, 4000, 4000, math.MaxInt64},
		"fast tasks that got stuck":  {ms, 5 * ms, 0, running(10, time.Second), 200, 0, math.MaxInt64},
	} {
		p := pace{handler: c.handler, checkout: c.checkout, ahead: c.before}
		if got, again := p.decide(c.idle, c.running, 4000); got != c.want || again != c.again {
			t.Errorf("%s: %d ahead, again in %v; want %d, %v", name, got, again, c.want, c.again)
		}
	}
}

func TestPaceFollowsAChangeWithinAFewTasks(t *testing.T) {
	t.Parallel()
	var p pace
	p.handled(1000, time.Second)
	if p.handled(1, 10*time.Second); p.handler < time.Second {
		t.Errorf("after one slow task %v are expected", p.handler)
	}
	for range 20 {
		p.handled(1, time.Millisecond)
	}
	if p.handler > 100*time.Millisecond {
		t.Errorf("after 20 fast tasks %v are expected", p.handler)
	}
}

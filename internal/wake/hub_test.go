package wake

import (
	"testing"
	"testing/synctest"
	"time"
)

// newHub returns a hub that no client uses.
func newHub(t *testing.T) *hub { return hubOf(Tables{Database: t.Name()}) }

// join makes n waiters of topic "q" that nothing but the test wakes.
func join(t *testing.T, n int) (*hub, []*Waiter) {
	t.Helper()
	h := newHub(t)
	out := make([]*Waiter, n)
	for i := range out {
		out[i] = h.join("q", false)
		t.Cleanup(out[i].Close)
	}
	return h, out
}

// woken returns which waiters have been woken.
func woken(ws []*Waiter) (out []int) {
	for i, w := range ws {
		select {
		case <-w.C():
			out = append(out, i)
		default:
		}
	}
	return out
}

func wantWoken(t *testing.T, what string, ws []*Waiter, want int) {
	t.Helper()
	if got := woken(ws); len(got) != want {
		t.Errorf("%s: waiters %v were woken, want %d of them", what, got, want)
	}
}

func TestClientsOfTheSameTablesShareAHub(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	if other := newHub(t); other != h {
		t.Error("two hubs for the same tables")
	}
	if other := hubOf(Tables{Database: t.Name(), Table: "other"}); other == h || other.id == h.id {
		t.Error("one hub for two sets of tables")
	}
}

func TestTopicExistsWhileItHasWaiters(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	a, b := h.join("q", false), h.join("q", false)
	a.Close()
	a.Close() // twice is once
	if h.topic("q") == nil {
		t.Error("the topic is gone, and has a waiter")
	}
	b.Close()
	if h.topic("q") != nil {
		t.Error("the topic is there without waiters")
	}
	if rest, waiting := h.wake("q", Due{now: 3}, false); rest != 3 || waiting {
		t.Errorf("without a topic %d tasks are left, waiting %v", rest, waiting)
	}
}

func TestWakesAsManyWaitersAsNeeded(t *testing.T) {
	t.Parallel()
	h, ws := join(t, 5)
	for _, w := range ws[:4] {
		w.Wait(10)
	}
	h.wake("q", Due{now: 1}, false)
	wantWoken(t, "one task", ws, 1)
	h.wake("q", Due{now: 11}, false)
	wantWoken(t, "eleven tasks", ws, 2)
	if rest, waiting := h.wake("q", Due{now: 25}, false); rest != 15 || !waiting {
		t.Errorf("no waiter waited for %d tasks, want 15; one waited: %v", rest, waiting)
	}
	wantWoken(t, "more than one can take", ws, 1)
	ws[4].Wait(10)
	ws[0].Wait(10)
	ws[1].Wait(10)
	wantWoken(t, "what was missed is for those that wait next", ws, 2)
}

func TestUnusedWakeupIsPassedOn(t *testing.T) {
	t.Parallel()
	h, ws := join(t, 4)
	ws[0].Wait(1)
	h.wake("q", Due{now: 1}, false)
	wantWoken(t, "the first", ws, 1)
	ws[1].Wait(1)
	ws[0].Pass() // it was received, and its owner is paused
	wantWoken(t, "passed on", ws[1:], 1)
	ws[1].Close() // before its owner has checked out
	ws[2].Wait(1)
	wantWoken(t, "closed", ws, 1)
	ws[2].BeforeCheckout()
	ws[2].Pass()
	ws[0].Wait(1)
	wantWoken(t, "after a checkout", ws, 0)
	ws[0].Pass() // it waits no more
	ws[3].Wait(1)
	h.wake("q", Due{now: 1}, false)
	wantWoken(t, "one that has passed", ws[3:], 1)
}

func TestCheckoutServesEarlierWakeups(t *testing.T) {
	t.Parallel()
	h, ws := join(t, 1)
	w := ws[0]
	h.wake("q", Due{now: 3}, false)
	w.BeforeCheckout()
	w.AfterCheckout(3, false)
	w.Wait(1)
	wantWoken(t, "missed before the checkout", ws, 0)
	w.BeforeCheckout()
	h.wake("q", Due{now: 1}, false)
	w.AfterCheckout(0, false)
	w.Wait(1)
	wantWoken(t, "missed during the checkout", ws, 1)
}

func TestBroadcastWakesAll(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	var ws []*Waiter
	for range 3 {
		ws = append(ws, h.join(controlTopic+"q", true))
	}
	tasks := h.join("q", false)
	defer tasks.Close()
	h.broadcast(controlTopic + "q")
	wantWoken(t, "in this process", ws, 3)
	h.receive(controlTopic+"q", "0:1")
	wantWoken(t, "from another process", ws, 3)
	tasks.Wait(1)
	wantWoken(t, "a waiter for tasks", []*Waiter{tasks}, 0)
	h.resync()
	wantWoken(t, "after a gap", append(ws, tasks), 4)
	for _, w := range ws {
		w.Close()
	}
}

// receive lets a waiter receive another process's wake-up, and reports whether it wakes at once.
func receive(h *hub, w *Waiter) bool {
	w.Wait(1)
	h.receive("q", "0:1")
	return len(woken([]*Waiter{w})) == 1
}

func TestTwoFirstCheckoutsEndTheBackoff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testTwoFirstCheckouts) // time stands still, so no backoff ends while the machine is busy
}

func testTwoFirstCheckouts(t *testing.T) {
	h, ws := join(t, 1)
	w := ws[0]
	for i := range 2 {
		if receive(h, w) {
			t.Fatalf("after it was first %d times it does not back off", i)
		}
		w.BeforeCheckout()
		w.AfterCheckout(1, false) // by polling
		w.topic.mu.Lock()         // as if it had been a while ago
		w.topic.early, w.topic.backoffUntil, w.topic.schedule = 0, 0, schedule{}
		w.topic.mu.Unlock()
	}
	for range 3 { // now and then it comes too late, as after a checkout of its own
		for _, n := range []int{1, 0, 1} {
			if !receive(h, w) {
				t.Fatal("a process that was first backs off")
			}
			w.BeforeCheckout()
			w.AfterCheckout(n, false)
		}
	}
	for range 2 {
		receive(h, w)
		w.BeforeCheckout()
		w.AfterCheckout(0, false)
	}
	if receive(h, w) {
		t.Error("a process that came too late twice does not back off")
	}
}

// A checkout that fills up reports when its own keys may go on, which may be later than the keys of the one before.
func TestLaterExpectationKeepsAnEarlierOne(t *testing.T) {
	t.Parallel()
	h, ws := join(t, 1)
	h.expect("q", 20*time.Millisecond)
	h.expect("q", time.Hour)
	select {
	case <-ws[0].Wait(1):
	case <-time.After(10 * time.Second):
		t.Error("nobody is woken at the earlier time")
	}
}

func TestExpectedTaskWakesAWaiterWhenDue(t *testing.T) {
	t.Parallel()
	h, ws := join(t, 1)
	h.expect("q", 20*time.Millisecond)
	begin := time.Now()
	wakeup := <-ws[0].Wait(1)
	if took := time.Since(begin); !wakeup.Uncertain || took < 10*time.Millisecond {
		t.Errorf("woken after %v with %+v", took, wakeup)
	}
}

// A query that finds nothing due answers for all tasks that were announced before, whatever their number.
func TestAnnouncedTasksThatDoNotExistCostFewQueries(t *testing.T) {
	t.Parallel()
	for _, tasks := range []string{"50", "2147483647", "9223372036854775807", "5?"} {
		t.Run(tasks, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h, ws := join(t, 1)
				queries := 0
				for range 3 { // the numbers are added
					h.receive("q", "0:"+tasks)
				}
				time.Sleep(2 * maxBackoff)
				for range 100 {
					select {
					case <-ws[0].Wait(1):
						queries++
						ws[0].AfterCheckout(0, false) // without a checkout
					default:
					}
				}
				if queries == 0 || queries > 2 {
					t.Errorf("%d queries, want one or two", queries)
				}
			})
		})
	}
}

package wake

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// newWaker returns a Waker without a store.
func newWaker(t *testing.T) (*Waker, *fakeDatabase) {
	db := &fakeDatabase{}
	c, _ := newConn(t, db)
	return &Waker{hub: c.hub, notifier: &notifier{conn: c}}, db
}

func wantSent(t *testing.T, db *fakeDatabase, want ...string) {
	t.Helper()
	synctest.Wait()
	time.Sleep(2 * time.Second)
	if got := db.wakeups(); !slices.Equal(got, want) {
		t.Errorf("sent %q, want %q", got, want)
	}
}

func TestTasksForLocalWaitersAreNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, db := newWaker(t)
		waiter := w.TaskWaiter("q")
		defer waiter.Close()
		c := waiter.Wait(2)
		w.WakeTasks("q", 1)
		<-c
		wantSent(t, db)
		waiter.Wait(2)
		w.WakeTasks("q", 5) // the waiter takes two of them
		wantSent(t, db, "0:3 q")
		var later Due
		later.Add(time.Hour)
		w.Wake("q", later) // who takes it is not known yet
		wantSent(t, db, "0:3 q", "3600000:1 q")
	})
}

func TestWakeAfterCommitPrefersThisProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, db := newWaker(t)
		waiter := w.TaskWaiter("q")
		defer waiter.Close()
		c := waiter.Wait(1)
		w.WakeAfterCommit("q", Due{now: 1})
		for range commitTimes {
			if wakeup := <-c; !wakeup.Uncertain {
				t.Error("woken as if the commit had been seen")
			}
			waiter.BeforeCheckout()
			waiter.AfterCheckout(0, false)
			c = waiter.Wait(1)
		}
		wantSent(t, db)
		waiter.BeforeCheckout() // it waits no more
		w.WakeAfterCommit("q", Due{now: 1})
		time.Sleep(2 * time.Second)
		if got := len(db.wakeups()); got != len(commitTimes) {
			t.Errorf("%d notifications, want one for each of %v", got, commitTimes)
		}
	})
}

func TestControlWakesAllHereAndElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, db := newWaker(t)
		control, revoked, tasks := w.ControlWaiter("q"), w.RevokedWaiter("q"), w.TaskWaiter("q")
		all := []*Waiter{control, revoked, tasks}
		tasks.Wait(1)
		w.WakeControl("q")
		if got := woken(all); !slices.Equal(got, []int{0}) {
			t.Errorf("control woke waiters %v", got)
		}
		w.WakeRevoked("q")
		if got := woken(all); !slices.Equal(got, []int{1}) {
			t.Errorf("a revocation woke waiters %v", got)
		}
		synctest.Wait()
		time.Sleep(time.Second)
		if got := db.wakeups(); len(got) != 2 {
			t.Errorf("sent %q", got)
		}
		for _, waiter := range all {
			waiter.Close()
		}
	})
}

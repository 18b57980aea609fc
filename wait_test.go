package dbq

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/dbq-go/dbq/internal/check"
)

// waitingFor waits until n calls of Wait are polled, and returns how many polls there have been.
func waitingFor(t *testing.T, c *Client, n int) (polls int) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		c.ends.mu.Lock()
		have, polls, polling := len(c.ends.calls), c.ends.polls, c.ends.polling
		c.ends.mu.Unlock()
		if have == n && (n > 0 || !polling) {
			return polls
		}
		if time.Now().After(end) {
			t.Fatalf("%d calls wait, want %d", have, n)
		}
	}
}

// A thousand calls of Wait in a process share their polls: these are as many in a time as those of one call.
func TestWaitSharesPolls(t *testing.T) {
	t.Parallel()
	c := inMemory(t)
	q := c.Queue("q")
	const waiters, tasks = 1000, 100
	ids, err := q.EnqueueMany(t.Context(), make([]NewTask, tasks))
	check.OK(t, err)
	var all sync.WaitGroup
	for i := range waiters {
		id := ids[i%tasks].ID
		all.Go(func() {
			if got, err := c.Wait(t.Context(), id); err != nil || got.ID != id || got.State != StateCompleted {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
	for slow := false; !slow; time.Sleep(time.Millisecond) { // until each has waited for a while
		waitingFor(t, c, waiters)
		slow = true
		c.ends.mu.Lock()
		for w := range c.ends.calls {
			slow = slow && w.pause == maxWait
		}
		c.ends.mu.Unlock()
	}
	// Callers of Wait have joined at different times. What is half due is polled with what is due, so that polls are that
	// far apart.
	const polls = 5
	began := time.Now()
	for last := waitingFor(t, c, waiters) + polls; waitingFor(t, c, waiters) < last; {
		time.Sleep(time.Millisecond)
	}
	if took := time.Since(began); took < (polls-1)*maxWait/2 {
		t.Errorf("%d polls for %d calls in %v", polls, waiters, took)
	}
	leased, err := q.Checkout(t.Context(), tasks, time.Minute)
	if err != nil || len(leased) != tasks {
		t.Fatal(len(leased), err)
	}
	for _, task := range leased {
		check.OK(t, q.Complete(t.Context(), task.Lease, nil))
	}
	all.Wait()
	waitingFor(t, c, 0)
}

// The end of one caller's context, or of the client, leaves nothing behind.
func TestWaitLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	c := inMemory(t)
	id, err := c.Queue("q").Enqueue(t.Context(), NewTask{})
	check.OK(t, err)
	wait := func(ctx context.Context) chan error {
		got := make(chan error, 1)
		go func() {
			_, err := c.Wait(ctx, id)
			got <- err
		}()
		return got
	}
	ctx, cancel := context.WithCancel(t.Context())
	first, second := wait(ctx), wait(t.Context())
	waitingFor(t, c, 2)
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("a call whose context has ended returns %v", err)
	}
	waitingFor(t, c, 1)
	c.Close()
	if err := <-second; err == nil {
		t.Error("a call whose client is closed returns no error")
	}
	waitingFor(t, c, 0)
}

// Wait returns a task with its result when it is completed, poisoned or parked, and ErrNotFound when it is removed.
func TestWaitReturnsTheEndedTask(t *testing.T) {
	t.Parallel()
	c := inMemory(t)
	q := c.Queue("q")
	for want, end := range map[string]Outcome{
		"COMPLETED result": Completed([]byte("result")), "POISON boom": Poisoned(errors.New("boom")),
		"ERROR boom": Parked(errors.New("boom")), "removed": Deleted(),
	} {
		id, err := q.Enqueue(t.Context(), NewTask{})
		check.OK(t, err)
		got := make(chan string)
		go func() {
			task, err := c.Wait(t.Context(), id)
			if e := (*Error)(nil); errors.Is(err, ErrNotFound) && errors.As(err, &e) && e.TaskID == id {
				got <- "removed"
			} else {
				got <- task.State.String() + " " + string(task.Result)
			}
		}()
		for _, o := range []Outcome{RetryIn(0, errors.New("not the end")), end} {
			tasks, err := q.Checkout(t.Context(), 1, time.Minute)
			if err == nil {
				err = q.Settle(t.Context(), tasks[0].Lease, o)
			}
			check.OK(t, err)
		}
		if g := <-got; g != want {
			t.Errorf("got %q, want %q", g, want)
		}
	}
}

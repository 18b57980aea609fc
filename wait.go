package dbq

import (
	"context"
	"sync"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/google/uuid"
)

// The pauses between the polls of a task that is waited for.
const (
	firstWait = 5 * time.Millisecond
	maxWait   = 500 * time.Millisecond
)

// Wait returns the task once it has ended: COMPLETED (with its result), POISON, or parked in ERROR. It polls after pauses that grow to half a
// second, until ctx ends. All calls of a client that wait share their polls, so that a thousand cost little more than one. A task that does
// not exist, or that is removed before Wait sees its end, as by CompleteAndDelete, is ErrNotFound.
func (c *Client) Wait(ctx context.Context, id uuid.UUID) (Task, error) {
	for {
		t, err := c.Get(ctx, id)
		if err == nil && t.Ended() {
			return t, nil
		}
		if err == nil {
			err = c.awaited.wait(ctx, c, t)
		}
		if outer, ok := err.(*Error); ok { // of Get: say what the caller asked for instead
			outer.Op = "wait"
		}
		if err != nil {
			return t, c.wrap("wait", "", id, err)
		}
	}
}

// awaited are the tasks that callers of Wait wait for. While there are some, one goroutine polls them.
type awaited struct {
	mu      sync.Mutex
	waiters map[*waiter]bool
	polling bool
	joined  chan struct{} // told when a waiter has joined
	polls   int           // for tests
}

// waiter is one call of Wait.
type waiter struct {
	task    Task // as it was
	changed chan struct{}
	pause   time.Duration // guarded by awaited.mu, as is next
	next    time.Time     // when it is to be polled
}

// wait returns when the task may have ended, or cannot be polled, or ctx has ended, whose error it is then.
func (a *awaited) wait(ctx context.Context, c *Client, t Task) error {
	w := &waiter{task: t, changed: make(chan struct{}), pause: firstWait, next: time.Now().Add(firstWait)}
	a.mu.Lock()
	if a.waiters == nil {
		a.waiters, a.joined = map[*waiter]bool{}, make(chan struct{}, 1)
	}
	a.waiters[w] = true
	if !a.polling {
		a.polling = true
		go a.poll(c)
	}
	select {
	case a.joined <- struct{}{}:
	default:
	}
	a.mu.Unlock()
	select {
	case <-w.changed:
		return nil
	case <-ctx.Done():
		a.mu.Lock()
		delete(a.waiters, w)
		a.mu.Unlock()
		return ctx.Err()
	}
}

// poll polls until nobody waits.
func (a *awaited) poll(c *Client) {
	for {
		due, rest, some := a.due(time.Now())
		if !some {
			return
		}
		if len(due) == 0 {
			timer := time.NewTimer(rest)
			select {
			case <-timer.C:
			case <-a.joined:
			}
			timer.Stop()
			continue
		}
		a.look(c, due)
	}
}

// due are the waiters to be polled: when one is, so are all whose pause is half over. Without one, rest is how long to wait; some is false,
// and the polling over, when nobody waits.
func (a *awaited) due(now time.Time) (due []*waiter, rest time.Duration, some bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.waiters) == 0 {
		a.polling = false
		return nil, 0, false
	}
	rest = maxWait
	for w := range a.waiters {
		rest = min(rest, w.next.Sub(now))
	}
	if rest > 0 {
		return nil, rest, true
	}
	for w := range a.waiters {
		if w.next.Sub(now) <= w.pause/2 {
			due = append(due, w)
		}
	}
	a.polls++
	return due, 0, true
}

// look reads the states of tasks, and wakes those who wait for one that may have ended. When they cannot be read it wakes all, which find
// out why by themselves.
func (a *awaited) look(c *Client, due []*waiter) {
	ids := make([]uuid.UUID, 0, len(due))
	seen := make(map[uuid.UUID]bool, len(due))
	for _, w := range due {
		if !seen[w.task.ID] {
			seen[w.task.ID] = true
			ids = append(ids, w.task.ID)
		}
	}
	var rows map[uuid.UUID]dialect.Row
	err := c.read(context.Background(), func(ctx context.Context, conn dialect.Conn) (err error) {
		rows, err = c.peek(ctx, conn, ids)
		return err
	})
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	for _, w := range due {
		row, exists := rows[w.task.ID]
		if err == nil && exists && !w.mayHaveEnded(row) {
			w.pause = min(w.pause*3/2, maxWait)
			w.next = now.Add(w.pause)
		} else if a.waiters[w] {
			delete(a.waiters, w)
			close(w.changed)
		}
	}
}

// mayHaveEnded reports whether the task is worth reading whole. Whether one in ERROR is parked only the whole row says, so it is read once
// for each failure.
func (w *waiter) mayHaveEnded(row dialect.Row) bool {
	switch row.State {
	case StateCompleted, StatePoison:
		return true
	case StateError:
		return w.task.State != StateError || w.task.Fence != row.Fence || w.task.Updated.UnixMicro() != row.Updated
	}
	return false
}

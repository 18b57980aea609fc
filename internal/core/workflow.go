package core

import (
	"context"
	"errors"
	"time"

	"github.com/dbq-go/dbq/internal/errs"
	"github.com/dbq-go/dbq/internal/store"
	"github.com/dbq-go/dbq/internal/wake"
)

const (
	// advanceWait is how long a call waits for the workflows of the tasks that it has ended. If a transaction has
	// locked a task that needs them, the rest continues in the background.
	advanceWait = 200 * time.Millisecond
	// advanceTimeout bounds the work that continues after that. Later, a worker tries again.
	advanceTimeout = 5 * time.Minute
	// slowMost is how many of a client's calls at a time may take longer than advanceWait, each up to slowTimeout.
	slowMost, slowTimeout = 2, time.Minute
)

// advancePauses are the pauses before each search for a change of a workflow that a caller's transaction has written.
var advancePauses = []time.Duration{
	5 * time.Millisecond, 20 * time.Millisecond, 80 * time.Millisecond, 300 * time.Millisecond, time.Second,
}

// FollowUp does the work that remains after a call has been committed: it wakes the workers of a dead-letter queue, and
// advances the workflows of tasks that have ended.
func (c *Core) FollowUp(f store.FollowUp) {
	if f.Count > 0 && f.Queue != "" {
		c.Wake.WakeTasks(f.Queue, f.Count)
	}
	if len(f.Changes) == 0 {
		return
	}
	c.inTime(func(ctx context.Context) error {
		for _, change := range f.Changes {
			if err := c.Store.Advance(ctx, change, c.promoted); err != nil {
				return err
			}
		}
		return nil
	})
}

// FollowUpTx is FollowUp for a call in a caller's transaction, whose commit dbq cannot see.
func (c *Core) FollowUpTx(f store.FollowUp) {
	if f.Count > 0 && f.Queue != "" {
		c.Wake.WakeAfterCommit(f.Queue, wake.Now())
	}
	for _, change := range f.Changes {
		go c.advancing(func(ctx context.Context) error {
			for _, pause := range advancePauses {
				if err := store.Sleep(ctx, pause); err != nil {
					return err
				}
				found := false
				err := c.bounded(ctx, func(ctx context.Context) (err error) {
					found, err = c.Store.AdvanceCommitted(ctx, change.Name, c.promoted)
					return err
				})
				if found || err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// AdvanceWorkflows advances the workflows whose tasks an operator or an expired lease has ended.
func (c *Core) AdvanceWorkflows() {
	c.inTime(func(ctx context.Context) error { return c.Store.AdvanceWorkflows(ctx, 0, c.promoted) })
}

// ResumeWorkflows advances workflows that other clients have left for at least age.
func (c *Core) ResumeWorkflows(ctx context.Context, age time.Duration) error {
	return c.Store.AdvanceWorkflows(ctx, age, c.promoted)
}

// inTime runs f, and waits for its end for a moment.
func (c *Core) inTime(f func(ctx context.Context) error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.advancing(func(ctx context.Context) error { return c.bounded(ctx, f) })
	}()
	late := time.NewTimer(advanceWait)
	defer late.Stop()
	select {
	case <-done:
	case <-late.C:
	}
}

// advancing runs f with a context of its own: the call's may end, and may have reserved connections.
func (c *Core) advancing(f func(ctx context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), advanceTimeout)
	defer cancel()
	if err := f(ctx); err != nil && !errors.Is(err, errs.ErrClosed) && !c.Store.Closed() {
		c.Logger.Warn("dbq: cannot advance a workflow; workers will try again", "error", c.Store.Scrub(err))
	}
}

// promoted wakes the workers of tasks that no longer wait for others.
func (c *Core) promoted(tasks []store.Promoted) {
	due := map[string]wake.Due{}
	for _, t := range tasks {
		d := due[t.Queue]
		d.Add(t.After)
		due[t.Queue] = d
	}
	for queue, d := range due {
		c.Wake.Wake(queue, d)
	}
}

// bounded calls f, which may wait for rows that another transaction has locked, on a connection of the pool. Only some
// calls at a time may take longer than advanceWait: more could use up the pool. The others are cut, and repeated when
// it is their turn.
func (c *Core) bounded(ctx context.Context, f func(ctx context.Context) error) error {
	c.slowOnce.Do(func() { c.slow = make(chan struct{}, slowMost) })
	inSlot, cut, err := c.untilLate(ctx, f)
	if inSlot {
		<-c.slow
	}
	if !cut {
		return err
	}
	select {
	case c.slow <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-c.slow }()
	ctx, cancel := context.WithTimeout(ctx, slowTimeout)
	defer cancel()
	return f(ctx)
}

// untilLate calls f. If that takes longer than advanceWait, it continues in one of the slots, or is cut if none is
// free.
func (c *Core) untilLate(ctx context.Context, f func(ctx context.Context) error) (inSlot, cut bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		late := time.NewTimer(advanceWait)
		defer late.Stop()
		select {
		case <-done:
			return
		case <-late.C:
		}
		select {
		case c.slow <- struct{}{}:
			inSlot = true
		default:
			cut = true
			cancel()
			return
		}
		select {
		case <-done:
		case <-time.After(slowTimeout):
			cancel()
		}
	}()
	err = f(ctx)
	close(done)
	<-ended
	return inSlot, cut && err != nil, err
}

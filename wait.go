package dbq

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/store"
	"github.com/google/uuid"
)

// The shortest and the longest pause between polls of a task.
const (
	firstWait = 5 * time.Millisecond
	maxWait   = 500 * time.Millisecond
)

// Wait returns the task once it has ended: COMPLETED (with its result), POISON, or parked in ERROR. It polls, at
// intervals that grow to half a second, until ctx ends. The waiting calls of a client share their polls, so a
// thousand calls cost little more than one. If the task does not exist, or is removed before Wait sees its end, as by
// Deleted, Wait returns ErrNotFound.
func (c *Client) Wait(ctx context.Context, id uuid.UUID) (Task, error) {
	for {
		t, err := c.Get(ctx, id)
		if err == nil && t.Ended() {
			return t, nil
		}
		if err == nil {
			err = c.ends.wait(ctx, t)
		}
		if outer, ok := err.(*Error); ok { // from Get: report the caller's operation instead
			outer.Op = "wait"
		}
		if err != nil {
			return t, c.wrap("wait", "", id, err)
		}
	}
}

// endPoller polls the tasks that callers of Wait wait for, in one goroutine while there are such callers.
type endPoller struct {
	store   *store.Store
	mu      sync.Mutex
	calls   map[*waitCall]bool
	polling bool
	joined  chan struct{} // signals that a call has joined
	polls   int           // for tests
}

// waitCall is one call of Wait.
type waitCall struct {
	task  Task          // as it was
	ended chan struct{} // closed when the task may have ended
	pause time.Duration // guarded by endPoller.mu, as is next
	next  time.Time     // when to poll it
}

// wait returns when the task may have ended or cannot be polled, or with ctx's error when ctx ends.
func (p *endPoller) wait(ctx context.Context, t Task) error {
	call := &waitCall{task: t, ended: make(chan struct{}), pause: firstWait, next: time.Now().Add(firstWait)}
	p.join(call)
	select {
	case <-call.ended:
		return nil
	case <-ctx.Done():
		p.mu.Lock()
		delete(p.calls, call)
		p.mu.Unlock()
		return ctx.Err()
	}
}

func (p *endPoller) join(call *waitCall) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.calls == nil {
		p.calls, p.joined = map[*waitCall]bool{}, make(chan struct{}, 1)
	}
	p.calls[call] = true
	if !p.polling {
		p.polling = true
		go p.run()
	}
	select {
	case p.joined <- struct{}{}:
	default:
	}
}

// run polls until no call is left.
func (p *endPoller) run() {
	for {
		due, rest, some := p.due(time.Now())
		if !some {
			return
		}
		if len(due) > 0 {
			p.poll(due)
			continue
		}
		timer := time.NewTimer(rest)
		select {
		case <-timer.C:
		case <-p.joined:
		}
		timer.Stop()
	}
}

// due returns the calls to poll. If one is due, it also returns all calls whose pause is half over. If none is due,
// rest is how long to wait. If no call is left, some is false and the polling ends.
func (p *endPoller) due(now time.Time) (due []*waitCall, rest time.Duration, some bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.calls) == 0 {
		p.polling = false
		return nil, 0, false
	}
	rest = maxWait
	for call := range p.calls {
		rest = min(rest, call.next.Sub(now))
		if call.next.Sub(now) <= call.pause/2 {
			due = append(due, call)
		}
	}
	if rest > 0 {
		return nil, rest, true
	}
	p.polls++
	return due, 0, true
}

// poll reads the states of tasks, and ends the calls whose tasks may have ended. If the states cannot be read, poll
// ends all calls, and each call gets the error from its own read.
func (p *endPoller) poll(due []*waitCall) {
	ids := make(map[uuid.UUID]bool, len(due))
	for _, call := range due {
		ids[call.task.ID] = true
	}
	rows, err := p.store.PeekTasks(context.Background(), slices.Collect(maps.Keys(ids)))
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for _, call := range due {
		row, exists := rows[call.task.ID]
		if err == nil && exists && !call.mayHaveEnded(row) {
			call.pause = min(call.pause*3/2, maxWait)
			call.next = now.Add(call.pause)
		} else if p.calls[call] {
			delete(p.calls, call)
			close(call.ended)
		}
	}
}

// mayHaveEnded reports whether the complete task should be read. Only the complete row shows whether a task in ERROR
// is parked, so it is read once for each failure.
func (w *waitCall) mayHaveEnded(row dialect.Row) bool {
	switch row.State {
	case StateCompleted, StatePoison:
		return true
	case StateError:
		return w.task.State != StateError || w.task.Fence != row.Fence || w.task.Updated.UnixMicro() != row.Updated
	}
	return false
}

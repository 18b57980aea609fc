package dbq

import (
	"context"
	"time"

	"github.com/dbq-go/dbq/internal/store"
	"github.com/dbq-go/dbq/internal/wake"
	"github.com/google/uuid"
)

// The shortest and the longest pause between the polls of a waiting Consumer.
const (
	minPoll = 10 * time.Millisecond
	maxPoll = 2 * time.Second
)

// Consumer checks out tasks as they become due, for programs that do not use package worker. Make one with
// Queue.Consumer. One goroutine may use it at a time; any goroutine may call Close.
type Consumer struct {
	queue  *Queue
	waiter *wake.Waiter
}

// Consumer returns a consumer of the queue's tasks. Close it when done. While a client has consumers on PostgreSQL, it
// listens for notifications on a separate connection.
func (q *Queue) Consumer() *Consumer { return &Consumer{queue: q, waiter: q.c.wake.TaskWaiter(q.name)} }

// Checkout is Queue.Checkout, but waits until it can lease at least one task. It returns ctx's error when ctx ends.
//
// It wakes up when a client of this process with the same DSN or pool enqueues, when an operator reenqueues, when
// another process sends a notification (on PostgreSQL; see WithoutNotify), and when a known task becomes due. One
// enqueued task wakes about one of the waiting consumers and workers. Wake-ups are best effort: they may be spurious
// or missed. Checkout therefore also polls, at intervals that grow to 2 seconds, with a query that is cheaper than a
// checkout.
func (c *Consumer) Checkout(ctx context.Context, n int, lease time.Duration) ([]Task, error) {
	for pause := minPoll; ; {
		c.waiter.BeforeCheckout()
		tasks, more, err := c.queue.checkoutMore(ctx, n, lease)
		c.waiter.AfterCheckout(len(tasks), err == nil && len(tasks) == n)
		if err != nil || len(tasks) > 0 {
			return tasks, err
		}
		if more { // keys that may start none were passed over: the next checkout goes on behind them
			continue
		}
		if pause, err = c.wait(ctx, n, pause); err != nil {
			c.waiter.Pass() // a wake-up that came meanwhile goes to others
			return nil, err
		}
	}
}

// wait waits until tasks may be due. It polls after pauses that start with pause, and returns the next pause. Package
// worker's waitDue does the same, and also handles a buffer, operators' pauses and UntilEmpty.
func (c *Consumer) wait(ctx context.Context, n int, pause time.Duration) (time.Duration, error) {
	for {
		var wakeup wake.Wakeup
		select {
		case <-ctx.Done():
			return pause, c.queue.c.wrap("checkout", c.queue.name, uuid.Nil, ctx.Err())
		case wakeup = <-c.waiter.Wait(n):
			if !wakeup.Uncertain {
				return minPoll, nil
			}
		case <-time.After(store.Jittered(pause)):
			pause = min(pause*2, maxPoll)
		}
		wait, ok, err := c.queue.c.wake.Next(ctx, c.queue.name)
		if err != nil || ok && wait <= 0 {
			return pause, err
		}
		if wakeup.Uncertain {
			c.waiter.AfterCheckout(0, false)
		}
	}
}

// Close ends the consumer. It does not release the leases of tasks that were checked out.
func (c *Consumer) Close() { c.waiter.Close() }

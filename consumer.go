package dbq

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/dbq-go/dbq/internal/wake"
	"github.com/google/uuid"
)

// The pauses between the polls of a Consumer that waits.
const (
	minPoll = 10 * time.Millisecond
	maxPoll = 2 * time.Second
)

// Consumer checks out tasks as they become due, in programs that do without package worker. Make one with
// Queue.Consumer. It is for one goroutine at a time; Close may be called by any.
type Consumer struct {
	queue  *Queue
	waiter *wake.Waiter
}

// Consumer returns a consumer of the queue's tasks. On PostgreSQL the client listens for notifications, on a connection
// of its own, while it has consumers. Close it when done.
func (q *Queue) Consumer() *Consumer { return &Consumer{queue: q, waiter: q.c.wake.TaskWaiter(q.name)} }

// Checkout is Queue.Checkout that waits until it leases at least one task. It returns ctx's error when ctx ends.
//
// It is woken at once when a client of this process with the same DSN or pool enqueues, when an operator reenqueues,
// and when another process notifies (PostgreSQL; see WithoutNotify). Tasks that are due later wake it when they are
// due. One enqueue wakes about one of the consumers and workers that wait. Wake-ups are best effort: they may be
// spurious or missed, so it also polls, after pauses that grow to 2 s, by a query that is cheaper than a checkout.
func (c *Consumer) Checkout(ctx context.Context, n int, lease time.Duration) ([]Task, error) {
	for pause := minPoll; ; {
		c.waiter.BeforeCheckout()
		tasks, err := c.queue.Checkout(ctx, n, lease)
		c.waiter.AfterCheckout(len(tasks), err == nil && len(tasks) == n)
		if err != nil || len(tasks) > 0 {
			return tasks, err
		}
		if pause, err = c.wait(ctx, n, pause); err != nil {
			c.waiter.Pass() // a wake-up that came meanwhile is for others
			return nil, err
		}
	}
}

// wait waits until another checkout is worth it. It polls after pauses that begin with pause, and returns the next one.
// It is what package worker's waitDue does, without a buffer, a pause by operators and an end when the queue is empty.
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
		case <-time.After(pause/2 + rand.N(pause/2+1)):
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

// Close ends the consumer. Its leases stay.
func (c *Consumer) Close() { c.waiter.Close() }

package dbq

import (
	"context"
	"sync"
	"time"
)

// notifyEvery is the least time between two notifications of a client about one queue. Enqueues in between share the one that follows.
const (
	notifyEvery   = time.Millisecond
	notifyTimeout = 5 * time.Second
)

// doorbell notifies other processes after commits, behind the back of those who enqueue: at once for the first, and then at most once
// in each interval. A notification is a transaction of its own that writes nothing. In the enqueue's transaction it would take a lock
// that all notifying commits of the server share and hold it while the commit is written to disk.
type doorbell struct {
	mu      sync.Mutex
	pending map[string][]time.Time // by queue: when to notify, the earliest first
	pressed chan struct{}          // tells the goroutine that pending has changed
	running chan struct{}          // not nil while a goroutine notifies; closed when it ends
	closing bool
}

// press notifies about a queue after each of these times, the first of which is 0; "" is every queue.
func (d *doorbell) press(c *Client, queue string, after ...time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closing {
		return
	}
	if d.pending == nil {
		d.pending, d.pressed = map[string][]time.Time{}, make(chan struct{}, 1)
	}
	now := time.Now()
	old := d.pending[queue]
	at := make([]time.Time, len(after))
	for i, wait := range after {
		at[i] = now.Add(wait)
	}
	switch {
	case len(at) > 1: // these do for the old ones as well: one is now, and the last is later
	case len(old) > 0 && !old[0].After(now):
		return // it is to be notified now already
	default:
		at = append(at, old...)
	}
	d.pending[queue] = at
	if d.running == nil {
		d.running = make(chan struct{})
		go d.run(c)
	}
	d.wake()
}

func (d *doorbell) wake() {
	select {
	case d.pressed <- struct{}{}:
	default:
	}
}

// take takes the queues that are to be notified about now, and tells when the next ones are. It ends the goroutine when there are none.
func (d *doorbell) take() (queues []string, next time.Time, more bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	for queue, at := range d.pending {
		was := len(at)
		for len(at) > 0 && (d.closing || !at[0].After(now)) {
			at = at[1:]
		}
		if len(at) < was {
			queues = append(queues, queue)
		}
		if d.pending[queue] = at; len(at) == 0 {
			delete(d.pending, queue)
		} else if next.IsZero() || at[0].Before(next) {
			next = at[0]
		}
	}
	more = len(queues) > 0 || !next.IsZero()
	if !more {
		close(d.running)
		d.running = nil
	}
	return queues, next, more
}

func (d *doorbell) run(c *Client) {
	for {
		queues, next, more := d.take()
		if !more {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), notifyTimeout)
		for _, queue := range queues {
			if err := c.tell(ctx, ringPrefix+c.own()+" "+queue); err != nil { // workers poll, too
				c.cfg.logger.Debug("dbq: cannot notify", "queue", queue, "error", c.scrub(err))
			}
		}
		cancel()
		if len(queues) > 0 {
			time.Sleep(notifyEvery)
			continue
		}
		timer := time.NewTimer(time.Until(next))
		select {
		case <-timer.C:
		case <-d.pressed:
		}
		timer.Stop()
	}
}

// close sends what is to be sent later now, and waits for it.
func (d *doorbell) close() {
	d.mu.Lock()
	d.closing = true
	running := d.running
	if running != nil {
		d.wake()
	}
	d.mu.Unlock()
	if running != nil {
		<-running
	}
}

// commits are when a caller's transaction that enqueued may have been committed. The first is at once: a short transaction has its commit
// on the way while a worker wakes.
var commits = []time.Duration{0, 5 * time.Millisecond, 20 * time.Millisecond, 80 * time.Millisecond, 300 * time.Millisecond, time.Second}

// rungLater is rung for tasks that are there when the caller commits, which nobody sees.
func (c *Client) rungLater(queue string, after []time.Duration) {
	if len(after) == 0 {
		return
	}
	c.place.ring(queue, append(after, commits...)...)
	if c.notifies() && !c.closed.Load() {
		c.doorbell.press(c, queue, commits...)
	}
}

// rung tells bells here that tasks of the queue are due after these times, and other processes that something came: their workers ask
// when it is due.
func (c *Client) rung(queue string, after ...time.Duration) {
	if len(after) == 0 {
		return
	}
	c.place.ring(queue, after...)
	if c.notifies() && !c.closed.Load() {
		c.doorbell.press(c, queue, 0)
	}
}

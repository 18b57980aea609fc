package dbq

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// notifyEvery is the least time between two notifications of a client about one queue. Enqueues in between share the one that follows.
const (
	notifyEvery   = time.Millisecond
	notifyTimeout = 5 * time.Second
)

// maxTold is of how many times when tasks are due one notification tells. The later ones are left to be found by polling.
const maxTold = 100

// doorbell notifies other processes after commits, behind the back of those who enqueue: at once for the first, and then at most once
// in each interval. A notification is a transaction of its own that writes nothing. In the enqueue's transaction it would take a lock
// that all notifying commits of the server share and hold it while the commit is written to disk.
type doorbell struct {
	mu      sync.Mutex
	pending map[string]*telling // by queue
	pressed chan struct{}       // tells the goroutine that pending has changed
	running chan struct{}       // not nil while a goroutine notifies; closed when it ends
	closing bool
}

// telling is what other processes are to be told about a queue.
type telling struct {
	now   int // tasks
	later []told
	maybe []time.Time // when to tell that there may be tasks, the earliest first
}

// told is a time when tasks are due.
type told struct {
	at    time.Time
	tasks int
	ask   bool
}

// press notifies about a queue.
func (d *doorbell) press(c *Client, queue string, u wakeup) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closing {
		return
	}
	if d.pending == nil {
		d.pending, d.pressed = map[string]*telling{}, make(chan struct{}, 1)
	}
	t := d.pending[queue]
	if t == nil {
		t = &telling{}
		d.pending[queue] = t
	}
	now := time.Now()
	t.now += u.now
	for _, a := range u.later {
		t.later = append(t.later, told{now.Add(a.at), a.tasks, a.ask})
	}
	if len(t.later) > maxTold {
		slices.SortFunc(t.later, func(a, b told) int { return a.at.Compare(b.at) })
		t.later = t.later[:maxTold]
	}
	if len(u.maybe) > 0 { // these do for the old ones as well: one is now, and the last is later
		t.maybe = t.maybe[:0]
		for _, after := range u.maybe {
			t.maybe = append(t.maybe, now.Add(after))
		}
	}
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

// take takes what is to be told now, by queue, and reports when the next is. It ends the goroutine when there is nothing more.
func (d *doorbell) take() (words map[string]string, next time.Time, more bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	words = map[string]string{}
	for queue, t := range d.pending {
		if word := t.take(now, d.closing); word != "" {
			words[queue] = word
		}
		if len(t.maybe) == 0 {
			delete(d.pending, queue)
		} else if next.IsZero() || t.maybe[0].Before(next) {
			next = t.maybe[0]
		}
	}
	more = len(words) > 0 || !next.IsZero()
	if !more {
		close(d.running)
		d.running = nil
	}
	return words, next, more
}

// take is what is to be told now, as a word; "" is nothing.
func (t *telling) take(now time.Time, all bool) string {
	var parts []string
	if t.now > 0 {
		parts = append(parts, tell(0, t.now, false))
	}
	for _, l := range t.later {
		parts = append(parts, tell(max(l.at.Sub(now), 0), l.tasks, l.ask))
	}
	maybe := len(t.maybe)
	for len(t.maybe) > 0 && (all || !t.maybe[0].After(now)) {
		t.maybe = t.maybe[1:]
	}
	if t.now == 0 && len(t.maybe) < maybe {
		parts = append(parts, tell(0, 1, true))
	}
	t.now, t.later = 0, nil
	return strings.Join(parts, ",")
}

// tell is a part of a notification: after how many milliseconds so many tasks are due, or may be.
func tell(after time.Duration, tasks int, ask bool) string {
	mark := ""
	if ask {
		mark = "?"
	}
	return fmt.Sprintf("%d:%d%s", wholeMillis(after)/time.Millisecond, tasks, mark)
}

// toldBy reads the word of a notification. A part that cannot be read, as of another version, is one to ask about.
func toldBy(word string) (u wakeup) {
	for part := range strings.SplitSeq(word, ",") {
		a := arrival{tasks: 1, ask: true}
		after, tasks, _ := strings.Cut(part, ":")
		tasks, ask := strings.CutSuffix(tasks, "?")
		ms, err := strconv.ParseInt(after, 10, 64)
		n, err2 := strconv.Atoi(tasks)
		if err == nil && err2 == nil && ms >= 0 && n > 0 {
			a = arrival{at: min(time.Duration(min(ms, farthest.Milliseconds()))*time.Millisecond, farthest), tasks: n, ask: ask}
		}
		u.later = append(u.later, a)
	}
	return u
}

func (d *doorbell) run(c *Client) {
	for {
		words, next, more := d.take()
		if !more {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), notifyTimeout)
		for queue, word := range words {
			if err := c.tell(ctx, ringPrefix+c.own()+" "+word+" "+queue); err != nil { // workers poll, too
				c.cfg.logger.Debug("dbq: cannot notify", "queue", queue, "error", c.scrub(err))
			}
		}
		cancel()
		if len(words) > 0 {
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

// rungLater is rung for tasks that are there when the caller commits, which nobody sees. Where a worker of this process waits, it alone
// finds out.
func (c *Client) rungLater(queue string, u wakeup) {
	if u.nothing() {
		return
	}
	for i := range u.later {
		u.later[i].ask = true
	}
	u.now, u.maybe = 0, commits
	waits := c.place.waits(queue)
	c.place.wake(queue, u, true)
	if waits {
		u.maybe = nil
	}
	c.press(queue, u)
}

// rung wakes workers for tasks of the queue: those of this process, and others for what none of these waited for.
func (c *Client) rung(queue string, u wakeup) {
	u.now = c.place.wake(queue, u, c.notifies())
	c.press(queue, u)
}

// rungAll wakes all who wait for word about a queue of this name, here and in other processes.
func (c *Client) rungAll(queue string) {
	c.place.ringAll(queue)
	c.press(queue, wakeup{now: 1})
}

func (c *Client) press(queue string, u wakeup) {
	if !u.nothing() && c.notifies() && !c.closed.Load() {
		c.doorbell.press(c, queue, u)
	}
}

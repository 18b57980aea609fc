package wake

import (
	"context"
	"sync"
	"time"
)

const (
	// notifyEvery is the minimum time between two notifications of a client about one topic. Wake-ups in between share
	// the next one.
	notifyEvery   = time.Millisecond
	notifyTimeout = 5 * time.Second
	// maxSent limits the later times in one notification. Workers find the tasks of further times by polling.
	maxSent = 100
)

// notifier notifies other processes after commits, in the background: immediately for the first wake-up, and then at
// most once in each interval. A notification is a separate transaction that writes nothing. In the enqueue's
// transaction, it would hold a lock shared by all notifying commits of the server while the commit is written to
// disk.
type notifier struct {
	conn
	mu      sync.Mutex
	pending map[string]*message // by topic
	changed chan struct{}       // signals the goroutine that pending has changed
	running chan struct{}       // not nil while a goroutine notifies; closed when it ends
	closing bool
}

// add notifies about a topic. The times of d are since the hub's start.
func (n *notifier) add(topic string, d Due) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closing {
		return
	}
	if n.pending == nil {
		n.pending, n.changed = map[string]*message{}, make(chan struct{}, 1)
	}
	m := n.pending[topic]
	if m == nil {
		m = &message{}
		n.pending[topic] = m
	}
	m.add(d, n.hub.now())
	if n.running == nil {
		n.running = make(chan struct{})
		go n.run()
	}
	n.signal()
}

func (n *notifier) signal() {
	select {
	case n.changed <- struct{}{}:
	default:
	}
}

// take takes the messages to send now, by topic, and returns when the next one is due. It ends the goroutine if there
// are no more.
func (n *notifier) take() (messages map[string]string, wait time.Duration, more bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.hub.now()
	messages, wait = map[string]string{}, commitTimes[len(commitTimes)-1]
	for topic, m := range n.pending {
		if text := m.take(now, n.closing); text != "" {
			messages[topic] = text
		}
		if len(m.possible) == 0 {
			delete(n.pending, topic)
		} else {
			wait = min(wait, m.possible[0]-now)
		}
	}
	more = len(messages) > 0 || len(n.pending) > 0
	if !more {
		close(n.running)
		n.running = nil
	}
	return messages, wait, more
}

func (n *notifier) run() {
	for {
		messages, wait, more := n.take()
		if !more {
			return
		}
		if len(messages) > 0 {
			n.send(messages)
			time.Sleep(notifyEvery)
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-n.changed:
		}
		timer.Stop()
	}
}

func (n *notifier) send(messages map[string]string) {
	ctx, cancel := context.WithTimeout(context.Background(), notifyTimeout)
	defer cancel()
	for topic, text := range messages {
		if err := n.Notify(ctx, wakePrefix+n.hub.id+" "+text+" "+topic); err != nil { // workers also poll
			n.log.Debug("dbq: cannot notify", "queue", topic, "error", n.scrub(err))
		}
	}
}

// close sends the pending messages now, and waits until they are sent.
func (n *notifier) close() {
	n.mu.Lock()
	n.closing = true
	running := n.running
	if running != nil {
		n.signal()
	}
	n.mu.Unlock()
	if running != nil {
		<-running
	}
}

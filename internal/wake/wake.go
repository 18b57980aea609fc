// Package wake wakes workers when tasks may be due, and when operators change settings or send commands. It wakes the
// workers of this process through a hub that all clients of the same tables share, and the workers of other processes
// by the database's notifications, if the engine has them.
//
// Wake-ups are best effort: they may be spurious or missed, so workers also poll.
//
// A Waker is one client's access. Its parts:
//
//	hub       the waiters of this process for a set of tables, by topic; shared by their clients
//	topic     the waiters for one queue's tasks, control or revocations: its waiters, missed wake-ups, and due times
//	Waiter    wakes one waiting worker
//	schedule  the times when a topic's tasks become due
//	notifier  sends tasks that no waiter of this process waited for to other processes, coalesced
//	listener  receives the notifications of other processes, and passes them to the hub
package wake

import (
	"context"
	"log/slog"
	"time"

	"github.com/dbq-go/dbq/internal/bounds"
	"github.com/dbq-go/dbq/internal/store"
	"github.com/google/uuid"
)

// Options are the dependencies of a Waker besides the store.
type Options struct {
	// Tables identifies the tables, so that the clients of this process that use the same ones share a hub.
	Tables Tables
	// NoNotify turns notifications off: the client neither sends nor receives them.
	NoNotify bool
	Logger   *slog.Logger
	// Scrub hides the secrets of the DSN in an error.
	Scrub func(error) error
	// Wrap adds the operation and the queue to an error.
	Wrap func(op, queue string, task uuid.UUID, err error) error
}

// Waker is one client's access to wake-ups. It is safe for concurrent use.
type Waker struct {
	hub      *hub
	notifier *notifier // nil without notifications
	listener *listener // nil if notifications cannot be received
	store    *store.Store
	wrap     func(op, queue string, task uuid.UUID, err error) error
}

// New makes a Waker. Close it when done.
func New(s *store.Store, o Options) *Waker {
	w := &Waker{hub: hubOf(o.Tables), store: s, wrap: o.Wrap}
	c := conn{database: s, hub: w.hub, log: o.Logger, scrub: o.Scrub}
	if s.Notifies() && !o.NoNotify {
		w.notifier = &notifier{conn: c}
		if s.Listens() {
			w.listener = &listener{conn: c}
		}
	}
	return w
}

// conn is shared by the notifier and the listener of a client.
type conn struct {
	database
	hub   *hub
	log   *slog.Logger
	scrub func(error) error
}

// database sends and receives notifications. It is a *store.Store.
type database interface {
	Notify(ctx context.Context, payload string) error
	Listen(ctx context.Context, ready func(), received func(payload string)) error
}

// Close ends notifications and sends the pending ones now. Waiters remain, and must be closed separately.
func (w *Waker) Close() {
	if w.listener != nil {
		w.listener.close()
	}
	if w.notifier != nil {
		w.notifier.close()
	}
}

// Listening reports whether notifications of other processes arrive. The client listens while there are waiters.
func (w *Waker) Listening() bool { return w.listener != nil && w.listener.receiving.Load() }

// The kinds of topics. A topic is a queue's name, preceded by a control character unless it is about tasks. No
// queue's name has control characters.
const (
	controlTopic = "\x01"
	revokedTopic = "\x02"
)

// TaskWaiter returns a waiter that wakes when tasks of the queue become due.
func (w *Waker) TaskWaiter(queue string) *Waiter { return w.waiter(queue, false) }

// ControlWaiter returns a waiter that wakes when operators change the queue's settings or command one of its workers.
func (w *Waker) ControlWaiter(queue string) *Waiter { return w.waiter(controlTopic+queue, true) }

// RevokedWaiter returns a waiter that wakes when operators revoke tasks of the queue.
func (w *Waker) RevokedWaiter(queue string) *Waiter { return w.waiter(revokedTopic+queue, true) }

func (w *Waker) waiter(topic string, broadcast bool) *Waiter {
	out := w.hub.join(topic, broadcast)
	if out.listener = w.listener; out.listener != nil {
		out.listener.acquire()
	}
	return out
}

// Wake wakes workers for tasks of the queue: workers of this process, and workers of other processes for the
// remaining tasks.
func (w *Waker) Wake(queue string, d Due) {
	if d.none() {
		return
	}
	d.startAt(w.hub)
	d.now, _ = w.hub.wake(queue, d, w.notifier != nil)
	w.notify(queue, d)
}

// WakeTasks is Wake for n tasks that are already due.
func (w *Waker) WakeTasks(queue string, n int) { w.Wake(queue, Due{now: n}) }

// WakeAfterCommit is Wake for tasks that exist once the caller's transaction commits. Because dbq cannot see the
// commit, it wakes workers several times within a second. If a worker of this process waits, only that worker checks.
func (w *Waker) WakeAfterCommit(queue string, d Due) {
	if d.none() {
		return
	}
	d.startAt(w.hub)
	for i := range d.later {
		d.later[i].Uncertain = true
	}
	d.now, d.atCommit = 0, true
	_, waiting := w.hub.wake(queue, d, w.notifier != nil)
	d.atCommit = !waiting
	w.notify(queue, d)
}

// WakeControl wakes all control waiters of the queue, here and in other processes.
func (w *Waker) WakeControl(queue string) { w.broadcast(controlTopic + queue) }

// WakeRevoked wakes all waiters for revocations in the queue, here and in other processes.
func (w *Waker) WakeRevoked(queue string) { w.broadcast(revokedTopic + queue) }

func (w *Waker) broadcast(topic string) {
	w.hub.broadcast(topic)
	w.notify(topic, Due{now: 1})
}

func (w *Waker) notify(topic string, d Due) {
	if w.notifier != nil && !d.none() {
		w.notifier.add(topic, d)
	}
}

// Next returns the time until a task of the queue can be leased, by the database's clock: 0 if one is due or a lease
// has expired. If no task has a due time, ok is false. It is one cheap query without locks. A due task can still be
// briefly unavailable, for example while another worker is leasing it.
//
// Waiters of this process are woken at that time, so that one query does for all of them.
func (w *Waker) Next(ctx context.Context, queue string) (wait time.Duration, ok bool, err error) {
	if err = bounds.QueueName(queue); err == nil {
		wait, ok, err = w.store.NextDue(ctx, queue)
	}
	if err != nil || !ok {
		return 0, false, w.wrap("next", queue, uuid.Nil, err)
	}
	if wait > 0 {
		w.Expect(queue, wait)
	}
	return wait, true, nil
}

// Expect wakes a waiter of this process for tasks of the queue after a time of the database's clock.
func (w *Waker) Expect(queue string, after time.Duration) {
	w.hub.expect(queue, after+w.store.Server().Precision)
}

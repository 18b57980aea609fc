package dbq

import (
	"context"
	"fmt"
	"maps"
	"time"
)

// Event is a call that changed tasks or tried to, for metrics. Package worker has events of its own for what handlers do.
type Event struct {
	Op    string        // "enqueue", "checkout", "extend", "settle", or an operator's event
	Queue string        // "" where the call is not about one queue
	Tasks int           // that the call was for, and for "checkout" that it leased
	Took  time.Duration // with all repetitions
	Err   error         // nil when it went well
}

// WithObserver is told of every call that changes tasks, when it ends. It is called by whoever made the call, and must return at once.
func WithObserver(observe func(Event)) Option {
	return func(c *config) error {
		if observe == nil {
			return fmt.Errorf("%w: a nil observer", ErrOption)
		}
		c.observe = observe
		return nil
	}
}

// WithHeaders adds headers to each task that is enqueued, such as the trace that ctx belongs to. A task's own headers of the same name
// stay, and none are added where they would not fit into MaxHeaders. headers is called once for each enqueue.
func WithHeaders(headers func(ctx context.Context) map[string]string) Option {
	return func(c *config) error {
		if headers == nil {
			return fmt.Errorf("%w: a nil function for headers", ErrOption)
		}
		c.headers = headers
		return nil
	}
}

// observed tells the observer of a call that began at start.
func (c *Client) observed(op, queue string, tasks int, start time.Time, err error) {
	if c.cfg.observe != nil {
		c.cfg.observe(Event{Op: op, Queue: queue, Tasks: tasks, Took: time.Since(start), Err: err})
	}
}

// added are the headers for all tasks of an enqueue.
func (c *Client) added(ctx context.Context) map[string]string {
	if c.cfg.headers == nil {
		return nil
	}
	return c.cfg.headers(ctx)
}

// addHeaders gives a task more headers, when they fit.
func (t *NewTask) addHeaders(added map[string]string) {
	if len(added) == 0 {
		return
	}
	all := maps.Clone(added)
	maps.Copy(all, t.Headers)
	if _, err := encodeHeaders(all); err == nil {
		t.Headers = all
	}
}

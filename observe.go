package dbq

import (
	"context"
	"maps"
	"time"

	"github.com/dbq-go/dbq/internal/bounds"
	"github.com/google/uuid"
)

// Call is a call that changed tasks or tried to. Observers of WithObserver receive it. For the steps of workers and
// handlers, see worker.Observation.
type Call struct {
	Op    string        // "enqueue", "enqueue workflow", "checkout", "extend", "settle", or an operator's event
	Queue string        // "" if the call is not about one queue, or was refused with ErrQueueName
	Tasks int           // the number of tasks in the call; for "checkout", the number of leased tasks
	Took  time.Duration // including retries
	Err   error         // nil on success
}

// WithObserver adds a function that is called at the end of every call that changes tasks. It runs on the caller's
// goroutine and must return quickly. Several observers are called in the order given.
func WithObserver(observe func(Call)) Option {
	return func(c *config) error {
		if observe == nil {
			return invalidOption("WithObserver", "a function")
		}
		c.observe = append(c.observe, observe)
		return nil
	}
}

// WithHeaders adds headers to each task that is enqueued, such as those of the trace in ctx. A task's own headers
// take precedence, and no headers are added to a task if they would exceed MaxHeaders. headers runs once for each
// call that enqueues. Several functions are called in the order given, and the last value of a header is used.
func WithHeaders(headers func(ctx context.Context) map[string]string) Option {
	return func(c *config) error {
		if headers == nil {
			return invalidOption("WithHeaders", "a function")
		}
		c.headers = append(c.headers, headers)
		return nil
	}
}

// observed passes a call that began at start to the observers.
func (c *Client) observed(op, queue string, tasks int, start time.Time, err error) {
	if len(c.cfg.observe) == 0 {
		return
	}
	if queue != "" && bounds.QueueName(queue) != nil { // refused names may be many, and no text at all
		queue = ""
	}
	call := Call{Op: op, Queue: queue, Tasks: tasks, Took: time.Since(start), Err: err}
	for _, observe := range c.cfg.observe {
		observe(call)
	}
}

// end ends a call on the queue that began at start. It wraps *err in an Error and passes the call to the observers.
// Each call defers it.
func (q *Queue) end(op string, tasks int, start time.Time, err *error) {
	*err = q.c.wrap(op, q.name, uuid.Nil, *err)
	q.c.observed(op, q.name, tasks, start, *err)
}

// check refuses an invalid queue name, and more than MaxBulk items in one call.
func (q *Queue) check(n int) error {
	if err := bounds.QueueName(q.name); err != nil {
		return err
	}
	return bounds.Bulk(n)
}

// addedHeaders returns the headers for all tasks of an enqueue.
func (c *Client) addedHeaders(ctx context.Context) map[string]string {
	var all map[string]string
	for _, headers := range c.cfg.headers {
		more := headers(ctx)
		if all == nil {
			all = maps.Clone(more) // it is the caller's
			continue
		}
		maps.Copy(all, more)
	}
	return all
}

// addHeaders adds headers to a task if they fit.
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

package dbq

import (
	"context"
	"fmt"
	"maps"
	"slices"
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
	Tx    bool          // in a transaction of the caller, which may still be rolled back
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

// WithEnqueueHook adds a function that is called with each new task before the task is checked and stored, and with
// the name of its queue: for rules and defaults of the program, and for headers, such as those of a trace. It may set
// other values in *t; what the payload and the maps and pointers of t refer to belongs to the caller and must not be
// changed. If it returns an error, the call returns that error and enqueues nothing. An error about what the caller
// has passed should match ErrInvalid, as those of dbq do: the HTTP API then returns it to the caller, and a schedule
// skips the time.
//
// It is called for all tasks that this client enqueues, also those of workflows, of the schedules that it fires and of
// the HTTP API. It runs on the caller's goroutine and must return quickly. Several hooks are called in the order given.
func WithEnqueueHook(hook func(ctx context.Context, queue string, t *NewTask) error) Option {
	return func(c *config) error {
		if hook == nil {
			return invalidOption("WithEnqueueHook", "a function")
		}
		c.hooks = append(c.hooks, hook)
		return nil
	}
}

// observed passes a call that began at start to the observers.
func (c *Client) observed(op, queue string, tasks int, tx bool, start time.Time, err error) {
	if len(c.cfg.observe) == 0 {
		return
	}
	if queue != "" && bounds.QueueName(queue) != nil { // refused names may be many, and no text at all
		queue = ""
	}
	call := Call{Op: op, Queue: queue, Tasks: tasks, Tx: tx, Took: time.Since(start), Err: err}
	for _, observe := range c.cfg.observe {
		observe(call)
	}
}

// end ends a call on the queue that began at start. It wraps *err in an Error and passes the call to the observers.
// Each call defers it.
func (q *Queue) end(op string, tasks int, start time.Time, err *error) {
	q.endIn(false, op, tasks, start, err)
}

// endTx is end for a call in a transaction of the caller.
func (q *Queue) endTx(op string, tasks int, start time.Time, err *error) {
	q.endIn(true, op, tasks, start, err)
}

func (q *Queue) endIn(tx bool, op string, tasks int, start time.Time, err *error) {
	*err = q.c.wrap(op, q.name, uuid.Nil, *err)
	q.c.observed(op, q.name, tasks, tx, start, *err)
}

// check refuses an invalid queue name, and more than MaxBulk items in one call.
func (q *Queue) check(n int) error {
	if err := bounds.QueueName(q.name); err != nil {
		return err
	}
	return bounds.Bulk(n)
}

// hooked returns new tasks as the hooks change them.
func (q *Queue) hooked(ctx context.Context, ts []NewTask) ([]NewTask, error) {
	if len(q.c.cfg.hooks) == 0 {
		return ts, nil
	}
	ts = slices.Clone(ts) // they are the caller's
	for i := range ts {
		for _, hook := range q.c.cfg.hooks {
			if err := hook(ctx, q.name, &ts[i]); err != nil {
				return nil, ofMany(i, len(ts), fmt.Errorf("refused by a hook: %w", err))
			}
		}
	}
	return ts, nil
}

// AddHeaders adds headers to a task: those that it does not have, or none if all together would exceed MaxHeaders.
func (t *NewTask) AddHeaders(added map[string]string) {
	if len(added) == 0 {
		return
	}
	all := maps.Clone(added)
	maps.Copy(all, t.Headers)
	if _, err := encodeHeaders(all); err == nil {
		t.Headers = all
	}
}

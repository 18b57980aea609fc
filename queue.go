package dbq

import (
	"context"

	"github.com/dbq-go/dbq/internal/bounds"
	"github.com/google/uuid"
)

// Queue is a handle for one queue of a client. Creating it sends nothing to the database; the queue exists as soon as
// it has a task. A Queue is safe for concurrent use.
type Queue struct {
	c      *Client
	name   string
	worker string // the worker that checks out, or "" for the client; see package access
	remote bool   // the worker is in another process, and starts the tasks that it gets at once
	// exhausted gets the tasks that a checkout moved to POISON, unless it is nil.
	exhausted func([]Task)
}

// Queue returns a handle for the queue with this name. If the name is invalid, every call on the handle returns
// ErrQueueName.
func (c *Client) Queue(name string) *Queue { return &Queue{c: c, name: name} }

// Name returns the queue's name.
func (q *Queue) Name() string { return q.name }

// Client returns the client that the queue belongs to.
func (q *Queue) Client() *Client { return q.c }

// Find returns the id of the queue's task with this reference, or ErrNotFound.
func (q *Queue) Find(ctx context.Context, reference string) (id uuid.UUID, err error) {
	if err = bounds.QueueName(q.name); err == nil {
		err = bounds.Text(reference, 1, MaxReference, ErrReference, "reference")
	}
	if err == nil {
		id, err = q.c.store.FindReference(ctx, q.name, reference)
	}
	return id, q.c.wrap("find", q.name, uuid.Nil, err)
}

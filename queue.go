package dbq

import (
	"context"

	"github.com/dbq-go/dbq/internal/limits"
	"github.com/google/uuid"
)

// Queue is a handle on one queue of a client. It costs nothing to make; a queue exists as soon as it has a task.
type Queue struct {
	c      *Client
	name   string
	worker string // who checks out, unless it is the client; see package access
}

// Queue is the queue of this name. A name that is not allowed is ErrQueueName from every call on it.
func (c *Client) Queue(name string) *Queue { return &Queue{c: c, name: name} }

// Name is the queue's name.
func (q *Queue) Name() string { return q.name }

// Client is the client the queue belongs to.
func (q *Queue) Client() *Client { return q.c }

// Find is the id of the task with a reference, or ErrNotFound.
func (q *Queue) Find(ctx context.Context, reference string) (id uuid.UUID, err error) {
	if err = limits.QueueName(q.name); err == nil {
		err = limits.Text(reference, 1, MaxReference, ErrReference, "reference")
	}
	if err == nil {
		id, err = q.c.store.FindReference(ctx, q.name, reference)
	}
	return id, q.c.wrap("find", q.name, uuid.Nil, err)
}

package dbq

import (
	"context"

	"github.com/dbq-go/dbq/dialect"
	"github.com/google/uuid"
)

// Get reads one task with its payload. It returns ErrNotFound if the task does not exist.
func (c *Client) Get(ctx context.Context, id uuid.UUID) (Task, error) {
	row, err := c.store.GetTask(ctx, id)
	return c.got(id, row, err)
}

// GetTx is Get in the caller's transaction, and sees its changes. It locks nothing.
func (c *Client) GetTx(ctx context.Context, tx Tx, id uuid.UUID) (Task, error) {
	row, err := c.store.GetTaskTx(ctx, tx, id)
	return c.got(id, row, err)
}

func (c *Client) got(id uuid.UUID, row dialect.Row, err error) (Task, error) {
	if err != nil {
		return Task{}, c.wrap("get", "", id, err)
	}
	return taskOf(row), nil
}

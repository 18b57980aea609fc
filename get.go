package dbq

import (
	"context"

	"github.com/google/uuid"
)

// Get reads one task with its payload. No such task is ErrNotFound.
func (c *Client) Get(ctx context.Context, id uuid.UUID) (Task, error) {
	row, err := c.store.GetTask(ctx, id)
	if err != nil {
		return Task{}, c.wrap("get", "", id, err)
	}
	return taskOf(row), nil
}

package dialect

import (
	"context"

	"github.com/google/uuid"
)

// allOf runs a batch that counts, without its First. When it did not touch all that it was given, it is undone and there are no rows.
func (s *Session) allOf(ctx context.Context, c Conn, b Batch, args Args, from, to int) ([]Row, error) {
	q, values, err := s.binder.bindBatch(b, args, from, to)
	if err != nil {
		return nil, err
	}
	if _, err := c.Exec(ctx, savepoint); err != nil {
		return nil, err
	}
	touched, err := c.Exec(ctx, q, values...)
	if err != nil {
		return nil, err
	}
	if touched == int64(to-from) {
		return given(args, from, to), nil
	}
	_, err = c.Exec(ctx, undo)
	return nil, err
}

// given are rows from to to of a batch by what identifies them.
func given(args Args, from, to int) []Row {
	ids, _ := args["id"].(Col[uuid.UUID])
	fences, _ := args["fence"].(Col[int64])
	rows := make([]Row, to-from)
	for i := range rows {
		rows[i].ID = ids[from+i]
		if fences != nil {
			rows[i].Fence = fences[from+i]
		}
	}
	return rows
}

package dbq

import (
	"context"
	"errors"

	"github.com/dbq-go/dbq/dialect"
	"github.com/google/uuid"
)

// find says what became of each task when the answer to the insert is lost: it may have happened, may still happen, or never will. Nil is that
// nobody knows. It never inserts again: a task that is not there may have been added, completed and removed since, and another one
// would be a second run.
func (b *newTasks) find(ctx context.Context) []Enqueued {
	for _, pause := range lookPauses { // the insert can still be under way
		if sleep(ctx, pause) != nil {
			return nil
		}
		var out []Enqueued
		err := b.q.c.read(ctx, func(ctx context.Context, conn dialect.Conn) (err error) {
			out, err = b.found(ctx, conn)
			return err
		})
		if out != nil {
			return out
		}
		if err != nil {
			b.q.c.cfg.logger.Debug("dbq: looking for what a lost enqueue added", "queue", b.q.name, "error", b.q.c.scrub(err))
			return nil
		}
	}
	return nil
}

// found looks once. The rows were added in one transaction, so one that only it can have added proves that it happened.
func (b *newTasks) found(ctx context.Context, conn dialect.Conn) ([]Enqueued, error) {
	rows, err := b.q.c.peek(ctx, conn, b.ids)
	if err != nil {
		return nil, err
	}
	callers := make(map[uuid.UUID]bool, len(b.callers))
	for _, id := range b.callers {
		callers[id] = true
	}
	happened := false
	for id := range rows {
		happened = happened || !callers[id]
	}
	out, told := make([]Enqueued, len(b.ids)), make(map[uuid.UUID]bool, len(b.ids))
	for i, id := range b.ids {
		out[i].ID, out[i].Duplicate = id, told[id] // a second one of the same id in one call
		told[id] = true
		if _, there := rows[id]; there || out[i].Duplicate {
			continue
		}
		if b.refs[i] == "" {
			if !happened || callers[id] {
				return nil, nil
			}
			continue // it was added, and is done and gone
		}
		other, err := b.q.findReference(ctx, conn, b.refs[i])
		switch {
		case errors.Is(err, ErrNotFound):
			return nil, nil
		case err != nil:
			return nil, err
		}
		out[i] = Enqueued{ID: other, Duplicate: true}
	}
	return out, nil
}

package store

import (
	"context"
	"errors"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/errs"
	"github.com/google/uuid"
)

// searchPauses are the pauses before each search for the effect of a call whose answer was lost. The server can still
// commit after the connection is gone, so the effect may become visible later.
var searchPauses = []time.Duration{
	0, 10 * time.Millisecond, 30 * time.Millisecond, 90 * time.Millisecond, 270 * time.Millisecond,
}

// searchTimeout bounds these searches. The call has already waited for the server.
const searchTimeout = 5 * time.Second

// findLost returns the outcome of each task after the answer to the insert was lost, or nil if the outcome is unknown.
// It never inserts again: a missing task may have been added, completed and removed since, and inserting it again would
// run it twice.
func (b *insertBatch) findLost(ctx context.Context) []Inserted {
	ctx, cancel := context.WithTimeout(ctx, searchTimeout)
	defer cancel()
	for _, pause := range searchPauses {
		if Sleep(ctx, pause) != nil {
			return nil
		}
		var out []Inserted
		err := b.s.read(ctx, func(ctx context.Context, conn dialect.Conn) (err error) {
			out, err = b.searchLost(ctx, conn)
			return err
		})
		if out != nil {
			return out
		}
		if err != nil {
			b.s.Logger.Debug("dbq: cannot search for the tasks of a lost enqueue",
				"queue", b.queue, "error", b.s.Scrub(err))
			return nil
		}
	}
	return nil
}

// searchLost searches once. The rows were added in one transaction, so one that only it can have added proves that it
// happened.
func (b *insertBatch) searchLost(ctx context.Context, conn dialect.Conn) ([]Inserted, error) {
	rows, err := b.s.Peek(ctx, conn, b.ids)
	if err != nil {
		return nil, err
	}
	given := make(map[uuid.UUID]bool, len(b.given))
	for _, id := range b.given {
		given[id] = true
	}
	if inQueue(rows, b.queue) != nil {
		return nil, nil
	}
	happened := false
	for id := range rows {
		happened = happened || !given[id]
	}
	out, seen := make([]Inserted, len(b.ids)), make(map[uuid.UUID]bool, len(b.ids))
	for i, id := range b.ids {
		out[i].ID, out[i].Duplicate = id, seen[id] // the second of one id in a call
		seen[id] = true
		if _, exists := rows[id]; exists || out[i].Duplicate {
			continue
		}
		ref := b.reference(i)
		if ref == "" {
			if !happened || given[id] {
				return nil, nil
			}
			continue // it was added, and is completed and removed
		}
		other, err := b.s.findReference(ctx, conn, b.queue, ref)
		switch {
		case errors.Is(err, errs.ErrNotFound):
			return nil, nil
		case err != nil:
			return nil, err
		}
		out[i] = Inserted{ID: other, Duplicate: true}
	}
	return out, nil
}

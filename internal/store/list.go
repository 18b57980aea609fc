package store

import (
	"context"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// List reads up to f.Limit tasks without their payloads, ordered by id.
func (s *Store) List(ctx context.Context, f Filter) ([]dialect.Row, error) {
	return s.list(ctx, s.sql.Texts.List, f, nil)
}

// ListArchive is List for the archive, which can have several tasks of one id. The list goes on after an id, so it does
// not end between them: it has all tasks of the last one, even if these are more than f.Limit.
func (s *Store) ListArchive(ctx context.Context, f Filter) ([]dialect.Row, error) {
	rows, err := s.list(ctx, s.sql.Texts.ListArchive, f, nil)
	if err != nil || len(rows) == 0 || len(rows) < f.Limit {
		return rows, err
	}
	last := rows[len(rows)-1].ID
	f.After, f.Before, f.Limit = prevID(last), nextID(last), maxOfID
	same, err := s.list(ctx, s.sql.Texts.ListArchive, f, nil)
	for len(rows) > 0 && rows[len(rows)-1].ID == last {
		rows = rows[:len(rows)-1]
	}
	return append(rows, same...), err
}

// maxOfID is how many tasks of one id the archive lists.
const maxOfID = 1000

// ListIDs reads the ids of up to f.Limit tasks that an event may change, in ascending order.
func (s *Store) ListIDs(ctx context.Context, f Filter, event state.Transition) ([]uuid.UUID, error) {
	rows, err := s.list(ctx, s.sql.Texts.FindIDs, f, &event)
	return idsOf(rows), err
}

func (s *Store) list(
	ctx context.Context, text string, f Filter, event *state.Transition,
) ([]dialect.Row, error) {
	where, args := f.condition(s.sql.Texts, event, false)
	return s.listWhere(ctx, text, where, args, f.NewestFirst)
}

// listWhere runs a text that lists tasks.
func (s *Store) listWhere(ctx context.Context, text, where string, args dialect.Args, newest bool) (
	rows []dialect.Row, err error) {
	text = sqlrun.ListText(text, where, newest)
	err = s.readSlow(ctx, func(ctx context.Context, conn dialect.Conn) (err error) {
		rows, err = s.sql.Query(ctx, conn, text, args)
		return err
	})
	return rows, err
}

func idsOf(rows []dialect.Row) []uuid.UUID {
	ids := make([]uuid.UUID, len(rows))
	for i, r := range rows {
		ids[i] = r.ID
	}
	return ids
}

package batch

import (
	"context"

	"github.com/dbq-go/dbq/dialect"
	"github.com/google/uuid"
)

// FillPayloads reads the large payloads that a search omitted, by a batch that returns id and payload of each :id.
func FillPayloads(
	ctx context.Context, s *dialect.Session, c dialect.Conn, b dialect.Batch, rows []dialect.Row,
) error {
	var ids dialect.Col[uuid.UUID]
	for i := range rows {
		if rows[i].Payload == nil && rows[i].PayloadBytes() > 0 {
			ids = append(ids, rows[i].ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	found, err := s.QueryBatch(ctx, c, b, dialect.Args{"id": ids}, len(ids))
	if err != nil {
		return err
	}
	payloads := make(map[uuid.UUID][]byte, len(found))
	for _, row := range found {
		payloads[row.ID] = row.Payload
	}
	for i := range rows {
		if p, ok := payloads[rows[i].ID]; ok {
			rows[i].Payload = p
		}
	}
	return nil
}

// Among returns the rows whose ids are also in others, in their order.
func Among(rows, others []dialect.Row) (out []dialect.Row) {
	ids := make(map[uuid.UUID]bool, len(others))
	for _, r := range others {
		ids[r.ID] = true
	}
	for _, r := range rows {
		if ids[r.ID] {
			out = append(out, r)
		}
	}
	return out
}

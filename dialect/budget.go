package dialect

import (
	"context"
	"math"

	"github.com/google/uuid"
)

// A Budget is what a checkout may still lease: a number of rows, and bytes of their payloads. A row fits while the
// payloads together are within the bytes; one that is larger by itself fits where no payload comes before it, so that a
// large task is handed out alone.
//
// A dialect finds out how large payloads are before it leases them, leaves alone what does not fit (Fit, or the same in
// SQL and Spend), and marks the rows that it returns when it left some (Mark).
type Budget struct {
	Rows  int   // rows that may still be leased
	Bytes int64 // of payload, for all rows of the checkout
	Used  int64 // of Bytes, by what was leased
	Cut   bool  // a row that could be leased did not fit; what comes after it in order is left alone, too
}

// Budget is what the whole checkout may lease.
func (r CheckoutRequest) Budget() Budget {
	b := Budget{Rows: r.Limit, Bytes: r.Bytes}
	if b.Bytes <= 0 {
		b.Bytes = math.MaxInt64
	}
	return b
}

// Share is how large payloads may be for as many as Rows of them to fit.
func (b *Budget) Share() int64 { return max(b.Bytes-b.Used, 0) / int64(max(b.Rows, 1)) }

// Spent reports whether nothing more can be leased.
func (b *Budget) Spent() bool { return b.Rows <= 0 || b.Cut }

// Fit returns the first of rows, in order, that fit, and notes when some do not. It takes nothing from the budget,
// since what fits may be lost to others yet; see Spend.
func (b *Budget) Fit(rows []Row) []Row {
	used := b.Used
	for i := range rows {
		size := rows[i].PayloadBytes()
		if used+size > max(b.Bytes, size) {
			b.Cut = true
			return rows[:i]
		}
		used += size
	}
	return rows
}

// Spend takes from the budget what was leased, and notes when the statement that leased it left some because of their
// payloads.
func (b *Budget) Spend(rows []Row) {
	b.Rows -= len(rows)
	for i := range rows {
		b.Used += rows[i].PayloadBytes()
		b.Cut = b.Cut || rows[i].Cut
	}
}

// Mark marks the rows of a checkout that left some because of their payloads.
func (b *Budget) Mark(rows []Row) []Row {
	for i := range rows {
		rows[i].Cut = b.Cut
	}
	return rows
}

// PayloadBytes is the length of the payload, even where the row came without it.
func (r *Row) PayloadBytes() int64 {
	if r.PayloadSize != nil {
		return *r.PayloadSize
	}
	return int64(len(r.Payload))
}

// FillPayloads reads the payloads that a search left out because they are large, by a batch that returns id and payload
// of each :id.
func FillPayloads(ctx context.Context, s *Session, c Conn, b Batch, rows []Row) error {
	var ids Col[uuid.UUID]
	for i := range rows {
		if rows[i].Payload == nil && rows[i].PayloadBytes() > 0 {
			ids = append(ids, rows[i].ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	found, err := s.QueryBatch(ctx, c, b, Args{"id": ids}, len(ids))
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

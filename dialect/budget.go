package dialect

import (
	"context"
	"math"
	"sync/atomic"

	"github.com/google/uuid"
)

// A Budget is what a checkout may still lease: a number of rows, and bytes of their payloads. A row fits while the payloads together are
// within the bytes; one that is larger by itself fits where no payload comes before it, so that a large task is handed out alone.
//
// A dialect finds out how large payloads are before it leases them, leaves alone what does not fit (Fit, or the same in SQL and Spend), and
// marks the rows that it returns when it left some (Mark).
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

// Fit returns the first of rows, in order, that fit, and notes when some do not. It takes nothing from the budget, since what fits may be
// lost to others yet; see Spend.
func (b *Budget) Fit(rows []Row) []Row {
	used := b.Used
	for i := range rows {
		size := rows[i].payloadSize()
		if used+size > max(b.Bytes, size) {
			b.Cut = true
			return rows[:i]
		}
		used += size
	}
	return rows
}

// Spend takes from the budget what was leased, and notes when the statement that leased it left some because of their payloads.
func (b *Budget) Spend(rows []Row) {
	b.Rows -= len(rows)
	for i := range rows {
		b.Used += rows[i].payloadSize()
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

// payloadSize is the length of the payload, also where it was left out.
func (r *Row) payloadSize() int64 {
	if r.PayloadSize != nil {
		return *r.PayloadSize
	}
	return int64(len(r.Payload))
}

// isCut reports whether a checkout left due tasks because of their payloads.
func isCut(rows []Row) bool { return len(rows) > 0 && rows[len(rows)-1].Cut }

// FillPayloads reads the payloads that a search left out because they are large, by a batch that returns id and payload of each :id.
func (s *Session) FillPayloads(ctx context.Context, c Conn, b Batch, rows []Row) error {
	var ids Col[uuid.UUID]
	for i := range rows {
		if rows[i].Payload == nil && rows[i].payloadSize() > 0 {
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

// Small remembers of a queue whether the payloads of this client's last checkout were small: each within the budget's share. While they are, a
// dialect may search in a way that costs less for small payloads, and it must be within the budget for large ones all the same.
type Small struct{ last atomic.Bool }

// Small is that of a queue. It begins as false.
func (s *Session) Small(queue string) *Small {
	return s.Remembered("small "+queue, &Small{}).(*Small)
}

// Were reports whether the payloads of the last checkout that found some tasks were small. It is false after one that found none.
func (s *Small) Were() bool { return s.last.Load() }

// Found notes what a checkout found, and whether each payload was within share.
func (s *Small) Found(rows []Row, share int64) {
	small := len(rows) > 0
	for i := range rows {
		small = small && rows[i].payloadSize() <= share
	}
	if s.last.Load() != small {
		s.last.Store(small)
	}
}

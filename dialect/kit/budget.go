package kit

import (
	"cmp"
	"context"
	"math"

	"github.com/dbq-go/dbq/dialect"
	"github.com/google/uuid"
)

// A Budget limits a checkout to a number of rows and to the bytes of their payloads, and collects the rows that it
// has leased. A row fits if the payloads together stay within the bytes. A single payload that exceeds the bytes fits
// if it comes first, so a large task is handed out alone.
//
// A dialect determines the sizes of payloads before it leases them, and leaves out rows that do not fit (Fit, or the
// same in SQL). It passes the rows that it has leased to Add, or to TakeOver if their leases had expired, and returns
// Result. Each try of a transaction starts with a new Budget.
type Budget struct {
	Rows  int   // rows that can still be leased
	Bytes int64 // of the payloads of all rows in the checkout
	Used  int64 // the bytes of the leased payloads
	Cut   bool  // a row that could be leased did not fit; the rows after it are not leased either

	leased []dialect.Row
}

// NewBudget returns the budget of the whole checkout.
func NewBudget(r dialect.CheckoutRequest) Budget {
	b := Budget{Rows: r.Limit, Bytes: r.Bytes}
	if b.Bytes <= 0 {
		b.Bytes = math.MaxInt64
	}
	return b
}

// Share returns the largest size of payloads with which Rows of them fit.
func (b *Budget) Share() int64 { return max(b.Bytes-b.Used, 0) / int64(max(b.Rows, 1)) }

// Full reports whether nothing more can be leased.
func (b *Budget) Full() bool { return b.Rows <= 0 || b.Cut }

// Fit returns the first rows that fit, in order, and records whether some do not. It does not reduce the budget,
// because other checkouts may lease these rows first.
func (b *Budget) Fit(rows []dialect.Row) []dialect.Row {
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

// Add adds leased rows, and sorts them into the order in which tasks are handed out. It records whether the statement
// that leased the rows omitted some because of their payloads.
func (b *Budget) Add(rows []dialect.Row) {
	InOrder(rows)
	b.Rows -= len(rows)
	for i := range rows {
		b.Used += rows[i].PayloadBytes()
		b.Cut = b.Cut || rows[i].Cut
	}
	b.leased = append(b.leased, rows...)
}

// TakeOver is Add for rows whose lease had expired. In the transaction of the takeover, on c, it also adds their
// previous attempts to the history, and dead-letter notices for those that became POISON. seen has the rows before
// the takeover, for leased rows that lack the previous attempt.
func (b *Budget) TakeOver(ctx context.Context, s *dialect.Session, c dialect.Conn, seen, rows []dialect.Row) error {
	was := make(map[uuid.UUID]dialect.Row, len(seen))
	for _, r := range seen {
		was[r.ID] = r
	}
	for i := range rows {
		if r, ok := was[rows[i].ID]; ok {
			rows[i].WasDue = cmp.Or(rows[i].WasDue, r.WasDue)
			rows[i].WasHolder, rows[i].WasTaken = r.WasHolder, r.WasTaken
			rows[i].WasUntil, rows[i].WasAttempt = r.WasUntil, r.WasAttempt
		}
	}
	b.Add(rows)
	return s.RecordTakenOver(ctx, c, rows)
}

// Result returns the added rows, in order.
func (b *Budget) Result() dialect.CheckoutResult {
	return dialect.CheckoutResult{Rows: b.leased, More: b.Cut && len(b.leased) > 0}
}

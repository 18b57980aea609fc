package acme

import (
	"context"
	"fmt"
	"slices"

	"github.com/dbq-go/dbq/dialect"
	"github.com/google/uuid"
)

// Checkout finds and leases tasks in one transaction, which waits for every other writer, so nothing can change between
// the two.
func (Dialect) Checkout(ctx context.Context, s *dialect.Session, r dialect.CheckoutRequest) ([]dialect.Row, error) {
	if r.Strategy != dialect.CAS {
		return nil, fmt.Errorf("acme: no strategy %q", r.Strategy)
	}
	order := []string{"ready", "expired"}
	if r.Expired { // otherwise a backlog that fills every checkout would keep expired leases waiting
		order = []string{"expired", "ready"}
	}
	var out []dialect.Row
	err := s.Tx(ctx, func(ctx context.Context, c dialect.Conn) error {
		budget := r.Budget()
		for _, which := range order {
			rows, err := take(ctx, s, c, which, r, &budget)
			if err != nil {
				return err
			}
			budget.Spend(rows)
			out = budget.Mark(append(out, rows...))
		}
		return nil
	})
	if err != nil {
		return nil, err // if the commit failed, no row is leased for sure
	}
	return out, nil
}

// take finds tasks, leases the first of them whose payloads fit, and sorts them: RETURNING has no order.
func take(ctx context.Context, s *dialect.Session, c dialect.Conn, which string, r dialect.CheckoutRequest,
	b *dialect.Budget) ([]dialect.Row, error) {
	if b.Spent() {
		return nil, nil
	}
	args := dialect.Args{"queue": r.Queue, "holder": r.Holder, "lease": r.Lease.Microseconds(), "limit": b.Rows,
		"known_started": r.KnownStarted()}
	found, err := s.Query(ctx, c, s.Statements.Checkout["find "+which], args)
	if found = b.Fit(found); err != nil || len(found) == 0 {
		return nil, err
	}
	var ids dialect.Col[uuid.UUID]
	was := map[uuid.UUID]dialect.Row{}
	for _, row := range found {
		ids, was[row.ID] = append(ids, row.ID), row
	}
	args["id"] = ids
	taken, err := s.QueryBatch(ctx, c, s.Statements.CheckoutBatch["take "+which], args, len(ids))
	for i := range taken {
		t, row := &taken[i], was[taken[i].ID]
		t.WasDue, t.WasHolder, t.WasTaken = row.WasDue, row.WasHolder, row.WasTaken
		t.WasUntil, t.WasAttempt = row.WasUntil, row.WasAttempt
	}
	slices.SortFunc(taken, dialect.HandOutOrder)
	if err == nil {
		err = dialect.RecordTakenOver(ctx, s, c, taken)
	}
	return taken, err
}

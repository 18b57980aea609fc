package dialect

import (
	"context"
	"maps"
)

// FindAndTake is a Checkout of four statements of Statements.Own, in one transaction; examples/acme has them.
//
// "find ready" returns up to :limit due tasks of :queue in HandOutOrder, and "find expired" those whose leases have
// expired, both with id, fence, was_due and payload_size, and the latter with the previous attempt. They lock the rows,
// unless one transaction at a time writes. "take ready" and "take expired", batches of :id and :fence, lease the rows
// that are still due, or expired, under their fences: to :holder, for :lease, with :known_started. They return whole
// rows.
func FindAndTake(ctx context.Context, s *Session, r CheckoutRequest) (Leased, error) {
	order := []string{"ready", "expired"}
	if r.Expired { // otherwise a backlog that fills every checkout would keep expired leases waiting
		order = []string{"expired", "ready"}
	}
	switch r.Only { // in a queue with limits
	case OnlyDue:
		order = []string{"ready"}
	case OnlyExpired:
		order = []string{"expired"}
	}
	budget := r.Budget()
	args := Args{"queue": r.Queue, "holder": r.Holder, "lease": r.Lease.Microseconds(),
		"known_started": r.KnownStarted()}
	err := s.Tx(ctx, func(ctx context.Context, c Conn) error {
		for _, which := range order {
			if budget.Full() {
				break
			}
			args["limit"] = budget.Rows
			found, err := r.Given, error(nil)
			if found == nil {
				found, err = s.Query(ctx, c, s.Statements.Own["find "+which].SQL, args)
			}
			if err != nil {
				return err
			}
			found = budget.Fit(found) // the first of them whose payloads fit
			maps.Copy(args, Keys(found))
			taken, err := s.QueryBatch(ctx, c, s.Statements.Own["take "+which], args, len(found))
			if err != nil {
				return err
			}
			// It adds the rows to what is leased, and the attempts whose leases expired to the history.
			if err := budget.TakeOver(ctx, s, c, found, taken); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return Leased{}, err // if the commit failed, no row is leased for sure
	}
	return budget.Leased(), nil
}

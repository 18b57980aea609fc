package acme

import (
	"context"

	"github.com/dbq-go/dbq/dialect"
)

// Checkout finds and leases tasks in one transaction, which waits for every other writer, so nothing can change between
// the two.
func (Dialect) Checkout(ctx context.Context, s *dialect.Session, r dialect.CheckoutRequest) (dialect.Leased, error) {
	order := []string{"ready", "expired"}
	if r.Expired { // otherwise a backlog that fills every checkout would keep expired leases waiting
		order = []string{"expired", "ready"}
	}
	switch r.Only { // in a queue with limits
	case dialect.OnlyDue:
		order = []string{"ready"}
	case dialect.OnlyExpired:
		order = []string{"expired"}
	}
	budget := r.Budget()
	args := dialect.Args{"queue": r.Queue, "holder": r.Holder, "lease": r.Lease.Microseconds(),
		"known_started": r.KnownStarted()}
	err := s.Tx(ctx, func(ctx context.Context, c dialect.Conn) error {
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
			args["id"] = dialect.IDs(found)
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
		return dialect.Leased{}, err // if the commit failed, no row is leased for sure
	}
	return budget.Leased(), nil
}

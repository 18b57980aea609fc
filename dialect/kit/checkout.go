// Package kit has helpers for the authors of dialects: readers of SQL files, a checkout and its budget, pools, and
// classes of connection errors. Below it, kit/batch changes many rows and kit/search finds due tasks quickly. A dialect
// may use any of them and needs none: package dialect is the whole contract.
package kit

import (
	"context"
	"maps"

	"github.com/dbq-go/dbq/dialect"
)

// FindAndTake is a Checkout of four statements of Statements.Private, in one transaction; examples/acme has them.
//
// "find ready" returns up to :limit due tasks of :queue in the order of InOrder, and "find expired" those whose leases
// have expired, both with id, fence, was_due and payload_size, and the latter with the previous attempt. They lock the
// rows, unless one transaction at a time writes. "take ready" and "take expired", batches of :id and :fence, lease the
// rows that are still due, or expired, under their fences: to :holder, for :lease, with :known_started. They return
// whole rows.
func FindAndTake(ctx context.Context, s *dialect.Session, r dialect.CheckoutRequest) (dialect.CheckoutResult, error) {
	order := map[dialect.Search][]string{
		dialect.DueFirst: {"ready", "expired"},
		// Without it, a backlog that fills every checkout would keep expired leases waiting.
		dialect.ExpiredFirst: {"expired", "ready"},
		dialect.OnlyDue:      {"ready"}, dialect.OnlyExpired: {"expired"}, // in a queue with limits
	}[r.Search]
	budget := NewBudget(r)
	args := dialect.Args{"queue": r.Queue, "holder": r.Holder, "lease": r.Lease.Microseconds(),
		"known_started": r.KnownStarted}
	err := s.Tx(ctx, func(ctx context.Context, c dialect.Conn) error {
		for _, which := range order {
			if budget.Full() {
				break
			}
			args["limit"] = budget.Rows
			found, err := r.Given, error(nil)
			if found == nil {
				found, err = s.Query(ctx, c, s.Private("find "+which).SQL, args)
			}
			if err != nil {
				return err
			}
			found = budget.Fit(found) // the first of them whose payloads fit
			maps.Copy(args, Keys(found))
			taken, err := s.QueryBatch(ctx, c, s.Private("take "+which), args, len(found))
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
		return dialect.CheckoutResult{}, err // if the commit failed, no row is leased for sure
	}
	return budget.Result(), nil
}

package mysql

import (
	"context"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/internal/batch"
)

// A lease is first in its task's row, where checkout writes it. A renewal is a row of its own in {lease}, under the
// same fence: a heartbeat that wrote the task's row would fail a caller's transaction at REPEATABLE READ that completes
// the task (MariaDB), and would wait for one that has locked it.
//
// A row of {lease} is also where a renewal and a takeover meet. Both write it, and so find each other, also on
// different nodes of a cluster: a takeover puts the next fence there, if no renewal under the task's fence is valid,
// and a renewal gives up when it meets a higher fence. Assignments are written so that it does not matter whether one
// sees what the one before it has set.

// win leaves those of locked rows, whose leases had run out, that no renewal holds, and keeps renewals off these.
func (c *checkout) win(ctx context.Context, conn dialect.Conn, rows []dialect.Row) ([]dialect.Row, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	args := pairsOf(rows)
	args["now"], args["lease"] = rows[0].Now, c.r.Lease.Microseconds()
	texts := c.s.Statements.CheckoutBatch
	won, err := batch.Then(ctx, c.s, conn, texts["win"], texts["won"], args, len(rows))
	return dialect.Among(rows, won.Rows), err
}

package oracle

import (
	"context"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/internal/batch"
)

// A lease is first in its task's row, where checkout writes it. A renewal is a row of its own in {lease}, under the same fence: a
// heartbeat that wrote the task's row would fail a caller's SERIALIZABLE transaction that completes the task (ORA-08177), and would wait
// for one that has locked it.
//
// A row of {lease} is also where a renewal and a takeover meet: a takeover puts the next fence there, if no renewal under the task's fence
// is valid, and a renewal gives up when it meets a higher fence. Each writes the row that is there now, whatever its queries have seen.

// win leaves those of locked rows, whose leases had run out, that no renewal holds, and keeps renewals off these.
func (c *checkout) win(ctx context.Context, conn dialect.Conn, rows []dialect.Row) ([]dialect.Row, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	args := keys(rows)
	args["lease"] = c.r.Lease.Microseconds()
	won, err := batch.Then(ctx, c.s, conn, c.s.Statements.CheckoutBatch["win"], c.s.Statements.CheckoutBatch["won"], args, len(rows))
	return dialect.Among(rows, won.Rows), err
}

package mysql

import (
	"context"

	"github.com/dbq-go/dbq/dialect"
)

// A lease is first in its task's row, where checkout writes it. A renewal is a row of its own in {lease}, under the same fence: a
// heartbeat that wrote the task's row would fail a caller's transaction at REPEATABLE READ that completes the task (MariaDB), and would
// wait for one that has locked it.
//
// A row of {lease} is also where a renewal and a takeover meet. Both write it, and so find each other, also on different nodes of a
// cluster: a takeover puts the next fence there, if no renewal under the task's fence is valid, and a renewal gives up when it meets a
// higher fence. Assignments are written so that it does not matter whether one sees what the one before it has set.

// renewed is the end of the lease of a task t in work, as renewed last.
const renewed = `COALESCE((SELECT l.lease_until FROM {lease} AS l FORCE INDEX (PRIMARY) WHERE l.id = t.id AND l.fence = t.fence), t.lease_end)`

// shown are the columns of a row without its payload, with its lease as renewed last.
const shown = "t.id, t.queue, t.reference, t.kind, t.state, t.priority, t.attempt, t.max_attempts, t.lapses, t.fence, t.due,\n" +
	"  CASE WHEN t.state = 1 THEN " + renewed + " END AS lease_until, t.holder, t.created, t.updated, t.headers, t.result"

// A row counts until keep_until: a renewal may end before the lease in the task's row, which would be valid again without it.
const leaseTable = `CREATE TABLE IF NOT EXISTS {lease} (
  id BINARY(16) NOT NULL PRIMARY KEY, fence BIGINT NOT NULL, lease_until BIGINT NOT NULL, keep_until BIGINT NOT NULL
) ENGINE = InnoDB`

func addLeases(st *dialect.Statements, t func(string) string) {
	const (
		lease = `SELECT CAST(:id AS BINARY(16)) AS id, :fence AS fence`
		won   = `{lease}.fence < d.fence OR {lease}.lease_until <= :now`
	)
	pairs := func(sql, after string) dialect.Batch {
		return dialect.Batch{SQL: t(sql), After: t(after), Row: lease, Sep: " UNION ALL ", Max: maxRows}
	}
	st.Extend = pairs(`INSERT INTO {lease} (id, fence, lease_until, keep_until)
SELECT t.id, t.fence, {now} + :lease, GREATEST(t.lease_end, {now} + :lease) FROM `+listed+` AND t.state = 1
ON DUPLICATE KEY UPDATE lease_until = IF({lease}.fence <= t.fence, {now} + :lease, {lease}.lease_until),
  keep_until = IF({lease}.fence <= t.fence, GREATEST(t.lease_end, {now} + :lease), {lease}.keep_until),
  fence = GREATEST({lease}.fence, t.fence)`,
		`SELECT t.id, t.fence FROM `+listed+` AND t.state = 1
  STRAIGHT_JOIN {lease} AS l FORCE INDEX (PRIMARY) ON l.id = t.id AND l.fence = t.fence`)
	st.Start = pairs(`UPDATE `+listed+` SET t.started = 1 WHERE t.state = 1`,
		`SELECT t.id, t.fence FROM `+listed+` AND t.state = 1 AND t.started = 1`)
	st.DropLeases = pairs(`DELETE l FROM ({rows}) AS d STRAIGHT_JOIN {lease} AS l FORCE INDEX (PRIMARY) ON l.id = d.id AND l.fence = d.fence`, "")
	st.ExpireLeases = t(`DELETE FROM {lease} WHERE keep_until <= {now} - :age LIMIT :limit`)
	st.CheckoutBatch["win"] = pairs(`INSERT INTO {lease} (id, fence, lease_until, keep_until)
SELECT d.id, d.fence + 1, :now + :lease, :now + :lease FROM ({rows}) AS d
ON DUPLICATE KEY UPDATE fence = IF(`+won+`, d.fence + 1, {lease}.fence),
  lease_until = IF(`+won+` OR {lease}.fence = d.fence + 1, :now + :lease, {lease}.lease_until),
  keep_until = IF(`+won+` OR {lease}.fence = d.fence + 1, :now + :lease, {lease}.keep_until)`,
		`SELECT l.id FROM ({rows}) AS d STRAIGHT_JOIN {lease} AS l FORCE INDEX (PRIMARY) ON l.id = d.id AND l.fence = d.fence + 1`)
}

// win leaves those of locked rows, whose leases had run out, that no renewal holds, and keeps renewals off these.
func (c *checkout) win(ctx context.Context, conn dialect.Conn, rows []dialect.Row) ([]dialect.Row, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	args := pairsOf(rows)
	args["now"], args["lease"] = rows[0].Now, c.r.Lease.Microseconds()
	won, err := c.s.QueryBatch(ctx, conn, c.s.Statements.CheckoutBatch["win"], args, len(rows))
	if err != nil {
		return nil, err
	}
	return dialect.Among(rows, won), nil
}

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

// renewed is the end of the lease of a task t in work, as renewed last.
const renewed = `COALESCE((SELECT l.lease_until FROM {lease} l WHERE l.id = t.id AND l.fence = t.fence), t.lease_until)`

// shown are the columns of a row without its payload, with its lease as renewed last.
const shown = "t.id, t.queue, t.reference, t.kind, t.state, t.priority, t.attempt, t.max_attempts, t.lapses, t.fence, t.due,\n" +
	"  CASE WHEN t.state = 1 THEN " + renewed + " END AS lease_until, t.holder, t.created, t.updated, t.headers, t.result, t.result_size"

func addLeases(st *dialect.Statements, t func(string) string) {
	// block does something to each row at one time by the database's clock.
	block := func(row string) dialect.Batch {
		return dialect.Batch{
			SQL: t(`DECLARE
  l_now NUMBER(19);
BEGIN
  SELECT {now} INTO l_now FROM dual;
  {rows}
END;`), Row: t(row), Sep: "\n  ", Max: maxTasks,
		}
	}
	st.Extend = block(`BEGIN
    UPDATE {lease} SET fence = :fence, lease_until = l_now + :lease,
      keep_until = (SELECT GREATEST(t.lease_until, l_now + :lease) FROM {task} t WHERE t.id = :id)
     WHERE id = :id AND fence <= :fence AND EXISTS (SELECT 1 FROM {task} t WHERE t.id = :id AND t.fence = :fence AND t.state = 1);
    IF SQL%ROWCOUNT = 0 THEN
      INSERT INTO {lease} (id, fence, lease_until, keep_until)
      SELECT t.id, t.fence, l_now + :lease, GREATEST(t.lease_until, l_now + :lease) FROM {task} t WHERE t.id = :id AND t.fence = :fence AND t.state = 1;
    END IF;
  EXCEPTION WHEN DUP_VAL_ON_INDEX THEN NULL;
  END;`)
	st.DropLeases = dialect.Batch{SQL: t(`DELETE FROM {lease} WHERE id = :id AND fence = :fence`), Max: maxRows}
	st.ExpireLeases = t(`DELETE FROM {lease} WHERE keep_until <= {now} - :age AND ROWNUM <= :limit`)
	st.CheckoutBatch["win"] = block(`BEGIN
    UPDATE {lease} SET fence = :fence + 1, lease_until = l_now + :lease, keep_until = l_now + :lease
     WHERE id = :id AND (fence < :fence OR lease_until <= l_now);
    IF SQL%ROWCOUNT = 0 THEN
      INSERT INTO {lease} (id, fence, lease_until, keep_until)
      VALUES (:id, :fence + 1, l_now + :lease, l_now + :lease);
    END IF;
  EXCEPTION WHEN DUP_VAL_ON_INDEX THEN NULL;
  END;`)
	st.CheckoutBatch["won"] = dialect.Batch{SQL: t(`SELECT l.id FROM {lease} l WHERE 1 = 0 {rows}`),
		Row: `OR l.id = :id AND l.fence = :fence + 1`, Sep: "\n  ", Max: maxTasks}
}

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

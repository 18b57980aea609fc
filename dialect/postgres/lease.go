package postgres

import "github.com/dbq-go/dbq/dialect"

// A lease is first in its task's row, where checkout writes it. A renewal is a row of its own in {lease}, under the same fence: a
// heartbeat that wrote the task's row would fail a caller's transaction at REPEATABLE READ or SERIALIZABLE that completes the task, and
// would wait for one that has locked it.
//
// A row of {lease} is also where a renewal and a takeover meet. Both write it, on conflict with what is there now and not with what
// their snapshot shows, so that one of them finds the other: a takeover puts the next fence there, if no renewal under the task's
// fence is valid, and a renewal gives up when it meets a higher fence.

// renewed is the end of the lease of a task t in work, as renewed last.
const renewed = `coalesce((SELECT l.lease_until FROM {lease} l WHERE l.id = t.id AND l.fence = t.fence), t.lease_until)`

// over says of a task t in work that its lease has run out. Both lists are hashed once for a statement, so that it costs one pass over
// {lease}, whatever the planner believes of its size.
const over = `(t.id, t.fence) NOT IN (SELECT l.id, l.fence FROM {lease} l WHERE l.lease_until > (SELECT now FROM clock))
     AND (t.lease_until <= (SELECT now FROM clock)
       OR (t.id, t.fence) IN (SELECT l.id, l.fence FROM {lease} l WHERE l.lease_until <= (SELECT now FROM clock)))`

// won are those of pick that no renewal holds. Each gets its next lease in {lease} as well. IS TRUE keeps the planner from making a nested
// loop of the list, which is hashed as it is.
const won = `free AS (
  INSERT INTO {lease} AS l (id, fence, lease_until, keep_until)
  SELECT pick.id, pick.fence + 1, clock.now + CAST(:lease AS bigint), clock.now + CAST(:lease AS bigint)
    FROM pick, clock ORDER BY pick.id
  ON CONFLICT (id) DO UPDATE
  SET fence = excluded.fence, lease_until = excluded.lease_until, keep_until = excluded.keep_until
   WHERE l.fence < excluded.fence - 1 OR l.lease_until <= (SELECT now FROM clock)
  RETURNING l.id),
won AS MATERIALIZED (SELECT pick.* FROM pick WHERE (pick.id IN (SELECT free.id FROM free)) IS TRUE)
`

// nextOver is when the first lease of a queue runs out. A full join is never a nested loop, which would read all of {lease} for each task
// in work when the planner believes that it is empty.
const nextOver = `(SELECT min(CASE WHEN b.id IS NOT NULL THEN coalesce(r.lease_until, b.lease_until) END)
     FROM busy b FULL JOIN renewed r ON r.id = b.id AND r.fence = b.fence)`

const nextLists = `busy AS MATERIALIZED (
  SELECT t.id, t.fence, t.lease_until FROM {task} t
   WHERE t.queue = :queue AND t.state = 1 AND t.updated >= CAST(:oldest AS bigint)),
renewed AS MATERIALIZED (SELECT l.id, l.fence, l.lease_until FROM {lease} l WHERE EXISTS (SELECT 1 FROM busy))`

// leaseTable is narrow and has one index, so that a renewal is a small write in place. A row counts until keep_until: a renewal
// may end before the lease in the task's row, which would be valid again without it.
const leaseTable = `CREATE TABLE {lease} (
  id uuid PRIMARY KEY,
  fence bigint NOT NULL,
  lease_until bigint NOT NULL,
  keep_until bigint NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0,
  autovacuum_analyze_scale_factor = 0.05)`

func addLeases(st *dialect.Statements, t func(string) string, batch func(string) dialect.Batch) {
	const given = `(SELECT CAST(:id AS uuid[]) AS id, CAST(:fence AS bigint[]) AS fence OFFSET 0) AS given,
       unnest(given.id, given.fence) AS d (id, fence)`
	st.Extend = batch(`WITH {clock}
INSERT INTO {lease} AS l (id, fence, lease_until, keep_until)
SELECT t.id, t.fence, clock.now + CAST(:lease AS bigint), greatest(t.lease_until, clock.now + CAST(:lease AS bigint))
  FROM clock, ` + given + `, {task} t
 WHERE t.id = d.id AND t.fence = d.fence AND t.state + 0 = 1 ORDER BY t.id
ON CONFLICT (id) DO UPDATE
SET fence = excluded.fence, lease_until = excluded.lease_until, keep_until = excluded.keep_until
WHERE l.fence <= excluded.fence
RETURNING l.id, l.fence`)
	st.Start = batch(`UPDATE {task} t SET started = 1 FROM ` + given + `
 WHERE t.id = d.id AND t.fence = d.fence AND t.state + 0 = 1
RETURNING t.id, t.fence`)
	st.DropLeases = batch(`DELETE FROM {lease} l USING ` + given + ` WHERE l.id = d.id AND l.fence = d.fence`)
	st.ExpireLeases = t(`DELETE FROM {lease} WHERE keep_until <= {now} - CAST(:age AS bigint) AND id = ANY (ARRAY(
  SELECT id FROM {lease} WHERE keep_until <= {now} - CAST(:age AS bigint) LIMIT :limit))`)
}

-- renewed
-- It is the end of the lease of a task t in PROCESSING, as renewed last.
--
-- A lease is first in its task's row, where checkout writes it. A renewal is a row of its own in the table lease,
-- under the same fence: a heartbeat that wrote the task's row would fail a caller's transaction at REPEATABLE READ or
-- SERIALIZABLE that completes the task, and would wait for one that has locked it.
--
-- A row of lease is also where a renewal and a takeover meet. Both write it, on conflict with what is there now and
-- not with what their snapshot shows, so that one of them finds the other: a takeover puts the next fence there, if
-- no renewal under the task's fence is valid, and a renewal gives up when it meets a higher fence.
coalesce((SELECT l.lease_until FROM {lease} l WHERE l.id = t.id AND l.fence = t.fence),
         t.lease_until);

-- not_renewed
-- With over, it is true of a task t in PROCESSING whose lease has expired. Both lists are hashed once for a statement,
-- so that it costs one pass over the table lease, whatever the planner believes of its size.
(t.id, t.fence) NOT IN (
  SELECT l.id, l.fence
    FROM {lease} l
   WHERE l.lease_until > (SELECT now FROM clock));

-- over
(t.lease_until <= (SELECT now FROM clock)
 OR (t.id, t.fence) IN (
      SELECT l.id, l.fence
        FROM {lease} l
       WHERE l.lease_until <= (SELECT now FROM clock)));

-- given_leases
-- OFFSET 0 hides the length of the arrays from the planner, as in Settle.
(SELECT CAST(:id AS uuid[]) AS id, CAST(:fence AS bigint[]) AS fence OFFSET 0) AS given,
unnest(given.id, given.fence) AS d (id, fence);

-- Extend
-- Runs at each heartbeat of a worker, for all leases that it holds. It writes the table lease alone, and in the order
-- of ids, so that no two wait for each other. A row with a higher fence is a takeover's and stays. Index: the primary
-- keys of both tables.
WITH {clock}
INSERT INTO {lease} AS l (id, fence, lease_until, keep_until)
SELECT t.id, t.fence, clock.now + CAST(:lease AS bigint), greatest(t.lease_until, clock.now + CAST(:lease AS bigint))
  FROM clock,
       {given_leases},
       {task} t
 WHERE t.id = d.id
   AND t.fence = d.fence
   AND t.state + 0 = {PROCESSING}
 ORDER BY t.id
ON CONFLICT (id) DO UPDATE
   SET fence = excluded.fence,
       lease_until = excluded.lease_until,
       keep_until = excluded.keep_until
 WHERE l.fence <= excluded.fence
RETURNING l.id, l.fence;

-- Start
-- Runs when a worker begins tasks that it had checked out ahead. Index: the primary key.
UPDATE {task} t
   SET known_started = 1
  FROM {given_leases}
 WHERE t.id = d.id
   AND t.fence = d.fence
   AND t.state + 0 = {PROCESSING}
RETURNING t.id, t.fence;

-- DropLeases
-- Runs after the settlement. Index: the primary key of lease.
DELETE FROM {lease} l
 USING {given_leases}
 WHERE l.id = d.id
   AND l.fence = d.fence;

-- ExpireLeases
-- Runs now and then, for renewals that DropLeases missed. It scans the table lease, which is as small as the number
-- of tasks in PROCESSING. Index: the primary key of lease, for the rows found.
DELETE FROM {lease}
 WHERE keep_until <= {now} - CAST(:age AS bigint)
   AND id = ANY (ARRAY(
         SELECT id
           FROM {lease}
          WHERE keep_until <= {now} - CAST(:age AS bigint)
          LIMIT :limit));

-- Next
-- Runs when a worker found nothing to do: the answer says how long it may sleep. Index: task_ready, one search for
-- each priority; task_busy for the tasks in PROCESSING.
WITH busy AS MATERIALIZED (
  SELECT t.id, t.fence, t.lease_until
    FROM {task} t
   WHERE t.queue = :queue
     AND t.state = {PROCESSING}
     AND t.updated >= CAST(:oldest AS bigint)),
renewed AS MATERIALIZED (
  SELECT l.id, l.fence, l.lease_until
    FROM {lease} l
   WHERE EXISTS (SELECT 1 FROM busy))
SELECT CASE WHEN {unpaused} THEN least(
         (SELECT min(x.due)
            FROM generate_series(0, 9) AS p (priority)
           CROSS JOIN LATERAL (
             SELECT t.due
               FROM {task} t
              WHERE t.queue = :queue
                AND t.priority = p.priority
                AND t.due >= (CAST(:since AS bigint[]))[p.priority + 1]
              ORDER BY t.due, t.id
              LIMIT 1) AS x),
         {first_lease_over}) END AS due,
       {now} AS now;

-- first_lease_over
-- It is when the first lease of a queue expires. A full join is never a nested loop, which would read all of lease
-- for each task in PROCESSING when the planner believes that it is empty.
(SELECT min(CASE WHEN b.id IS NOT NULL THEN coalesce(r.lease_until, b.lease_until) END)
   FROM busy b
   FULL JOIN renewed r ON r.id = b.id AND r.fence = b.fence);

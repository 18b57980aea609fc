-- renewed
-- A lease ends when its renewal does, a row of the table lease under the task's fence, if there is one.
coalesce((SELECT l.lease_until FROM {lease} l WHERE l.id = t.id AND l.fence = t.fence),
         t.lease_until);

-- reported
-- The progress that heartbeats have stored is in the renewal.
(SELECT l.progress FROM {lease} l
  WHERE l.id = t.id AND l.fence = t.fence);

-- not_renewed
-- The lists of renewals (NOT IN, IN) are hashed once for a statement: the search makes one pass over the table lease
-- for each, whatever the planner believes of its size.
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
-- OFFSET 0 hides the length of the arrays from the planner, which would rather scan a small table for a long array
-- than look up each row.
(SELECT CAST(:id AS uuid[]) AS id, CAST(:fence AS bigint[]) AS fence OFFSET 0) AS given,
unnest(given.id, given.fence) AS d (id, fence);

-- Extend
-- Runs at each heartbeat of a worker, for all of its leases. Indexes: the primary keys of task and lease. A renewal is
-- a row of its own, so that a heartbeat neither writes nor locks a task. Rows are written in the order of ids, so that
-- no two heartbeats deadlock. A row with a higher fence is a takeover's and stays. A null :progress keeps what the
-- lease has. state + 0 hides the condition from the planner, which would otherwise start the join from the index
-- task_busy. OFFSET 0 hides the length of the arrays from it: it would rather scan a small table for a long array than
-- look up each row.
WITH {clock}
INSERT INTO {lease} AS l (id, fence, lease_until, keep_until, progress)
SELECT t.id, t.fence, clock.now + CAST(:lease AS bigint), greatest(t.lease_until, clock.now + CAST(:lease AS bigint)),
       d.progress
  FROM clock,
       (SELECT CAST(:id AS uuid[]) AS id, CAST(:fence AS bigint[]) AS fence, CAST(:progress AS bytea[]) AS progress
        OFFSET 0) AS given,
       unnest(given.id, given.fence, given.progress) AS d (id, fence, progress),
       {task} t
 WHERE t.id = d.id
   AND t.fence = d.fence
   AND t.state + 0 = {PROCESSING}
 ORDER BY t.id
ON CONFLICT (id) DO UPDATE
   SET fence = excluded.fence,
       lease_until = excluded.lease_until,
       keep_until = excluded.keep_until,
       progress = coalesce(excluded.progress, CASE WHEN l.fence = excluded.fence THEN l.progress END)
 WHERE l.fence <= excluded.fence
RETURNING l.id, l.fence;

-- Start
-- Runs when a worker starts tasks that it checked out ahead. Index: the primary key. state + 0 hides the condition
-- from the planner, which would otherwise start the join from the index task_busy.
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
-- Runs in clients that renew leases or take tasks over, every 10 seconds at most, for renewals that DropLeases has
-- not removed. Index: none for the search, since the table has few rows, one for each long-running task; the primary
-- key for the rows found. SKIP LOCKED keeps it from waiting for heartbeats and takeovers. The progress of a task that
-- is still leased stays for the takeover.
DELETE FROM {lease}
 WHERE keep_until <= {now} - CAST(:age AS bigint)
   AND id = ANY (ARRAY(
         SELECT l.id
           FROM {lease} l
          WHERE l.keep_until <= {now} - CAST(:age AS bigint)
            AND (l.progress IS NULL
                 OR (SELECT t.state FROM {task} t WHERE t.id = l.id AND t.fence = l.fence)
                    IS DISTINCT FROM {PROCESSING})
          LIMIT :limit
            FOR UPDATE OF l SKIP LOCKED));

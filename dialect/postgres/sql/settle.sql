-- Settle
-- Runs for attempts that ended in different ways or under different fences. Index: the primary key, once for each
-- row. OFFSET 0 hides the length of the arrays from the planner, which would rather scan a small table for a long
-- array than look up each row. state + 0 hides the condition from it: it would otherwise start the join from
-- the index task_busy.
WITH {clock}
UPDATE {task} t
   SET state = CASE WHEN d.state = {ERROR} AND coalesce(d.at, d.after) IS NOT NULL AND t.attempt >= t.max_attempts
                    THEN {POISON} ELSE d.state END,
       due = CASE WHEN d.state = {ERROR} AND t.attempt >= t.max_attempts
                  THEN NULL ELSE coalesce(d.at, clock.now + d.after) END,
       attempt = t.attempt - d.uncount,
       lease_until = NULL,
       updated = clock.now,
       result = CASE WHEN d.state = {CREATED} THEN coalesce(d.result, t.result) ELSE d.result END,
       progress = CASE
         WHEN d.state <> {COMPLETED}
         THEN coalesce({reported}, t.progress)
       END
  FROM clock,
       (SELECT CAST(:id AS uuid[]) AS id, CAST(:fence AS bigint[]) AS fence, CAST(:state AS smallint[]) AS state,
               CAST(:at AS bigint[]) AS at, CAST(:after AS bigint[]) AS after, CAST(:uncount AS smallint[]) AS uncount,
               CAST(:result AS bytea[]) AS result
         WHERE {bound_wait} OFFSET 0) AS given,
       unnest(given.id, given.fence, given.state, given.at, given.after, given.uncount, given.result)
         AS d (id, fence, state, at, after, uncount, result)
 WHERE t.id = d.id
   AND t.fence = d.fence
   AND t.state + 0 = {PROCESSING}
RETURNING t.id, t.fence, t.state;

-- Batch complete uniform
-- Runs instead of Settle for attempts under one fence: most tasks complete in their first attempt. Index: the primary
-- key.
UPDATE {task} t
   SET state = {COMPLETED},
       due = NULL,
       lease_until = NULL,
       updated = (SELECT {now}),
       result = NULL,
       progress = NULL
{under_one_fence};

-- Remove
-- Runs instead of Settle for tasks that are not kept. Index: the primary key. OFFSET 0 and state + 0: see Settle.
DELETE FROM {task} t
 USING (SELECT CAST(:id AS uuid[]) AS id, CAST(:fence AS bigint[]) AS fence
         WHERE {bound_wait} OFFSET 0) AS given,
       unnest(given.id, given.fence) AS d (id, fence)
 WHERE t.id = d.id
   AND t.fence = d.fence
   AND t.state + 0 = {PROCESSING}
RETURNING t.id, t.fence;

-- Batch remove uniform
-- Runs instead of Remove for attempts under one fence. Index: the primary key.
DELETE FROM {task} t
{under_one_fence};

-- LockFree
-- Runs if a batch waited too long for a locked row, or a checkout of a queue with limits per key met one. Index: the
-- primary key.
SELECT t.id
  FROM {task} t
 WHERE t.id = ANY (CAST((SELECT CAST(:id AS uuid[])) AS uuid[]))
   FOR UPDATE SKIP LOCKED;

-- under_one_fence
-- The list comes from a subquery, which hides its length like OFFSET 0: the planner uses the primary key, whatever it
-- knows about the table.
 WHERE t.id = ANY (CAST((
         SELECT CAST(:id AS uuid[])
          WHERE {bound_wait}) AS uuid[]))
   AND t.fence = CAST(:fence AS bigint)
   AND t.state + 0 = {PROCESSING}
RETURNING t.id;

-- bound_wait
-- The CASE is always true. set_config bounds how long the transaction waits for a row that another one has locked
-- (lock_timeout). It is evaluated once, before any row is locked; without a bound, in a caller's transaction, it
-- leaves the session's setting.
CASE WHEN CAST(:lock_wait AS bigint) IS NULL THEN true
     ELSE set_config('lock_timeout', CAST(CAST(:lock_wait AS bigint) AS text), true) IS NOT NULL
END;

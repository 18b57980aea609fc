-- Settle
-- Runs for each batch of settlements, after "lock settle". Index: the primary key. The server assigns from left to
-- right, and later expressions see the new values: state is set after the values computed from it.
UPDATE {held}
   SET t.due_at = CASE
         WHEN {exhausted_now} THEN -1
         ELSE coalesce(d.run_at, {now} + d.run_after, -1)
       END,
       t.state = CASE
         WHEN {exhausted_now} AND coalesce(d.run_at, d.run_after) IS NOT NULL
         THEN {POISON}
         ELSE d.state
       END,
       t.attempt = t.attempt - d.uncount,
       t.lease_end = -1,
       t.updated = {now},
       t.result = CASE WHEN d.state = {CREATED} THEN coalesce(d.result, t.result) ELSE d.result END,
       t.progress = CASE WHEN d.state <> {COMPLETED} THEN t.progress END;

-- Settle row
-- A value that may be null in every row is cast, or the server would take it for a floating-point number. Bytes are
-- cast, or they would be text of the connection's character set if the driver prepares statements.
SELECT CAST(:id AS BINARY(16)) AS id, :fence AS fence, :state AS state, CAST(:at AS SIGNED) AS run_at,
CAST(:after AS SIGNED) AS run_after, :uncount AS uncount, CAST(:result AS BINARY) AS result;

-- Batch lock settle
-- Runs before Settle, which cannot return the changed rows. Index: the primary key. It reads the progress that
-- SetProgress keeps, but not in a caller's transaction, which may be SERIALIZABLE: reading a renewal would lock it.
-- MariaDB reads a row that a subquery finds by constants even if a CASE leaves the subquery out, so the conditions are
-- in the subquery.
SELECT t.id, t.fence,
       CASE
         WHEN {exhausted_now} AND d.again IS NOT NULL THEN {POISON}
         ELSE d.state
       END AS state,
       (SELECT l.progress FROM {lease} AS l FORCE INDEX (PRIMARY)
         WHERE :callers_tx = 0 AND d.state <> {COMPLETED} AND l.id = t.id AND l.fence = t.fence) AS progress
  FROM {held}
   FOR UPDATE;

-- Batch lock settle row
SELECT CAST(:id AS BINARY(16)) AS id, :fence AS fence, :state AS state, coalesce(:at, :after) AS again;

-- exhausted_now
d.state = {ERROR} AND t.attempt >= t.max_attempts;

-- Batch complete uniform
-- Runs for tasks of one checkout that complete without a result. Index: the primary key. The server reads a list of
-- ids in half the time of a list of SELECTs.
UPDATE {task} FORCE INDEX (PRIMARY)
   SET state = {COMPLETED},
       due_at = -1,
       lease_end = -1,
       updated = {now},
       result = NULL,
       progress = NULL
 {where_under_one};

-- Batch complete uniform row
:id;

-- Batch lock uniform
-- Runs if "complete uniform" changed fewer tasks than it was given. Index: the primary key. It locks in the order of
-- ids, so that no two batches deadlock.
SELECT id
  FROM {task} FORCE INDEX (PRIMARY)
 {where_under_one}
 ORDER BY id
   FOR UPDATE;

-- Batch lock uniform row
:id;

-- where_under_one
WHERE id IN ({rows})
  AND fence = :fence
  AND state = {PROCESSING};

-- Remove
-- Runs for tasks that are not kept. Index: the primary key.
DELETE t
  FROM {held};

-- Remove row
{pair};

-- Batch lock remove
-- Runs if Remove removed fewer tasks than it was given. Index: the primary key.
SELECT t.id, t.fence
  FROM {held}
   FOR UPDATE;

-- Batch lock remove row
{pair};

-- LockFree
-- Runs if a batch of settlements, or a checkout of a queue with limits per key, met a locked task. Index: the primary
-- key. fence >= 0 is always true. It makes MySQL read rows: for the primary key alone it may scan all of a table that
-- seems small.
SELECT id
  FROM {task} FORCE INDEX (PRIMARY)
 WHERE id IN ({rows})
   AND fence >= 0
 ORDER BY id
   FOR UPDATE SKIP LOCKED;

-- LockFree row
:id;

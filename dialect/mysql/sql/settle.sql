-- Settle
-- Runs for each batch of settlements, after "lock settle". Index: the primary key. The servers assign from
-- left to right and later expressions see the new values: state comes after what is computed from it.
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
       t.result = CASE WHEN d.state = {CREATED} THEN coalesce(d.result, t.result) ELSE d.result END;

-- Settle row
-- A column that may be null in every row is cast, or it would be reckoned as a floating-point number; bytes are cast,
-- or they would be text of the connection's character set where the driver prepares statements.
SELECT CAST(:id AS BINARY(16)) AS id, :fence AS fence, :state AS state, CAST(:at AS SIGNED) AS run_at,
CAST(:after AS SIGNED) AS run_after, :uncount AS uncount, CAST(:result AS BINARY) AS result;

-- Batch lock settle
-- Runs before Settle, which cannot return what it changes. Index: the primary key.
SELECT t.id, t.fence,
       CASE
         WHEN {exhausted_now} AND d.again IS NOT NULL THEN {POISON}
         ELSE d.state
       END AS state
  FROM {held}
   FOR UPDATE;

-- Batch lock settle row
SELECT CAST(:id AS BINARY(16)) AS id, :fence AS fence, :state AS state, coalesce(:at, :after) AS again;

-- exhausted_now
d.state = {ERROR} AND t.attempt >= t.max_attempts;

-- Batch complete uniform
-- Runs for tasks of one checkout that completed without a result. Index: the primary key. A list of ids takes half
-- the time of a list of SELECTs.
UPDATE {task} FORCE INDEX (PRIMARY)
   SET state = {COMPLETED},
       due_at = -1,
       lease_end = -1,
       updated = {now},
       result = NULL
 {where_under_one};

-- Batch complete uniform row
:id;

-- Batch lock uniform
-- Runs when "complete uniform" changed fewer tasks than it was given, and was undone. Index: the primary key.
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
-- Runs for queues that keep no finished tasks. Index: the primary key.
DELETE t
  FROM {held};

-- Remove row
{pair};

-- Batch lock remove
-- Runs when Remove removed fewer tasks than it was given, and was undone. Index: the primary key.
SELECT t.id, t.fence
  FROM {held}
   FOR UPDATE;

-- Batch lock remove row
{pair};

-- LockFree
-- Runs when a batch of settlements met a locked task. Index: the primary key. It queries the fence, too: MySQL would
-- walk all of a small table's primary key where it need not read rows.
SELECT id
  FROM {task} FORCE INDEX (PRIMARY)
 WHERE id IN ({rows})
   AND fence >= 0
 ORDER BY id
   FOR UPDATE SKIP LOCKED;

-- LockFree row
:id;

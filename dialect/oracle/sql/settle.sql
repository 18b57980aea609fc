-- Settle
-- Runs for each batch of settlements, with arrays, after "lock". Index: the primary key. Each expression of the SET
-- clause sees the row as it was.
UPDATE {task}
   SET due = CASE
         WHEN {exhausted_now} THEN NULL
         ELSE COALESCE(:at, {now} + :after)
       END,
       state = CASE
         WHEN {exhausted_now} AND COALESCE(:at, :after) IS NOT NULL
         THEN {POISON}
         ELSE :state
       END,
       attempt = attempt - :uncount,
       lease_until = NULL,
       updated = {now},
       result_size = CASE
         WHEN {keeps_result} THEN result_size
         ELSE :result_size
       END,
       result = CASE
         WHEN {keeps_result} THEN result
         ELSE :result
       END,
       progress = CASE
         WHEN :state <> {COMPLETED}
         THEN COALESCE((SELECT l.progress FROM {lease} l WHERE l.id = :id AND l.fence = :fence), progress)
       END
 {where_held};

-- exhausted_now
:state = {ERROR} AND attempt >= max_attempts;

-- keeps_result
:state = {CREATED} AND :result_size IS NULL;

-- Remove
-- Runs for tasks that are not kept, with arrays, after "lock". Index: the primary key.
DELETE FROM {task}
 {where_held};

-- Batch lock
-- Runs before Settle, Remove and Start, whose arrays return nothing. Index: the primary key. It locks in the order of
-- ids, so that no two batches deadlock.
{settled}
   AND t.state = {PROCESSING}
 ORDER BY t.id
   FOR UPDATE;

-- Batch lock row
{pair};

-- Batch settled
-- Runs after Settle. Index: the primary key.
{settled};

-- Batch settled row
{pair};

-- settled
SELECT /*+ INDEX(t {prefix}task_pk) */ t.id, t.fence, t.state
  FROM {task} t
 WHERE (t.id, t.fence) IN ({rows});

-- LockFree
-- Runs if a batch of settlements, or a checkout of a queue with limits per key, met a locked task. Index: the primary
-- key.
SELECT /*+ INDEX(t {prefix}task_pk) */ t.id
  FROM {task} t
 WHERE t.id IN ({rows})
   FOR UPDATE SKIP LOCKED;

-- LockFree row
:id;

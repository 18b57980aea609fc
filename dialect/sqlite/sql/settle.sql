-- Settle
-- Runs for each batch of settlements. Index: task_id.
UPDATE {task}
   SET state = CASE
         WHEN d.column3 = {ERROR} AND coalesce(d.column4, d.column5) IS NOT NULL
           AND attempt >= max_attempts THEN {POISON}
         ELSE d.column3
       END,
       due = CASE
         WHEN d.column3 = {ERROR} AND attempt >= max_attempts THEN NULL
         ELSE coalesce(d.column4, {now} + d.column5)
       END,
       attempt = attempt - d.column6,
       lease_until = NULL,
       updated = {now},
       result = CASE WHEN d.column3 = {CREATED} THEN coalesce(d.column7, result) ELSE d.column7 END,
       progress = CASE WHEN d.column3 <> {COMPLETED} THEN progress END
  FROM (VALUES {rows}) AS d
 {of_listed}
RETURNING id, fence, state;

-- Settle row
(:id, :fence, :state, :at, :after, :uncount, :result);

-- Batch complete uniform
-- Runs for tasks of one checkout that complete without a result. Index: task_id. SQLite reads a list of ids in half
-- the time of a list of rows. Without RETURNING it changes each row as it finds it, not after it has found all of
-- them.
UPDATE {task}
   SET {completed}
 WHERE id IN ({rows})
   {and_under_one};

-- Batch complete uniform row
:id;

-- Batch complete one
-- Runs for a single task that completes without a result. Index: task_id.
UPDATE {task}
   SET {completed}
 WHERE id = :id
   {and_under_one};

-- Remove
-- Runs for tasks that are not kept. Index: task_id.
DELETE FROM {task}
 WHERE rowid IN (
   SELECT t.rowid
     FROM (VALUES {rows}) AS d
     JOIN {task} AS t ON t.id = +d.column1 AND t.fence = +d.column2 AND +t.state = {PROCESSING})
RETURNING id, fence;

-- Remove row
(:id, :fence);

-- Batch remove one
-- Runs for a single task that is not kept. Index: task_id.
DELETE FROM {task}
 WHERE id = :id
   {and_under_one};

-- Batch remove uniform
-- Runs for tasks of one checkout that are not kept. Index: task_id.
DELETE FROM {task}
 WHERE id IN ({rows})
   {and_under_one};

-- Batch remove uniform row
:id;

-- Batch lock uniform
-- Runs before "complete uniform" or "remove uniform" runs again, if it found fewer tasks than it was given. Index:
-- task_id.
SELECT id
  FROM {task}
 WHERE id IN ({rows})
   {and_under_one};

-- Batch lock uniform row
:id;

-- completed
-- The seven spaces take the room of the lease's end, so that the row keeps its size and is written in place.
state = {COMPLETED},
due = NULL,
lease_until = NULL,
updated = {now},
result = NULL,
progress = NULL,
taken_by = taken_by || '       ';

-- and_under_one
-- A plus before a column keeps SQLite from searching by it.
AND +fence = :fence
AND +state = {PROCESSING};

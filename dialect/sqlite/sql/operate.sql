-- Movable
-- Runs first in the transaction of an operator's event. Index: task_id.
SELECT id, queue, task_key, state, attempt, fence, holder, taken, updated, result,
       length(result) AS result_size, {now} AS now
  FROM {task}
 {picked}
 ORDER BY id;

-- Movable row
(:id);

-- Move
-- Runs after Movable. Index: task_id.
UPDATE {task}
   SET {set}
 {picked};

-- Move row
(:id);

-- Purge
-- Runs after Archive and RecordLast, if they run. Index: task_id.
DELETE FROM {task}
 {picked}
RETURNING id, queue, task_key, state;

-- Purge row
(:id);

-- picked
WHERE {task}.rowid IN (
  SELECT t.rowid
    FROM (VALUES {rows}) AS d
    JOIN {task} AS t ON t.id = +d.column1)
  AND {guard};

-- SetResult
-- Runs after Move in the same transaction, if the operator gives a reason. Index: task_id.
UPDATE {task}
   SET result = d.column2
  FROM (VALUES {rows}) AS d
 WHERE {task}.id = +d.column1;

-- SetResult row
(:id, :result);

-- SetProgress
-- Runs after Settle in the same transaction, for tasks whose holders have reported progress. Index: task_id.
UPDATE {task}
   SET progress = d.column2
  FROM (VALUES {rows}) AS d
 WHERE {task}.id = +d.column1;

-- SetProgress row
(:id, :progress);

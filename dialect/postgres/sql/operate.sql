-- Movable
-- Runs first in the transaction of an operator's event. Index: the primary key. It locks in the order of ids, so that
-- no two calls deadlock.
SELECT t.id, t.queue, t.task_key, t.state, t.attempt, t.fence, t.holder, t.taken, t.updated,
       t.result, CASE WHEN t.state = {PROCESSING} THEN {reported} END AS progress,
       {now} AS now
  FROM {task} t
 WHERE t.id = ANY (CAST(:id AS uuid[]))
   AND {guard}
 ORDER BY t.id
   FOR UPDATE;

-- Move
-- Runs after Movable. Index: the primary key.
UPDATE {task} t
   SET {set}
 WHERE t.id = ANY (CAST(:id AS uuid[]))
   AND {guard};

-- Purgeable
-- Runs before Archive and RecordLast, if they run: a task that becomes purgeable after them must stay. Index: the
-- primary key.
SELECT t.id, t.queue, t.task_key, t.state
  FROM {task} t
 WHERE t.id = ANY (CAST(:id AS uuid[]))
   AND {guard}
 ORDER BY t.id
   FOR UPDATE;

-- Purge
-- Runs after Archive and RecordLast, if they run. Index: the primary key.
DELETE FROM {task} t
 WHERE t.id = ANY (CAST(:id AS uuid[]))
   AND {guard}
RETURNING t.id, t.queue, t.task_key, t.state;

-- SetResult
-- Runs after Move in the same transaction, if the operator gives a reason. Index: the primary key.
UPDATE {task} t
   SET result = d.result
  FROM (SELECT CAST(:id AS uuid[]) AS id, CAST(:result AS bytea[]) AS result OFFSET 0) AS given,
       unnest(given.id, given.result) AS d (id, result)
 WHERE t.id = d.id;

-- SetProgress
-- Runs after Settle or Move in the same transaction, for tasks whose holders have reported progress. Index: the primary
-- key.
UPDATE {task} t
   SET progress = d.progress
  FROM (SELECT CAST(:id AS uuid[]) AS id, CAST(:progress AS bytea[]) AS progress OFFSET 0) AS given,
       unnest(given.id, given.progress) AS d (id, progress)
 WHERE t.id = d.id;

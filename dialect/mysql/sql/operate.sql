-- Movable
-- Runs first in the transaction of an operator's event. Index: the primary key. It locks in the order of ids, so that
-- no two calls deadlock.
SELECT id, queue, task_key, state, attempt, fence, holder, taken, updated, result,
       CASE
         WHEN t.state = {PROCESSING}
         THEN {reported}
       END AS progress,
       {now} AS now
{picked}
 ORDER BY id
   FOR UPDATE;

-- Movable row
:id;

-- Move
-- Runs after Movable. Index: the primary key.
UPDATE {task} FORCE INDEX (PRIMARY)
   SET {set}
 {where_picked};

-- Move row
:id;

-- Purgeable
-- Runs before Purge, which cannot return the removed rows. Index: the primary key.
SELECT id, queue, task_key, state
{picked}
 ORDER BY id
   FOR UPDATE;

-- Purgeable row
:id;

-- Purge
-- Runs after Purgeable. Index: the primary key.
DELETE t
  FROM {task} AS t FORCE INDEX (PRIMARY)
 {where_picked};

-- Purge row
:id;

-- picked
  FROM {task} AS t FORCE INDEX (PRIMARY)
 {where_picked};

-- where_picked
WHERE id IN ({rows})
  AND {guard};

-- SetResult
-- Runs after Move in the same transaction, if the operator gives a reason. Index: the primary key.
UPDATE ({rows}) AS d
       STRAIGHT_JOIN {task} AS t FORCE INDEX (PRIMARY)
       ON t.id = d.id
   SET t.result = d.result;

-- SetResult row
SELECT CAST(:id AS BINARY(16)) AS id, CAST(:result AS BINARY) AS result;

-- SetProgress
-- Runs after Settle, Move or a takeover in the same transaction, for tasks whose holders have reported progress. Index:
-- the primary key.
UPDATE ({rows}) AS d
       STRAIGHT_JOIN {task} AS t FORCE INDEX (PRIMARY)
       ON t.id = d.id
   SET t.progress = d.progress;

-- SetProgress row
SELECT CAST(:id AS BINARY(16)) AS id, CAST(:progress AS BINARY) AS progress;

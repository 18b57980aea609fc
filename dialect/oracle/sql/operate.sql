-- Movable
-- Runs first in the transaction of an operator's event. Index: the primary key. It locks in the order of ids, so that
-- no two calls deadlock.
SELECT id, queue, task_key, state, attempt, fence, holder, taken, updated,
       result, result_size,
       CASE
         WHEN t.state = {PROCESSING}
         THEN {reported}
       END AS progress,
       {now} AS now
  FROM {task} t
 WHERE id IN ({rows})
   AND {guard}
 ORDER BY id
   FOR UPDATE;

-- Movable row
:id;

-- Move
-- Runs after Movable, with arrays. Index: the primary key.
UPDATE {task}
   SET {set}
 WHERE id = :id
   AND {guard};

-- Purge
-- Runs after Purgeable, with arrays. Index: the primary key.
DELETE FROM {task}
 WHERE id = :id
   AND {guard};

-- SetResult
-- Runs after Move in the same transaction, if the operator gives a reason. Index: the primary key.
UPDATE {task}
   SET result = :result,
       result_size = :result_size
 WHERE id = :id;

-- SetProgress
-- Runs after Settle, Move or a takeover in the same transaction, for tasks whose holders have reported progress, with
-- arrays. Index: the primary key.
UPDATE {task}
   SET progress = :progress
 WHERE id = :id;

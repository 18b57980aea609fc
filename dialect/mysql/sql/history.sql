-- Record
-- Runs after attempts have ended. Index: the primary key of attempt finds those that exist.
INSERT IGNORE INTO {attempt} (task, fence, queue, attempt, outcome, taken, ended, worker, error)
VALUES {rows};

-- Record row
(:id, :fence, :queue, :attempt, :outcome, :taken, :ended, :worker, :error);

-- RecordLast
-- Runs after a Settle of the same transaction, for attempts that others follow, and before tasks are removed. Index:
-- the primary key of task.
INSERT IGNORE INTO {attempt} (task, fence, queue, attempt, outcome, taken, ended, worker, error)
SELECT t.id, t.fence, t.queue,
       CASE t.state WHEN {CREATED} THEN t.attempt + 1
                    ELSE t.attempt END,
       CASE t.state WHEN {CREATED} THEN 'released'
                    WHEN {COMPLETED} THEN 'completed'
                    WHEN {ERROR} THEN 'failed'
                    ELSE 'poisoned' END,
       t.taken_at, t.updated, LEFT(t.holder, LENGTH(t.holder) - LENGTH(SUBSTRING_INDEX(t.holder, '#', -1)) - 1),
       COALESCE(d.error, CASE WHEN t.state IN ({ERROR}, {POISON}) THEN t.result END)
  FROM ({rows}) AS d
  STRAIGHT_JOIN {task} AS t FORCE INDEX (PRIMARY) ON t.id = d.id
 WHERE t.taken_at > 0
   AND t.state <> {PROCESSING}
   FOR UPDATE;

-- RecordLast row
SELECT CAST(:id AS BINARY(16)) AS id, CAST(:error AS BINARY) AS error;

-- ExpireAttempts
-- Runs for retention. Index: attempt_ended.
DELETE FROM {attempt}
 WHERE queue = :queue
   AND ended <= {now} - :age
 ORDER BY ended
 LIMIT :limit;

-- Archive
-- Runs just before the purge of the same tasks, in its transaction. Index: the primary key.
INSERT IGNORE INTO {archive} (
  {stored}, archived)
SELECT {stored}, {now}
  FROM {task} AS t FORCE INDEX (PRIMARY)
 WHERE t.id IN ({rows})
   AND {purgeable}
   FOR UPDATE;

-- Archive row
:id;

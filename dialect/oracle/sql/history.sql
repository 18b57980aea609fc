-- Record
-- Runs after attempts have ended. Index: the primary key of attempt finds those that exist.
BEGIN
  {rows}
END;
/

-- Record row
BEGIN
  INSERT INTO {attempt} (task, fence, queue, attempt, outcome, taken, ended, worker, error)
  VALUES (:id, :fence, :queue, :attempt, :outcome, :taken, :ended, :worker, :error);
EXCEPTION WHEN DUP_VAL_ON_INDEX THEN NULL;
END;
/

-- RecordLast
-- Runs with arrays, after a Settle of the same transaction, for attempts that others follow, and before tasks are
-- removed. Indexes: the primary keys of task and attempt.
INSERT INTO {attempt} (task, fence, queue, attempt, outcome, taken, ended, worker, error)
SELECT t.id, t.fence, t.queue,
       CASE t.state WHEN {CREATED} THEN t.attempt + 1
                    ELSE t.attempt END,
       CASE t.state WHEN {CREATED} THEN 'released'
                    WHEN {COMPLETED} THEN 'completed'
                    WHEN {ERROR} THEN 'failed'
                    ELSE 'poisoned' END,
       t.taken, t.updated, SUBSTR(t.holder, 1, INSTR(t.holder, '#', -1) - 1),
       CASE WHEN :error_size IS NOT NULL THEN :error
            WHEN t.state IN ({ERROR}, {POISON}) THEN t.result END
  FROM {task} t
 WHERE t.id = :id
   AND t.taken IS NOT NULL
   AND t.state <> {PROCESSING}
   AND NOT EXISTS (SELECT 1 FROM {attempt} a WHERE a.task = t.id AND a.fence = t.fence);

-- ExpireAttempts
-- Runs for retention. Index: att_ended.
DELETE FROM {attempt}
 WHERE queue = :queue
   AND ended <= {now} - :age
   AND ROWNUM <= :limit;

-- Archive
-- Runs just before the purge of the same tasks, in its transaction, which has locked them. Indexes: the primary keys
-- of task and archive.
INSERT INTO {archive} (
  {stored}, archived)
SELECT {stored}, {now}
  FROM {task} t
 WHERE id IN ({rows})
   AND {purgeable}
   AND NOT EXISTS (SELECT 1 FROM {archive} a WHERE a.id = t.id AND a.fence = t.fence);

-- Archive row
:id;

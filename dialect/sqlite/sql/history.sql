-- Record
-- Runs after attempts have ended. Index: the primary key of attempt finds those that exist.
INSERT INTO {attempt} (task, fence, queue, attempt, outcome, taken, ended, worker, error)
VALUES {rows}
ON CONFLICT DO NOTHING;

-- Record row
(:id, :fence, :queue, :attempt, :outcome, :taken, :ended, :worker, :error);

-- RecordLast
-- Runs after a Settle of the same transaction, for attempts that others follow, and before tasks are removed. Index:
-- task_id. rtrim removes all characters but # from the end of the holder, which leaves it up to its last #.
INSERT INTO {attempt} (task, fence, queue, attempt, outcome, taken, ended, worker, error)
SELECT t.id, t.fence, t.queue, t.attempt + (t.state = {CREATED}),
       CASE t.state WHEN {CREATED} THEN 'released'
                    WHEN {COMPLETED} THEN 'completed'
                    WHEN {ERROR} THEN 'failed'
                    ELSE 'poisoned' END,
       t.taken_at, t.updated,
       substr(rtrim(t.holder, replace(t.holder, '#', '')), 1,
              length(rtrim(t.holder, replace(t.holder, '#', ''))) - 1),
       coalesce(d.column2, CASE WHEN t.state IN ({ERROR}, {POISON}) THEN t.result END)
  FROM (VALUES {rows}) AS d
  JOIN {task} AS t ON t.id = +d.column1
 WHERE t.taken_at > 0
   AND +t.state <> {PROCESSING}
ON CONFLICT DO NOTHING;

-- RecordLast row
(:id, :error);

-- ExpireAttempts
-- Runs for retention. Index: attempt_ended.
DELETE FROM {attempt}
 WHERE rowid IN (
   SELECT rowid
     FROM {attempt}
    WHERE queue = :queue
      AND ended <= {now} - :age
    ORDER BY ended
    LIMIT :limit);

-- Archive
-- Runs just before the purge of the same tasks, in its transaction. Index: task_id.
INSERT INTO {archive} (
  {stored}, archived)
SELECT {stored}, {now}
  FROM (VALUES {rows}) AS d
  JOIN {task} AS t ON t.id = +d.column1
 WHERE {purgeable}
ON CONFLICT DO NOTHING;

-- Archive row
(:id);

-- Record
-- Runs in the transaction of an operator's event, for attempts that the tasks' rows no longer describe. Index: the
-- primary key of attempt finds those that exist.
INSERT INTO {attempt} (task, fence, queue, attempt, outcome, taken, ended, worker, error)
SELECT d.id, d.fence, CAST(:queue AS text), d.attempt, d.outcome, d.taken, d.ended, d.worker, d.error
  FROM unnest(CAST(:id AS uuid[]), CAST(:fence AS bigint[]), CAST(:attempt AS smallint[]), CAST(:outcome AS text[]),
              CAST(:taken AS bigint[]), CAST(:ended AS bigint[]), CAST(:worker AS text[]), CAST(:error AS bytea[]))
         AS d (id, fence, attempt, outcome, taken, ended, worker, error)
ON CONFLICT DO NOTHING;

-- RecordLast
-- Runs after a Settle of the same transaction, for attempts that others follow, and before tasks are removed. Index:
-- the primary key of task. OFFSET 0 hides the length of the arrays from the planner, and state + 0 the condition: it
-- would otherwise start from the index task_busy.
INSERT INTO {attempt} (task, fence, queue, attempt, outcome, taken, ended, worker, error)
SELECT t.id, t.fence, t.queue,
       CASE t.state WHEN {CREATED} THEN t.attempt + 1
                    ELSE t.attempt END,
       CASE t.state WHEN {CREATED} THEN 'released'
                    WHEN {COMPLETED} THEN 'completed'
                    WHEN {ERROR} THEN 'failed'
                    ELSE 'poisoned' END,
       t.taken, t.updated, regexp_replace(t.holder, '#[^#]*$', ''),
       coalesce(d.error, CASE WHEN t.state IN ({ERROR}, {POISON}) THEN t.result END)
  FROM (SELECT CAST(:id AS uuid[]) AS id, CAST(:error AS bytea[]) AS error OFFSET 0) AS given,
       unnest(given.id, given.error) AS d (id, error),
       {task} t
 WHERE t.id = d.id
   AND t.taken IS NOT NULL
   AND t.state + 0 <> {PROCESSING}
   FOR UPDATE OF t
ON CONFLICT DO NOTHING;

-- ExpireAttempts
-- Runs for retention. Index: attempt_ended.
DELETE FROM {attempt}
 WHERE ctid = ANY (ARRAY(
         SELECT ctid
           FROM {attempt}
          WHERE queue = :queue
            AND ended <= {now} - CAST(:age AS bigint)
          ORDER BY ended
          LIMIT :limit));

-- Archive
-- Runs just before the purge of the same tasks, in its transaction, if tasks are archived. Index: the primary key.
-- The columns are named because a later version may add some.
INSERT INTO {archive} (
  {stored}, archived)
SELECT {stored},
       {now}
  FROM {task} t
 WHERE t.id = ANY (CAST(:id AS uuid[]))
   AND {purgeable}
ON CONFLICT DO NOTHING;

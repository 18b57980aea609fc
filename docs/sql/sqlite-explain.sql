-- The statements that workers run most, with values for their parameters, to see their plans.
-- Generated from the dialect by "go generate ./..."; do not edit. Tests run this page on each server.
--
-- Paste a statement into a client, or run all: sqlite3 dbq.db < docs/sql/sqlite-explain.sql. EXPLAIN changes nothing.
-- Replace 'work' with the name of a queue, and dbq_ with your tables' prefix. Each plan reaches the tasks by the
-- index that is named above the statement. A statement that takes many rows has two here.

-- ==== any ====
-- Reports whether a task is due or a lease has expired, without the writer's lock.
-- Index: dbq_task_busy, dbq_task_ready
EXPLAIN QUERY PLAN
SELECT CAST(unixepoch('subsec') * 1000000 AS INTEGER) AS now
 WHERE (EXISTS (
         SELECT 1 FROM dbq_task WHERE queue = 'work' AND priority = 0
           AND due <= CAST(unixepoch('subsec') * 1000000 AS INTEGER)
         UNION ALL SELECT 1 FROM dbq_task WHERE queue = 'work' AND priority = 1
           AND due <= CAST(unixepoch('subsec') * 1000000 AS INTEGER)
         UNION ALL SELECT 1 FROM dbq_task WHERE queue = 'work' AND priority = 2
           AND due <= CAST(unixepoch('subsec') * 1000000 AS INTEGER)
         UNION ALL SELECT 1 FROM dbq_task WHERE queue = 'work' AND priority = 3
           AND due <= CAST(unixepoch('subsec') * 1000000 AS INTEGER)
         UNION ALL SELECT 1 FROM dbq_task WHERE queue = 'work' AND priority = 4
           AND due <= CAST(unixepoch('subsec') * 1000000 AS INTEGER)
         UNION ALL SELECT 1 FROM dbq_task WHERE queue = 'work' AND priority = 5
           AND due <= CAST(unixepoch('subsec') * 1000000 AS INTEGER)
         UNION ALL SELECT 1 FROM dbq_task WHERE queue = 'work' AND priority = 6
           AND due <= CAST(unixepoch('subsec') * 1000000 AS INTEGER)
         UNION ALL SELECT 1 FROM dbq_task WHERE queue = 'work' AND priority = 7
           AND due <= CAST(unixepoch('subsec') * 1000000 AS INTEGER)
         UNION ALL SELECT 1 FROM dbq_task WHERE queue = 'work' AND priority = 8
           AND due <= CAST(unixepoch('subsec') * 1000000 AS INTEGER)
         UNION ALL SELECT 1 FROM dbq_task WHERE queue = 'work' AND priority = 9
           AND due <= CAST(unixepoch('subsec') * 1000000 AS INTEGER))
     OR EXISTS (
         SELECT 1 FROM dbq_task WHERE queue = 'work' AND state = 1 /* PROCESSING */
           AND lease_until <= CAST(unixepoch('subsec') * 1000000 AS INTEGER)))
   AND NOT EXISTS (SELECT 1 FROM dbq_kv n WHERE n.namespace IN ('limit', 'pause') AND n.name = 'work');

-- ==== ready ====
-- Finds due tasks in order.
-- Index: dbq_task_ready
EXPLAIN QUERY PLAN
SELECT t.id, t.reference, t.kind, t.task_key, t.priority, t.attempt + 1 AS attempt, t.max_attempts, t.lapses,
       t.fence + 1 AS fence, t.created, t.headers,
       CASE WHEN length(t.payload) <= 1048576 THEN t.payload END AS payload, length(t.payload) AS payload_size,
       t.result, length(t.result) AS result_size, t.progress, t.due AS was_due,
         CAST(unixepoch('subsec') * 1000000 AS INTEGER) AS now
  FROM (
    SELECT * FROM (
      SELECT rowid FROM dbq_task WHERE queue = 'work' AND priority = 0
        AND due <= CAST(unixepoch('subsec') * 1000000 AS INTEGER) ORDER BY due, id LIMIT +10)
    UNION ALL SELECT * FROM (
      SELECT rowid FROM dbq_task WHERE queue = 'work' AND priority = 1
        AND due <= CAST(unixepoch('subsec') * 1000000 AS INTEGER) ORDER BY due, id LIMIT +10)
    UNION ALL SELECT * FROM (
      SELECT rowid FROM dbq_task WHERE queue = 'work' AND priority = 2
        AND due <= CAST(unixepoch('subsec') * 1000000 AS INTEGER) ORDER BY due, id LIMIT +10)
    UNION ALL SELECT * FROM (
      SELECT rowid FROM dbq_task WHERE queue = 'work' AND priority = 3
        AND due <= CAST(unixepoch('subsec') * 1000000 AS INTEGER) ORDER BY due, id LIMIT +10)
    UNION ALL SELECT * FROM (
      SELECT rowid FROM dbq_task WHERE queue = 'work' AND priority = 4
        AND due <= CAST(unixepoch('subsec') * 1000000 AS INTEGER) ORDER BY due, id LIMIT +10)
    UNION ALL SELECT * FROM (
      SELECT rowid FROM dbq_task WHERE queue = 'work' AND priority = 5
        AND due <= CAST(unixepoch('subsec') * 1000000 AS INTEGER) ORDER BY due, id LIMIT +10)
    UNION ALL SELECT * FROM (
      SELECT rowid FROM dbq_task WHERE queue = 'work' AND priority = 6
        AND due <= CAST(unixepoch('subsec') * 1000000 AS INTEGER) ORDER BY due, id LIMIT +10)
    UNION ALL SELECT * FROM (
      SELECT rowid FROM dbq_task WHERE queue = 'work' AND priority = 7
        AND due <= CAST(unixepoch('subsec') * 1000000 AS INTEGER) ORDER BY due, id LIMIT +10)
    UNION ALL SELECT * FROM (
      SELECT rowid FROM dbq_task WHERE queue = 'work' AND priority = 8
        AND due <= CAST(unixepoch('subsec') * 1000000 AS INTEGER) ORDER BY due, id LIMIT +10)
    UNION ALL SELECT * FROM (
      SELECT rowid FROM dbq_task WHERE queue = 'work' AND priority = 9
        AND due <= CAST(unixepoch('subsec') * 1000000 AS INTEGER) ORDER BY due, id LIMIT +10)
    LIMIT +10) AS d
 CROSS JOIN dbq_task AS t ON t.rowid = d.rowid;

-- ==== take ====
-- Leases the tasks found.
-- Index: dbq_task_ready
EXPLAIN QUERY PLAN
UPDATE OR FAIL dbq_task
   SET state = 1 /* PROCESSING */,
       due = NULL,
       attempt = attempt + 1,
       fence = fence + 1,
       lease_until = 1700000000000000 + 60000000,
       taken_by = printf('%-48s', 'host#1'),
       known_started = 0,
       taken_at = 1700000000000000,
       updated = 1700000000000000
 WHERE queue = 'work'
   AND priority = 5
   AND due IS NOT NULL
   AND (due, id) <= (1700000000000000, x'019a0000000070008000000000000001');

-- ==== expired ====
-- Finds tasks whose lease expired.
-- Index: dbq_task_busy
EXPLAIN QUERY PLAN
SELECT id, fence, length(payload) AS payload_size, holder AS was_holder, updated AS was_taken,
       attempt AS was_attempt, lease_until AS was_until
  FROM dbq_task
 WHERE queue = 'work'
   AND state = 1 /* PROCESSING */
   AND lease_until <= CAST(unixepoch('subsec') * 1000000 AS INTEGER)
   AND holder <> 'host#1'
 LIMIT 10;

-- ==== take over ====
-- Leases again the tasks whose lease expired.
-- Index: dbq_task_id
EXPLAIN QUERY PLAN
UPDATE dbq_task
   SET state = CASE
         WHEN attempt >= max_attempts AND (known_started = 1 OR lapses >= 99) THEN 4 /* POISON */
         ELSE 1 /* PROCESSING */
       END,
       result = CASE
         WHEN attempt >= max_attempts AND (known_started = 1 OR lapses >= 99)
         THEN CAST('the lease of the last attempt expired, held by ' || holder || ', found by ' || 'host#1' AS BLOB)
         ELSE result
       END,
       lease_until = CASE
         WHEN attempt >= max_attempts AND (known_started = 1 OR lapses >= 99) THEN NULL
         ELSE CAST(unixepoch('subsec') * 1000000 AS INTEGER) + 60000000
       END,
       taken_by = CASE
         WHEN attempt >= max_attempts AND (known_started = 1 OR lapses >= 99) THEN taken_by
         ELSE printf('%-48s', 'host#1')
       END,
       attempt = CASE
         WHEN attempt >= max_attempts AND (known_started = 1 OR lapses >= 99) THEN attempt
         ELSE attempt + CASE WHEN (known_started = 1 OR lapses >= 99) THEN 1 ELSE 0 END
       END,
       lapses = CASE WHEN known_started = 1 THEN lapses WHEN lapses >= 99 THEN 0 ELSE lapses + 1 END,
       known_started = 0,
       fence = fence + 1,
       taken_at = CASE
         WHEN attempt >= max_attempts AND (known_started = 1 OR lapses >= 99) THEN -1
         ELSE CAST(unixepoch('subsec') * 1000000 AS INTEGER)
       END,
       updated = CAST(unixepoch('subsec') * 1000000 AS INTEGER)
  FROM (VALUES (x'019a0000000070008000000000000001', 1),
(x'019a0000000070008000000000000002', 1)) AS d
 WHERE dbq_task.id = +d.column1
   AND dbq_task.fence = +d.column2
   AND +dbq_task.state = 1 /* PROCESSING */
   AND lease_until <= CAST(unixepoch('subsec') * 1000000 AS INTEGER)
RETURNING id, queue, reference, kind, task_key, state, priority, attempt, max_attempts, lapses, cancelled, fence, due,
          lease_until, holder, created, updated, headers, result, length(result) AS result_size, progress,
          payload, length(payload) AS payload_size, CAST(unixepoch('subsec') * 1000000 AS INTEGER) AS now;

-- ==== Extend ====
-- Renews leases.
-- Index: dbq_task_id
EXPLAIN QUERY PLAN
UPDATE dbq_task
   SET lease_until = CAST(unixepoch('subsec') * 1000000 AS INTEGER) + 60000000,
       progress = coalesce(d.column3, progress)
  FROM (VALUES (x'019a0000000070008000000000000001', 1, NULL),
(x'019a0000000070008000000000000002', 1, NULL)) AS d
 WHERE dbq_task.id = +d.column1
   AND dbq_task.fence = +d.column2
   AND +dbq_task.state = 1 /* PROCESSING */
RETURNING id, fence;

-- ==== Settle ====
-- Ends attempts (complete, fail, poison, release) whose fences are unchanged.
-- Index: dbq_task_id
EXPLAIN QUERY PLAN
UPDATE dbq_task
   SET state = CASE
         WHEN d.column3 = 3 /* ERROR */ AND coalesce(d.column4, d.column5) IS NOT NULL
           AND attempt >= max_attempts THEN 4 /* POISON */
         ELSE d.column3
       END,
       due = CASE
         WHEN d.column3 = 3 /* ERROR */ AND attempt >= max_attempts THEN NULL
         ELSE coalesce(d.column4, CAST(unixepoch('subsec') * 1000000 AS INTEGER) + d.column5)
       END,
       attempt = attempt - d.column6,
       lease_until = NULL,
       updated = CAST(unixepoch('subsec') * 1000000 AS INTEGER),
       result = CASE WHEN d.column3 = 0 /* CREATED */ THEN coalesce(d.column7, result) ELSE d.column7 END,
       progress = CASE WHEN d.column3 <> 2 /* COMPLETED */ THEN progress END
  FROM (VALUES (x'019a0000000070008000000000000001', 1, 2, NULL, NULL, 0, NULL),
(x'019a0000000070008000000000000002', 1, 2, NULL, NULL, 0, NULL)) AS d
 WHERE dbq_task.id = +d.column1
   AND dbq_task.fence = +d.column2
   AND +dbq_task.state = 1 /* PROCESSING */
RETURNING id, fence, state;

-- ==== complete uniform ====
-- Settle for tasks under one fence that complete without a result.
-- Index: dbq_task_id
EXPLAIN QUERY PLAN
UPDATE dbq_task
   SET state = 2 /* COMPLETED */,
       due = NULL,
       lease_until = NULL,
       updated = CAST(unixepoch('subsec') * 1000000 AS INTEGER),
       result = NULL,
       progress = NULL,
       taken_by = taken_by || '       '
 WHERE id IN (x'019a0000000070008000000000000001',
x'019a0000000070008000000000000002')
   AND +fence = 1
   AND +state = 1 /* PROCESSING */;

-- ==== Remove ====
-- Ends attempts and removes the tasks (complete and delete), if their fences are unchanged.
-- Index: dbq_task_id
EXPLAIN QUERY PLAN
DELETE FROM dbq_task
 WHERE rowid IN (
   SELECT t.rowid
     FROM (VALUES (x'019a0000000070008000000000000001', 1),
(x'019a0000000070008000000000000002', 1)) AS d
     JOIN dbq_task AS t ON t.id = +d.column1 AND t.fence = +d.column2 AND +t.state = 1 /* PROCESSING */)
RETURNING id, fence;

-- ==== Next ====
-- Reports when the next task of a queue is due. Idle workers sleep until then.
-- Index: dbq_task_busy, dbq_task_ready
EXPLAIN QUERY PLAN
SELECT min(due) AS due, CAST(unixepoch('subsec') * 1000000 AS INTEGER) AS now
  FROM (
    SELECT * FROM (
      SELECT due FROM dbq_task WHERE queue = 'work' AND priority = 0 AND due IS NOT NULL ORDER BY due, id LIMIT 1)
    UNION ALL SELECT * FROM (
      SELECT due FROM dbq_task WHERE queue = 'work' AND priority = 1 AND due IS NOT NULL ORDER BY due, id LIMIT 1)
    UNION ALL SELECT * FROM (
      SELECT due FROM dbq_task WHERE queue = 'work' AND priority = 2 AND due IS NOT NULL ORDER BY due, id LIMIT 1)
    UNION ALL SELECT * FROM (
      SELECT due FROM dbq_task WHERE queue = 'work' AND priority = 3 AND due IS NOT NULL ORDER BY due, id LIMIT 1)
    UNION ALL SELECT * FROM (
      SELECT due FROM dbq_task WHERE queue = 'work' AND priority = 4 AND due IS NOT NULL ORDER BY due, id LIMIT 1)
    UNION ALL SELECT * FROM (
      SELECT due FROM dbq_task WHERE queue = 'work' AND priority = 5 AND due IS NOT NULL ORDER BY due, id LIMIT 1)
    UNION ALL SELECT * FROM (
      SELECT due FROM dbq_task WHERE queue = 'work' AND priority = 6 AND due IS NOT NULL ORDER BY due, id LIMIT 1)
    UNION ALL SELECT * FROM (
      SELECT due FROM dbq_task WHERE queue = 'work' AND priority = 7 AND due IS NOT NULL ORDER BY due, id LIMIT 1)
    UNION ALL SELECT * FROM (
      SELECT due FROM dbq_task WHERE queue = 'work' AND priority = 8 AND due IS NOT NULL ORDER BY due, id LIMIT 1)
    UNION ALL SELECT * FROM (
      SELECT due FROM dbq_task WHERE queue = 'work' AND priority = 9 AND due IS NOT NULL ORDER BY due, id LIMIT 1)
    UNION ALL SELECT min(lease_until) FROM dbq_task WHERE queue = 'work' AND state = 1 /* PROCESSING */)
 WHERE NOT EXISTS (SELECT 1 FROM dbq_kv n WHERE n.namespace = 'pause' AND n.name = 'work');

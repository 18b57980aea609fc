-- The statements that workers run most, with values for their parameters, to see their plans.
-- Generated from the dialect by "go generate ./..."; do not edit. Tests run this page on each server.
--
-- Paste a statement into a client, or run all: mysql DATABASE < docs/sql/mysql-explain.sql. EXPLAIN changes nothing.
-- Replace 'work' with the name of a queue, and dbq_ with your tables' prefix. Each plan reaches the tasks by the
-- index that is named above the statement. A statement that takes many rows has two here.

-- ==== due ====
-- Reports which priorities have a due task, without locks.
-- Index: dbq_task_lane
EXPLAIN FORMAT=TRADITIONAL
SELECT d.priority
  FROM (
    SELECT 0 AS priority
      FROM DUAL
     WHERE CASE
             WHEN 0 = 0 THEN (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = 'work' AND lane = 0 /* waiting */ AND priority = 0
                ORDER BY due_at LIMIT 1)
             ELSE (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = 'work' AND lane = 0 /* waiting */ AND priority = 0 AND due_at >= 0 AND fence >= 0
                ORDER BY due_at LIMIT 1)
           END <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
    UNION ALL SELECT 1 AS priority
      FROM DUAL
     WHERE CASE
             WHEN 0 = 0 THEN (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = 'work' AND lane = 0 /* waiting */ AND priority = 1
                ORDER BY due_at LIMIT 1)
             ELSE (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = 'work' AND lane = 0 /* waiting */ AND priority = 1 AND due_at >= 0 AND fence >= 0
                ORDER BY due_at LIMIT 1)
           END <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
    UNION ALL SELECT 2 AS priority
      FROM DUAL
     WHERE CASE
             WHEN 0 = 0 THEN (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = 'work' AND lane = 0 /* waiting */ AND priority = 2
                ORDER BY due_at LIMIT 1)
             ELSE (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = 'work' AND lane = 0 /* waiting */ AND priority = 2 AND due_at >= 0 AND fence >= 0
                ORDER BY due_at LIMIT 1)
           END <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
    UNION ALL SELECT 3 AS priority
      FROM DUAL
     WHERE CASE
             WHEN 0 = 0 THEN (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = 'work' AND lane = 0 /* waiting */ AND priority = 3
                ORDER BY due_at LIMIT 1)
             ELSE (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = 'work' AND lane = 0 /* waiting */ AND priority = 3 AND due_at >= 0 AND fence >= 0
                ORDER BY due_at LIMIT 1)
           END <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
    UNION ALL SELECT 4 AS priority
      FROM DUAL
     WHERE CASE
             WHEN 0 = 0 THEN (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = 'work' AND lane = 0 /* waiting */ AND priority = 4
                ORDER BY due_at LIMIT 1)
             ELSE (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = 'work' AND lane = 0 /* waiting */ AND priority = 4 AND due_at >= 0 AND fence >= 0
                ORDER BY due_at LIMIT 1)
           END <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
    UNION ALL SELECT 5 AS priority
      FROM DUAL
     WHERE CASE
             WHEN 0 = 0 THEN (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = 'work' AND lane = 0 /* waiting */ AND priority = 5
                ORDER BY due_at LIMIT 1)
             ELSE (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = 'work' AND lane = 0 /* waiting */ AND priority = 5 AND due_at >= 0 AND fence >= 0
                ORDER BY due_at LIMIT 1)
           END <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
    UNION ALL SELECT 6 AS priority
      FROM DUAL
     WHERE CASE
             WHEN 0 = 0 THEN (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = 'work' AND lane = 0 /* waiting */ AND priority = 6
                ORDER BY due_at LIMIT 1)
             ELSE (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = 'work' AND lane = 0 /* waiting */ AND priority = 6 AND due_at >= 0 AND fence >= 0
                ORDER BY due_at LIMIT 1)
           END <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
    UNION ALL SELECT 7 AS priority
      FROM DUAL
     WHERE CASE
             WHEN 0 = 0 THEN (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = 'work' AND lane = 0 /* waiting */ AND priority = 7
                ORDER BY due_at LIMIT 1)
             ELSE (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = 'work' AND lane = 0 /* waiting */ AND priority = 7 AND due_at >= 0 AND fence >= 0
                ORDER BY due_at LIMIT 1)
           END <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
    UNION ALL SELECT 8 AS priority
      FROM DUAL
     WHERE CASE
             WHEN 0 = 0 THEN (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = 'work' AND lane = 0 /* waiting */ AND priority = 8
                ORDER BY due_at LIMIT 1)
             ELSE (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = 'work' AND lane = 0 /* waiting */ AND priority = 8 AND due_at >= 0 AND fence >= 0
                ORDER BY due_at LIMIT 1)
           END <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
    UNION ALL SELECT 9 AS priority
      FROM DUAL
     WHERE CASE
             WHEN 0 = 0 THEN (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = 'work' AND lane = 0 /* waiting */ AND priority = 9
                ORDER BY due_at LIMIT 1)
             ELSE (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = 'work' AND lane = 0 /* waiting */ AND priority = 9 AND due_at >= 0 AND fence >= 0
                ORDER BY due_at LIMIT 1)
           END <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))) AS d
 WHERE NOT EXISTS (SELECT 1 FROM dbq_kv n WHERE n.namespace IN ('limit', 'pause') AND n.name = 'work');

-- ==== ready ====
-- Finds due tasks in order, and locks them.
-- Index: dbq_task_lane
EXPLAIN FORMAT=TRADITIONAL
SELECT t.id, t.queue, t.reference, t.kind, t.task_key, t.state, t.priority, t.attempt, t.max_attempts, t.lapses,
       t.cancelled, t.fence, t.due, t.holder, t.created, t.updated, t.headers, t.result,
       t.lease_until, t.progress,
       CASE WHEN t.payload_size > 1048576 THEN NULL ELSE t.payload END AS payload, t.payload_size,
       t.due_at AS was_due, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS now
  FROM dbq_task AS t FORCE INDEX (dbq_task_lane)
 WHERE t.queue = 'work'
   AND t.lane = 0 /* waiting */
   AND t.priority = 5
   AND t.due_at >= 0
   AND t.due_at <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
 ORDER BY t.due_at, t.id
 LIMIT 10
   FOR UPDATE SKIP LOCKED;

-- ==== see ready ====
-- Reads candidates in order, without locks.
-- Index: dbq_task_lane
EXPLAIN FORMAT=TRADITIONAL
SELECT t.id, t.fence, t.payload_size, t.due_at AS was_due
  FROM dbq_task AS t FORCE INDEX (dbq_task_lane)
 WHERE t.queue = 'work'
   AND t.lane = 0 /* waiting */
   AND t.priority = 5
   AND t.due_at >= 0
   AND t.due_at <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
 ORDER BY t.due_at, t.id
 LIMIT 10;

-- ==== lock ready ====
-- Locks the candidates that no other transaction has locked and whose fence is unchanged.
-- Index: PRIMARY
EXPLAIN FORMAT=TRADITIONAL
SELECT t.id, t.queue, t.reference, t.kind, t.task_key, t.state, t.priority, t.attempt, t.max_attempts, t.lapses,
       t.cancelled, t.fence, t.due, t.holder, t.created, t.updated, t.headers, t.result,
       t.lease_until, t.progress,
       t.payload, t.due_at AS was_due, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS now
  FROM (SELECT CAST(x'019a0000000070008000000000000001' AS BINARY(16)) AS id, 1 AS fence UNION ALL
SELECT CAST(x'019a0000000070008000000000000002' AS BINARY(16)) AS id, 1 AS fence) AS d
       STRAIGHT_JOIN dbq_task AS t FORCE INDEX (PRIMARY)
       ON t.id = d.id AND t.fence = d.fence AND t.lane = 0 /* waiting */ AND t.due_at <= TIMESTAMPDIFF(MICROSECOND,
         '1970-01-01', UTC_TIMESTAMP(6))
   FOR UPDATE SKIP LOCKED;

-- ==== take ====
-- Leases the tasks found.
-- Index: PRIMARY
EXPLAIN FORMAT=TRADITIONAL
UPDATE dbq_task FORCE INDEX (PRIMARY)
   SET state = 1 /* PROCESSING */,
       due_at = 1700000000000000 - 4611686018427387904,
       attempt = attempt + 1,
       fence = fence + 1,
       lease_end = 1700000000000000 + 60000000,
       taken_by = CONCAT('host#1', SPACE(64 - LENGTH('host#1'))),
       known_started = 0,
       taken_at = 1700000000000000,
       updated = 1700000000000000
 WHERE id IN (x'019a0000000070008000000000000001',
x'019a0000000070008000000000000002');

-- ==== see expired ====
-- Reads candidates whose lease expired, without locks.
-- Index: dbq_task_lane
EXPLAIN FORMAT=TRADITIONAL
SELECT t.id, t.fence, t.priority, t.payload_size,
       COALESCE(
         (SELECT l.lease_until FROM dbq_lease AS l FORCE INDEX (PRIMARY)
           WHERE l.id = t.id AND l.fence = t.fence),
         t.lease_end) AS was_until
  FROM dbq_task AS t FORCE INDEX (dbq_task_lane)
 WHERE t.queue = 'work'
   AND t.lane = 9 /* PROCESSING */
   AND t.priority IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
   AND t.due_at >= 0 - 4611686018427387904
   AND COALESCE(
         (SELECT l.lease_until FROM dbq_lease AS l FORCE INDEX (PRIMARY)
           WHERE l.id = t.id AND l.fence = t.fence),
         t.lease_end) <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
   AND t.holder <> 'host#1'
   AND NOT EXISTS (SELECT 1 FROM dbq_kv n WHERE n.namespace IN ('limit', 'pause') AND n.name = 'work')
 LIMIT 10;

-- ==== lock expired ====
-- Locks the candidates that no other transaction has locked and whose fence is unchanged.
-- Index: PRIMARY
EXPLAIN FORMAT=TRADITIONAL
SELECT t.id, t.queue, t.reference, t.kind, t.task_key, t.state, t.priority, t.attempt, t.max_attempts, t.lapses,
       t.cancelled, t.fence, t.due, t.holder, t.created, t.updated, t.headers, t.result,
       t.lease_until, t.progress,
       t.payload, t.known_started, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS now
  FROM (SELECT CAST(x'019a0000000070008000000000000001' AS BINARY(16)) AS id, 1 AS fence UNION ALL
SELECT CAST(x'019a0000000070008000000000000002' AS BINARY(16)) AS id, 1 AS fence) AS d
       STRAIGHT_JOIN dbq_task AS t FORCE INDEX (PRIMARY)
       ON t.id = d.id AND t.fence = d.fence AND t.state = 1 /* PROCESSING */
   FOR UPDATE SKIP LOCKED;

-- ==== take over ====
-- Leases again the tasks whose lease expired.
-- Index: PRIMARY
EXPLAIN FORMAT=TRADITIONAL
UPDATE dbq_task FORCE INDEX (PRIMARY)
   SET due_at = 1700000000000000 - 4611686018427387904,
       attempt = attempt + CASE WHEN (known_started = 1 OR lapses >= 99) THEN 1 ELSE 0 END,
       lapses = CASE WHEN known_started = 1 THEN lapses WHEN lapses >= 99 THEN 0 ELSE lapses + 1 END,
       known_started = 0,
       fence = fence + 1,
       lease_end = 1700000000000000 + 60000000,
       taken_by = CONCAT('host#1', SPACE(64 - LENGTH('host#1'))),
       taken_at = 1700000000000000,
       updated = 1700000000000000
 WHERE id IN (x'019a0000000070008000000000000001',
x'019a0000000070008000000000000002');

-- ==== Extend ====
-- Renews leases.
-- Index: PRIMARY
EXPLAIN FORMAT=TRADITIONAL
INSERT INTO dbq_lease (id, fence, lease_until, keep_until, progress)
SELECT t.id, t.fence, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + 60000000, GREATEST(t.lease_end,
  TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + 60000000), d.progress
  FROM (SELECT CAST(x'019a0000000070008000000000000001' AS BINARY(16)) AS id, 1 AS fence,
    CAST(NULL AS BINARY) AS progress UNION ALL
SELECT CAST(x'019a0000000070008000000000000002' AS BINARY(16)) AS id, 1 AS fence,
  CAST(NULL AS BINARY) AS progress) AS d
       STRAIGHT_JOIN dbq_task AS t FORCE INDEX (PRIMARY)
       ON t.id = d.id AND t.fence = d.fence AND t.state = 1 /* PROCESSING */
    ON DUPLICATE KEY UPDATE
       progress = CASE
         WHEN dbq_lease.fence < t.fence THEN d.progress
         WHEN dbq_lease.fence = t.fence THEN COALESCE(d.progress, dbq_lease.progress)
         ELSE dbq_lease.progress
       END,
       lease_until = IF(dbq_lease.fence <= t.fence, TIMESTAMPDIFF(MICROSECOND, '1970-01-01',
         UTC_TIMESTAMP(6)) + 60000000, dbq_lease.lease_until),
       keep_until = IF(dbq_lease.fence <= t.fence, GREATEST(t.lease_end, TIMESTAMPDIFF(MICROSECOND, '1970-01-01',
         UTC_TIMESTAMP(6)) + 60000000), dbq_lease.keep_until),
       fence = GREATEST(dbq_lease.fence, t.fence);

-- ==== lock settle ====
-- Locks the rows that Settle will change, and returns them with the states that they will have.
-- Index: PRIMARY
EXPLAIN FORMAT=TRADITIONAL
SELECT t.id, t.fence,
       CASE
         WHEN d.state = 3 /* ERROR */ AND t.attempt >= t.max_attempts AND d.again IS NOT NULL THEN 4 /* POISON */
         ELSE d.state
       END AS state,
       (SELECT l.progress FROM dbq_lease AS l FORCE INDEX (PRIMARY)
         WHERE 0 = 0 AND d.state <> 2 /* COMPLETED */ AND l.id = t.id AND l.fence = t.fence) AS progress
  FROM (SELECT CAST(x'019a0000000070008000000000000001' AS BINARY(16)) AS id, 1 AS fence, 2 AS state, coalesce(NULL,
    NULL) AS again UNION ALL
SELECT CAST(x'019a0000000070008000000000000002' AS BINARY(16)) AS id, 1 AS fence, 2 AS state, coalesce(NULL,
  NULL) AS again) AS d
       STRAIGHT_JOIN dbq_task AS t FORCE INDEX (PRIMARY)
       ON t.id = d.id AND t.fence = d.fence AND t.state = 1 /* PROCESSING */
   FOR UPDATE;

-- ==== Settle ====
-- Ends attempts (complete, fail, poison, release) whose fences are unchanged.
-- Index: PRIMARY
EXPLAIN FORMAT=TRADITIONAL
UPDATE (SELECT CAST(x'019a0000000070008000000000000001' AS BINARY(16)) AS id, 1 AS fence, 2 AS state,
  CAST(NULL AS SIGNED) AS run_at,
CAST(NULL AS SIGNED) AS run_after, 0 AS uncount, CAST(NULL AS BINARY) AS result UNION ALL
SELECT CAST(x'019a0000000070008000000000000002' AS BINARY(16)) AS id, 1 AS fence, 2 AS state,
  CAST(NULL AS SIGNED) AS run_at,
CAST(NULL AS SIGNED) AS run_after, 0 AS uncount, CAST(NULL AS BINARY) AS result) AS d
       STRAIGHT_JOIN dbq_task AS t FORCE INDEX (PRIMARY)
       ON t.id = d.id AND t.fence = d.fence AND t.state = 1 /* PROCESSING */
   SET t.due_at = CASE
         WHEN d.state = 3 /* ERROR */ AND t.attempt >= t.max_attempts THEN -1
         ELSE coalesce(d.run_at, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + d.run_after, -1)
       END,
       t.state = CASE
         WHEN d.state = 3 /* ERROR */ AND t.attempt >= t.max_attempts AND coalesce(d.run_at, d.run_after) IS NOT NULL
         THEN 4 /* POISON */
         ELSE d.state
       END,
       t.attempt = t.attempt - d.uncount,
       t.lease_end = -1,
       t.updated = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)),
       t.result = CASE WHEN d.state = 0 /* CREATED */ THEN coalesce(d.result, t.result) ELSE d.result END,
       t.progress = CASE WHEN d.state <> 2 /* COMPLETED */ THEN t.progress END;

-- ==== complete uniform ====
-- Settle for tasks under one fence that complete without a result.
-- Index: PRIMARY
EXPLAIN FORMAT=TRADITIONAL
UPDATE dbq_task FORCE INDEX (PRIMARY)
   SET state = 2 /* COMPLETED */,
       due_at = -1,
       lease_end = -1,
       updated = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)),
       result = NULL,
       progress = NULL
 WHERE id IN (x'019a0000000070008000000000000001',
x'019a0000000070008000000000000002')
   AND fence = 1
   AND state = 1 /* PROCESSING */;

-- ==== Remove ====
-- Ends attempts and removes the tasks (complete and delete), if their fences are unchanged.
-- Index: PRIMARY
EXPLAIN FORMAT=TRADITIONAL
DELETE t
  FROM (SELECT CAST(x'019a0000000070008000000000000001' AS BINARY(16)) AS id, 1 AS fence UNION ALL
SELECT CAST(x'019a0000000070008000000000000002' AS BINARY(16)) AS id, 1 AS fence) AS d
       STRAIGHT_JOIN dbq_task AS t FORCE INDEX (PRIMARY)
       ON t.id = d.id AND t.fence = d.fence AND t.state = 1 /* PROCESSING */;

-- ==== Next ====
-- Reports when the next task of a queue is due. Idle workers sleep until then.
-- Index: dbq_task_lane
EXPLAIN FORMAT=TRADITIONAL
SELECT min(x.due) AS due, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS now
  FROM (
    SELECT CASE
             WHEN 0 = 0 THEN (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = 'work' AND lane = 0 /* waiting */ AND priority = 0
                ORDER BY due_at LIMIT 1)
             ELSE (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = 'work' AND lane = 0 /* waiting */ AND priority = 0 AND due_at >= 0 AND fence >= 0
                ORDER BY due_at LIMIT 1)
           END AS due
    UNION ALL SELECT CASE
             WHEN 0 = 0 THEN (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = 'work' AND lane = 0 /* waiting */ AND priority = 1
                ORDER BY due_at LIMIT 1)
             ELSE (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = 'work' AND lane = 0 /* waiting */ AND priority = 1 AND due_at >= 0 AND fence >= 0
                ORDER BY due_at LIMIT 1)
           END AS due
    UNION ALL SELECT CASE
             WHEN 0 = 0 THEN (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = 'work' AND lane = 0 /* waiting */ AND priority = 2
                ORDER BY due_at LIMIT 1)
             ELSE (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = 'work' AND lane = 0 /* waiting */ AND priority = 2 AND due_at >= 0 AND fence >= 0
                ORDER BY due_at LIMIT 1)
           END AS due
    UNION ALL SELECT CASE
             WHEN 0 = 0 THEN (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = 'work' AND lane = 0 /* waiting */ AND priority = 3
                ORDER BY due_at LIMIT 1)
             ELSE (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = 'work' AND lane = 0 /* waiting */ AND priority = 3 AND due_at >= 0 AND fence >= 0
                ORDER BY due_at LIMIT 1)
           END AS due
    UNION ALL SELECT CASE
             WHEN 0 = 0 THEN (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = 'work' AND lane = 0 /* waiting */ AND priority = 4
                ORDER BY due_at LIMIT 1)
             ELSE (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = 'work' AND lane = 0 /* waiting */ AND priority = 4 AND due_at >= 0 AND fence >= 0
                ORDER BY due_at LIMIT 1)
           END AS due
    UNION ALL SELECT CASE
             WHEN 0 = 0 THEN (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = 'work' AND lane = 0 /* waiting */ AND priority = 5
                ORDER BY due_at LIMIT 1)
             ELSE (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = 'work' AND lane = 0 /* waiting */ AND priority = 5 AND due_at >= 0 AND fence >= 0
                ORDER BY due_at LIMIT 1)
           END AS due
    UNION ALL SELECT CASE
             WHEN 0 = 0 THEN (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = 'work' AND lane = 0 /* waiting */ AND priority = 6
                ORDER BY due_at LIMIT 1)
             ELSE (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = 'work' AND lane = 0 /* waiting */ AND priority = 6 AND due_at >= 0 AND fence >= 0
                ORDER BY due_at LIMIT 1)
           END AS due
    UNION ALL SELECT CASE
             WHEN 0 = 0 THEN (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = 'work' AND lane = 0 /* waiting */ AND priority = 7
                ORDER BY due_at LIMIT 1)
             ELSE (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = 'work' AND lane = 0 /* waiting */ AND priority = 7 AND due_at >= 0 AND fence >= 0
                ORDER BY due_at LIMIT 1)
           END AS due
    UNION ALL SELECT CASE
             WHEN 0 = 0 THEN (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = 'work' AND lane = 0 /* waiting */ AND priority = 8
                ORDER BY due_at LIMIT 1)
             ELSE (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = 'work' AND lane = 0 /* waiting */ AND priority = 8 AND due_at >= 0 AND fence >= 0
                ORDER BY due_at LIMIT 1)
           END AS due
    UNION ALL SELECT CASE
             WHEN 0 = 0 THEN (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = 'work' AND lane = 0 /* waiting */ AND priority = 9
                ORDER BY due_at LIMIT 1)
             ELSE (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = 'work' AND lane = 0 /* waiting */ AND priority = 9 AND due_at >= 0 AND fence >= 0
                ORDER BY due_at LIMIT 1)
           END AS due
    UNION ALL (
      SELECT min(COALESCE(
                   (SELECT l.lease_until FROM dbq_lease AS l FORCE INDEX (PRIMARY)
                     WHERE l.id = t.id AND l.fence = t.fence),
                   t.lease_end))
        FROM dbq_task AS t FORCE INDEX (dbq_task_lane)
       WHERE t.queue = 'work'
         AND t.lane = 9 /* PROCESSING */
         AND t.priority IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
         AND t.due_at >= 0 - 4611686018427387904)) AS x
 WHERE NOT EXISTS (SELECT 1 FROM dbq_kv n WHERE n.namespace = 'pause' AND n.name = 'work');

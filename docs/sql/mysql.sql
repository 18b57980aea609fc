-- Every statement that dbq sends to this engine, for who wants to review them.
-- Generated from the dialect by "go generate ./..."; do not edit.
--
-- A :name stands for a value, which the driver writes into the text, escaped; an id is written as x'...'. Rows come as a list of values.
-- Times are microseconds since 1970 in UTC. States are 0 CREATED, 1 PROCESSING, 2 COMPLETED, 3 ERROR, 4 POISON.
-- Tables begin with "dbq_" unless a program says otherwise.

-- ======== The schema ========

-- dbq's tables for mysql

CREATE TABLE IF NOT EXISTS dbq_migration (
  version INT PRIMARY KEY, title VARCHAR(200) NOT NULL, compatible INT NOT NULL, applied BIGINT NOT NULL) ENGINE = InnoDB;

-- 1: tasks
CREATE TABLE IF NOT EXISTS dbq_task (
  id BINARY(16) NOT NULL PRIMARY KEY,
  queue VARBINARY(400) NOT NULL,
  reference VARBINARY(800),
  kind VARBINARY(400) NOT NULL,
  state TINYINT NOT NULL CHECK (state IN (0, 1, 2, 3, 4)),
  priority TINYINT NOT NULL CHECK (priority BETWEEN 0 AND 9),
  attempt SMALLINT NOT NULL DEFAULT 0,
  max_attempts SMALLINT NOT NULL,
  lapses TINYINT NOT NULL DEFAULT 0,
  started TINYINT NOT NULL DEFAULT 0,
  fence BIGINT NOT NULL DEFAULT 0,
  due_at BIGINT NOT NULL DEFAULT -1,
  lease_end BIGINT NOT NULL DEFAULT -1,
  taken_by VARBINARY(800) NOT NULL DEFAULT '                                                                ',
  created BIGINT NOT NULL,
  updated BIGINT NOT NULL,
  payload_size INT UNSIGNED,
  headers BLOB,
  payload LONGBLOB,
  result BLOB,
  due BIGINT AS (CASE WHEN due_at < 0 THEN NULL ELSE due_at END) VIRTUAL,
  lease_until BIGINT AS (NULLIF(lease_end, -1)) VIRTUAL,
  holder VARBINARY(800) AS (NULLIF(TRIM(TRAILING ' ' FROM taken_by), '')) VIRTUAL,
  lane TINYINT AS (CASE WHEN due_at >= 0 THEN 0 WHEN state = 1 THEN 9 ELSE state END) STORED,
  UNIQUE KEY dbq_task_reference (reference, queue),
  KEY dbq_task_lane (queue, lane, priority, due_at)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;
CREATE TABLE IF NOT EXISTS dbq_lease (
  id BINARY(16) NOT NULL PRIMARY KEY, fence BIGINT NOT NULL, lease_until BIGINT NOT NULL, keep_until BIGINT NOT NULL
) ENGINE = InnoDB;
CREATE OR REPLACE VIEW dbq_tasks AS SELECT lower(hex(id)) AS id, CONVERT(queue USING utf8mb4) AS queue,
  CONVERT(reference USING utf8mb4) AS reference, CONVERT(kind USING utf8mb4) AS kind,
  CASE state WHEN 0 THEN 'CREATED' WHEN 1 THEN 'PROCESSING' WHEN 2 THEN 'COMPLETED' WHEN 3 THEN 'ERROR' WHEN 4 THEN 'POISON' END AS state,
  priority, attempt, max_attempts, lapses, fence,
  '1970-01-01' + INTERVAL due MICROSECOND AS due,
  '1970-01-01' + INTERVAL (CASE WHEN state = 1 THEN COALESCE((SELECT l.lease_until FROM dbq_lease AS l FORCE INDEX (PRIMARY) WHERE l.id = t.id AND l.fence = t.fence), t.lease_end) END) MICROSECOND AS lease_until,
  CONVERT(holder USING utf8mb4) AS holder,
  '1970-01-01' + INTERVAL created MICROSECOND AS created, '1970-01-01' + INTERVAL updated MICROSECOND AS updated,
  CONVERT(headers USING utf8mb4) AS headers, length(payload) AS payload_bytes, CONVERT(result USING utf8mb4) AS result FROM dbq_task AS t;
INSERT IGNORE INTO dbq_migration (version, title, compatible, applied) VALUES (1, 'tasks', 1, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)));

-- 2: notes, history, archive
CREATE TABLE IF NOT EXISTS dbq_note (
  kind VARBINARY(20) NOT NULL,
  name VARBINARY(800) NOT NULL,
  version BIGINT NOT NULL,
  value TEXT NOT NULL,
  updated BIGINT NOT NULL,
  expires BIGINT,
  PRIMARY KEY (kind, name)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;
CREATE TABLE IF NOT EXISTS dbq_attempt (
  task BINARY(16) NOT NULL,
  fence BIGINT NOT NULL,
  queue VARBINARY(400) NOT NULL,
  attempt SMALLINT NOT NULL,
  outcome VARBINARY(20) NOT NULL,
  started BIGINT NOT NULL,
  ended BIGINT NOT NULL,
  worker VARBINARY(800) NOT NULL,
  error BLOB,
  PRIMARY KEY (task, fence),
  KEY dbq_attempt_ended (queue, ended)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;
CREATE OR REPLACE VIEW dbq_attempts AS SELECT lower(hex(task)) AS task, attempt, CONVERT(outcome USING utf8mb4) AS outcome,
  '1970-01-01' + INTERVAL started MICROSECOND AS started, '1970-01-01' + INTERVAL ended MICROSECOND AS ended,
  CONVERT(worker USING utf8mb4) AS worker, CONVERT(queue USING utf8mb4) AS queue, fence, CONVERT(error USING utf8mb4) AS error FROM dbq_attempt;
CREATE TABLE IF NOT EXISTS dbq_archive (
  id BINARY(16) NOT NULL PRIMARY KEY,
  queue VARBINARY(400) NOT NULL,
  reference VARBINARY(800),
  kind VARBINARY(400) NOT NULL,
  state TINYINT NOT NULL CHECK (state IN (0, 1, 2, 3, 4)),
  priority TINYINT NOT NULL CHECK (priority BETWEEN 0 AND 9),
  attempt SMALLINT NOT NULL DEFAULT 0,
  max_attempts SMALLINT NOT NULL,
  lapses TINYINT NOT NULL DEFAULT 0,
  started TINYINT NOT NULL DEFAULT 0,
  fence BIGINT NOT NULL DEFAULT 0,
  due_at BIGINT NOT NULL DEFAULT -1,
  lease_end BIGINT NOT NULL DEFAULT -1,
  taken_by VARBINARY(800) NOT NULL DEFAULT '                                                                ',
  created BIGINT NOT NULL,
  updated BIGINT NOT NULL,
  payload_size INT UNSIGNED,
  headers BLOB,
  payload LONGBLOB,
  result BLOB,
  due BIGINT AS (CASE WHEN due_at < 0 THEN NULL ELSE due_at END) VIRTUAL,
  lease_until BIGINT AS (NULLIF(lease_end, -1)) VIRTUAL,
  holder VARBINARY(800) AS (NULLIF(TRIM(TRAILING ' ' FROM taken_by), '')) VIRTUAL,
  lane TINYINT AS (CASE WHEN due_at >= 0 THEN 0 WHEN state = 1 THEN 9 ELSE state END) STORED,
  archived BIGINT NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;
INSERT IGNORE INTO dbq_migration (version, title, compatible, applied) VALUES (2, 'notes, history, archive', 2, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)));

-- ======== The statements ========

-- Begin. Begins a write transaction.
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
START TRANSACTION;

-- Now. An expression, not a statement: the database's clock in microseconds since 1970.
TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));

-- Version. Reads the newest migration that has been applied.
SELECT max(version) AS version, max(compatible) AS compatible FROM dbq_migration;

-- SetVersion. Notes a migration as applied.
INSERT IGNORE INTO dbq_migration (version, title, compatible, applied) VALUES (:version, :title, :compatible, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)));

-- MigrationLock. Waits for other migrations of the same tables.
SELECT CASE GET_LOCK(LEFT(SHA2(CONCAT(LOWER(DATABASE()), ' ', :name), 256), 60), 300) WHEN 1 THEN 1 ELSE (SELECT 1 UNION SELECT 2) END;

-- MigrationUnlock. Lets them go on.
DO RELEASE_LOCK(LEFT(SHA2(CONCAT(LOWER(DATABASE()), ' ', :name), 256), 60));

-- MigrationTable. Makes the table of applied migrations.
CREATE TABLE IF NOT EXISTS dbq_migration (
  version INT PRIMARY KEY, title VARCHAR(200) NOT NULL, compatible INT NOT NULL, applied BIGINT NOT NULL) ENGINE = InnoDB;

-- Drop. Removes everything, for tests and for leaving.
DROP VIEW IF EXISTS dbq_tasks;
DROP VIEW IF EXISTS dbq_attempts;
DROP TABLE IF EXISTS dbq_task;
DROP TABLE IF EXISTS dbq_lease;
DROP TABLE IF EXISTS dbq_note;
DROP TABLE IF EXISTS dbq_attempt;
DROP TABLE IF EXISTS dbq_archive;
DROP TABLE IF EXISTS dbq_migration;

-- Insert. Adds tasks. What is there already, by id or by reference and queue, is left out and is no error.
-- At most 500 rows. {rows} is a list, with ", " in between, of (:id, :queue, :reference, :kind, 0, :priority, :max_attempts, coalesce(:at, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + :delay), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)),
 :reused * created, :payload_size, :headers, :payload)
-- What is asked beside the change is asked only when it touched fewer. It is undone to a savepoint then, if it is to be asked before.
-- In what reads before or after the change it is a list of :id
INSERT IGNORE INTO dbq_task
  (id, queue, reference, kind, state, priority, max_attempts, due_at, created, updated, fence, payload_size, headers, payload)
VALUES {rows};
SELECT id FROM dbq_task FORCE INDEX (PRIMARY) WHERE id IN ({rows});

-- InsertAlike. Adds new tasks without a reference that share all but their ids and payloads.
-- At most 500 rows. {rows} is a list, with ", " in between, of (:id, :queue, :kind, 0, :priority, :max_attempts, coalesce(:at, :now + :delay), :now, :now, :payload_size, :headers, :payload)
INSERT INTO dbq_task (id, queue, kind, state, priority, max_attempts, due_at, created, updated, payload_size, headers, payload) VALUES {rows};

-- Settle. Ends attempts (complete, fail, poison, release), if their fences are still valid.
-- At most 500 rows. {rows} is a list, with " UNION ALL " in between, of SELECT CAST(:id AS BINARY(16)) AS id, :fence AS fence, :state AS state, CAST(:at AS SIGNED) AS run_at, CAST(:after AS SIGNED) AS run_after, :uncount AS uncount,
  CAST(:result AS BINARY) AS result
-- In what reads before or after the change it is a list of SELECT CAST(:id AS BINARY(16)) AS id, :fence AS fence, :state AS state, coalesce(:at, :after) AS again
SELECT t.id, t.fence, CASE WHEN d.state = 3 AND t.attempt >= t.max_attempts AND d.again IS NOT NULL THEN 4 ELSE d.state END AS state FROM ({rows}) AS d STRAIGHT_JOIN dbq_task AS t FORCE INDEX (PRIMARY) ON t.id = d.id AND t.fence = d.fence AND t.state = 1 FOR UPDATE;
UPDATE ({rows}) AS d STRAIGHT_JOIN dbq_task AS t FORCE INDEX (PRIMARY) ON t.id = d.id AND t.fence = d.fence AND t.state = 1 SET
  t.due_at = CASE WHEN d.state = 3 AND t.attempt >= t.max_attempts THEN -1 ELSE coalesce(d.run_at, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + d.run_after, -1) END,
  t.state = CASE WHEN d.state = 3 AND t.attempt >= t.max_attempts AND coalesce(d.run_at, d.run_after) IS NOT NULL THEN 4 ELSE d.state END,
  t.attempt = t.attempt - d.uncount, t.lease_end = -1, t.updated = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)),
  t.result = CASE WHEN d.state = 0 THEN coalesce(d.result, t.result) ELSE d.result END;

-- Unlocked. Locks the tasks of a batch that no other transaction has locked: these alone are settled then.
-- At most 500 rows. {rows} is a list, with ", " in between, of :id
SELECT id FROM dbq_task FORCE INDEX (PRIMARY)
 WHERE id IN ({rows}) AND fence >= 0 ORDER BY id FOR UPDATE SKIP LOCKED;

-- Complete. Ends attempts that completed without a result, if their common fence is still valid.
-- At most 500 rows. {rows} is a list, with ", " in between, of :id
-- What is asked beside the change is asked only when it touched fewer. It is undone to a savepoint then, if it is to be asked before.
SELECT id FROM dbq_task FORCE INDEX (PRIMARY) WHERE id IN ({rows}) AND fence = :fence AND state = 1 ORDER BY id FOR UPDATE;
UPDATE dbq_task FORCE INDEX (PRIMARY) SET state = 2, due_at = -1, lease_end = -1, updated = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), result = NULL
 WHERE id IN ({rows}) AND fence = :fence AND state = 1;

-- Remove. Ends attempts and removes the tasks (complete and delete), if their fences are still valid.
-- At most 500 rows. {rows} is a list, with " UNION ALL " in between, of SELECT CAST(:id AS BINARY(16)) AS id, :fence AS fence
-- What is asked beside the change is asked only when it touched fewer. It is undone to a savepoint then, if it is to be asked before.
SELECT t.id, t.fence FROM ({rows}) AS d STRAIGHT_JOIN dbq_task AS t FORCE INDEX (PRIMARY) ON t.id = d.id AND t.fence = d.fence AND t.state = 1 FOR UPDATE;
DELETE t FROM ({rows}) AS d STRAIGHT_JOIN dbq_task AS t FORCE INDEX (PRIMARY) ON t.id = d.id AND t.fence = d.fence AND t.state = 1;

-- Extend. Renews leases. On servers a renewal is a row of its own, so that a heartbeat writes and locks no task.
-- At most 500 rows. {rows} is a list, with " UNION ALL " in between, of SELECT CAST(:id AS BINARY(16)) AS id, :fence AS fence
INSERT INTO dbq_lease (id, fence, lease_until, keep_until)
SELECT t.id, t.fence, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + :lease, GREATEST(t.lease_end, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + :lease) FROM ({rows}) AS d STRAIGHT_JOIN dbq_task AS t FORCE INDEX (PRIMARY) ON t.id = d.id AND t.fence = d.fence AND t.state = 1
ON DUPLICATE KEY UPDATE lease_until = IF(dbq_lease.fence <= t.fence, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + :lease, dbq_lease.lease_until),
  keep_until = IF(dbq_lease.fence <= t.fence, GREATEST(t.lease_end, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + :lease), dbq_lease.keep_until),
  fence = GREATEST(dbq_lease.fence, t.fence);
SELECT t.id, t.fence FROM ({rows}) AS d STRAIGHT_JOIN dbq_task AS t FORCE INDEX (PRIMARY) ON t.id = d.id AND t.fence = d.fence AND t.state = 1
  STRAIGHT_JOIN dbq_lease AS l FORCE INDEX (PRIMARY) ON l.id = t.id AND l.fence = t.fence;

-- Start. Marks attempts as started, where a lease that runs out must count as an attempt.
-- At most 500 rows. {rows} is a list, with " UNION ALL " in between, of SELECT CAST(:id AS BINARY(16)) AS id, :fence AS fence
UPDATE ({rows}) AS d STRAIGHT_JOIN dbq_task AS t FORCE INDEX (PRIMARY) ON t.id = d.id AND t.fence = d.fence SET t.started = 1 WHERE t.state = 1;
SELECT t.id, t.fence FROM ({rows}) AS d STRAIGHT_JOIN dbq_task AS t FORCE INDEX (PRIMARY) ON t.id = d.id AND t.fence = d.fence AND t.state = 1 AND t.started = 1;

-- DropLeases. Removes the renewals of leases that were settled.
-- At most 500 rows. {rows} is a list, with " UNION ALL " in between, of SELECT CAST(:id AS BINARY(16)) AS id, :fence AS fence
DELETE l FROM ({rows}) AS d STRAIGHT_JOIN dbq_lease AS l FORCE INDEX (PRIMARY) ON l.id = d.id AND l.fence = d.fence;

-- ExpireLeases. Removes renewals that ended long ago, a few at a time.
DELETE FROM dbq_lease WHERE keep_until <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) - :age LIMIT :limit;

-- Move reject. A task is taken out before it runs, and parked.
-- At most 500 rows. {rows} is a list, with ", " in between, of :id
SELECT id, queue, state, attempt, fence, holder, updated, result, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS now FROM dbq_task FORCE INDEX (PRIMARY) WHERE id IN ({rows}) AND (state = 0) ORDER BY id FOR UPDATE;
UPDATE dbq_task FORCE INDEX (PRIMARY) SET state = 3, due_at = -1, updated = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) WHERE id IN ({rows}) AND (state = 0);

-- Move revoke. The lease is taken away and the task parked; its worker learns so at its next call.
-- At most 500 rows. {rows} is a list, with ", " in between, of :id
SELECT id, queue, state, attempt, fence, holder, updated, result, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS now FROM dbq_task FORCE INDEX (PRIMARY) WHERE id IN ({rows}) AND (state = 1) ORDER BY id FOR UPDATE;
UPDATE dbq_task FORCE INDEX (PRIMARY) SET state = 3, due_at = -1, lease_end = -1, fence = fence + 1, updated = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) WHERE id IN ({rows}) AND (state = 1);

-- Move reenqueue. A failed task is due again, and its attempts start over.
-- At most 500 rows. {rows} is a list, with ", " in between, of :id
SELECT id, queue, state, attempt, fence, holder, updated, result, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS now FROM dbq_task FORCE INDEX (PRIMARY) WHERE id IN ({rows}) AND (state = 3 OR state = 4) AND state >= 3 ORDER BY id FOR UPDATE;
UPDATE dbq_task FORCE INDEX (PRIMARY) SET state = 0, due_at = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), attempt = 0, lapses = 0, updated = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) WHERE id IN ({rows}) AND (state = 3 OR state = 4) AND state >= 3;

-- Move quarantine. A failed task is not to be retried.
-- At most 500 rows. {rows} is a list, with ", " in between, of :id
SELECT id, queue, state, attempt, fence, holder, updated, result, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS now FROM dbq_task FORCE INDEX (PRIMARY) WHERE id IN ({rows}) AND (state = 3) AND state >= 3 ORDER BY id FOR UPDATE;
UPDATE dbq_task FORCE INDEX (PRIMARY) SET state = 4, due_at = -1, updated = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) WHERE id IN ({rows}) AND (state = 3) AND state >= 3;

-- Move restore. A poisoned task is parked for inspection.
-- At most 500 rows. {rows} is a list, with ", " in between, of :id
SELECT id, queue, state, attempt, fence, holder, updated, result, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS now FROM dbq_task FORCE INDEX (PRIMARY) WHERE id IN ({rows}) AND (state = 4) AND state >= 3 ORDER BY id FOR UPDATE;
UPDATE dbq_task FORCE INDEX (PRIMARY) SET state = 3, due_at = -1, updated = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) WHERE id IN ({rows}) AND (state = 4) AND state >= 3;

-- Move purge. A finished or parked task is removed.
-- At most 500 rows. {rows} is a list, with ", " in between, of :id
SELECT id FROM dbq_task FORCE INDEX (PRIMARY) WHERE id IN ({rows}) AND (state = 2 OR state = 4 OR (state = 3 AND due IS NULL)) ORDER BY id FOR UPDATE;
DELETE t FROM dbq_task AS t FORCE INDEX (PRIMARY) WHERE id IN ({rows}) AND (state = 2 OR state = 4 OR (state = 3 AND due IS NULL));

-- SetResult. Stores what an operator said, after Move in the same transaction.
-- At most 500 rows. {rows} is a list, with " UNION ALL " in between, of SELECT CAST(:id AS BINARY(16)) AS id, CAST(:result AS BINARY) AS result
UPDATE ({rows}) AS d STRAIGHT_JOIN dbq_task AS t FORCE INDEX (PRIMARY) ON t.id = d.id SET t.result = d.result;

-- Get. Reads one task.
SELECT t.id, t.queue, t.reference, t.kind, t.state, t.priority, t.attempt, t.max_attempts, t.lapses, t.fence, t.due,
  CASE WHEN t.state = 1 THEN COALESCE((SELECT l.lease_until FROM dbq_lease AS l FORCE INDEX (PRIMARY) WHERE l.id = t.id AND l.fence = t.fence), t.lease_end) END AS lease_until, t.holder, t.created, t.updated, t.headers, t.result, t.payload, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS now FROM dbq_task AS t WHERE t.id = :id;

-- Held. Reads what one checkout holds, when its connection died before it had the answer.
SELECT t.id, t.queue, t.reference, t.kind, t.state, t.priority, t.attempt, t.max_attempts, t.lapses, t.fence, t.due,
  CASE WHEN t.state = 1 THEN COALESCE((SELECT l.lease_until FROM dbq_lease AS l FORCE INDEX (PRIMARY) WHERE l.id = t.id AND l.fence = t.fence), t.lease_end) END AS lease_until, t.holder, t.created, t.updated, t.headers, t.result, t.payload, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS now FROM dbq_task AS t FORCE INDEX (dbq_task_lane) WHERE t.queue = :queue AND t.lane = 9 AND t.holder = :holder;

-- Exhausted. Reads what one checkout moved to POISON, when its connection died before it had the answer.
SELECT t.id, t.queue, t.reference, t.kind, t.state, t.priority, t.attempt, t.max_attempts, t.lapses, t.fence, t.due,
  CASE WHEN t.state = 1 THEN COALESCE((SELECT l.lease_until FROM dbq_lease AS l FORCE INDEX (PRIMARY) WHERE l.id = t.id AND l.fence = t.fence), t.lease_end) END AS lease_until, t.holder, t.created, t.updated, t.headers, t.result, t.payload, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS now FROM dbq_task AS t FORCE INDEX (dbq_task_lane)
 WHERE t.queue = :queue AND t.lane = 4 AND t.result = CONCAT('the lease of the last attempt ran out, held by ', holder, ', found by ', :holder);

-- List. Lists tasks without their payloads. {where} is made of comparisons of plain columns, {order} is empty or DESC.
SELECT t.id, t.queue, t.reference, t.kind, t.state, t.priority, t.attempt, t.max_attempts, t.lapses, t.fence, t.due,
  CASE WHEN t.state = 1 THEN COALESCE((SELECT l.lease_until FROM dbq_lease AS l FORCE INDEX (PRIMARY) WHERE l.id = t.id AND l.fence = t.fence), t.lease_end) END AS lease_until, t.holder, t.created, t.updated, t.headers, t.result, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS now FROM dbq_task AS t WHERE {where} ORDER BY t.id{order} LIMIT :limit;

-- FindIDs. Finds the tasks that an operator's bulk call changes.
SELECT t.id FROM dbq_task AS t WHERE {where} ORDER BY t.id LIMIT :limit;

-- IDBehind. Finds where the next part of the old tasks ends, for cleaning.
SELECT t.id FROM dbq_task AS t FORCE INDEX (PRIMARY) WHERE t.id > :after AND t.id < :before ORDER BY t.id LIMIT 1 OFFSET :offset;

-- InState PROCESSING. A condition, not a statement: what a filter for just this state adds, so that its tasks are found by an index.
lane = 9;

-- InState POISON. A condition, not a statement: what a filter for just this state adds, so that its tasks are found by an index.
lane = 4;

-- Peek. Reads where tasks are, to find out whether a call whose connection died had happened.
-- At most 500 rows. {rows} is a list, with ", " in between, of :id
SELECT t.id, t.queue, t.state, t.fence, t.updated FROM dbq_task AS t FORCE INDEX (PRIMARY)
 WHERE t.id IN ({rows});

-- FindReference. Finds a task by its reference.
SELECT id FROM dbq_task WHERE reference = :reference AND queue = :queue;

-- Count. Counts the tasks of each queue by state, all of them.
SELECT queue, state, count(*) AS tasks, count(*) - count(due) AS parked, count(CASE WHEN due <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) THEN 1 END) AS due,
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) - min(CASE WHEN due <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) THEN due END) AS oldest
  FROM dbq_task GROUP BY queue, state;

-- CountUpTo. Counts the tasks of a queue by state, up to a limit of each.
SELECT 0 AS state, count(CASE WHEN state = 0 THEN 1 END) AS tasks, 0 AS parked, 0 AS due, NULL AS oldest, CASE WHEN count(*) >= :limit THEN 1 ELSE 0 END AS cut
  FROM (SELECT state FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 0 LIMIT :limit) AS w
UNION ALL SELECT 3, count(CASE WHEN state = 3 THEN 1 END), 0, 0, NULL, CASE WHEN count(*) >= :limit THEN 1 ELSE 0 END
  FROM (SELECT state FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 0 LIMIT :limit) AS w
UNION ALL SELECT 0, 0, 0, count(*), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) - min(due_at), 0 FROM ((SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 0 AND priority = 0 AND due_at <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) ORDER BY due_at LIMIT :limit)
UNION ALL (SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 0 AND priority = 1 AND due_at <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) ORDER BY due_at LIMIT :limit)
UNION ALL (SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 0 AND priority = 2 AND due_at <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) ORDER BY due_at LIMIT :limit)
UNION ALL (SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 0 AND priority = 3 AND due_at <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) ORDER BY due_at LIMIT :limit)
UNION ALL (SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 0 AND priority = 4 AND due_at <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) ORDER BY due_at LIMIT :limit)
UNION ALL (SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 0 AND priority = 5 AND due_at <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) ORDER BY due_at LIMIT :limit)
UNION ALL (SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 0 AND priority = 6 AND due_at <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) ORDER BY due_at LIMIT :limit)
UNION ALL (SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 0 AND priority = 7 AND due_at <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) ORDER BY due_at LIMIT :limit)
UNION ALL (SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 0 AND priority = 8 AND due_at <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) ORDER BY due_at LIMIT :limit)
UNION ALL (SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 0 AND priority = 9 AND due_at <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) ORDER BY due_at LIMIT :limit)) AS w
UNION ALL SELECT 1, count(*), 0, 0, NULL, CASE WHEN count(*) >= :limit THEN 1 ELSE 0 END
  FROM (SELECT 1 FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 9 LIMIT :limit) AS w
UNION ALL SELECT 2, count(*), 0, 0, NULL, CASE WHEN count(*) >= :limit THEN 1 ELSE 0 END
  FROM (SELECT 1 FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 2 LIMIT :limit) AS w
UNION ALL SELECT 3, count(*), count(*), 0, NULL, CASE WHEN count(*) >= :limit THEN 1 ELSE 0 END
  FROM (SELECT 1 FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 3 LIMIT :limit) AS w
UNION ALL SELECT 4, count(*), 0, 0, NULL, CASE WHEN count(*) >= :limit THEN 1 ELSE 0 END
  FROM (SELECT 1 FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 4 LIMIT :limit) AS w;

-- NextQueue. Finds the next queue by name.
SELECT queue FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue > :queue ORDER BY queue LIMIT 1;

-- Next. Tells when the next task of a queue is due: what an idle worker asks.
SELECT min(x.due) AS due, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS now FROM (SELECT CASE WHEN :since0 = 0 THEN (SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 0 AND priority = 0 ORDER BY due_at LIMIT 1) ELSE (SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 0 AND priority = 0 AND due_at >= :since0 AND fence >= 0 ORDER BY due_at LIMIT 1) END AS due
UNION ALL SELECT CASE WHEN :since1 = 0 THEN (SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 0 AND priority = 1 ORDER BY due_at LIMIT 1) ELSE (SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 0 AND priority = 1 AND due_at >= :since1 AND fence >= 0 ORDER BY due_at LIMIT 1) END AS due
UNION ALL SELECT CASE WHEN :since2 = 0 THEN (SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 0 AND priority = 2 ORDER BY due_at LIMIT 1) ELSE (SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 0 AND priority = 2 AND due_at >= :since2 AND fence >= 0 ORDER BY due_at LIMIT 1) END AS due
UNION ALL SELECT CASE WHEN :since3 = 0 THEN (SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 0 AND priority = 3 ORDER BY due_at LIMIT 1) ELSE (SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 0 AND priority = 3 AND due_at >= :since3 AND fence >= 0 ORDER BY due_at LIMIT 1) END AS due
UNION ALL SELECT CASE WHEN :since4 = 0 THEN (SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 0 AND priority = 4 ORDER BY due_at LIMIT 1) ELSE (SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 0 AND priority = 4 AND due_at >= :since4 AND fence >= 0 ORDER BY due_at LIMIT 1) END AS due
UNION ALL SELECT CASE WHEN :since5 = 0 THEN (SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 0 AND priority = 5 ORDER BY due_at LIMIT 1) ELSE (SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 0 AND priority = 5 AND due_at >= :since5 AND fence >= 0 ORDER BY due_at LIMIT 1) END AS due
UNION ALL SELECT CASE WHEN :since6 = 0 THEN (SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 0 AND priority = 6 ORDER BY due_at LIMIT 1) ELSE (SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 0 AND priority = 6 AND due_at >= :since6 AND fence >= 0 ORDER BY due_at LIMIT 1) END AS due
UNION ALL SELECT CASE WHEN :since7 = 0 THEN (SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 0 AND priority = 7 ORDER BY due_at LIMIT 1) ELSE (SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 0 AND priority = 7 AND due_at >= :since7 AND fence >= 0 ORDER BY due_at LIMIT 1) END AS due
UNION ALL SELECT CASE WHEN :since8 = 0 THEN (SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 0 AND priority = 8 ORDER BY due_at LIMIT 1) ELSE (SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 0 AND priority = 8 AND due_at >= :since8 AND fence >= 0 ORDER BY due_at LIMIT 1) END AS due
UNION ALL SELECT CASE WHEN :since9 = 0 THEN (SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 0 AND priority = 9 ORDER BY due_at LIMIT 1) ELSE (SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 0 AND priority = 9 AND due_at >= :since9 AND fence >= 0 ORDER BY due_at LIMIT 1) END AS due
UNION ALL (SELECT min(COALESCE((SELECT l.lease_until FROM dbq_lease AS l FORCE INDEX (PRIMARY) WHERE l.id = t.id AND l.fence = t.fence), t.lease_end)) FROM dbq_task AS t FORCE INDEX (dbq_task_lane)
  WHERE t.queue = :queue AND t.lane = 9 AND t.priority IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9) AND t.due_at >= :oldest - 4611686018427387904)) AS x WHERE NOT EXISTS (SELECT 1 FROM dbq_note AS n WHERE n.kind = 'pause' AND n.name = :queue);

-- Note. Reads a note: a small fact that all who work on these tables share, such as that a queue is paused.
SELECT kind, name, version, value, updated, expires, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS now FROM dbq_note WHERE kind = :kind AND name = :name;

-- Notes. Reads the notes of a kind.
SELECT kind, name, version, value, updated, expires, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS now FROM dbq_note WHERE kind = :kind ORDER BY name LIMIT :limit;

-- AddNote. Adds a note where there is none.
INSERT IGNORE INTO dbq_note (kind, name, version, value, updated, expires) VALUES (:kind, :name, 1, :value, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + :ttl);

-- SetNote. Changes a note, if nobody else has since it was read.
UPDATE dbq_note SET version = version + 1, value = :value, updated = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), expires = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) + :ttl
 WHERE kind = :kind AND name = :name AND version = :version;

-- DropNote. Removes a note.
DELETE FROM dbq_note WHERE kind = :kind AND name = :name;

-- ExpireNotes. Removes notes whose time is over.
DELETE FROM dbq_note WHERE kind = :kind AND expires <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) - :age;

-- Record. Adds attempts to the history.
-- At most 500 rows. {rows} is a list, with ", " in between, of (:id, :fence, :queue, :attempt, :outcome, :started, :ended, :worker, :error)
INSERT IGNORE INTO dbq_attempt (task, fence, queue, attempt, outcome, started, ended, worker, error) VALUES {rows};

-- Attempts. Reads the attempts of a task.
SELECT task, fence, queue, attempt, outcome, started, ended, worker, error FROM dbq_attempt WHERE task = :id ORDER BY fence LIMIT :limit;

-- ExpireAttempts. Removes old attempts, a few at a time.
DELETE FROM dbq_attempt WHERE queue = :queue AND ended <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) - :age ORDER BY ended LIMIT :limit;

-- Archive. Copies ended tasks into the archive, just before they are removed in the same transaction.
-- At most 500 rows. {rows} is a list, with ", " in between, of :id
INSERT IGNORE INTO dbq_archive (id, queue, reference, kind, state, priority, attempt, max_attempts, lapses, started, fence, due_at, lease_end, taken_by, created, updated, payload_size, headers, payload, result, archived) SELECT id, queue, reference, kind, state, priority, attempt, max_attempts, lapses, started, fence, due_at, lease_end, taken_by, created, updated, payload_size, headers, payload, result, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) FROM dbq_task AS t FORCE INDEX (PRIMARY) WHERE t.id IN ({rows}) AND (state = 2 OR state = 4 OR (state = 3 AND due IS NULL)) FOR UPDATE;

-- ListArchive. Lists tasks of the archive.
SELECT t.id, t.queue, t.reference, t.kind, t.state, t.priority, t.attempt, t.max_attempts, t.lapses, t.fence, t.due, t.lease_until, t.holder, t.created, t.updated, t.headers, t.result, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS now FROM dbq_archive AS t WHERE {where} ORDER BY t.id LIMIT :limit;

-- Checkout due. Tells which priorities have a due task, without locks. It is what an idle poll asks.
SELECT d.priority FROM (SELECT 0 AS priority FROM DUAL WHERE CASE WHEN :since0 = 0 THEN (SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 0 AND priority = 0 ORDER BY due_at LIMIT 1) ELSE (SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 0 AND priority = 0 AND due_at >= :since0 AND fence >= 0 ORDER BY due_at LIMIT 1) END <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
UNION ALL SELECT 1 AS priority FROM DUAL WHERE CASE WHEN :since1 = 0 THEN (SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 0 AND priority = 1 ORDER BY due_at LIMIT 1) ELSE (SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 0 AND priority = 1 AND due_at >= :since1 AND fence >= 0 ORDER BY due_at LIMIT 1) END <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
UNION ALL SELECT 2 AS priority FROM DUAL WHERE CASE WHEN :since2 = 0 THEN (SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 0 AND priority = 2 ORDER BY due_at LIMIT 1) ELSE (SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 0 AND priority = 2 AND due_at >= :since2 AND fence >= 0 ORDER BY due_at LIMIT 1) END <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
UNION ALL SELECT 3 AS priority FROM DUAL WHERE CASE WHEN :since3 = 0 THEN (SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 0 AND priority = 3 ORDER BY due_at LIMIT 1) ELSE (SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 0 AND priority = 3 AND due_at >= :since3 AND fence >= 0 ORDER BY due_at LIMIT 1) END <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
UNION ALL SELECT 4 AS priority FROM DUAL WHERE CASE WHEN :since4 = 0 THEN (SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 0 AND priority = 4 ORDER BY due_at LIMIT 1) ELSE (SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 0 AND priority = 4 AND due_at >= :since4 AND fence >= 0 ORDER BY due_at LIMIT 1) END <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
UNION ALL SELECT 5 AS priority FROM DUAL WHERE CASE WHEN :since5 = 0 THEN (SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 0 AND priority = 5 ORDER BY due_at LIMIT 1) ELSE (SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 0 AND priority = 5 AND due_at >= :since5 AND fence >= 0 ORDER BY due_at LIMIT 1) END <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
UNION ALL SELECT 6 AS priority FROM DUAL WHERE CASE WHEN :since6 = 0 THEN (SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 0 AND priority = 6 ORDER BY due_at LIMIT 1) ELSE (SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 0 AND priority = 6 AND due_at >= :since6 AND fence >= 0 ORDER BY due_at LIMIT 1) END <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
UNION ALL SELECT 7 AS priority FROM DUAL WHERE CASE WHEN :since7 = 0 THEN (SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 0 AND priority = 7 ORDER BY due_at LIMIT 1) ELSE (SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 0 AND priority = 7 AND due_at >= :since7 AND fence >= 0 ORDER BY due_at LIMIT 1) END <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
UNION ALL SELECT 8 AS priority FROM DUAL WHERE CASE WHEN :since8 = 0 THEN (SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 0 AND priority = 8 ORDER BY due_at LIMIT 1) ELSE (SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 0 AND priority = 8 AND due_at >= :since8 AND fence >= 0 ORDER BY due_at LIMIT 1) END <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
UNION ALL SELECT 9 AS priority FROM DUAL WHERE CASE WHEN :since9 = 0 THEN (SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 0 AND priority = 9 ORDER BY due_at LIMIT 1) ELSE (SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 0 AND priority = 9 AND due_at >= :since9 AND fence >= 0 ORDER BY due_at LIMIT 1) END <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))) AS d WHERE NOT EXISTS (SELECT 1 FROM dbq_note AS n WHERE n.kind = 'pause' AND n.name = :queue);

-- Checkout oldest. Tells when the oldest task in work was taken: leases that ran out are looked for from there on.
SELECT LEAST(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) - :late, COALESCE(min(x.taken), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)))) AS updated FROM ((SELECT updated AS taken FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 9 AND priority = 0 AND due_at >= :oldest - 4611686018427387904 ORDER BY due_at LIMIT 1)
UNION ALL (SELECT updated AS taken FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 9 AND priority = 1 AND due_at >= :oldest - 4611686018427387904 ORDER BY due_at LIMIT 1)
UNION ALL (SELECT updated AS taken FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 9 AND priority = 2 AND due_at >= :oldest - 4611686018427387904 ORDER BY due_at LIMIT 1)
UNION ALL (SELECT updated AS taken FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 9 AND priority = 3 AND due_at >= :oldest - 4611686018427387904 ORDER BY due_at LIMIT 1)
UNION ALL (SELECT updated AS taken FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 9 AND priority = 4 AND due_at >= :oldest - 4611686018427387904 ORDER BY due_at LIMIT 1)
UNION ALL (SELECT updated AS taken FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 9 AND priority = 5 AND due_at >= :oldest - 4611686018427387904 ORDER BY due_at LIMIT 1)
UNION ALL (SELECT updated AS taken FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 9 AND priority = 6 AND due_at >= :oldest - 4611686018427387904 ORDER BY due_at LIMIT 1)
UNION ALL (SELECT updated AS taken FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 9 AND priority = 7 AND due_at >= :oldest - 4611686018427387904 ORDER BY due_at LIMIT 1)
UNION ALL (SELECT updated AS taken FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 9 AND priority = 8 AND due_at >= :oldest - 4611686018427387904 ORDER BY due_at LIMIT 1)
UNION ALL (SELECT updated AS taken FROM dbq_task FORCE INDEX (dbq_task_lane) WHERE queue = :queue AND lane = 9 AND priority = 9 AND due_at >= :oldest - 4611686018427387904 ORDER BY due_at LIMIT 1)) AS x;

-- Checkout queue free. Strategy advisory: gives the queue's lock back, after the commit.
DO RELEASE_LOCK(LEFT(SHA2(CONCAT(LOWER(DATABASE()), ' ', :name), 256), 60));

-- Checkout queue lock. Strategy advisory: waits for the queue's lock, in a statement of its own.
SELECT CASE GET_LOCK(LEFT(SHA2(CONCAT(LOWER(DATABASE()), ' ', :name), 256), 60), 30) WHEN 1 THEN 1 ELSE (SELECT 1 UNION SELECT 2) END;

-- Checkout ready. Finds due tasks: one ordered search for each priority. On a server it leases them as well.
SELECT t.id, t.queue, t.reference, t.kind, t.state, t.priority, t.attempt, t.max_attempts, t.lapses, t.fence, t.due, t.lease_until, t.holder, t.created, t.updated, t.headers, t.result, CASE WHEN t.payload_size > :share THEN NULL ELSE t.payload END AS payload, t.payload_size,
  t.due_at AS was_due, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS now FROM dbq_task AS t FORCE INDEX (dbq_task_lane)
 WHERE t.queue = :queue AND t.lane = 0 AND t.priority = :priority AND t.due_at >= :since AND t.due_at <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) ORDER BY t.due_at, t.id LIMIT :limit FOR UPDATE SKIP LOCKED;

-- Checkout ready sizes. Is ready for a queue whose payloads are not known to be small: it locks tasks and leaves the payloads out.
SELECT t.id, t.queue, t.reference, t.kind, t.state, t.priority, t.attempt, t.max_attempts, t.lapses, t.fence, t.due, t.lease_until, t.holder, t.created, t.updated, t.headers, t.result, t.payload_size, t.due_at AS was_due, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS now FROM dbq_task AS t FORCE INDEX (dbq_task_lane)
 WHERE t.queue = :queue AND t.lane = 0 AND t.priority = :priority AND t.due_at >= :since AND t.due_at <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) ORDER BY t.due_at, t.id LIMIT :limit FOR UPDATE SKIP LOCKED;

-- Checkout see expired. Strategy cas: reads candidates to take over, without locks.
SELECT t.id, t.fence, t.priority, t.payload_size, COALESCE((SELECT l.lease_until FROM dbq_lease AS l FORCE INDEX (PRIMARY) WHERE l.id = t.id AND l.fence = t.fence), t.lease_end) AS was_until FROM dbq_task AS t FORCE INDEX (dbq_task_lane)
 WHERE t.queue = :queue AND t.lane = 9 AND t.priority IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9) AND t.due_at >= :oldest - 4611686018427387904
   AND COALESCE((SELECT l.lease_until FROM dbq_lease AS l FORCE INDEX (PRIMARY) WHERE l.id = t.id AND l.fence = t.fence), t.lease_end) <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AND t.holder <> :holder AND NOT EXISTS (SELECT 1 FROM dbq_note AS n WHERE n.kind = 'pause' AND n.name = :queue) LIMIT :limit;

-- Checkout see ready. Strategy cas: reads candidates without locks.
SELECT t.id, t.fence, t.payload_size, t.due_at AS was_due FROM dbq_task AS t FORCE INDEX (dbq_task_lane)
 WHERE t.queue = :queue AND t.lane = 0 AND t.priority = :priority AND t.due_at >= :since AND t.due_at <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) ORDER BY t.due_at, t.id LIMIT :limit;

-- Checkout turn. Strategy skip-locked: a large checkout waits for others of its queue, a second at most.
DO GET_LOCK(LEFT(SHA2(CONCAT(LOWER(DATABASE()), ' ', :name), 256), 60), 1);

-- Checkout turn over. Strategy skip-locked: lets the next one begin, before the commit.
DO RELEASE_LOCK(LEFT(SHA2(CONCAT(LOWER(DATABASE()), ' ', :name), 256), 60));

-- CheckoutBatch bury. Takes tasks whose attempts are spent to POISON, after their last lease ran out.
-- At most 500 rows. {rows} is a list, with ", " in between, of :id
UPDATE dbq_task FORCE INDEX (PRIMARY) SET state = 4, due_at = -1, fence = fence + 1, lease_end = -1, updated = :now,
  result = CONCAT('the lease of the last attempt ran out, held by ', holder, ', found by ', :holder) WHERE id IN ({rows});

-- CheckoutBatch lock expired. Locks those whose lease ran out, whose fence is still the same, and that nobody has locked.
-- At most 500 rows. {rows} is a list, with " UNION ALL " in between, of SELECT CAST(:id AS BINARY(16)) AS id, :fence AS fence
SELECT t.id, t.queue, t.reference, t.kind, t.state, t.priority, t.attempt, t.max_attempts, t.lapses, t.fence, t.due, t.lease_until, t.holder, t.created, t.updated, t.headers, t.result, t.payload, t.started, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS now
  FROM ({rows}) AS d STRAIGHT_JOIN dbq_task AS t FORCE INDEX (PRIMARY) ON t.id = d.id AND t.fence = d.fence AND t.state = 1 FOR UPDATE SKIP LOCKED;

-- CheckoutBatch lock ready. Strategy cas: locks those candidates whose fence is still the same and that nobody has locked.
-- At most 500 rows. {rows} is a list, with " UNION ALL " in between, of SELECT CAST(:id AS BINARY(16)) AS id, :fence AS fence
SELECT t.id, t.queue, t.reference, t.kind, t.state, t.priority, t.attempt, t.max_attempts, t.lapses, t.fence, t.due, t.lease_until, t.holder, t.created, t.updated, t.headers, t.result, t.payload, t.due_at AS was_due, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS now
  FROM ({rows}) AS d STRAIGHT_JOIN dbq_task AS t FORCE INDEX (PRIMARY) ON t.id = d.id AND t.fence = d.fence AND t.lane = 0 AND t.due_at <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) FOR UPDATE SKIP LOCKED;

-- CheckoutBatch payloads. Reads the large payloads of the tasks that fit.
-- At most 500 rows. {rows} is a list, with ", " in between, of :id
SELECT id, payload FROM dbq_task FORCE INDEX (PRIMARY) WHERE id IN ({rows});

-- CheckoutBatch take. Leases the tasks that were found.
-- At most 500 rows. {rows} is a list, with ", " in between, of :id
UPDATE dbq_task FORCE INDEX (PRIMARY) SET state = 1, due_at = :now - 4611686018427387904, attempt = attempt + 1, fence = fence + 1, lease_end = :now + :lease,
  taken_by = CONCAT(:holder, SPACE(64 - LENGTH(:holder))), started = :begun, updated = :now WHERE id IN ({rows});

-- CheckoutBatch take over. Takes over tasks whose lease ran out; on SQLite those whose attempts are spent become POISON.
-- At most 500 rows. {rows} is a list, with ", " in between, of :id
UPDATE dbq_task FORCE INDEX (PRIMARY) SET due_at = :now - 4611686018427387904,
  attempt = CASE WHEN (started = 1 OR lapses >= 99) THEN attempt + 1 ELSE attempt END,
  lapses = CASE WHEN started = 1 THEN lapses WHEN lapses >= 99 THEN 0 ELSE lapses + 1 END, started = :begun, fence = fence + 1, lease_end = :now + :lease,
  taken_by = CONCAT(:holder, SPACE(64 - LENGTH(:holder))), updated = :now WHERE id IN ({rows});

-- CheckoutBatch try lock expired. On TiDB, which has no SKIP LOCKED: the same, one by one, if a list of them fails.
-- At most 500 rows. {rows} is a list, with " UNION ALL " in between, of SELECT CAST(:id AS BINARY(16)) AS id, :fence AS fence
SELECT t.id, t.queue, t.reference, t.kind, t.state, t.priority, t.attempt, t.max_attempts, t.lapses, t.fence, t.due, t.lease_until, t.holder, t.created, t.updated, t.headers, t.result, t.payload, t.started, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS now
  FROM ({rows}) AS d STRAIGHT_JOIN dbq_task AS t FORCE INDEX (PRIMARY) ON t.id = d.id AND t.fence = d.fence AND t.state = 1 FOR UPDATE NOWAIT;

-- CheckoutBatch try lock ready. On TiDB, which has no SKIP LOCKED: the same, one by one, if a list of them fails.
-- At most 500 rows. {rows} is a list, with " UNION ALL " in between, of SELECT CAST(:id AS BINARY(16)) AS id, :fence AS fence
SELECT t.id, t.queue, t.reference, t.kind, t.state, t.priority, t.attempt, t.max_attempts, t.lapses, t.fence, t.due, t.lease_until, t.holder, t.created, t.updated, t.headers, t.result, t.payload, t.due_at AS was_due, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS now
  FROM ({rows}) AS d STRAIGHT_JOIN dbq_task AS t FORCE INDEX (PRIMARY) ON t.id = d.id AND t.fence = d.fence AND t.lane = 0 AND t.due_at <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) FOR UPDATE NOWAIT;

-- CheckoutBatch win. Keeps renewals off the tasks that are being taken over, and finds those that were renewed just now.
-- At most 500 rows. {rows} is a list, with " UNION ALL " in between, of SELECT CAST(:id AS BINARY(16)) AS id, :fence AS fence
INSERT INTO dbq_lease (id, fence, lease_until, keep_until)
SELECT d.id, d.fence + 1, :now + :lease, :now + :lease FROM ({rows}) AS d
ON DUPLICATE KEY UPDATE fence = IF(dbq_lease.fence < d.fence OR dbq_lease.lease_until <= :now, d.fence + 1, dbq_lease.fence),
  lease_until = IF(dbq_lease.fence < d.fence OR dbq_lease.lease_until <= :now OR dbq_lease.fence = d.fence + 1, :now + :lease, dbq_lease.lease_until),
  keep_until = IF(dbq_lease.fence < d.fence OR dbq_lease.lease_until <= :now OR dbq_lease.fence = d.fence + 1, :now + :lease, dbq_lease.keep_until);
SELECT l.id FROM ({rows}) AS d STRAIGHT_JOIN dbq_lease AS l FORCE INDEX (PRIMARY) ON l.id = d.id AND l.fence = d.fence + 1;

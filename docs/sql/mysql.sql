-- Every statement that dbq runs on its tables, for review by a DBA. docs/scaling.md describes
-- the settings of its sessions. This page omits COMMIT, ROLLBACK, savepoints, LISTEN, and queries of the server's
-- version and settings.
-- Generated from the dialect by "go generate ./..."; do not edit.

-- ======== Conventions ========

-- A :name stands for a value, which the driver writes into the text, escaped; an id is written as x'...'. Rows come
-- as a list of values. Times are microseconds since 1970 in UTC. States are 0 CREATED, 1 PROCESSING, 2 COMPLETED, 3
-- ERROR, 4 POISON. Tables begin with "dbq_" unless a program says otherwise.
--
-- {now} stands for the database's clock:
--   TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
--
-- In ready, ready sizes, lock ready, try lock ready, lock expired, try lock expired: The row is locked, so only the
-- row itself is read, no renewal.
--
-- In take, see expired, take over, oldest, Next: In PROCESSING, due_at is the time at which the task was taken minus
-- 2^62: negative, and in the order of these times.
--
-- In see expired, Next, Held, Exhausted: A lease ends when its renewal does, a row of the table lease under the
-- task's fence, if there is one.
--
-- In Movable, Held, Exhausted: The progress that heartbeats have stored is in the renewal.

-- ======== The schema ========

-- You can paste this section into the engine's client, to create the tables by hand. "dbq migrate" runs it.

-- dbq's tables for mysql

-- 0: migration

-- The table of applied migrations. dbq runs this file before every migration, so its statements can be repeated.
CREATE TABLE IF NOT EXISTS dbq_migration (
  version INT PRIMARY KEY, title VARCHAR(200) NOT NULL, compatible INT NOT NULL, applied BIGINT NOT NULL
) ENGINE = InnoDB;

-- 1: tasks

-- One row for each task. Times are microseconds since 1970 in UTC, by the database's clock. fence grows with every
-- change of owner: a statement under an outdated fence changes nothing.
--
-- Keys are bytes (VARBINARY). The default collations treat 'Ab' and 'ab' as equal, and the binary collations that
-- both products have ignore trailing spaces.
--
-- A row keeps its size when its state changes, so that InnoDB updates it in place. In a full page, a row that grows
-- makes InnoDB reorganize or split the page. Null takes no space in a row, so due_at, lease_end and taken_at are -1
-- instead of null, and taken_by is padded with spaces to the length of a usual holder. The virtual columns due,
-- lease_until, holder and taken show null and the name instead.
--
-- due_at is when a waiting task is due. In PROCESSING it is the time at which the task was taken, minus 2^62:
-- negative, and in the order of these times. Otherwise it is -1.
--
-- lane is the part of a queue's index (task_lane) that a task is in: 0 for a task that may become due, whatever its
-- state, 9 for a task in PROCESSING, and otherwise the number of the state. 9 is the last: on MariaDB, a search for
-- the last due time would otherwise read past the delete-marked entries of leased tasks.
--
-- key_queue and key_due are the queue and the due time of a waiting task that has a key, for the limits per key
-- (task_key). order_queue and order_failed are for queues with an order (task_order): order_failed is 0 for a waiting
-- task, and 1 for one that waits for an operator. They are null for a task without a key, so that its updates leave
-- these indexes alone.
CREATE TABLE IF NOT EXISTS dbq_task (
  id BINARY(16) NOT NULL PRIMARY KEY,
  queue VARBINARY(400) NOT NULL,
  reference VARBINARY(800) COMMENT 'unique within the queue while the row exists',
  kind VARBINARY(400) NOT NULL,
  task_key VARBINARY(800) COMMENT 'the key to which limits per key apply',
  state TINYINT NOT NULL DEFAULT 0 COMMENT '0 CREATED, 1 PROCESSING, 2 COMPLETED, 3 ERROR, 4 POISON',
  priority TINYINT NOT NULL DEFAULT 0 COMMENT '0 (first) to 9',
  attempt SMALLINT NOT NULL DEFAULT 0 COMMENT 'the number of its last attempt',
  max_attempts SMALLINT NOT NULL DEFAULT 20 COMMENT 'the number of attempts after which the task goes to POISON',
  lapses TINYINT NOT NULL DEFAULT 0 COMMENT 'leases in a row that expired without counting as an attempt',
  known_started TINYINT NOT NULL DEFAULT 0 COMMENT '1 if the attempt counts when its lease expires',
  cancelled TINYINT NOT NULL DEFAULT 0 COMMENT '1 if an operator has cancelled it',
  fence BIGINT NOT NULL DEFAULT 0 COMMENT 'grows with each change of owner; a change under an older fence is refused',
  due_at BIGINT NOT NULL DEFAULT -1
    COMMENT 'when it may be leased; if it is leased, when it was, minus 2^62; otherwise -1',
  lease_end BIGINT NOT NULL DEFAULT -1
    COMMENT 'the end of its lease, unless the table of leases has a renewal; -1 is none',
  taken_by VARBINARY(800) NOT NULL DEFAULT '                                                                '
    COMMENT 'holder, padded with spaces',
  taken_at BIGINT NOT NULL DEFAULT -1 COMMENT 'taken; -1 is none',
  created BIGINT NOT NULL,
  updated BIGINT NOT NULL COMMENT 'when its state or its owner last changed',
  payload_size INT UNSIGNED COMMENT 'the length of the payload in bytes',
  headers BLOB COMMENT 'a JSON object',
  payload LONGBLOB,
  result BLOB COMMENT 'the result of a COMPLETED task, otherwise the last error or reason',
  progress BLOB COMMENT 'the progress that earlier attempts reported',
  due BIGINT AS (CASE WHEN due_at < 0 THEN NULL ELSE due_at END) VIRTUAL
    COMMENT 'when it may be leased, in microseconds since 1970 in UTC; null if it may not',
  lease_until BIGINT AS (NULLIF(lease_end, -1)) VIRTUAL
    COMMENT 'the end of its lease, unless the table of leases has a renewal',
  holder VARBINARY(800) AS (NULLIF(TRIM(TRAILING ' ' FROM taken_by), '')) VIRTUAL
    COMMENT 'the worker that leased it last, and the token of the checkout',
  taken BIGINT AS (NULLIF(taken_at, -1)) VIRTUAL COMMENT 'when its last attempt began',
  lane TINYINT AS (CASE WHEN due_at >= 0 THEN 0 WHEN state = 1 THEN 9 ELSE state END) STORED
    COMMENT 'the part of the queue in the index dbq_task_lane',
  key_queue VARBINARY(400) AS (CASE WHEN task_key IS NOT NULL AND due_at >= 0 THEN queue END) STORED,
  key_due BIGINT AS (CASE WHEN task_key IS NOT NULL AND due_at >= 0 THEN due_at END) STORED,
  order_queue VARBINARY(400) AS (CASE WHEN task_key IS NOT NULL
    AND (due_at >= 0 OR state IN (3, 4) AND cancelled = 0) THEN queue END) STORED,
  order_failed TINYINT AS (CASE WHEN task_key IS NOT NULL THEN due_at < 0 END) STORED,
  CONSTRAINT dbq_task_state CHECK (state IN (0, 1, 2, 3, 4)),
  CONSTRAINT dbq_task_priority CHECK (priority BETWEEN 0 AND 9),
  UNIQUE KEY dbq_task_reference (reference, queue),
  KEY dbq_task_lane (queue, lane, priority, due_at),
  KEY dbq_task_key (key_queue, task_key, key_due),
  KEY dbq_task_order (order_queue, task_key, order_failed)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4
  COMMENT = 'One row for each task. Only dbq may change it. To read tasks, use the view dbq_tasks.';

-- The renewals of leases. The first end of a lease is in the task's row. A heartbeat writes a row here, under the
-- task's fence, and not the task's row: that would fail a caller's transaction at REPEATABLE READ that completes the
-- task, on MariaDB, and would wait for a transaction that has locked it. A takeover writes the next fence here before
-- it takes the task, so a concurrent renewal and takeover conflict on this row, and only one of them succeeds.
--
-- lease_until is the end of the renewed lease. The row is kept until keep_until: a renewal may end before the lease
-- in the task's row, which would be valid again without it.
--
-- progress is the holder's report under this fence or, after a takeover, under the one before. The row of a leased task
-- that has progress is kept.
CREATE TABLE IF NOT EXISTS dbq_lease (
  id BINARY(16) NOT NULL PRIMARY KEY COMMENT 'the task',
  fence BIGINT NOT NULL,
  lease_until BIGINT NOT NULL COMMENT 'the end of the renewed lease',
  keep_until BIGINT NOT NULL COMMENT 'when cleaning may remove the row',
  progress VARBINARY(4000)
) ENGINE = InnoDB COMMENT = 'Renewals of leases, and the progress that holders report.';

-- The keys of unique tasks. A key belongs to a queue and a scope: the states in which its task excludes others, or a
-- period. task is the last task that was enqueued with it. Nothing changes the row when that task ends: whether the
-- key is free follows from the task's state. id is a hash of queue, scope and name, so that the key is narrow. From
-- expires on, cleaning checks whether the row can be removed.
CREATE TABLE IF NOT EXISTS dbq_unique_key (
  id BINARY(16) NOT NULL PRIMARY KEY COMMENT 'a hash of queue, scope and name',
  task BINARY(16) NOT NULL COMMENT 'the last task that was enqueued with the key',
  expires BIGINT NOT NULL COMMENT 'when cleaning checks whether the row can be removed',
  queue VARBINARY(400) NOT NULL,
  scope VARBINARY(60) NOT NULL COMMENT 'the states or the period in which the task excludes others',
  name VARBINARY(800) NOT NULL,
  KEY dbq_unique_key_expires (expires)
) ENGINE = InnoDB COMMENT = 'The keys of unique tasks.';

-- The tasks as a person reads them, with the names of states and with times as timestamps. Names are compared as bytes
-- here, too, by a collation that each product has under its own name.
CREATE OR REPLACE VIEW dbq_tasks AS
SELECT lower(hex(id)) AS id,
  CONVERT(queue USING utf8mb4) COLLATE /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */ AS queue,
  CONVERT(reference USING utf8mb4) COLLATE /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */ AS reference,
  CONVERT(kind USING utf8mb4) COLLATE /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */ AS kind,
  CONVERT(task_key USING utf8mb4) COLLATE /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */ AS task_key,
  CASE state WHEN 0 THEN 'CREATED' WHEN 1 THEN 'PROCESSING' WHEN 2 THEN 'COMPLETED' WHEN 3 THEN 'ERROR'
    WHEN 4 THEN 'POISON' END AS state,
  cancelled, priority, attempt, max_attempts, lapses, fence,
  '1970-01-01' + INTERVAL due MICROSECOND AS due,
  '1970-01-01' + INTERVAL (CASE WHEN state = 1 THEN
    COALESCE((SELECT l.lease_until FROM dbq_lease AS l FORCE INDEX (PRIMARY) WHERE l.id = t.id AND l.fence = t.fence),
      t.lease_end) END) MICROSECOND AS lease_until,
  CONVERT(holder USING utf8mb4) AS holder, '1970-01-01' + INTERVAL taken MICROSECOND AS taken,
  '1970-01-01' + INTERVAL created MICROSECOND AS created, '1970-01-01' + INTERVAL updated MICROSECOND AS updated,
  CONVERT(headers USING utf8mb4) AS headers, length(payload) AS payload_bytes, CONVERT(result USING utf8mb4) AS result,
  CONVERT(COALESCE((SELECT l.progress FROM dbq_lease AS l FORCE INDEX (PRIMARY)
    WHERE t.state = 1 AND l.id = t.id AND l.fence = t.fence), progress) USING utf8mb4) AS progress
  FROM dbq_task AS t;

-- For programs in other languages, which enqueue by SQL: the columns that they set, and the rows that dbq accepts. A
-- user needs privileges on it alone. dbq never uses it, so that its conditions cost dbq's statements nothing. They are
-- true of every row that dbq writes (an id has version 8 in a workflow): ON DUPLICATE KEY UPDATE checks the row that is
-- there.
CREATE OR REPLACE VIEW dbq_enqueue AS
SELECT id, queue, kind, reference, payload, payload_size, headers, priority, max_attempts, due_at AS due, created,
  updated, task_key
  FROM dbq_task
 WHERE HEX(id) REGEXP '^.{12}[78].{3}[89AB]'
   AND CHAR_LENGTH(CONVERT(queue USING utf8mb4)) BETWEEN 1 AND 100
   AND CHAR_LENGTH(CONVERT(kind USING utf8mb4)) <= 100
   AND (reference IS NULL OR CHAR_LENGTH(CONVERT(reference USING utf8mb4)) BETWEEN 1 AND 200)
   AND (task_key IS NULL OR CHAR_LENGTH(CONVERT(task_key USING utf8mb4)) BETWEEN 1 AND 200)
   AND CONVERT(CONCAT(queue, kind, COALESCE(reference, ''), COALESCE(task_key, '')) USING utf8mb4)
       NOT REGEXP '[[:cntrl:]]'
   AND payload_size <=> LENGTH(payload)
   AND COALESCE(payload_size, 0) <= 104857600
   AND (headers IS NULL OR LENGTH(headers) <= 4000 AND JSON_VALID(CONVERT(headers USING utf8mb4))
        AND JSON_TYPE(CONVERT(headers USING utf8mb4)) = 'OBJECT')
   AND max_attempts > 0
   AND (due_at BETWEEN 0 AND 253402300799999999 OR state <> 0)
  WITH CASCADED CHECK OPTION;

INSERT INTO dbq_migration (version, title, compatible, applied)
SELECT 1, 'tasks', 1, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
 FROM DUAL
 WHERE NOT EXISTS (SELECT 1 FROM dbq_migration WHERE version = 1);

-- 2: shared tables

-- Key/value records shared by all clients: pauses and settings of queues, the registry of workers, leaders,
-- schedules. Each write checks version. expires is when a record becomes invalid or, for a schedule, its next time.
CREATE TABLE IF NOT EXISTS dbq_kv (
  namespace VARBINARY(20) NOT NULL,
  name VARBINARY(800) NOT NULL,
  version BIGINT NOT NULL COMMENT 'checked by each write',
  value TEXT NOT NULL,
  updated BIGINT NOT NULL,
  expires BIGINT COMMENT 'when it becomes invalid or, for a schedule, its next time',
  PRIMARY KEY (namespace, name),
  KEY dbq_kv_expires (namespace, expires, name)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4
  COMMENT = 'Records that all clients share, such as pauses, settings, workers and schedules.';

-- The rates per key of queues with limits. A row is a key that has started tasks; full_at is when all of its starts are
-- free again, in microseconds since 1970 in UTC. A key without a row has all of them. Only a checkout that has locked
-- the limits of the queue writes its rows, and cleaning removes those whose time has passed.
CREATE TABLE IF NOT EXISTS dbq_key_rate (
  queue VARBINARY(400) NOT NULL,
  task_key VARBINARY(800) NOT NULL,
  full_at BIGINT NOT NULL COMMENT 'when all starts of the key are free again, in microseconds since 1970',
  PRIMARY KEY (queue, task_key),
  KEY dbq_key_rate_full (full_at)
) ENGINE = InnoDB COMMENT = 'The keys that have started tasks, in queues with a rate per key.';

-- The history of attempts. The last attempt of a task is in the task's row. This table has the earlier ones, and the
-- last one of a task that was removed.
CREATE TABLE IF NOT EXISTS dbq_attempt (
  task BINARY(16) NOT NULL,
  fence BIGINT NOT NULL,
  queue VARBINARY(400) NOT NULL,
  attempt SMALLINT NOT NULL,
  outcome VARBINARY(20) NOT NULL,
  taken BIGINT NOT NULL,
  ended BIGINT NOT NULL,
  worker VARBINARY(800) NOT NULL,
  error BLOB,
  PRIMARY KEY (task, fence),
  KEY dbq_attempt_ended (queue, ended)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4
  COMMENT = 'The history of attempts. The last attempt of a task is in the row of the task.';

-- All attempts that have ended, including the last one of each task, which is in the task's row.
CREATE OR REPLACE VIEW dbq_attempts AS
SELECT lower(hex(task)) AS task, attempt, CONVERT(outcome USING utf8mb4) AS outcome,
  '1970-01-01' + INTERVAL taken MICROSECOND AS taken,
  '1970-01-01' + INTERVAL ended MICROSECOND AS ended,
  CONVERT(worker USING utf8mb4) AS worker,
  CONVERT(queue USING utf8mb4) COLLATE /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */ AS queue, fence,
  CONVERT(error USING utf8mb4) AS error
  FROM dbq_attempt
UNION ALL SELECT lower(hex(id)), attempt, CASE state WHEN 2 THEN 'completed' WHEN 3 THEN 'failed' ELSE 'poisoned' END,
  '1970-01-01' + INTERVAL taken MICROSECOND, '1970-01-01' + INTERVAL updated MICROSECOND,
  CONVERT(LEFT(holder, LENGTH(holder) - LENGTH(SUBSTRING_INDEX(holder, '#', -1)) - 1) USING utf8mb4),
  CONVERT(queue USING utf8mb4) COLLATE /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */, fence,
  CASE WHEN state <> 2 THEN CONVERT(result USING utf8mb4) END
  FROM dbq_task AS t
 WHERE taken_at > 0 AND state IN (2, 3, 4)
   AND NOT EXISTS (SELECT 1 FROM dbq_attempt AS a WHERE a.task = t.id AND a.fence = t.fence);

-- Tasks that retention has moved out of the table of tasks. dbq never removes a row from it. An id can be used again
-- after its task was archived; the fences of its tasks differ.
CREATE TABLE IF NOT EXISTS dbq_archive (
  id BINARY(16) NOT NULL,
  queue VARBINARY(400) NOT NULL,
  reference VARBINARY(800),
  kind VARBINARY(400) NOT NULL,
  task_key VARBINARY(800),
  state TINYINT NOT NULL,
  priority TINYINT NOT NULL,
  attempt SMALLINT NOT NULL DEFAULT 0,
  max_attempts SMALLINT NOT NULL,
  lapses TINYINT NOT NULL DEFAULT 0,
  known_started TINYINT NOT NULL DEFAULT 0,
  cancelled TINYINT NOT NULL DEFAULT 0,
  fence BIGINT NOT NULL DEFAULT 0,
  due_at BIGINT NOT NULL DEFAULT -1,
  lease_end BIGINT NOT NULL DEFAULT -1,
  taken_by VARBINARY(800) NOT NULL DEFAULT '                                                                ',
  taken_at BIGINT NOT NULL DEFAULT -1,
  created BIGINT NOT NULL,
  updated BIGINT NOT NULL,
  payload_size INT UNSIGNED,
  headers BLOB,
  payload LONGBLOB,
  result BLOB,
  progress BLOB,
  due BIGINT AS (CASE WHEN due_at < 0 THEN NULL ELSE due_at END) VIRTUAL,
  lease_until BIGINT AS (NULLIF(lease_end, -1)) VIRTUAL,
  holder VARBINARY(800) AS (NULLIF(TRIM(TRAILING ' ' FROM taken_by), '')) VIRTUAL,
  taken BIGINT AS (NULLIF(taken_at, -1)) VIRTUAL,
  lane TINYINT AS (CASE WHEN due_at >= 0 THEN 0 WHEN state = 1 THEN 9 ELSE state END) STORED,
  archived BIGINT NOT NULL COMMENT 'when it was moved here',
  PRIMARY KEY (id, fence),
  CONSTRAINT dbq_archive_state CHECK (state IN (0, 1, 2, 3, 4)),
  CONSTRAINT dbq_archive_priority CHECK (priority BETWEEN 0 AND 9)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COMMENT = 'Tasks that retention has moved out of the table of tasks.';

-- The tasks of the archive as a person reads them, with the names of states and with times as timestamps.
CREATE OR REPLACE VIEW dbq_archived AS
SELECT lower(hex(id)) AS id,
  CONVERT(queue USING utf8mb4) COLLATE /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */ AS queue,
  CONVERT(reference USING utf8mb4) COLLATE /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */ AS reference,
  CONVERT(kind USING utf8mb4) COLLATE /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */ AS kind,
  CONVERT(task_key USING utf8mb4) COLLATE /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */ AS task_key,
  CASE state WHEN 0 THEN 'CREATED' WHEN 1 THEN 'PROCESSING' WHEN 2 THEN 'COMPLETED' WHEN 3 THEN 'ERROR'
    WHEN 4 THEN 'POISON' END AS state,
  cancelled, priority, attempt, max_attempts, lapses, fence,
  '1970-01-01' + INTERVAL due MICROSECOND AS due, CONVERT(holder USING utf8mb4) AS holder,
  '1970-01-01' + INTERVAL taken MICROSECOND AS taken, '1970-01-01' + INTERVAL created MICROSECOND AS created,
  '1970-01-01' + INTERVAL updated MICROSECOND AS updated, '1970-01-01' + INTERVAL archived MICROSECOND AS archived,
  CONVERT(headers USING utf8mb4) AS headers, length(payload) AS payload_bytes, CONVERT(result USING utf8mb4) AS result,
  CONVERT(progress USING utf8mb4) AS progress
  FROM dbq_archive;

-- The tasks of workflows. A task of a workflow has an id of version 8; a plain task has no row here. A workflow has no
-- row of its own: it is the tasks with its id.
CREATE TABLE IF NOT EXISTS dbq_step (
  task BINARY(16) NOT NULL PRIMARY KEY,
  workflow BINARY(16) NOT NULL,
  name VARBINARY(800) NOT NULL COMMENT 'the name of the step',
  queue VARBINARY(400) NOT NULL,
  needs INT NOT NULL COMMENT 'how many tasks it still waits for',
  dependents INT NOT NULL COMMENT 'how many tasks need it',
  run_at BIGINT COMMENT 'when it may start at the earliest, in microseconds since 1970 in UTC',
  delay BIGINT NOT NULL COMMENT 'the pause after the last task that it needs, in microseconds',
  CONSTRAINT dbq_step_needs CHECK (needs >= 0),
  KEY dbq_step_workflow (workflow, task)
) ENGINE = InnoDB COMMENT = 'The tasks of workflows. A plain task has no row here.';

-- The task child needs the task parent of the same workflow.
CREATE TABLE IF NOT EXISTS dbq_need (
  parent BINARY(16) NOT NULL,
  child BINARY(16) NOT NULL,
  on_failure TINYINT NOT NULL
    COMMENT 'what happens if the parent goes to POISON, 0 cancels the child, 1 lets it wait, 2 lets it go on',
  met TINYINT NOT NULL COMMENT '1 once the child no longer waits for the parent',
  CONSTRAINT dbq_need_on_failure CHECK (on_failure IN (0, 1, 2)),
  CONSTRAINT dbq_need_met CHECK (met IN (0, 1)),
  PRIMARY KEY (parent, child),
  KEY dbq_need_child (child, parent)
) ENGINE = InnoDB COMMENT = 'The task child needs the task parent of the same workflow.';

-- What operators have changed, and who it was. The row of a change is written in the transaction of the change. A call
-- of several transactions has a row for each, its parts; the parts after part 0 have only their own changes. dbq never
-- updates a row.
CREATE TABLE IF NOT EXISTS dbq_audit (
  id BINARY(16) NOT NULL,
  part INT NOT NULL COMMENT '0, or the number of a later transaction of the same call',
  happened BIGINT NOT NULL,
  who VARBINARY(800) NOT NULL,
  program VARBINARY(800) NOT NULL,
  address VARBINARY(800) NOT NULL,
  request VARBINARY(800) NOT NULL,
  action VARBINARY(100) NOT NULL,
  queue VARBINARY(400) NOT NULL,
  subject VARBINARY(800) NOT NULL COMMENT 'the schedule, worker or token',
  task BINARY(16),
  task_filter TEXT NOT NULL,
  reason TEXT NOT NULL,
  old_value TEXT NOT NULL,
  new_value TEXT NOT NULL,
  changed INT NOT NULL COMMENT 'how many tasks or settings',
  PRIMARY KEY (id, part),
  KEY dbq_audit_task (task, id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COMMENT = 'What operators have changed, and who it was.';

INSERT INTO dbq_migration (version, title, compatible, applied)
SELECT 2, 'shared tables', 2, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
 FROM DUAL
 WHERE NOT EXISTS (SELECT 1 FROM dbq_migration WHERE version = 2);

-- 3: statistics

-- Statistics over time, one row for each queue, period and source. period is its length in seconds, or 0 for the minute
-- of one source: a worker, or the sampler of all queues, which also adds a row for each sample. Rows with a longer
-- period are the totals of all sources. since is when the period began, in microseconds since 1970 in UTC. The columns
-- from enqueued to released are sums; those from created to oldest_due are the highest number of tasks that was
-- sampled. latency and run_time are histograms.
CREATE TABLE IF NOT EXISTS dbq_stat (
  queue VARBINARY(400) NOT NULL,
  period INT NOT NULL COMMENT 'seconds, or 0 for the minute of one source',
  since BIGINT NOT NULL COMMENT 'when the period began, in microseconds since 1970',
  source VARBINARY(800) NOT NULL,
  enqueued BIGINT NOT NULL,
  started BIGINT NOT NULL,
  completed BIGINT NOT NULL,
  failed BIGINT NOT NULL,
  poisoned BIGINT NOT NULL,
  released BIGINT NOT NULL,
  created BIGINT NOT NULL,
  processing BIGINT NOT NULL,
  error BIGINT NOT NULL,
  poison BIGINT NOT NULL,
  due BIGINT NOT NULL,
  parked BIGINT NOT NULL,
  oldest_due BIGINT NOT NULL,
  latency TEXT NOT NULL,
  run_time TEXT NOT NULL,
  PRIMARY KEY (period, queue, since, source),
  KEY dbq_stat_since (period, since)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4
  COMMENT = 'Statistics over time of each queue.';

INSERT INTO dbq_migration (version, title, compatible, applied)
SELECT 3, 'statistics', 3, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
 FROM DUAL
 WHERE NOT EXISTS (SELECT 1 FROM dbq_migration WHERE version = 3);

-- ======== Sessions and migrations ========

-- ==== Begin ====
-- Begins a write transaction.
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
START TRANSACTION;

-- ==== Now ====
-- An expression, not a statement: the database's clock in microseconds since 1970.
TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));

-- ==== MigrationLock ====
-- Waits for other migrations of the same tables.
-- Runs before a migration, and waits at most 300 seconds. The lock belongs to the session.
-- GET_LOCK returns 0 if it cannot take the lock. The subquery of two rows makes that an error, 1242.
SELECT CASE GET_LOCK(LEFT(SHA2(CONCAT(LOWER(DATABASE()), ' ', :name), 256), 60), 300)
         WHEN 1 THEN 1
         ELSE (SELECT 1 UNION SELECT 2)
       END;

-- ==== MigrationLock free ====
-- Lets the next migration begin.
-- Runs after a migration.
DO RELEASE_LOCK(LEFT(SHA2(CONCAT(LOWER(DATABASE()), ' ', :name), 256), 60));

-- ==== Version ====
-- Reads the newest migration that has been applied. Runs when a client opens.
SELECT max(version) AS version, max(compatible) AS compatible
  FROM dbq_migration;

-- ==== SetVersion ====
-- Records a migration as applied, in its transaction.
INSERT INTO dbq_migration (version, title, compatible, applied)
SELECT :version, :title, :compatible, {now}
 FROM DUAL
 WHERE NOT EXISTS (SELECT 1 FROM dbq_migration WHERE version = :version);

-- ==== Drop ====
-- Removes all tables and views. Runs only at the request of an operator.
DROP VIEW IF EXISTS dbq_tasks;
DROP VIEW IF EXISTS dbq_enqueue;
DROP VIEW IF EXISTS dbq_attempts;
DROP VIEW IF EXISTS dbq_archived;
DROP TABLE IF EXISTS dbq_stat;
DROP TABLE IF EXISTS dbq_audit;
DROP TABLE IF EXISTS dbq_need;
DROP TABLE IF EXISTS dbq_step;
DROP TABLE IF EXISTS dbq_archive;
DROP TABLE IF EXISTS dbq_attempt;
DROP TABLE IF EXISTS dbq_key_rate;
DROP TABLE IF EXISTS dbq_kv;
DROP TABLE IF EXISTS dbq_unique_key;
DROP TABLE IF EXISTS dbq_lease;
DROP TABLE IF EXISTS dbq_task;
DROP TABLE IF EXISTS dbq_migration;

-- ======== Enqueueing ========

-- ==== Insert ====
-- Adds tasks. A task whose id, or whose reference and queue, exists is skipped without an error.
-- Runs for an enqueue, and for each part of a bulk enqueue. Indexes: the primary key and task_reference find
-- duplicates. IGNORE also truncates values that are too long, without an error, so the client checks their lengths
-- first. The server assigns from left to right: fence uses created.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   (:id, :queue, :reference, :kind, 0 /* CREATED */, :priority, :max_attempts, coalesce(:at, {now} + :delay), {now},
--   {now}, :reused * created, :payload_size, :headers, :payload, :task_key)
INSERT IGNORE INTO dbq_task (
  id, queue, reference, kind, state, priority, max_attempts, due_at, created, updated, fence,
  payload_size, headers, payload, task_key)
VALUES {rows};

-- ==== insert uniform ====
-- Insert for rows without a reference, whose ids are new, that differ only in ids and payloads.
-- Runs for a bulk enqueue of tasks that are alike, after a query for the time. Indexes: none is searched. :now saves
-- the server 8 microseconds for each row, the time to parse the text of the clock three times.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   (:id, :queue, :kind, 0 /* CREATED */, :priority, :max_attempts, coalesce(:at, :now + :delay), :now, :now,
--   :payload_size, :headers, :payload)
INSERT INTO dbq_task (
  id, queue, kind, state, priority, max_attempts, due_at, created, updated, payload_size, headers, payload)
VALUES {rows};

-- ==== inserted ====
-- Reads which rows exist after Insert.
-- Runs after an insert that added some of its tasks but not all. Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
SELECT id
  FROM dbq_task FORCE INDEX (PRIMARY)
 WHERE id IN ({rows});

-- ======== Unique tasks ========

-- ==== FindKeys ====
-- Reads unique keys, and the states of the tasks that they name.
-- Runs first for an enqueue of unique tasks, without locks. Indexes: the primary keys of unique_key and task.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
SELECT k.id, k.task, k.expires, t.state, t.due
  FROM dbq_unique_key AS k FORCE INDEX (PRIMARY)
  LEFT JOIN dbq_task AS t FORCE INDEX (PRIMARY)
         ON t.id = k.task AND t.queue = k.queue
 WHERE k.id IN ({rows});

-- ==== LockWaiting ====
-- Locks waiting tasks whose keys are used again, so that they do not start before the outcome is decided. Also locks
-- tasks in PROCESSING if a task keeps its key until it ends.
-- Runs after FindKeys, for tasks that it has found: for others, InnoDB would lock a gap at REPEATABLE READ. It runs
-- before LockKeys: a transaction that has completed a task and enqueues its successor locks in this order, too.
-- Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
SELECT id, queue, state, due, created
  FROM dbq_task FORCE INDEX (PRIMARY)
 WHERE id IN ({rows})
   AND (due_at >= 0 OR state = 1 /* PROCESSING */ AND :running = 1)
 ORDER BY id
   FOR UPDATE;

-- ==== AddKeys ====
-- Adds keys that do not exist.
-- Runs after FindKeys, for keys that it has not found. Index: the primary key. For a key that exists, IGNORE would take
-- a shared lock, and two transactions that go on to lock it exclusively would deadlock.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   (:id, :task, :expires, :queue, :scope, :name)
INSERT INTO dbq_unique_key (id, task, expires, queue, scope, name)
VALUES {rows}
    ON DUPLICATE KEY UPDATE task = task;

-- ==== LockKeys ====
-- Locks the keys. After that, no other transaction can add a task with one of them.
-- Runs after AddKeys. Index: the primary key. It locks in the order of ids, so that no two calls deadlock.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
SELECT id, task, expires
  FROM dbq_unique_key FORCE INDEX (PRIMARY)
 WHERE id IN ({rows})
 ORDER BY id
   FOR UPDATE;

-- ==== SetKeys ====
-- Assigns keys to the added tasks.
-- Runs after Insert, for keys that name another task then. Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by " UNION ALL ":
--   SELECT CAST(:id AS BINARY(16)) AS id, CAST(:task AS BINARY(16)) AS task, :expires AS expires
UPDATE ({rows}) AS d
       STRAIGHT_JOIN dbq_unique_key AS k FORCE INDEX (PRIMARY)
       ON k.id = d.id
   SET k.task = d.task,
       k.expires = d.expires;

-- ==== Replace ====
-- Replaces the kind, key, payload, headers, priority and due time of a waiting task. Clears its progress, and raises
-- its fence: a checkout that has chosen the task by its old key and size must not lease it.
-- Runs after LockKeys, for one task at a time, since payloads may be large. Index: the primary key.
-- One row at a time.
UPDATE dbq_task FORCE INDEX (PRIMARY)
   SET kind = :kind,
       task_key = :task_key,
       priority = :priority,
       due_at = :at,
       headers = :headers,
       payload_size = :payload_size,
       payload = :payload,
       progress = NULL,
       fence = fence + 1
 WHERE id = :id
   AND due_at >= 0;

-- ==== Postpone ====
-- Moves the due times of waiting tasks.
-- Runs after LockKeys. Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by " UNION ALL ":
--   SELECT CAST(:id AS BINARY(16)) AS id, :at AS at
UPDATE ({rows}) AS d
       STRAIGHT_JOIN dbq_task AS t FORCE INDEX (PRIMARY)
       ON t.id = d.id
   SET t.due_at = d.at
 WHERE t.due_at >= 0;

-- ==== OldKeys ====
-- Finds keys that cleaning may remove. Index: unique_key_expires.
SELECT id
  FROM dbq_unique_key
 WHERE expires <= {now}
 ORDER BY expires
 LIMIT :limit;

-- ==== DropKeys ====
-- Removes keys whose period has passed, or whose task has ended.
-- Runs for cleaning, after LockKeys. Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
DELETE k
  FROM dbq_unique_key AS k FORCE INDEX (PRIMARY)
 WHERE k.id IN ({rows});

-- ======== Workflows ========

-- ==== AddWorkflowTasks ====
-- Adds the tasks of a workflow, after Insert in one transaction.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   (:id, :workflow_id, :name, :queue_name, :needs, :dependents, :at, :delay)
INSERT INTO dbq_step (task, workflow, name, queue, needs, dependents, run_at, delay)
VALUES {rows};

-- ==== AddWorkflowNeeds ====
-- Adds the dependencies of a workflow.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   (:parent, :child, :on_failure, 0)
INSERT INTO dbq_need (parent, child, on_failure, met)
VALUES {rows};

-- ==== AddWorkflowChange ====
-- Records, in the transaction that ends tasks of workflows, that their workflows have to be advanced.
INSERT INTO dbq_kv (namespace, name, version, value, updated)
SELECT :namespace, :name, {now}, :value, {now}
 FROM DUAL;

-- ==== WorkflowTasks ====
-- Reads tasks of workflows. Indexes: the primary key of step, and the primary key of task.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
SELECT s.task, s.workflow, s.name, s.queue, s.needs, s.dependents, s.run_at, s.delay, {now} AS now,
       t.state, t.due, t.cancelled
  FROM dbq_step s
  LEFT JOIN dbq_task t ON t.id = s.task
 WHERE s.task IN ({rows});

-- ==== LockWorkflowTasks ====
-- Locks tasks of workflows in the order of their ids. Of two transactions that advance a workflow, the later one then
-- sees the changes of the first. Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
SELECT task
  FROM dbq_step
 WHERE task IN ({rows})
 ORDER BY task
   FOR UPDATE;

-- ==== WorkflowNeeds ====
-- Reads the dependencies on the tasks that have ended. Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
SELECT n.parent, n.child, n.on_failure, n.met
  FROM dbq_need n
 WHERE n.parent IN ({rows})
   AND n.child > :above
   AND n.met <= :met
 ORDER BY n.child, n.parent
 LIMIT :limit;

-- ==== MeetNeeds ====
-- Marks dependencies as met. Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
UPDATE dbq_need
   SET met = 1
 WHERE parent IN ({rows})
   AND child > :above
   AND child <= :last
   AND met = 0
   AND on_failure >= :least;

-- ==== CountNeeds ====
-- Changes how many tasks a task still waits for. Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
UPDATE dbq_step
   SET needs = needs - :met
 WHERE task IN ({rows});

-- ==== NeededWorkflowTasks ====
-- Finds, before tasks are removed, those that others still need. Indexes: the primary keys of step and need, and the
-- primary key of task.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
SELECT s.task
  FROM dbq_step s
 WHERE s.task IN ({rows})
   AND EXISTS (
     SELECT 1
       FROM dbq_need n
       JOIN dbq_task c ON c.id = n.child
      WHERE n.parent = s.task
        AND c.state <> 2 /* COMPLETED */
        AND c.state <> 4 /* POISON */);

-- ==== DropWorkflowNeeds ====
-- Removes the dependencies on tasks that are removed. Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
DELETE FROM dbq_need
 WHERE parent IN ({rows});

-- ==== DropWorkflowTasks ====
-- Removes tasks from their workflows. Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
DELETE FROM dbq_step
 WHERE task IN ({rows});

-- ==== WorkflowParents ====
-- Reads the tasks that a task needs, with their results. Indexes: need_child, the primary key of step, and the
-- primary key of task.
SELECT s.task, s.workflow, s.name, s.queue, s.needs, s.dependents, s.run_at, s.delay, {now} AS now,
       t.state, t.due, t.cancelled,
       t.result
  FROM dbq_need n
  JOIN dbq_step s ON s.task = n.parent
  LEFT JOIN dbq_task t ON t.id = n.parent
 WHERE n.child = :child
   AND n.parent > :after
 ORDER BY n.parent
 LIMIT :limit;

-- ==== WorkflowStep ====
-- Reads a task of a workflow by the name of its step, for a signal. Indexes: step_workflow, and the primary
SELECT s.task, s.workflow, s.name, s.queue, s.needs, s.dependents, s.run_at, s.delay, {now} AS now,
       t.state, t.due, t.cancelled
  FROM dbq_step s
  LEFT JOIN dbq_task t ON t.id = s.task
 WHERE s.workflow = :workflow
   AND s.name = :name;

-- ==== WorkflowList ====
-- Reads the tasks of a workflow, for operators. Indexes: step_workflow, and the primary key of task.
SELECT s.task, s.workflow, s.name, s.queue, s.needs, s.dependents, s.run_at, s.delay, {now} AS now,
       t.state, t.due, t.cancelled
  FROM dbq_step s
  LEFT JOIN dbq_task t ON t.id = s.task
 WHERE s.workflow = :workflow
   AND s.task > :after
 ORDER BY s.task
 LIMIT :limit;

-- ==== Workflows ====
-- Finds the next workflow by its id, the newest first, for operators. Index: step_workflow.
SELECT workflow
  FROM dbq_step
 WHERE workflow < :before
 ORDER BY workflow DESC
 LIMIT :limit;

-- ==== OfWorkflow ====
-- A condition, not a statement: the task belongs to a workflow. Index: step_workflow.
id IN (SELECT s.task FROM dbq_step s WHERE s.workflow = :workflow);

-- ======== Checking out ========

-- ==== due ====
-- Reports which priorities have a due task, without locks.
-- Runs at each poll, outside of a transaction. Index: task_lane, once for each priority.
-- The search of a priority starts at :since. With 0 it uses equalities alone: on MariaDB, InnoDB would read past
-- delete-marked entries to find the end of a range. fence >= 0 is always true. It makes MySQL read rows: for an index
-- alone it may scan all of an index that seems small.
SELECT d.priority
  FROM (
    SELECT 0 AS priority
      FROM DUAL
     WHERE CASE
             WHEN :since0 = 0 THEN (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = :queue AND lane = 0 /* waiting */ AND priority = 0
                ORDER BY due_at LIMIT 1)
             ELSE (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = :queue AND lane = 0 /* waiting */ AND priority = 0 AND due_at >= :since0 AND fence >= 0
                ORDER BY due_at LIMIT 1)
           END <= {now}
    UNION ALL SELECT 1 AS priority
      FROM DUAL
     WHERE CASE
             WHEN :since1 = 0 THEN (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = :queue AND lane = 0 /* waiting */ AND priority = 1
                ORDER BY due_at LIMIT 1)
             ELSE (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = :queue AND lane = 0 /* waiting */ AND priority = 1 AND due_at >= :since1 AND fence >= 0
                ORDER BY due_at LIMIT 1)
           END <= {now}
    -- and so on for the priorities 2 to 8
    UNION ALL SELECT 9 AS priority
      FROM DUAL
     WHERE CASE
             WHEN :since9 = 0 THEN (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = :queue AND lane = 0 /* waiting */ AND priority = 9
                ORDER BY due_at LIMIT 1)
             ELSE (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = :queue AND lane = 0 /* waiting */ AND priority = 9 AND due_at >= :since9 AND fence >= 0
                ORDER BY due_at LIMIT 1)
           END <= {now}) AS d
 WHERE NOT EXISTS (SELECT 1 FROM dbq_kv n WHERE n.namespace IN ('limit', 'pause') AND n.name = :queue);

-- ==== queue lock ====
-- Strategy advisory: waits for the queue's lock, in a separate statement.
-- Runs before the transaction of a checkout, and waits at most 30 seconds. The lock belongs to the session.
-- GET_LOCK returns 0 if it cannot take the lock. The subquery of two rows makes that an error, 1242.
SELECT CASE GET_LOCK(LEFT(SHA2(CONCAT(LOWER(DATABASE()), ' ', :name), 256), 60), 30)
         WHEN 1 THEN 1
         ELSE (SELECT 1 UNION SELECT 2)
       END;

-- ==== queue free ====
-- Strategy advisory: releases the queue's lock.
-- Runs after the transaction of a checkout.
DO RELEASE_LOCK(LEFT(SHA2(CONCAT(LOWER(DATABASE()), ' ', :name), 256), 60));

-- ==== turn lock ====
-- Strategy skip-locked: a large checkout waits for other checkouts of its queue, for one second at most.
-- Runs before the transaction of a checkout of 100 tasks or more, if a task is due. Without it, such checkouts write
-- to the same few pages of the index and wait for each other's latches. It is an optimization: SKIP LOCKED keeps
-- checkouts apart, so a checkout that gets no turn within a second proceeds.
DO GET_LOCK(LEFT(SHA2(CONCAT(LOWER(DATABASE()), ' ', :name), 256), 60), 1);

-- ==== turn free ====
-- Strategy skip-locked: lets the next large checkout begin.
-- Runs before the commit of such a checkout, so that commits overlap.
DO RELEASE_LOCK(LEFT(SHA2(CONCAT(LOWER(DATABASE()), ' ', :name), 256), 60));

-- ==== ready ====
-- Finds due tasks in order, and locks them.
-- Runs once for each priority that has a due task, while the queue's payloads are small (strategies skip-locked and
-- advisory). Index: task_lane, one ordered range. One search ordered by priority and due time would lock the rows
-- that it passes.
SELECT t.id, t.queue, t.reference, t.kind, t.task_key, t.state, t.priority, t.attempt, t.max_attempts, t.lapses,
       t.cancelled, t.fence, t.due, t.holder, t.created, t.updated, t.headers, t.result,
       t.lease_until, t.progress,
       CASE WHEN t.payload_size > :share THEN NULL ELSE t.payload END AS payload, t.payload_size,
       t.due_at AS was_due, {now} AS now
  FROM dbq_task AS t FORCE INDEX (dbq_task_lane)
 WHERE t.queue = :queue
   AND t.lane = 0 /* waiting */
   AND t.priority = :priority
   AND t.due_at >= :since
   AND t.due_at <= {now}
 ORDER BY t.due_at, t.id
 LIMIT :limit
   FOR UPDATE SKIP LOCKED;

-- ==== ready sizes ====
-- Like "ready", for a queue that may have large payloads: locks the tasks without reading payloads.
-- Runs instead of "ready" while the queue's payloads are large. Index: task_lane, one ordered range. The server reads
-- every column that a statement names, even one that CASE leaves out, so the payload is not named.
SELECT t.id, t.queue, t.reference, t.kind, t.task_key, t.state, t.priority, t.attempt, t.max_attempts, t.lapses,
       t.cancelled, t.fence, t.due, t.holder, t.created, t.updated, t.headers, t.result,
       t.lease_until, t.progress,
       t.payload_size, t.due_at AS was_due, {now} AS now
  FROM dbq_task AS t FORCE INDEX (dbq_task_lane)
 WHERE t.queue = :queue
   AND t.lane = 0 /* waiting */
   AND t.priority = :priority
   AND t.due_at >= :since
   AND t.due_at <= {now}
 ORDER BY t.due_at, t.id
 LIMIT :limit
   FOR UPDATE SKIP LOCKED;

-- ==== see ready ====
-- Reads candidates in order, without locks.
-- Runs instead of "ready" (strategy cas). Index: task_lane, one ordered range. "lock ready" follows.
SELECT t.id, t.fence, t.payload_size, t.due_at AS was_due
  FROM dbq_task AS t FORCE INDEX (dbq_task_lane)
 WHERE t.queue = :queue
   AND t.lane = 0 /* waiting */
   AND t.priority = :priority
   AND t.due_at >= :since
   AND t.due_at <= {now}
 ORDER BY t.due_at, t.id
 LIMIT :limit;

-- ==== lock ready ====
-- Locks the candidates that no other transaction has locked and whose fence is unchanged.
-- Runs after "see ready". Index: the primary key. It reads the candidates again, under lock, and leaves out those
-- that are no longer due.
-- {rows} is a list of at most 500 of these, separated by " UNION ALL ":
--   SELECT CAST(:id AS BINARY(16)) AS id, :fence AS fence
SELECT t.id, t.queue, t.reference, t.kind, t.task_key, t.state, t.priority, t.attempt, t.max_attempts, t.lapses,
       t.cancelled, t.fence, t.due, t.holder, t.created, t.updated, t.headers, t.result,
       t.lease_until, t.progress,
       t.payload, t.due_at AS was_due, {now} AS now
  FROM ({rows}) AS d
       STRAIGHT_JOIN dbq_task AS t FORCE INDEX (PRIMARY)
       ON t.id = d.id AND t.fence = d.fence AND t.lane = 0 /* waiting */ AND t.due_at <= {now}
   FOR UPDATE SKIP LOCKED;

-- ==== try lock ready ====
-- Like "lock ready" on a server without SKIP LOCKED: fails if a candidate is locked.
-- Runs for all candidates and, if one is locked, for each of them. Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by " UNION ALL ":
--   SELECT CAST(:id AS BINARY(16)) AS id, :fence AS fence
SELECT t.id, t.queue, t.reference, t.kind, t.task_key, t.state, t.priority, t.attempt, t.max_attempts, t.lapses,
       t.cancelled, t.fence, t.due, t.holder, t.created, t.updated, t.headers, t.result,
       t.lease_until, t.progress,
       t.payload, t.due_at AS was_due, {now} AS now
  FROM ({rows}) AS d
       STRAIGHT_JOIN dbq_task AS t FORCE INDEX (PRIMARY)
       ON t.id = d.id AND t.fence = d.fence AND t.lane = 0 /* waiting */ AND t.due_at <= {now}
   FOR UPDATE NOWAIT;

-- ==== payloads ====
-- Reads the large payloads of the tasks that fit.
-- Runs if tasks of a checkout have large payloads. Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
SELECT id, payload
  FROM dbq_task FORCE INDEX (PRIMARY)
 WHERE id IN ({rows});

-- ==== take ====
-- Leases the tasks found.
-- Runs for locked tasks that were due. Index: the primary key.
-- The holder's name is padded with spaces to 64 bytes, so that the row keeps its size.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
UPDATE dbq_task FORCE INDEX (PRIMARY)
   SET state = 1 /* PROCESSING */,
       due_at = :now - 4611686018427387904,
       attempt = attempt + 1,
       fence = fence + 1,
       lease_end = :now + :lease,
       taken_by = CONCAT(:holder, SPACE(64 - LENGTH(:holder))),
       known_started = :known_started,
       taken_at = :now,
       updated = :now
 WHERE id IN ({rows});

-- ==== see expired ====
-- Reads candidates whose lease expired, without locks.
-- Runs at polls that found nothing due, and at intervals otherwise. Index: task_lane, from the oldest lease on. "lock
-- expired" follows.
SELECT t.id, t.fence, t.priority, t.payload_size,
       COALESCE(
         (SELECT l.lease_until FROM dbq_lease AS l FORCE INDEX (PRIMARY)
           WHERE l.id = t.id AND l.fence = t.fence),
         t.lease_end) AS was_until
  FROM dbq_task AS t FORCE INDEX (dbq_task_lane)
 WHERE t.queue = :queue
   AND t.lane = 9 /* PROCESSING */
   AND t.priority IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
   AND t.due_at >= :oldest - 4611686018427387904
   AND COALESCE(
         (SELECT l.lease_until FROM dbq_lease AS l FORCE INDEX (PRIMARY)
           WHERE l.id = t.id AND l.fence = t.fence),
         t.lease_end) <= {now}
   AND t.holder <> :holder
   AND NOT EXISTS (SELECT 1 FROM dbq_kv n WHERE n.namespace IN ('limit', 'pause') AND n.name = :queue)
 LIMIT :limit;

-- ==== lock expired ====
-- Locks the candidates that no other transaction has locked and whose fence is unchanged.
-- Runs after "see expired". Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by " UNION ALL ":
--   SELECT CAST(:id AS BINARY(16)) AS id, :fence AS fence
SELECT t.id, t.queue, t.reference, t.kind, t.task_key, t.state, t.priority, t.attempt, t.max_attempts, t.lapses,
       t.cancelled, t.fence, t.due, t.holder, t.created, t.updated, t.headers, t.result,
       t.lease_until, t.progress,
       t.payload, t.known_started, {now} AS now
  FROM ({rows}) AS d
       STRAIGHT_JOIN dbq_task AS t FORCE INDEX (PRIMARY)
       ON t.id = d.id AND t.fence = d.fence AND t.state = 1 /* PROCESSING */
   FOR UPDATE SKIP LOCKED;

-- ==== try lock expired ====
-- Like "lock expired" on a server without SKIP LOCKED: fails if a candidate is locked.
-- Runs for all candidates and, if one is locked, for each of them. Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by " UNION ALL ":
--   SELECT CAST(:id AS BINARY(16)) AS id, :fence AS fence
SELECT t.id, t.queue, t.reference, t.kind, t.task_key, t.state, t.priority, t.attempt, t.max_attempts, t.lapses,
       t.cancelled, t.fence, t.due, t.holder, t.created, t.updated, t.headers, t.result,
       t.lease_until, t.progress,
       t.payload, t.known_started, {now} AS now
  FROM ({rows}) AS d
       STRAIGHT_JOIN dbq_task AS t FORCE INDEX (PRIMARY)
       ON t.id = d.id AND t.fence = d.fence AND t.state = 1 /* PROCESSING */
   FOR UPDATE NOWAIT;

-- ==== claim ====
-- Prevents renewals of tasks that are being taken over.
-- Runs for locked tasks that are to be taken over. Index: the primary key of lease. A renewal and a takeover write
-- the same row, so one of them sees the other, even on different nodes of a cluster. The takeover writes the next
-- fence if no renewal under the task's fence is valid. A renewal gives up if it finds a higher fence.
-- {rows} is a list of at most 500 of these, separated by " UNION ALL ":
--   SELECT CAST(:id AS BINARY(16)) AS id, :fence AS fence
INSERT INTO dbq_lease (id, fence, lease_until, keep_until)
SELECT d.id, d.fence + 1, :now + :lease, :now + :lease
  FROM ({rows}) AS d
    ON DUPLICATE KEY UPDATE
       progress = CASE WHEN dbq_lease.fence >= d.fence THEN dbq_lease.progress END,
       fence = IF(dbq_lease.fence < d.fence OR dbq_lease.lease_until <= :now, d.fence + 1, dbq_lease.fence),
       lease_until = IF(
         dbq_lease.fence < d.fence OR dbq_lease.lease_until <= :now OR dbq_lease.fence = d.fence + 1,
         :now + :lease, dbq_lease.lease_until),
       keep_until = IF(
         dbq_lease.fence < d.fence OR dbq_lease.lease_until <= :now OR dbq_lease.fence = d.fence + 1,
         :now + :lease, dbq_lease.keep_until);

-- ==== claimed ====
-- Reads which tasks can be taken over, because they were not renewed first.
-- Runs after claim. Index: the primary key of lease.
-- {rows} is a list of at most 500 of these, separated by " UNION ALL ":
--   SELECT CAST(:id AS BINARY(16)) AS id, :fence AS fence
SELECT l.id, l.progress
  FROM ({rows}) AS d
       STRAIGHT_JOIN dbq_lease AS l FORCE INDEX (PRIMARY)
       ON l.id = d.id AND l.fence = d.fence + 1;

-- ==== take over ====
-- Leases again the tasks whose lease expired.
-- Runs for locked tasks whose lease expired and that have attempts left. Index: the primary key. The server assigns
-- from left to right, so each column is set after those that are computed from it. An attempt counts if it is known
-- to have started. Otherwise its end is a lapse, and every 100th lapse in a row counts as an attempt (lapses >= 99).
-- The holder's name is padded with spaces to 64 bytes, so that the row keeps its size.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
UPDATE dbq_task FORCE INDEX (PRIMARY)
   SET due_at = :now - 4611686018427387904,
       attempt = attempt + CASE WHEN (known_started = 1 OR lapses >= 99) THEN 1 ELSE 0 END,
       lapses = CASE WHEN known_started = 1 THEN lapses WHEN lapses >= 99 THEN 0 ELSE lapses + 1 END,
       known_started = :known_started,
       fence = fence + 1,
       lease_end = :now + :lease,
       taken_by = CONCAT(:holder, SPACE(64 - LENGTH(:holder))),
       taken_at = :now,
       updated = :now
 WHERE id IN ({rows});

-- ==== poison ====
-- Moves tasks to POISON whose last lease expired and whose attempts are exhausted.
-- Runs for locked tasks whose lease expired and whose attempts are exhausted. Index: the primary key.
-- The result of a task whose attempts are exhausted names its last holder and the checkout that found it.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
UPDATE dbq_task FORCE INDEX (PRIMARY)
   SET state = 4 /* POISON */,
       due_at = -1,
       fence = fence + 1,
       lease_end = -1,
       taken_at = -1,
       updated = :now,
       result = CONCAT('the lease of the last attempt expired, held by ', holder, ', found by ', :holder)
 WHERE id IN ({rows});

-- ==== oldest ====
-- Reports when the oldest task in PROCESSING was taken. Searches for expired leases begin there.
-- Runs at intervals before "see expired". Index: task_lane, once for each priority. It reads updated, which is not in
-- the index: for an index alone MySQL may scan all of an index that seems small.
SELECT LEAST({now} - :late, COALESCE(min(x.taken), {now})) AS updated
  FROM (
    (SELECT updated AS taken FROM dbq_task FORCE INDEX (dbq_task_lane)
      WHERE queue = :queue AND lane = 9 /* PROCESSING */ AND priority = 0 AND due_at >= :oldest - 4611686018427387904
      ORDER BY due_at LIMIT 1)
    UNION ALL (SELECT updated AS taken FROM dbq_task FORCE INDEX (dbq_task_lane)
      WHERE queue = :queue AND lane = 9 /* PROCESSING */ AND priority = 1 AND due_at >= :oldest - 4611686018427387904
      ORDER BY due_at LIMIT 1)
    -- and so on for the priorities 2 to 8
    UNION ALL (SELECT updated AS taken FROM dbq_task FORCE INDEX (dbq_task_lane)
      WHERE queue = :queue AND lane = 9 /* PROCESSING */ AND priority = 9 AND due_at >= :oldest - 4611686018427387904
      ORDER BY due_at LIMIT 1)) AS x;

-- ======== Leases ========

-- ==== Start ====
-- Marks attempts as started. An attempt that is not marked does not count if its lease expires.
-- Runs before a handler, if the checkout has not marked the attempt. Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by " UNION ALL ":
--   SELECT CAST(:id AS BINARY(16)) AS id, :fence AS fence
UPDATE ({rows}) AS d
       STRAIGHT_JOIN dbq_task AS t FORCE INDEX (PRIMARY)
       ON t.id = d.id AND t.fence = d.fence
   SET t.known_started = 1
 WHERE t.state = 1 /* PROCESSING */;

-- ==== known_started ====
-- Reads which attempts Start has marked.
-- Runs after Start. Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by " UNION ALL ":
--   SELECT CAST(:id AS BINARY(16)) AS id, :fence AS fence
SELECT t.id, t.fence
  FROM ({rows}) AS d
       STRAIGHT_JOIN dbq_task AS t FORCE INDEX (PRIMARY)
       ON t.id = d.id AND t.fence = d.fence AND t.state = 1 /* PROCESSING */ AND t.known_started = 1;

-- ==== Extend ====
-- Renews leases.
-- Runs at each heartbeat of a worker, for all of its leases. A renewal is a row of its own, so that a heartbeat neither
-- writes nor locks a task. Indexes: the primary keys of task and lease. The fence is assigned last: the server assigns
-- from left to right. A null :progress keeps the stored progress.
-- {rows} is a list of at most 500 of these, separated by " UNION ALL ":
--   SELECT CAST(:id AS BINARY(16)) AS id, :fence AS fence, CAST(:progress AS BINARY) AS progress
INSERT INTO dbq_lease (id, fence, lease_until, keep_until, progress)
SELECT t.id, t.fence, {now} + :lease, GREATEST(t.lease_end, {now} + :lease), d.progress
  FROM ({rows}) AS d
       STRAIGHT_JOIN dbq_task AS t FORCE INDEX (PRIMARY)
       ON t.id = d.id AND t.fence = d.fence AND t.state = 1 /* PROCESSING */
    ON DUPLICATE KEY UPDATE
       progress = CASE
         WHEN dbq_lease.fence < t.fence THEN d.progress
         WHEN dbq_lease.fence = t.fence THEN COALESCE(d.progress, dbq_lease.progress)
         ELSE dbq_lease.progress
       END,
       lease_until = IF(dbq_lease.fence <= t.fence, {now} + :lease, dbq_lease.lease_until),
       keep_until = IF(dbq_lease.fence <= t.fence, GREATEST(t.lease_end, {now} + :lease), dbq_lease.keep_until),
       fence = GREATEST(dbq_lease.fence, t.fence);

-- ==== extended ====
-- Reads which leases Extend has renewed.
-- Runs after Extend. Indexes: the primary keys of task and lease.
-- {rows} is a list of at most 500 of these, separated by " UNION ALL ":
--   SELECT CAST(:id AS BINARY(16)) AS id, :fence AS fence
SELECT t.id, t.fence
  FROM ({rows}) AS d
       STRAIGHT_JOIN dbq_task AS t FORCE INDEX (PRIMARY)
       ON t.id = d.id AND t.fence = d.fence AND t.state = 1 /* PROCESSING */
       STRAIGHT_JOIN dbq_lease AS l FORCE INDEX (PRIMARY)
       ON l.id = t.id AND l.fence = t.fence;

-- ==== DropLeases ====
-- Removes the renewals of leases that were settled.
-- Runs after settlements of tasks whose leases were renewed. Index: the primary key of lease.
-- {rows} is a list of at most 500 of these, separated by " UNION ALL ":
--   SELECT CAST(:id AS BINARY(16)) AS id, :fence AS fence
DELETE l
  FROM ({rows}) AS d
       STRAIGHT_JOIN dbq_lease AS l FORCE INDEX (PRIMARY)
       ON l.id = d.id AND l.fence = d.fence;

-- ==== ExpireLeases ====
-- Removes renewals that ended long ago, in batches.
-- Runs in clients that renew leases or take tasks over, every 10 seconds at most, for renewals that DropLeases has
-- not removed. Index: none for the search, since the table has few rows, one for each long-running task; the primary
-- key for the rows found. SKIP LOCKED keeps it from waiting for heartbeats and takeovers, whose rows a scan would
-- lock. The progress of a task that is still leased stays for the takeover.
DELETE l
  FROM (
    SELECT r.id
      FROM dbq_lease AS r
     WHERE r.keep_until <= {now} - :age
       AND (r.progress IS NULL
            OR NOT EXISTS (
                 SELECT 1
                   FROM dbq_task AS t FORCE INDEX (PRIMARY)
                  WHERE t.id = r.id AND t.fence = r.fence AND t.state = 1 /* PROCESSING */))
     LIMIT :limit
       FOR UPDATE SKIP LOCKED) AS d
  STRAIGHT_JOIN dbq_lease AS l FORCE INDEX (PRIMARY) ON l.id = d.id;

-- ======== Settling ========

-- ==== Settle ====
-- Ends attempts (complete, fail, poison, release) whose fences are unchanged.
-- Runs for each batch of settlements, after "lock settle". Index: the primary key. The server assigns from left to
-- right, and later expressions see the new values: state is set after the values computed from it.
-- A value that may be null in every row is cast, or the server would take it for a floating-point number. Bytes are
-- cast, or they would be text of the connection's character set if the driver prepares statements.
-- {rows} is a list of at most 500 of these, separated by " UNION ALL ":
--   SELECT CAST(:id AS BINARY(16)) AS id, :fence AS fence, :state AS state, CAST(:at AS SIGNED) AS run_at,
--   CAST(:after AS SIGNED) AS run_after, :uncount AS uncount, CAST(:result AS BINARY) AS result
UPDATE ({rows}) AS d
       STRAIGHT_JOIN dbq_task AS t FORCE INDEX (PRIMARY)
       ON t.id = d.id AND t.fence = d.fence AND t.state = 1 /* PROCESSING */
   SET t.due_at = CASE
         WHEN d.state = 3 /* ERROR */ AND t.attempt >= t.max_attempts THEN -1
         ELSE coalesce(d.run_at, {now} + d.run_after, -1)
       END,
       t.state = CASE
         WHEN d.state = 3 /* ERROR */ AND t.attempt >= t.max_attempts AND coalesce(d.run_at, d.run_after) IS NOT NULL
         THEN 4 /* POISON */
         ELSE d.state
       END,
       t.attempt = t.attempt - d.uncount,
       t.lease_end = -1,
       t.updated = {now},
       t.result = CASE WHEN d.state = 0 /* CREATED */ THEN coalesce(d.result, t.result) ELSE d.result END,
       t.progress = CASE WHEN d.state <> 2 /* COMPLETED */ THEN t.progress END;

-- ==== complete uniform ====
-- Settle for tasks under one fence that complete without a result.
-- Runs for tasks of one checkout that complete without a result. Index: the primary key. The server reads a list of
-- ids in half the time of a list of SELECTs.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
UPDATE dbq_task FORCE INDEX (PRIMARY)
   SET state = 2 /* COMPLETED */,
       due_at = -1,
       lease_end = -1,
       updated = {now},
       result = NULL,
       progress = NULL
 WHERE id IN ({rows})
   AND fence = :fence
   AND state = 1 /* PROCESSING */;

-- ==== lock settle ====
-- Locks the rows that Settle will change, and returns them with the states that they will have.
-- Runs before Settle, which cannot return the changed rows. Index: the primary key. It reads the progress that
-- SetProgress keeps, but not in a caller's transaction, which may be SERIALIZABLE: reading a renewal would lock it.
-- MariaDB reads a row that a subquery finds by constants even if a CASE leaves the subquery out, so the conditions are
-- in the subquery.
-- {rows} is a list of at most 500 of these, separated by " UNION ALL ":
--   SELECT CAST(:id AS BINARY(16)) AS id, :fence AS fence, :state AS state, coalesce(:at, :after) AS again
SELECT t.id, t.fence,
       CASE
         WHEN d.state = 3 /* ERROR */ AND t.attempt >= t.max_attempts AND d.again IS NOT NULL THEN 4 /* POISON */
         ELSE d.state
       END AS state,
       (SELECT l.progress FROM dbq_lease AS l FORCE INDEX (PRIMARY)
         WHERE :callers_tx = 0 AND d.state <> 2 /* COMPLETED */ AND l.id = t.id AND l.fence = t.fence) AS progress
  FROM ({rows}) AS d
       STRAIGHT_JOIN dbq_task AS t FORCE INDEX (PRIMARY)
       ON t.id = d.id AND t.fence = d.fence AND t.state = 1 /* PROCESSING */
   FOR UPDATE;

-- ==== Remove ====
-- Ends attempts and removes the tasks (complete and delete), if their fences are unchanged.
-- Runs for tasks that are not kept. Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by " UNION ALL ":
--   SELECT CAST(:id AS BINARY(16)) AS id, :fence AS fence
DELETE t
  FROM ({rows}) AS d
       STRAIGHT_JOIN dbq_task AS t FORCE INDEX (PRIMARY)
       ON t.id = d.id AND t.fence = d.fence AND t.state = 1 /* PROCESSING */;

-- ==== lock remove ====
-- Locks and returns the rows of Remove, after it found fewer rows than requested and was rolled back.
-- Runs if Remove removed fewer tasks than it was given. Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by " UNION ALL ":
--   SELECT CAST(:id AS BINARY(16)) AS id, :fence AS fence
SELECT t.id, t.fence
  FROM ({rows}) AS d
       STRAIGHT_JOIN dbq_task AS t FORCE INDEX (PRIMARY)
       ON t.id = d.id AND t.fence = d.fence AND t.state = 1 /* PROCESSING */
   FOR UPDATE;

-- ==== lock uniform ====
-- Locks and returns the rows of a statement for tasks under one fence, after it found fewer rows than requested and
-- was rolled back.
-- Runs if "complete uniform" changed fewer tasks than it was given. Index: the primary key. It locks in the order of
-- ids, so that no two batches deadlock.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
SELECT id
  FROM dbq_task FORCE INDEX (PRIMARY)
 WHERE id IN ({rows})
   AND fence = :fence
   AND state = 1 /* PROCESSING */
 ORDER BY id
   FOR UPDATE;

-- ==== LockFree ====
-- Locks the tasks of a batch that no other transaction has locked; only these are then settled or leased.
-- Runs if a batch of settlements, or a checkout of a queue with limits per key, met a locked task. Index: the primary
-- key. fence >= 0 is always true. It makes MySQL read rows: for the primary key alone it may scan all of a table that
-- seems small.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
SELECT id
  FROM dbq_task FORCE INDEX (PRIMARY)
 WHERE id IN ({rows})
   AND fence >= 0
 ORDER BY id
   FOR UPDATE SKIP LOCKED;

-- ======== Operators' events ========

-- ==== Movable cancel ====
-- Locks and returns the tasks that Move of the same event will change. A task that is no longer needed goes to
-- POISON, marked as cancelled. If it is running, its handler's context ends.
-- Runs first in the transaction of an operator's event. Index: the primary key. It locks in the order of ids, so that
-- no two calls deadlock.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
SELECT id, queue, task_key, state, attempt, fence, holder, taken, updated, result,
       CASE
         WHEN t.state = 1 /* PROCESSING */
         THEN (SELECT l.progress FROM dbq_lease AS l FORCE INDEX (PRIMARY)
                WHERE l.id = t.id AND l.fence = t.fence)
       END AS progress,
       {now} AS now
  FROM dbq_task AS t FORCE INDEX (PRIMARY)
 WHERE id IN ({rows})
   AND (state = 0 /* CREATED */ OR state = 1 /* PROCESSING */ OR state = 3 /* ERROR */)
 ORDER BY id
   FOR UPDATE;

-- ==== Movable finish ====
-- Locks and returns the tasks that Move of the same event will change. A task is completed without an attempt, with a
-- result that may be given.
-- Runs first in the transaction of an operator's event. Index: the primary key. It locks in the order of ids, so that
-- no two calls deadlock.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
SELECT id, queue, task_key, state, attempt, fence, holder, taken, updated, result,
       CASE
         WHEN t.state = 1 /* PROCESSING */
         THEN (SELECT l.progress FROM dbq_lease AS l FORCE INDEX (PRIMARY)
                WHERE l.id = t.id AND l.fence = t.fence)
       END AS progress,
       {now} AS now
  FROM dbq_task AS t FORCE INDEX (PRIMARY)
 WHERE id IN ({rows})
   AND (state = 0 /* CREATED */ OR state = 3 /* ERROR */ OR state = 4 /* POISON */)
 ORDER BY id
   FOR UPDATE;

-- ==== Movable purge ====
-- Locks and returns the tasks that Move of the same event will change. An ended or parked task is removed.
-- Runs before Purge, which cannot return the removed rows. Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
SELECT id, queue, task_key, state
  FROM dbq_task AS t FORCE INDEX (PRIMARY)
 WHERE id IN ({rows})
   AND (state = 2 /* COMPLETED */ OR state = 4 /* POISON */ OR (state = 3 /* ERROR */ AND due IS NULL))
 ORDER BY id
   FOR UPDATE;

-- ==== Movable quarantine ====
-- Locks and returns the tasks that Move of the same event will change. A failed task will not be retried.
-- Runs first in the transaction of an operator's event. Index: the primary key. It locks in the order of ids, so that
-- no two calls deadlock.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
SELECT id, queue, task_key, state, attempt, fence, holder, taken, updated, result,
       CASE
         WHEN t.state = 1 /* PROCESSING */
         THEN (SELECT l.progress FROM dbq_lease AS l FORCE INDEX (PRIMARY)
                WHERE l.id = t.id AND l.fence = t.fence)
       END AS progress,
       {now} AS now
  FROM dbq_task AS t FORCE INDEX (PRIMARY)
 WHERE id IN ({rows})
   AND (state = 3 /* ERROR */)
 ORDER BY id
   FOR UPDATE;

-- ==== Movable reenqueue ====
-- Locks and returns the tasks that Move of the same event will change. A failed task becomes due again, and its
-- attempts start over.
-- Runs first in the transaction of an operator's event. Index: the primary key. It locks in the order of ids, so that
-- no two calls deadlock.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
SELECT id, queue, task_key, state, attempt, fence, holder, taken, updated, result,
       CASE
         WHEN t.state = 1 /* PROCESSING */
         THEN (SELECT l.progress FROM dbq_lease AS l FORCE INDEX (PRIMARY)
                WHERE l.id = t.id AND l.fence = t.fence)
       END AS progress,
       {now} AS now
  FROM dbq_task AS t FORCE INDEX (PRIMARY)
 WHERE id IN ({rows})
   AND (state = 3 /* ERROR */ OR state = 4 /* POISON */)
 ORDER BY id
   FOR UPDATE;

-- ==== Movable reject ====
-- Locks and returns the tasks that Move of the same event will change. A task is parked before it runs.
-- Runs first in the transaction of an operator's event. Index: the primary key. It locks in the order of ids, so that
-- no two calls deadlock.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
SELECT id, queue, task_key, state, attempt, fence, holder, taken, updated, result,
       CASE
         WHEN t.state = 1 /* PROCESSING */
         THEN (SELECT l.progress FROM dbq_lease AS l FORCE INDEX (PRIMARY)
                WHERE l.id = t.id AND l.fence = t.fence)
       END AS progress,
       {now} AS now
  FROM dbq_task AS t FORCE INDEX (PRIMARY)
 WHERE id IN ({rows})
   AND (state = 0 /* CREATED */)
 ORDER BY id
   FOR UPDATE;

-- ==== Movable restore ====
-- Locks and returns the tasks that Move of the same event will change. A poisoned task is parked for inspection.
-- Runs first in the transaction of an operator's event. Index: the primary key. It locks in the order of ids, so that
-- no two calls deadlock.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
SELECT id, queue, task_key, state, attempt, fence, holder, taken, updated, result,
       CASE
         WHEN t.state = 1 /* PROCESSING */
         THEN (SELECT l.progress FROM dbq_lease AS l FORCE INDEX (PRIMARY)
                WHERE l.id = t.id AND l.fence = t.fence)
       END AS progress,
       {now} AS now
  FROM dbq_task AS t FORCE INDEX (PRIMARY)
 WHERE id IN ({rows})
   AND (state = 4 /* POISON */)
 ORDER BY id
   FOR UPDATE;

-- ==== Movable revoke ====
-- Locks and returns the tasks that Move of the same event will change. The lease is taken away, the handler's context
-- ends, and the task is parked.
-- Runs first in the transaction of an operator's event. Index: the primary key. It locks in the order of ids, so that
-- no two calls deadlock.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
SELECT id, queue, task_key, state, attempt, fence, holder, taken, updated, result,
       CASE
         WHEN t.state = 1 /* PROCESSING */
         THEN (SELECT l.progress FROM dbq_lease AS l FORCE INDEX (PRIMARY)
                WHERE l.id = t.id AND l.fence = t.fence)
       END AS progress,
       {now} AS now
  FROM dbq_task AS t FORCE INDEX (PRIMARY)
 WHERE id IN ({rows})
   AND (state = 1 /* PROCESSING */)
 ORDER BY id
   FOR UPDATE;

-- ==== Move cancel ====
-- Applies an operator's event. A task that is no longer needed goes to POISON, marked as cancelled. If it is running,
-- its handler's context ends.
-- Runs after Movable. Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
UPDATE dbq_task FORCE INDEX (PRIMARY)
   SET fence = fence + CASE WHEN (state = 1 /* PROCESSING */) THEN 1 ELSE 0 END,
       state = 4 /* POISON */,
       due_at = -1,
       cancelled = 1,
       lease_end = -1,
       taken_at = -1,
       updated = {now}
 WHERE id IN ({rows})
   AND (state = 0 /* CREATED */ OR state = 1 /* PROCESSING */ OR state = 3 /* ERROR */);

-- ==== Move finish ====
-- Applies an operator's event. A task is completed without an attempt, with a result that may be given.
-- Runs after Movable. Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
UPDATE dbq_task FORCE INDEX (PRIMARY)
   SET state = 2 /* COMPLETED */,
       due_at = -1,
       cancelled = 0,
       progress = NULL,
       lease_end = -1,
       taken_at = -1,
       updated = {now}
 WHERE id IN ({rows})
   AND (state = 0 /* CREATED */ OR state = 3 /* ERROR */ OR state = 4 /* POISON */);

-- ==== Move purge ====
-- Applies an operator's event. An ended or parked task is removed.
-- Runs after Purgeable. Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
DELETE t
  FROM dbq_task AS t FORCE INDEX (PRIMARY)
 WHERE id IN ({rows})
   AND (state = 2 /* COMPLETED */ OR state = 4 /* POISON */ OR (state = 3 /* ERROR */ AND due IS NULL));

-- ==== Move quarantine ====
-- Applies an operator's event. A failed task will not be retried.
-- Runs after Movable. Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
UPDATE dbq_task FORCE INDEX (PRIMARY)
   SET state = 4 /* POISON */,
       due_at = -1,
       cancelled = 0,
       lease_end = -1,
       taken_at = -1,
       updated = {now}
 WHERE id IN ({rows})
   AND (state = 3 /* ERROR */);

-- ==== Move reenqueue ====
-- Applies an operator's event. A failed task becomes due again, and its attempts start over.
-- Runs after Movable. Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
UPDATE dbq_task FORCE INDEX (PRIMARY)
   SET state = 0 /* CREATED */,
       due_at = {now},
       cancelled = 0,
       attempt = 0,
       lapses = 0,
       lease_end = -1,
       taken_at = -1,
       updated = {now}
 WHERE id IN ({rows})
   AND (state = 3 /* ERROR */ OR state = 4 /* POISON */);

-- ==== Move reject ====
-- Applies an operator's event. A task is parked before it runs.
-- Runs after Movable. Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
UPDATE dbq_task FORCE INDEX (PRIMARY)
   SET state = 3 /* ERROR */,
       due_at = -1,
       cancelled = 0,
       lease_end = -1,
       taken_at = -1,
       updated = {now}
 WHERE id IN ({rows})
   AND (state = 0 /* CREATED */);

-- ==== Move restore ====
-- Applies an operator's event. A poisoned task is parked for inspection.
-- Runs after Movable. Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
UPDATE dbq_task FORCE INDEX (PRIMARY)
   SET state = 3 /* ERROR */,
       due_at = -1,
       cancelled = 0,
       lease_end = -1,
       taken_at = -1,
       updated = {now}
 WHERE id IN ({rows})
   AND (state = 4 /* POISON */);

-- ==== Move revoke ====
-- Applies an operator's event. The lease is taken away, the handler's context ends, and the task is parked.
-- Runs after Movable. Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
UPDATE dbq_task FORCE INDEX (PRIMARY)
   SET fence = fence + 1,
       state = 3 /* ERROR */,
       due_at = -1,
       cancelled = 0,
       lease_end = -1,
       taken_at = -1,
       updated = {now}
 WHERE id IN ({rows})
   AND (state = 1 /* PROCESSING */);

-- ==== SetResult ====
-- Stores an operator's reason.
-- Runs after Move in the same transaction, if the operator gives a reason. Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by " UNION ALL ":
--   SELECT CAST(:id AS BINARY(16)) AS id, CAST(:result AS BINARY) AS result
UPDATE ({rows}) AS d
       STRAIGHT_JOIN dbq_task AS t FORCE INDEX (PRIMARY)
       ON t.id = d.id
   SET t.result = d.result;

-- ==== SetProgress ====
-- Stores the progress of ended attempts in the tasks' rows, for the next attempts.
-- Runs after Settle, Move or a takeover in the same transaction, for tasks whose holders have reported progress. Index:
-- the primary key.
-- {rows} is a list of at most 500 of these, separated by " UNION ALL ":
--   SELECT CAST(:id AS BINARY(16)) AS id, CAST(:progress AS BINARY) AS progress
UPDATE ({rows}) AS d
       STRAIGHT_JOIN dbq_task AS t FORCE INDEX (PRIMARY)
       ON t.id = d.id
   SET t.progress = d.progress;

-- ======== Reading and counting ========

-- ==== Get ====
-- Reads a task. Index: the primary key of task.
SELECT t.id, t.queue, t.reference, t.kind, t.task_key, t.state, t.priority, t.attempt, t.max_attempts, t.lapses,
       t.cancelled, t.fence, t.due, t.holder, t.created, t.updated, t.headers, t.result,
       CASE
         WHEN t.state = 1 /* PROCESSING */
         THEN COALESCE(
                (SELECT l.lease_until FROM dbq_lease AS l FORCE INDEX (PRIMARY)
                  WHERE l.id = t.id AND l.fence = t.fence),
                t.lease_end)
       END AS lease_until,
       CASE
         WHEN t.state = 1 /* PROCESSING */
         THEN COALESCE((SELECT l.progress FROM dbq_lease AS l FORCE INDEX (PRIMARY)
                         WHERE l.id = t.id AND l.fence = t.fence), t.progress)
         ELSE t.progress
       END AS progress,
       t.payload, {now} AS now
  FROM dbq_task t
 WHERE t.id = :id;

-- ==== Poisoned ====
-- Reads tasks that went to POISON, for their dead-letter notices. Index: the primary key of task.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
SELECT t.id, t.queue, t.reference, t.kind, t.task_key, t.state, t.priority, t.attempt, t.max_attempts, t.lapses,
       t.cancelled, t.fence, t.due, t.holder, t.created, t.updated, t.headers, t.result,
       CASE
         WHEN t.state = 1 /* PROCESSING */
         THEN COALESCE(
                (SELECT l.lease_until FROM dbq_lease AS l FORCE INDEX (PRIMARY)
                  WHERE l.id = t.id AND l.fence = t.fence),
                t.lease_end)
       END AS lease_until,
       CASE
         WHEN t.state = 1 /* PROCESSING */
         THEN COALESCE((SELECT l.progress FROM dbq_lease AS l FORCE INDEX (PRIMARY)
                         WHERE l.id = t.id AND l.fence = t.fence), t.progress)
         ELSE t.progress
       END AS progress,
       {now} AS now
  FROM dbq_task t
 WHERE t.id IN ({rows});

-- ==== FindReference ====
-- Finds a task by its reference. Index: the unique index of references.
SELECT id
  FROM dbq_task
 WHERE reference = :reference AND queue = :queue;

-- ==== List ====
-- Lists tasks without their payloads. {where} consists of comparisons of columns; {order} is empty or DESC. Index:
-- the primary key of task, or one that fits the filter.
SELECT t.id, t.queue, t.reference, t.kind, t.task_key, t.state, t.priority, t.attempt, t.max_attempts, t.lapses,
       t.cancelled, t.fence, t.due, t.holder, t.created, t.updated, t.headers, t.result,
       CASE
         WHEN t.state = 1 /* PROCESSING */
         THEN COALESCE(
                (SELECT l.lease_until FROM dbq_lease AS l FORCE INDEX (PRIMARY)
                  WHERE l.id = t.id AND l.fence = t.fence),
                t.lease_end)
       END AS lease_until,
       CASE
         WHEN t.state = 1 /* PROCESSING */
         THEN COALESCE((SELECT l.progress FROM dbq_lease AS l FORCE INDEX (PRIMARY)
                         WHERE l.id = t.id AND l.fence = t.fence), t.progress)
         ELSE t.progress
       END AS progress,
       {now} AS now
  FROM dbq_task t
 WHERE {where}
 ORDER BY t.id{order}
 LIMIT :limit;

-- ==== FindIDs ====
-- Finds the tasks that an operator's bulk call changes, or retention removes. Index: as for List.
SELECT t.id
  FROM dbq_task t
 WHERE {where}
 ORDER BY t.id
 LIMIT :limit;

-- ==== Indexes COMPLETED ====
-- Not a statement: how an index leads to the tasks of a queue in the state, as {hint}, {where} and {order}.
FORCE INDEX (dbq_task_lane)
queue = :queue AND lane = 2 AND due_at = -1 ORDER BY priority, due_at, id;

-- ==== Indexes CREATED ====
-- Not a statement: how an index leads to the tasks of a queue in the state, as {hint}, {where} and {order}.
FORCE INDEX (dbq_task_lane)
queue = :queue AND lane = 0 ORDER BY priority, due_at;

-- ==== Indexes ERROR ====
-- Not a statement: how an index leads to the tasks of a queue in the state, as {hint}, {where} and {order}.
FORCE INDEX (dbq_task_lane)
queue = :queue AND lane IN (0, 3) ORDER BY lane, priority, due_at;

-- ==== Indexes POISON ====
-- Not a statement: how an index leads to the tasks of a queue in the state, as {hint}, {where} and {order}.
-- Added to filters for the state alone: lane = 4 /* POISON */
FORCE INDEX (dbq_task_lane)
queue = :queue AND lane = 4 AND due_at = -1 ORDER BY priority, due_at, id;

-- ==== Indexes PROCESSING ====
-- Not a statement: how an index leads to the tasks of a queue in the state, as {hint}, {where} and {order}.
-- Added to filters for the state alone: lane = 9 /* PROCESSING */
FORCE INDEX (dbq_task_lane)
queue = :queue AND lane = 9 ORDER BY priority, due_at;

-- ==== ListSome ====
-- Lists tasks of a queue by one of Indexes, for the page of a queue's keys.
SELECT t.id, t.queue, t.reference, t.kind, t.task_key, t.state, t.priority, t.attempt, t.max_attempts, t.lapses,
       t.cancelled, t.fence, t.due, t.holder, t.created, t.updated, t.headers, t.result,
       CASE
         WHEN t.state = 1 /* PROCESSING */
         THEN COALESCE(
                (SELECT l.lease_until FROM dbq_lease AS l FORCE INDEX (PRIMARY)
                  WHERE l.id = t.id AND l.fence = t.fence),
                t.lease_end)
       END AS lease_until,
       CASE
         WHEN t.state = 1 /* PROCESSING */
         THEN COALESCE((SELECT l.progress FROM dbq_lease AS l FORCE INDEX (PRIMARY)
                         WHERE l.id = t.id AND l.fence = t.fence), t.progress)
         ELSE t.progress
       END AS progress,
       {now} AS now
  FROM dbq_task t{hint}
 WHERE {where}{order}
 LIMIT :limit;

-- ==== SomeIDs ====
-- Finds the ids of a queue's tasks by one of Indexes, for a page of a list; not more than it can sort.
SELECT id
  FROM dbq_task t{hint}
 WHERE {where}{order}
 LIMIT :limit;

-- ==== MatchSome ====
-- Counts the tasks that a filter selects among some of a queue, by one of Indexes, before a bulk action.
SELECT count(*) AS looked, count(CASE WHEN {matches} THEN 1 END) AS matching
  FROM (
    SELECT id, queue, kind, task_key, state, due, cancelled, updated, holder
      FROM dbq_task t{hint}
     WHERE {where}{order}
    LIMIT :limit) t;

-- ==== Next ====
-- Reports when the next task of a queue is due. Idle workers sleep until then.
-- Runs when a worker is idle. Index: task_lane, once for each priority, and from the oldest lease on.
-- The search of a priority starts at :since. With 0 it uses equalities alone: on MariaDB, InnoDB would read past
-- delete-marked entries to find the end of a range. fence >= 0 is always true. It makes MySQL read rows: for an index
-- alone it may scan all of an index that seems small.
SELECT min(x.due) AS due, {now} AS now
  FROM (
    SELECT CASE
             WHEN :since0 = 0 THEN (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = :queue AND lane = 0 /* waiting */ AND priority = 0
                ORDER BY due_at LIMIT 1)
             ELSE (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = :queue AND lane = 0 /* waiting */ AND priority = 0 AND due_at >= :since0 AND fence >= 0
                ORDER BY due_at LIMIT 1)
           END AS due
    UNION ALL SELECT CASE
             WHEN :since1 = 0 THEN (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = :queue AND lane = 0 /* waiting */ AND priority = 1
                ORDER BY due_at LIMIT 1)
             ELSE (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = :queue AND lane = 0 /* waiting */ AND priority = 1 AND due_at >= :since1 AND fence >= 0
                ORDER BY due_at LIMIT 1)
           END AS due
    -- and so on for the priorities 2 to 8
    UNION ALL SELECT CASE
             WHEN :since9 = 0 THEN (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = :queue AND lane = 0 /* waiting */ AND priority = 9
                ORDER BY due_at LIMIT 1)
             ELSE (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = :queue AND lane = 0 /* waiting */ AND priority = 9 AND due_at >= :since9 AND fence >= 0
                ORDER BY due_at LIMIT 1)
           END AS due
    UNION ALL (
      SELECT min(COALESCE(
                   (SELECT l.lease_until FROM dbq_lease AS l FORCE INDEX (PRIMARY)
                     WHERE l.id = t.id AND l.fence = t.fence),
                   t.lease_end))
        FROM dbq_task AS t FORCE INDEX (dbq_task_lane)
       WHERE t.queue = :queue
         AND t.lane = 9 /* PROCESSING */
         AND t.priority IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
         AND t.due_at >= :oldest - 4611686018427387904)) AS x
 WHERE NOT EXISTS (SELECT 1 FROM dbq_kv n WHERE n.namespace = 'pause' AND n.name = :queue);

-- ==== Count ====
-- Counts all tasks of each queue by state, for exact statistics.
SELECT queue, state, count(*) AS tasks, count(*) - count(due) AS parked,
       count(CASE WHEN due <= {now} THEN 1 END) AS due,
       {now} - min(CASE WHEN due <= {now} THEN due END) AS oldest, sum(cancelled) AS cancelled
  FROM dbq_task
 GROUP BY queue, state;

-- ==== CountUpTo ====
-- Counts the tasks of a queue by state, up to a limit for each.
-- Runs for statistics and metrics, once for each queue. Index: task_lane; each part stops at the limit.
SELECT s.state, CASE s.state WHEN 0 /* CREATED */ THEN w.tasks - w.failed ELSE w.failed END AS tasks, 0 AS parked,
       0 AS due, NULL AS oldest, w.cut, 0 AS cancelled
  FROM (SELECT count(*) AS tasks, count(CASE WHEN state = 3 /* ERROR */ THEN 1 END) AS failed,
               CASE WHEN count(*) >= :limit THEN 1 ELSE 0 END AS cut
          FROM (
            SELECT state FROM dbq_task FORCE INDEX (dbq_task_lane)
             WHERE queue = :queue AND lane = 0 /* waiting */ LIMIT :limit) AS w) AS w
 CROSS JOIN (SELECT 0 /* CREATED */ AS state UNION ALL SELECT 3 /* ERROR */) AS s
UNION ALL
SELECT 0 /* CREATED */, 0, 0, count(*), {now} - min(due_at), 0, 0
  FROM (
    (SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
      WHERE queue = :queue AND lane = 0 /* waiting */ AND priority = 0 AND due_at <= {now}
      ORDER BY due_at LIMIT :limit)
    UNION ALL (SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
      WHERE queue = :queue AND lane = 0 /* waiting */ AND priority = 1 AND due_at <= {now}
      ORDER BY due_at LIMIT :limit)
    -- and so on for the priorities 2 to 8
    UNION ALL (SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
      WHERE queue = :queue AND lane = 0 /* waiting */ AND priority = 9 AND due_at <= {now}
      ORDER BY due_at LIMIT :limit)) AS w
UNION ALL
SELECT 1 /* PROCESSING */, count(*), 0, 0, NULL, CASE WHEN count(*) >= :limit THEN 1 ELSE 0 END, 0
  FROM (
    SELECT 1 FROM dbq_task FORCE INDEX (dbq_task_lane)
     WHERE queue = :queue AND lane = 9 /* PROCESSING */ LIMIT :limit) AS w
UNION ALL
SELECT 2 /* COMPLETED */, count(*), 0, 0, NULL, CASE WHEN count(*) >= :limit THEN 1 ELSE 0 END, 0
  FROM (
    SELECT 1 FROM dbq_task FORCE INDEX (dbq_task_lane)
     WHERE queue = :queue AND lane = 2 /* COMPLETED */ LIMIT :limit) AS w
UNION ALL
SELECT 3 /* ERROR */, count(*), count(*), 0, NULL, CASE WHEN count(*) >= :limit THEN 1 ELSE 0 END, 0
  FROM (
    SELECT 1 FROM dbq_task FORCE INDEX (dbq_task_lane)
     WHERE queue = :queue AND lane = 3 /* ERROR */ LIMIT :limit) AS w
UNION ALL
SELECT 4 /* POISON */, count(*), 0, 0, NULL, CASE WHEN count(*) >= :limit THEN 1 ELSE 0 END, coalesce(sum(cancelled), 0)
  FROM (
    SELECT cancelled FROM dbq_task FORCE INDEX (dbq_task_lane)
     WHERE queue = :queue AND lane = 4 /* POISON */ LIMIT :limit) AS w;

-- ==== NextQueue ====
-- Finds the next queue by name.
-- Runs for statistics, once for each queue. Index: task_lane, one entry.
SELECT queue
  FROM dbq_task FORCE INDEX (dbq_task_lane)
 WHERE queue > :queue
 ORDER BY queue
 LIMIT 1;

-- ==== IDBehind ====
-- Finds the end of the next batch of old tasks, for retention. Index: the primary key of task.
-- Runs for each part of the old tasks that retention passes over. Index: the primary key alone.
SELECT t.id
  FROM dbq_task AS t FORCE INDEX (PRIMARY)
 WHERE t.id > :after
   AND t.id < :before
 ORDER BY t.id
 LIMIT 1 OFFSET :offset;

-- ==== IDBefore ====
-- Finds the end of a page of a list for which there is no index. Index: the primary key of task.
-- Runs for each page of a list that no index leads to. Index: the primary key alone.
SELECT t.id
  FROM dbq_task AS t FORCE INDEX (PRIMARY)
 WHERE t.id < :before
 ORDER BY t.id DESC
 LIMIT 1 OFFSET :offset;

-- ==== Peek ====
-- Reads the states of tasks, to determine whether a call whose connection was lost took effect.
-- Runs after a lost connection. Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
SELECT t.id, t.queue, t.state, t.fence, t.updated
  FROM dbq_task AS t FORCE INDEX (PRIMARY)
 WHERE t.id IN ({rows});

-- ==== Held ====
-- Reads the tasks leased by a checkout whose connection was lost before the answer. Index: the index of leased tasks.
-- Runs after a lost connection. Index: task_lane.
SELECT t.id, t.queue, t.reference, t.kind, t.task_key, t.state, t.priority, t.attempt, t.max_attempts, t.lapses,
       t.cancelled, t.fence, t.due, t.holder, t.created, t.updated, t.headers, t.result,
       CASE
         WHEN t.state = 1 /* PROCESSING */
         THEN COALESCE(
                (SELECT l.lease_until FROM dbq_lease AS l FORCE INDEX (PRIMARY)
                  WHERE l.id = t.id AND l.fence = t.fence),
                t.lease_end)
       END AS lease_until,
       CASE
         WHEN t.state = 1 /* PROCESSING */
         THEN COALESCE((SELECT l.progress FROM dbq_lease AS l FORCE INDEX (PRIMARY)
                         WHERE l.id = t.id AND l.fence = t.fence), t.progress)
         ELSE t.progress
       END AS progress,
       t.payload, {now} AS now
  FROM dbq_task AS t FORCE INDEX (dbq_task_lane)
 WHERE t.queue = :queue
   AND t.lane = 9 /* PROCESSING */
   AND t.holder = :holder;

-- ==== Exhausted ====
-- Reads the tasks moved to POISON by a checkout whose connection was lost before the answer.
-- Runs after a lost connection. Index: task_lane.
-- The result of a task whose attempts are exhausted names its last holder and the checkout that found it.
SELECT t.id, t.queue, t.reference, t.kind, t.task_key, t.state, t.priority, t.attempt, t.max_attempts, t.lapses,
       t.cancelled, t.fence, t.due, t.holder, t.created, t.updated, t.headers, t.result,
       CASE
         WHEN t.state = 1 /* PROCESSING */
         THEN COALESCE(
                (SELECT l.lease_until FROM dbq_lease AS l FORCE INDEX (PRIMARY)
                  WHERE l.id = t.id AND l.fence = t.fence),
                t.lease_end)
       END AS lease_until,
       CASE
         WHEN t.state = 1 /* PROCESSING */
         THEN COALESCE((SELECT l.progress FROM dbq_lease AS l FORCE INDEX (PRIMARY)
                         WHERE l.id = t.id AND l.fence = t.fence), t.progress)
         ELSE t.progress
       END AS progress,
       t.payload, {now} AS now
  FROM dbq_task AS t FORCE INDEX (dbq_task_lane)
 WHERE t.queue = :queue
   AND t.lane = 4 /* POISON */
   AND t.result = CONCAT('the lease of the last attempt expired, held by ', holder, ', found by ', :holder);

-- ======== History, retention and archive ========

-- ==== Record ====
-- Adds attempts to the history.
-- Runs after attempts have ended. Index: the primary key of attempt finds those that exist.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   (:id, :fence, :queue, :attempt, :outcome, :taken, :ended, :worker, :error)
INSERT IGNORE INTO dbq_attempt (task, fence, queue, attempt, outcome, taken, ended, worker, error)
VALUES {rows};

-- ==== RecordLast ====
-- Adds the last attempts of tasks to the history, from the tasks' rows, when another attempt follows or the task is
-- removed.
-- Runs after a Settle of the same transaction, for attempts that others follow, and before tasks are removed. Index:
-- the primary key of task.
-- {rows} is a list of at most 500 of these, separated by " UNION ALL ":
--   SELECT CAST(:id AS BINARY(16)) AS id, CAST(:error AS BINARY) AS error
INSERT IGNORE INTO dbq_attempt (task, fence, queue, attempt, outcome, taken, ended, worker, error)
SELECT t.id, t.fence, t.queue,
       CASE t.state WHEN 0 /* CREATED */ THEN t.attempt + 1
                    ELSE t.attempt END,
       CASE t.state WHEN 0 /* CREATED */ THEN 'released'
                    WHEN 2 /* COMPLETED */ THEN 'completed'
                    WHEN 3 /* ERROR */ THEN 'failed'
                    ELSE 'poisoned' END,
       t.taken_at, t.updated, LEFT(t.holder, LENGTH(t.holder) - LENGTH(SUBSTRING_INDEX(t.holder, '#', -1)) - 1),
       COALESCE(d.error, CASE WHEN t.state IN (3 /* ERROR */, 4 /* POISON */) THEN t.result END)
  FROM ({rows}) AS d
  STRAIGHT_JOIN dbq_task AS t FORCE INDEX (PRIMARY) ON t.id = d.id
 WHERE t.taken_at > 0
   AND t.state <> 1 /* PROCESSING */
   FOR UPDATE;

-- ==== Attempts ====
-- Reads the recorded attempts of a task. Index: the primary key.
SELECT task, fence, queue, attempt, outcome, taken, ended, worker, error
  FROM dbq_attempt
 WHERE task = :id
 ORDER BY fence
 LIMIT :limit;

-- ==== LastAttempt ====
-- Reads the last attempt of a task from its row, here or in the archive. Indexes: the primary key of task, and the
-- primary key of archive.
SELECT id, queue, state, attempt, fence, holder, taken, updated, result
  FROM dbq_task WHERE id = :id
UNION ALL
SELECT id, queue, state, attempt, fence, holder, taken, updated, result
  FROM dbq_archive WHERE id = :id;

-- ==== ExpireAttempts ====
-- Removes old attempts, in batches.
-- Runs for retention. Index: attempt_ended.
DELETE FROM dbq_attempt
 WHERE queue = :queue
   AND ended <= {now} - :age
 ORDER BY ended
 LIMIT :limit;

-- ==== Archive ====
-- Copies finished tasks into the archive, before the same transaction removes them.
-- Runs just before the purge of the same tasks, in its transaction. Index: the primary key.
-- The columns are those that the server does not compute.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
INSERT IGNORE INTO dbq_archive (
  id, queue, reference, kind, task_key, state, priority, attempt, max_attempts, lapses, known_started,
  cancelled, fence, due_at, lease_end, taken_by, taken_at, created, updated, payload_size, headers, payload,
  result, progress, archived)
SELECT id, queue, reference, kind, task_key, state, priority, attempt, max_attempts, lapses, known_started,
       cancelled, fence, due_at, lease_end, taken_by, taken_at, created, updated, payload_size, headers, payload,
       result, progress, {now}
  FROM dbq_task AS t FORCE INDEX (PRIMARY)
 WHERE t.id IN ({rows})
   AND (state = 2 /* COMPLETED */ OR state = 4 /* POISON */ OR (state = 3 /* ERROR */ AND due IS NULL))
   FOR UPDATE;

-- ==== ListArchive ====
-- Lists tasks of the archive. Index: the primary key of archive.
SELECT t.id, t.queue, t.reference, t.kind, t.task_key, t.state, t.priority, t.attempt, t.max_attempts, t.lapses,
       t.cancelled, t.fence, t.due, t.holder, t.created, t.updated, t.headers, t.result,
       CASE
         WHEN t.state = 1 /* PROCESSING */
         THEN COALESCE(
                (SELECT l.lease_until FROM dbq_lease AS l FORCE INDEX (PRIMARY)
                  WHERE l.id = t.id AND l.fence = t.fence),
                t.lease_end)
       END AS lease_until,
       CASE
         WHEN t.state = 1 /* PROCESSING */
         THEN COALESCE((SELECT l.progress FROM dbq_lease AS l FORCE INDEX (PRIMARY)
                         WHERE l.id = t.id AND l.fence = t.fence), t.progress)
         ELSE t.progress
       END AS progress,
       {now} AS now
  FROM dbq_archive t
 WHERE {where}
 ORDER BY t.id, t.fence
 LIMIT :limit;

-- ======== Key/value records ========

-- ==== GetKV ====
-- Reads a key/value record, which all clients of these tables share, such as a queue's pause. Index: the primary key.
SELECT namespace, name, version, value, updated, expires, {now} AS now
  FROM dbq_kv
 WHERE namespace = :namespace AND name = :name;

-- ==== ListKV ====
-- Reads the key/value records of a namespace. Index: the primary key.
SELECT namespace, name, version, value, updated, expires, {now} AS now
  FROM dbq_kv
 WHERE namespace = :namespace
 ORDER BY name
 LIMIT :limit;

-- ==== EarliestKV ====
-- Reads the key/value records of a namespace that expire first, such as the schedules that are due next. Index:
-- kv_expires, or else the primary key.
SELECT namespace, name, version, value, updated, expires, {now} AS now
  FROM dbq_kv
 WHERE namespace = :namespace
   AND expires IS NOT NULL
 ORDER BY expires, name
 LIMIT :limit;

-- ==== AddKV ====
-- Adds a key/value record if there is none. Index: the primary key.
INSERT INTO dbq_kv (namespace, name, version, value, updated, expires)
SELECT :namespace, :name, {now}, :value, {now}, {now} + :ttl
 FROM DUAL
 WHERE NOT EXISTS (SELECT 1 FROM dbq_kv WHERE namespace = :namespace AND name = :name);

-- ==== SetKV ====
-- Changes a key/value record, unless it has changed since it was read. Index: the primary key.
UPDATE dbq_kv
   SET version = version + 1,
       value = :value,
       updated = {now},
       expires = {now} + :ttl
 WHERE namespace = :namespace AND name = :name AND version = :version;

-- ==== DropKV ====
-- Removes a key/value record. Index: the primary key.
DELETE FROM dbq_kv
 WHERE namespace = :namespace AND name = :name;

-- ==== ExpireKV ====
-- Removes key/value records that have expired. Index: as for EarliestKV.
DELETE FROM dbq_kv
 WHERE namespace = :namespace AND expires <= {now} - :age;

-- ======== Statistics over time ========

-- ==== AddStatistics ====
-- Adds the counts of a worker's minute, or the totals of a period. A row is never changed.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   (:queue_name, :period, :began, :source, :enqueued, :started, :completed, :failed, :poisoned, :released, :created,
--   :processing, :errors, :poison, :due, :parked, :oldest_due, :latency, :run_time)
INSERT INTO dbq_stat (
       queue, period, since, source, enqueued, started, completed, failed, poisoned, released,
       created, processing, error, poison, due, parked, oldest_due, latency, run_time)
VALUES {rows};

-- ==== Statistics ====
-- Reads the statistics of all queues. Index: stat_since.
SELECT queue, period, since, source, enqueued, started, completed, failed, poisoned, released,
       created, processing, error, poison, due, parked, oldest_due, latency, run_time
  FROM dbq_stat
 WHERE period = :period
   AND since >= :from
   AND since < :until
 LIMIT :limit;

-- ==== StatisticsOf ====
-- Reads the statistics of a queue. Index: the primary key.
SELECT queue, period, since, source, enqueued, started, completed, failed, poisoned, released,
       created, processing, error, poison, due, parked, oldest_due, latency, run_time
  FROM dbq_stat
 WHERE period = :period
   AND since >= :from
   AND since < :until
   AND queue IN (:queue, :samples)
 LIMIT :limit;

-- ==== OldestStatistics ====
-- Finds the next period to add up or to remove. Index: stat_since.
SELECT min(since) AS since
  FROM dbq_stat
 WHERE period = :period
   AND since >= :from;

-- ==== DropStatistics ====
-- Removes statistics whose retention has passed. Index: stat_since.
DELETE FROM dbq_stat
 WHERE period = :period
   AND since >= :from
   AND since < :until;

-- ==== CountIDs ====
-- Counts the tasks that were enqueued in some time, by their ids, after IDBehind has found how many they are. Index:
-- the primary key of task.
SELECT t.queue, count(*) AS tasks
  FROM dbq_task t
 WHERE t.id >= :after
   AND t.id < :before
 GROUP BY t.queue;

-- ======== Limits of queues ========

-- ==== LimitIdle ====
-- Limits, for a checkout's transaction, how long the server waits for a client that has stopped.
-- Runs before a checkout of a queue with limits. A client that stops while it holds the lock of the limits would keep
-- all other checkouts of the queue waiting, as long as its connection stays open: eight hours by default.
SET @dbqwait = @@SESSION.wait_timeout, SESSION wait_timeout = 10;

-- ==== LimitIdle free ====
-- Restores the setting that LimitIdle has changed.
-- Runs after that checkout, so that other transactions of the session may pause for longer.
SET SESSION wait_timeout = @dbqwait;

-- ==== LockKV ====
-- Locks the limits of a queue for a checkout, until its transaction ends. Index: the primary key of kv.
UPDATE dbq_kv
   SET version = version + 1
 WHERE namespace = :namespace AND name = :name;

-- ==== QueueKV ====
-- Reads the limits of a queue that were locked, and whether it is paused. Index: the primary key of kv.
SELECT namespace, name, version, value, updated, expires, {now} AS now
  FROM dbq_kv
 WHERE namespace IN ('limit', 'pause')
   AND name = :name;

-- ==== Busy ====
-- Counts the tasks of a queue in PROCESSING. Index: the index of leased tasks.
-- Runs in a checkout of a queue with limits. Index: task_lane, the tasks in PROCESSING.
SELECT count(*) AS tasks
  FROM dbq_task AS t FORCE INDEX (dbq_task_lane)
 WHERE t.queue = :queue
   AND t.lane = 9 /* PROCESSING */;

-- ==== BusyKeys ====
-- Counts the tasks of a queue in PROCESSING, by key. Index: the index of leased tasks.
-- Runs in a checkout of a queue with limits per key. Index: task_lane, the tasks in PROCESSING.
SELECT t.task_key, count(*) AS tasks
  FROM dbq_task AS t FORCE INDEX (dbq_task_lane)
 WHERE t.queue = :queue
   AND t.lane = 9 /* PROCESSING */
 GROUP BY t.task_key;

-- ==== DueTasks ====
-- Finds the first due tasks of a queue that has limits per key.
-- Runs in a checkout of a queue with limits per key. Index: task_lane, one ordered range for each priority.
SELECT x.*
  FROM (
    (SELECT t.id, t.fence, t.task_key, t.priority, t.due_at AS was_due, t.payload_size
       FROM dbq_task AS t FORCE INDEX (dbq_task_lane)
      WHERE t.queue = :queue AND t.lane = 0 /* waiting */ AND t.priority = 0 AND t.due_at <= {now}
      ORDER BY t.due_at, t.id
      LIMIT :limit)
    UNION ALL (SELECT t.id, t.fence, t.task_key, t.priority, t.due_at AS was_due, t.payload_size
       FROM dbq_task AS t FORCE INDEX (dbq_task_lane)
      WHERE t.queue = :queue AND t.lane = 0 /* waiting */ AND t.priority = 1 AND t.due_at <= {now}
      ORDER BY t.due_at, t.id
      LIMIT :limit)
    -- and so on for the priorities 2 to 8
    UNION ALL (SELECT t.id, t.fence, t.task_key, t.priority, t.due_at AS was_due, t.payload_size
       FROM dbq_task AS t FORCE INDEX (dbq_task_lane)
      WHERE t.queue = :queue AND t.lane = 0 /* waiting */ AND t.priority = 9 AND t.due_at <= {now}
      ORDER BY t.due_at, t.id
      LIMIT :limit)) AS x
 LIMIT :limit;

-- ==== DueKeys ====
-- Finds the next keys that have tasks with a due time, and of each key the task that is due first.
-- Runs in a checkout of a queue with limits per key. Index: task_key, two entries for each key: one of a loose index
-- scan, and the first of the key. MySQL sorts all tasks of the key unless ORDER BY names task_key, and MariaDB 10.11
-- if it also names key_queue. With a hot key, both would read all of its tasks.
SELECT t.id, t.fence, t.task_key, t.priority, t.due_at AS was_due, t.payload_size, {now} AS now
  FROM (
    SELECT (
        SELECT h.id
          FROM dbq_task AS h FORCE INDEX (dbq_task_key)
         WHERE h.key_queue = :queue AND h.task_key = k.task_key
         ORDER BY h.task_key, h.key_due, h.id
         LIMIT 1) AS id
      FROM (
        SELECT t.task_key
          FROM dbq_task AS t FORCE INDEX (dbq_task_key)
         WHERE t.key_queue = :queue
           AND t.task_key > :after
         GROUP BY t.key_queue, t.task_key
         ORDER BY t.key_queue, t.task_key
         LIMIT :limit) AS k) AS f
  STRAIGHT_JOIN dbq_task AS t FORCE INDEX (PRIMARY) ON t.id = f.id;

-- ==== DueOfKeys ====
-- Finds the first due tasks of some keys.
-- Runs in a checkout of a queue with limits per key. Index: task_key, one ordered range for each key.
-- {rows} is a list of at most 500 of these, separated by " UNION ALL ":
--   SELECT x.* FROM ( SELECT t.id, t.fence, t.task_key, t.priority, t.due_at AS was_due, t.payload_size FROM dbq_task
--   AS t FORCE INDEX (dbq_task_key) WHERE t.key_queue = :queue AND t.task_key = :task_key AND t.key_due <= {now}
--   ORDER BY t.key_due, t.id LIMIT :limit) AS x
SELECT d.*
  FROM ({rows}) AS d;

-- ==== HeadsOfKeys ====
-- Finds the first tasks of some keys, in the order of their ids, that are due.
-- Runs in a checkout of a queue with an order. Index: task_order, which ends with the id: one or two entries for each
-- key.
-- {rows} is a list of at most 500 of these, separated by " UNION ALL ":
--   SELECT x.* FROM ( SELECT t.id, t.fence, t.task_key, t.priority, t.due_at AS was_due, t.payload_size FROM dbq_task
--   AS t FORCE INDEX (dbq_task_order) WHERE t.order_queue = :queue AND t.task_key = :task_key AND t.order_failed = 0
--   ORDER BY t.id LIMIT 1) AS x WHERE x.was_due <= {now} AND (:block = 0 OR NOT EXISTS ( SELECT 1 FROM dbq_task AS f
--   FORCE INDEX (dbq_task_order) WHERE f.order_queue = :queue AND f.task_key = :task_key AND f.order_failed = 1 AND
--   f.id < x.id))
SELECT d.*
  FROM ({rows}) AS d;

-- ==== KeyRates ====
-- Reads how many tasks some keys have started. Index: the primary key of key_rate.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :name
SELECT task_key, full_at
  FROM dbq_key_rate
 WHERE queue = :queue
   AND task_key IN ({rows});

-- ==== SetKeyRates ====
-- Records the starts of tasks of some keys.
-- Runs in a checkout of a queue with a rate per key, under the lock of the limits. Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by " UNION ALL ":
--   SELECT CAST(:name AS BINARY) AS task_key, :full_at AS full_at
INSERT INTO dbq_key_rate (queue, task_key, full_at)
SELECT :queue, d.task_key, d.full_at
  FROM ({rows}) AS d
    ON DUPLICATE KEY UPDATE full_at = d.full_at;

-- ==== DropKeyRates ====
-- Removes the starts of a queue whose rate per key was removed. Index: the primary key.
DELETE FROM dbq_key_rate
 WHERE queue = :queue;

-- ==== CapKeyRates ====
-- Applies a faster rate per key to the keys of a queue that have started tasks. Index: the primary key.
UPDATE dbq_key_rate
   SET full_at = :full_at
 WHERE queue = :queue AND full_at > :full_at;

-- ==== ExpireKeyRates ====
-- Removes the starts of keys that have all of their starts again, in batches. Index: key_rate_full.
-- Runs for cleaning. Index: key_rate_full.
DELETE FROM dbq_key_rate
 WHERE full_at <= {now} - :age
 ORDER BY full_at
 LIMIT :limit;

-- ======== The audit ========

-- ==== AddAudit ====
-- Records an operator's change, in the transaction of the change.
INSERT INTO dbq_audit (id, part, happened, who, program, address, request, action, queue, subject, task,
       task_filter, reason, old_value, new_value, changed)
VALUES (:id, :part, {now}, :who, :program, :address, :request, :action, :queue, :subject, :task,
       :task_filter, :reason, :old_value, :new_value, :changed);

-- ==== ListAudit ====
-- Reads the audit. Index: the primary key.
SELECT a.id, a.happened, a.who, a.program, a.address, a.request, a.action, a.queue, a.subject, a.task,
       a.task_filter, a.reason, a.old_value, a.new_value,
       (SELECT sum(p.changed) FROM dbq_audit p WHERE p.id = a.id) AS changed
  FROM dbq_audit a
 WHERE a.part = 0 AND {where}
 ORDER BY a.id{order}
 LIMIT :limit;

-- ==== CountAudit ====
-- Counts the entries up to a limit, for statistics. Index: the primary key.
SELECT count(*) AS tasks
  FROM (SELECT id
          FROM dbq_audit
         WHERE part = 0
         LIMIT :limit) x;

-- ==== CountArchive ====
-- Counts the tasks of the archive up to a limit, for statistics. Index: the primary key of archive.
SELECT count(*) AS tasks
  FROM (SELECT id
          FROM dbq_archive
         LIMIT :limit) x;

-- ==== OldAudit ====
-- Finds entries that an operator's cleaning removes. Index: the primary key.
SELECT id
  FROM dbq_audit
 WHERE part = 0
   AND happened <= :until
 ORDER BY id
 LIMIT :limit;

-- ==== DropAudit ====
-- Removes entries. Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
DELETE FROM dbq_audit
 WHERE id IN ({rows});

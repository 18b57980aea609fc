-- Every statement that dbq sends to this engine, for DBA review.
-- Generated from the dialect by "go generate ./..."; do not edit.
--
-- A :name stands for a value, which the driver writes into the text, escaped; an id is written as x'...'. Rows come
-- as a list of values. Times are microseconds since 1970 in UTC. States are 0 CREATED, 1 PROCESSING, 2 COMPLETED, 3
-- ERROR, 4 POISON. Tables begin with "dbq_" unless a program says otherwise.
--
-- {now} stands for the database's clock:
--   TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))

-- ======== The schema ========

-- dbq's tables for mysql

-- 0: migration

-- The table of applied migrations. dbq runs this step before every migration, so each statement can run again.
CREATE TABLE IF NOT EXISTS dbq_migration (
  version INT PRIMARY KEY, title VARCHAR(200) NOT NULL, compatible INT NOT NULL, applied BIGINT NOT NULL
) ENGINE = InnoDB;

-- 1: tasks

-- One row for each task. Times are microseconds since 1970 in UTC, set by the database's clock. fence grows with
-- every change of owner; a statement of a lease whose fence is outdated changes nothing.
--
-- Keys are bytes (VARBINARY). The default collations treat 'Ab' and 'ab' as equal, and the binary collations that
-- both products have ignore trailing spaces.
--
-- A row keeps its size when its state changes, so that InnoDB updates it in place. In a full page a row that grows
-- makes InnoDB reorganize or split the page. Null takes no space in a row, so due_at, lease_end and taken_at are -1
-- instead of null, and taken_by is padded with spaces to the length of a usual holder. The virtual columns due,
-- lease_until, holder and taken show null and the name instead.
--
-- due_at is when a waiting task is due. In PROCESSING it is when the task was taken, minus 2^62. Otherwise it is -1.
--
-- lane orders the one index of the waiting and the other tasks of a queue: 0 for a task that may be due, 9 for a task
-- in PROCESSING, and otherwise the state. Lane 9 is the last: on MariaDB a search for the last due time would
-- otherwise read past the delete-marked entries of leased tasks.
CREATE TABLE IF NOT EXISTS dbq_task (
  id BINARY(16) NOT NULL PRIMARY KEY,
  queue VARBINARY(400) NOT NULL,
  reference VARBINARY(800),
  kind VARBINARY(400) NOT NULL,
  state TINYINT NOT NULL DEFAULT 0 CHECK (state IN (0, 1, 2, 3, 4)),
  priority TINYINT NOT NULL DEFAULT 0 CHECK (priority BETWEEN 0 AND 9),
  attempt SMALLINT NOT NULL DEFAULT 0,
  max_attempts SMALLINT NOT NULL DEFAULT 10,
  lapses TINYINT NOT NULL DEFAULT 0,
  known_started TINYINT NOT NULL DEFAULT 0,
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
  due BIGINT AS (CASE WHEN due_at < 0 THEN NULL ELSE due_at END) VIRTUAL,
  lease_until BIGINT AS (NULLIF(lease_end, -1)) VIRTUAL,
  holder VARBINARY(800) AS (NULLIF(TRIM(TRAILING ' ' FROM taken_by), '')) VIRTUAL,
  taken BIGINT AS (NULLIF(taken_at, -1)) VIRTUAL,
  lane TINYINT AS (CASE WHEN due_at >= 0 THEN 0 WHEN state = 1 THEN 9 ELSE state END) STORED,
  UNIQUE KEY dbq_task_reference (reference, queue),
  KEY dbq_task_lane (queue, lane, priority, due_at)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- The renewed leases. The row of a task is not written by a heartbeat. lease_until is the end of the renewed lease.
-- The row is kept until keep_until: a renewal may end before the lease in the task's row, which would be valid again
-- without it.
CREATE TABLE IF NOT EXISTS dbq_lease (
  id BINARY(16) NOT NULL PRIMARY KEY, fence BIGINT NOT NULL, lease_until BIGINT NOT NULL, keep_until BIGINT NOT NULL
) ENGINE = InnoDB;

-- The tasks as a person reads them: names of states, and times as timestamps.
CREATE OR REPLACE VIEW dbq_tasks AS
SELECT lower(hex(id)) AS id, CONVERT(queue USING utf8mb4) AS queue,
  CONVERT(reference USING utf8mb4) AS reference, CONVERT(kind USING utf8mb4) AS kind,
  CASE state WHEN 0 THEN 'CREATED' WHEN 1 THEN 'PROCESSING' WHEN 2 THEN 'COMPLETED' WHEN 3 THEN 'ERROR'
    WHEN 4 THEN 'POISON' END AS state,
  priority, attempt, max_attempts, lapses, fence,
  '1970-01-01' + INTERVAL due MICROSECOND AS due,
  '1970-01-01' + INTERVAL (CASE WHEN state = 1 THEN
    COALESCE((SELECT l.lease_until FROM dbq_lease AS l FORCE INDEX (PRIMARY) WHERE l.id = t.id AND l.fence = t.fence),
      t.lease_end) END) MICROSECOND AS lease_until,
  CONVERT(holder USING utf8mb4) AS holder, '1970-01-01' + INTERVAL taken MICROSECOND AS taken,
  '1970-01-01' + INTERVAL created MICROSECOND AS created, '1970-01-01' + INTERVAL updated MICROSECOND AS updated,
  CONVERT(headers USING utf8mb4) AS headers, length(payload) AS payload_bytes, CONVERT(result USING utf8mb4) AS result
  FROM dbq_task AS t;

-- For programs in other languages, which enqueue by SQL: the columns that they set, and the rows that dbq accepts. A
-- user needs privileges on it alone. dbq never uses it, so that its conditions cost dbq's statements nothing. They are
-- true of every row that dbq writes: ON DUPLICATE KEY UPDATE checks the row that is there.
CREATE OR REPLACE VIEW dbq_enqueue AS
SELECT id, queue, kind, reference, payload, payload_size, headers, priority, max_attempts, due_at AS due, created,
  updated
  FROM dbq_task
 WHERE HEX(id) REGEXP '^.{12}7.{3}[89AB]'
   AND CHAR_LENGTH(CONVERT(queue USING utf8mb4)) BETWEEN 1 AND 100
   AND CHAR_LENGTH(CONVERT(kind USING utf8mb4)) <= 100
   AND (reference IS NULL OR CHAR_LENGTH(CONVERT(reference USING utf8mb4)) BETWEEN 1 AND 200)
   AND CONVERT(CONCAT(queue, kind, COALESCE(reference, '')) USING utf8mb4) NOT REGEXP '[[:cntrl:]]'
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

-- 2: kv history archive

-- Key/value records shared by all clients: pauses and settings of queues, the registry of workers, leaders, schedules.
-- Each write checks version. A record is void after expires; a schedule is due then.
CREATE TABLE IF NOT EXISTS dbq_kv (
  kind VARBINARY(20) NOT NULL,
  name VARBINARY(800) NOT NULL,
  version BIGINT NOT NULL,
  value TEXT NOT NULL,
  updated BIGINT NOT NULL,
  expires BIGINT,
  PRIMARY KEY (kind, name),
  KEY dbq_kv_expires (kind, expires, name)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- The history of attempts. The last attempt of a task is in the task's row; this table has the earlier ones, and the
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
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- All attempts that have ended, including the last one of each task, which is in the task's row.
CREATE OR REPLACE VIEW dbq_attempts AS
SELECT lower(hex(task)) AS task, attempt, CONVERT(outcome USING utf8mb4) AS outcome,
  '1970-01-01' + INTERVAL taken MICROSECOND AS taken,
  '1970-01-01' + INTERVAL ended MICROSECOND AS ended,
  CONVERT(worker USING utf8mb4) AS worker, CONVERT(queue USING utf8mb4) AS queue, fence,
  CONVERT(error USING utf8mb4) AS error
  FROM dbq_attempt
UNION ALL SELECT lower(hex(id)), attempt, CASE state WHEN 2 THEN 'completed' WHEN 3 THEN 'failed' ELSE 'poisoned' END,
  '1970-01-01' + INTERVAL taken MICROSECOND, '1970-01-01' + INTERVAL updated MICROSECOND,
  CONVERT(LEFT(holder, LENGTH(holder) - LENGTH(SUBSTRING_INDEX(holder, '#', -1)) - 1) USING utf8mb4),
  CONVERT(queue USING utf8mb4), fence, CASE WHEN state <> 2 THEN CONVERT(result USING utf8mb4) END
  FROM dbq_task AS t
 WHERE taken_at > 0 AND state IN (2, 3, 4)
   AND NOT EXISTS (SELECT 1 FROM dbq_attempt AS a WHERE a.task = t.id AND a.fence = t.fence);

-- Tasks that retention has moved out of the task table. dbq never removes a row of it.
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
  known_started TINYINT NOT NULL DEFAULT 0,
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
  due BIGINT AS (CASE WHEN due_at < 0 THEN NULL ELSE due_at END) VIRTUAL,
  lease_until BIGINT AS (NULLIF(lease_end, -1)) VIRTUAL,
  holder VARBINARY(800) AS (NULLIF(TRIM(TRAILING ' ' FROM taken_by), '')) VIRTUAL,
  taken BIGINT AS (NULLIF(taken_at, -1)) VIRTUAL,
  lane TINYINT AS (CASE WHEN due_at >= 0 THEN 0 WHEN state = 1 THEN 9 ELSE state END) STORED,
  archived BIGINT NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

INSERT INTO dbq_migration (version, title, compatible, applied)
SELECT 2, 'kv history archive', 2, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
 FROM DUAL
 WHERE NOT EXISTS (SELECT 1 FROM dbq_migration WHERE version = 2);

-- ======== The statements ========

-- ==== Begin ====
-- Begins a write transaction.
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
START TRANSACTION;

-- ==== Now ====
-- An expression, not a statement: the database's clock in microseconds since 1970.
TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));

-- ==== MigrationLock ====
-- Waits for other migrations of the same tables.
-- Runs before a migration, and waits 300 seconds at most.
SELECT CASE GET_LOCK(LEFT(SHA2(CONCAT(LOWER(DATABASE()), ' ', :name), 256), 60), 300)
         WHEN 1 THEN 1
         ELSE (SELECT 1 UNION SELECT 2)
       END;

-- ==== MigrationUnlock ====
-- Lets the next migration begin.
-- Runs after a migration.
DO RELEASE_LOCK(LEFT(SHA2(CONCAT(LOWER(DATABASE()), ' ', :name), 256), 60));

-- ==== Insert ====
-- Adds tasks. A task whose id, or reference and queue, exists is left out without an error.
-- Runs for an enqueue, and for each part of a bulk one. Indexes: the primary key and task_reference find duplicates.
-- IGNORE also cuts what is too long, silently: the lengths were checked before. A value may use the columns before
-- it.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   (:id, :queue, :reference, :kind, 0, :priority, :max_attempts, coalesce(:at, {now} + :delay), {now}, {now},
--   :reused * created, :payload_size, :headers, :payload)
INSERT IGNORE INTO dbq_task (
  id, queue, reference, kind, state, priority, max_attempts, due_at, created, updated, fence,
  payload_size, headers, payload)
VALUES {rows};

-- ==== Settle ====
-- Ends attempts (complete, fail, poison, release) whose fences are still valid.
-- Runs for each batch of settlements, after "lock settle". Index: the primary key. The servers assign from
-- left to right and later expressions see the new values: state comes after what is computed from it.
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
       t.result = CASE WHEN d.state = 0 /* CREATED */ THEN coalesce(d.result, t.result) ELSE d.result END;

-- ==== LockFree ====
-- Locks the tasks of a batch that no other transaction has locked; only these are settled then.
-- Runs when a batch of settlements met a locked task. Index: the primary key. It queries the fence, too: MySQL would
-- walk all of a small table's primary key where it need not read rows.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
SELECT id
  FROM dbq_task FORCE INDEX (PRIMARY)
 WHERE id IN ({rows})
   AND fence >= 0
 ORDER BY id
   FOR UPDATE SKIP LOCKED;

-- ==== Remove ====
-- Ends attempts and removes the tasks (complete and delete), if their fences are still valid.
-- Runs for queues that keep no finished tasks. Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by " UNION ALL ":
--   SELECT CAST(:id AS BINARY(16)) AS id, :fence AS fence
DELETE t
  FROM ({rows}) AS d
       STRAIGHT_JOIN dbq_task AS t FORCE INDEX (PRIMARY)
       ON t.id = d.id AND t.fence = d.fence AND t.state = 1 /* PROCESSING */;

-- ==== Extend ====
-- Renews leases. On servers a renewal is a row of its own, so that a heartbeat neither writes nor locks a task.
-- Runs once for each heartbeat of a worker, for all of its tasks. Indexes: the primary keys of tasks and leases.
-- A lease is first in its task's row, where checkout writes it. A renewal is a row of its own, under the same fence: a
-- heartbeat that wrote the task's row would fail a caller's transaction at REPEATABLE READ that completes the task
-- (MariaDB), and would wait for one that has locked it. The assignments are written so that it does not matter whether
-- one sees what the one before it has set.
-- {rows} is a list of at most 500 of these, separated by " UNION ALL ":
--   SELECT CAST(:id AS BINARY(16)) AS id, :fence AS fence
INSERT INTO dbq_lease (id, fence, lease_until, keep_until)
SELECT t.id, t.fence, {now} + :lease, GREATEST(t.lease_end, {now} + :lease)
  FROM ({rows}) AS d
       STRAIGHT_JOIN dbq_task AS t FORCE INDEX (PRIMARY)
       ON t.id = d.id AND t.fence = d.fence AND t.state = 1 /* PROCESSING */
    ON DUPLICATE KEY UPDATE
       lease_until = IF(dbq_lease.fence <= t.fence, {now} + :lease, dbq_lease.lease_until),
       keep_until = IF(dbq_lease.fence <= t.fence, GREATEST(t.lease_end, {now} + :lease), dbq_lease.keep_until),
       fence = GREATEST(dbq_lease.fence, t.fence);

-- ==== Start ====
-- Marks attempts as started, where a lease that expires must count as an attempt.
-- Runs before a handler, where the checkout has not marked the attempt. Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by " UNION ALL ":
--   SELECT CAST(:id AS BINARY(16)) AS id, :fence AS fence
UPDATE ({rows}) AS d
       STRAIGHT_JOIN dbq_task AS t FORCE INDEX (PRIMARY)
       ON t.id = d.id AND t.fence = d.fence
   SET t.known_started = 1
 WHERE t.state = 1 /* PROCESSING */;

-- ==== DropLeases ====
-- Removes the renewals of leases that were settled.
-- Runs after settlements of tasks whose leases were renewed. Index: the primary key of leases.
-- {rows} is a list of at most 500 of these, separated by " UNION ALL ":
--   SELECT CAST(:id AS BINARY(16)) AS id, :fence AS fence
DELETE l
  FROM ({rows}) AS d
       STRAIGHT_JOIN dbq_lease AS l FORCE INDEX (PRIMARY)
       ON l.id = d.id AND l.fence = d.fence;

-- ==== ExpireLeases ====
-- Removes renewals that ended long ago, a few at a time.
-- Runs in the cleaning. Index: none; only leases that were renewed are in the table.
DELETE FROM dbq_lease
 WHERE keep_until <= {now} - :age
 LIMIT :limit;

-- ==== SetResult ====
-- Stores an operator's reason, after Move in the same transaction.
-- Runs after Move, in its transaction, when the operator gives a reason. Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by " UNION ALL ":
--   SELECT CAST(:id AS BINARY(16)) AS id, CAST(:result AS BINARY) AS result
UPDATE ({rows}) AS d
       STRAIGHT_JOIN dbq_task AS t FORCE INDEX (PRIMARY)
       ON t.id = d.id
   SET t.result = d.result;

-- ==== Held ====
-- Reads what one checkout holds, if its connection died before the answer.
-- Runs after a lost connection. Index: task_lane.
SELECT t.id, t.queue, t.reference, t.kind, t.state, t.priority, t.attempt, t.max_attempts, t.lapses, t.fence, t.due,
       CASE
         WHEN t.state = 1 /* PROCESSING */
         THEN COALESCE(
                (SELECT l.lease_until FROM dbq_lease AS l FORCE INDEX (PRIMARY)
                  WHERE l.id = t.id AND l.fence = t.fence),
                t.lease_end)
       END AS lease_until,
       t.holder, t.created, t.updated, t.headers, t.result,
       t.payload, {now} AS now
  FROM dbq_task AS t FORCE INDEX (dbq_task_lane)
 WHERE t.queue = :queue
   AND t.lane = 9 /* PROCESSING */
   AND t.holder = :holder;

-- ==== Exhausted ====
-- Reads what one checkout moved to POISON, if its connection died before the answer.
-- Runs after a lost connection. Index: task_lane.
SELECT t.id, t.queue, t.reference, t.kind, t.state, t.priority, t.attempt, t.max_attempts, t.lapses, t.fence, t.due,
       CASE
         WHEN t.state = 1 /* PROCESSING */
         THEN COALESCE(
                (SELECT l.lease_until FROM dbq_lease AS l FORCE INDEX (PRIMARY)
                  WHERE l.id = t.id AND l.fence = t.fence),
                t.lease_end)
       END AS lease_until,
       t.holder, t.created, t.updated, t.headers, t.result,
       t.payload, {now} AS now
  FROM dbq_task AS t FORCE INDEX (dbq_task_lane)
 WHERE t.queue = :queue
   AND t.lane = 4 /* POISON */
   AND t.result = CONCAT('the lease of the last attempt expired, held by ', holder, ', found by ', :holder);

-- ==== IDBehind ====
-- Finds where the next part of the old tasks ends, for cleaning.
-- Runs in the cleaning. Index: the primary key alone.
SELECT t.id
  FROM dbq_task AS t FORCE INDEX (PRIMARY)
 WHERE t.id > :after
   AND t.id < :before
 ORDER BY t.id
 LIMIT 1 OFFSET :offset;

-- ==== InState POISON ====
-- A condition, not a statement: added to a filter for just this state, so that an index finds its tasks.
lane = 4;

-- ==== InState PROCESSING ====
-- A condition, not a statement: added to a filter for just this state, so that an index finds its tasks.
lane = 9;

-- ==== Peek ====
-- Reads the states of tasks, to find out whether a call whose connection died took effect.
-- Runs after a lost connection. Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
SELECT t.id, t.queue, t.state, t.fence, t.updated
  FROM dbq_task AS t FORCE INDEX (PRIMARY)
 WHERE t.id IN ({rows});

-- ==== Count ====
-- Counts all tasks of each queue by state.
SELECT queue, state, count(*) AS tasks, count(*) - count(due) AS parked,
       count(CASE WHEN due <= {now} THEN 1 END) AS due,
       {now} - min(CASE WHEN due <= {now} THEN due END) AS oldest
  FROM dbq_task
 GROUP BY queue, state;

-- ==== CountUpTo ====
-- Counts the tasks of a queue by state, up to a limit for each.
-- Runs for statistics and metrics. Index: task_lane; each part stops at the limit.
SELECT 0 /* CREATED */ AS state, count(CASE WHEN state = 0 /* CREATED */ THEN 1 END) AS tasks, 0 AS parked, 0 AS due,
       NULL AS oldest, CASE WHEN count(*) >= :limit THEN 1 ELSE 0 END AS cut
  FROM (
         SELECT state FROM dbq_task FORCE INDEX (dbq_task_lane)
          WHERE queue = :queue AND lane = 0 /* waiting */ LIMIT :limit) AS w
UNION ALL
SELECT 3 /* ERROR */, count(CASE WHEN state = 3 /* ERROR */ THEN 1 END), 0, 0,
       NULL, CASE WHEN count(*) >= :limit THEN 1 ELSE 0 END
  FROM (
         SELECT state FROM dbq_task FORCE INDEX (dbq_task_lane)
          WHERE queue = :queue AND lane = 0 /* waiting */ LIMIT :limit) AS w
UNION ALL
SELECT 0 /* CREATED */, 0, 0, count(*), {now} - min(due_at), 0
  FROM (
    (SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
      WHERE queue = :queue AND lane = 0 /* waiting */ AND priority = 0 AND due_at <= {now}
      ORDER BY due_at LIMIT :limit)
    UNION ALL (SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
      WHERE queue = :queue AND lane = 0 /* waiting */ AND priority = 1 AND due_at <= {now}
      ORDER BY due_at LIMIT :limit)
    UNION ALL (SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
      WHERE queue = :queue AND lane = 0 /* waiting */ AND priority = 2 AND due_at <= {now}
      ORDER BY due_at LIMIT :limit)
    UNION ALL (SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
      WHERE queue = :queue AND lane = 0 /* waiting */ AND priority = 3 AND due_at <= {now}
      ORDER BY due_at LIMIT :limit)
    UNION ALL (SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
      WHERE queue = :queue AND lane = 0 /* waiting */ AND priority = 4 AND due_at <= {now}
      ORDER BY due_at LIMIT :limit)
    UNION ALL (SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
      WHERE queue = :queue AND lane = 0 /* waiting */ AND priority = 5 AND due_at <= {now}
      ORDER BY due_at LIMIT :limit)
    UNION ALL (SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
      WHERE queue = :queue AND lane = 0 /* waiting */ AND priority = 6 AND due_at <= {now}
      ORDER BY due_at LIMIT :limit)
    UNION ALL (SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
      WHERE queue = :queue AND lane = 0 /* waiting */ AND priority = 7 AND due_at <= {now}
      ORDER BY due_at LIMIT :limit)
    UNION ALL (SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
      WHERE queue = :queue AND lane = 0 /* waiting */ AND priority = 8 AND due_at <= {now}
      ORDER BY due_at LIMIT :limit)
    UNION ALL (SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
      WHERE queue = :queue AND lane = 0 /* waiting */ AND priority = 9 AND due_at <= {now}
      ORDER BY due_at LIMIT :limit)) AS w
UNION ALL
SELECT 1 /* PROCESSING */, count(*), 0, 0, NULL, CASE WHEN count(*) >= :limit THEN 1 ELSE 0 END
  FROM (
    SELECT 1 FROM dbq_task FORCE INDEX (dbq_task_lane)
     WHERE queue = :queue AND lane = 9 /* PROCESSING */ LIMIT :limit) AS w
UNION ALL
SELECT 2 /* COMPLETED */, count(*), 0, 0, NULL, CASE WHEN count(*) >= :limit THEN 1 ELSE 0 END
  FROM (
    SELECT 1 FROM dbq_task FORCE INDEX (dbq_task_lane)
     WHERE queue = :queue AND lane = 2 /* COMPLETED */ LIMIT :limit) AS w
UNION ALL
SELECT 3 /* ERROR */, count(*), count(*), 0, NULL, CASE WHEN count(*) >= :limit THEN 1 ELSE 0 END
  FROM (
    SELECT 1 FROM dbq_task FORCE INDEX (dbq_task_lane)
     WHERE queue = :queue AND lane = 3 /* ERROR */ LIMIT :limit) AS w
UNION ALL
SELECT 4 /* POISON */, count(*), 0, 0, NULL, CASE WHEN count(*) >= :limit THEN 1 ELSE 0 END
  FROM (
    SELECT 1 FROM dbq_task FORCE INDEX (dbq_task_lane)
     WHERE queue = :queue AND lane = 4 /* POISON */ LIMIT :limit) AS w;

-- ==== NextQueue ====
-- Finds the next queue by name.
-- Runs for statistics, once for each queue. Index: task_lane.
SELECT queue
  FROM dbq_task FORCE INDEX (dbq_task_lane)
 WHERE queue > :queue
 ORDER BY queue
 LIMIT 1;

-- ==== Next ====
-- Reports when the next task of a queue is due. Idle workers poll with it.
-- Runs when a worker is idle. Index: task_lane, once for each priority, and from the oldest lease on.
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
    UNION ALL SELECT CASE
             WHEN :since2 = 0 THEN (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = :queue AND lane = 0 /* waiting */ AND priority = 2
                ORDER BY due_at LIMIT 1)
             ELSE (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = :queue AND lane = 0 /* waiting */ AND priority = 2 AND due_at >= :since2 AND fence >= 0
                ORDER BY due_at LIMIT 1)
           END AS due
    UNION ALL SELECT CASE
             WHEN :since3 = 0 THEN (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = :queue AND lane = 0 /* waiting */ AND priority = 3
                ORDER BY due_at LIMIT 1)
             ELSE (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = :queue AND lane = 0 /* waiting */ AND priority = 3 AND due_at >= :since3 AND fence >= 0
                ORDER BY due_at LIMIT 1)
           END AS due
    UNION ALL SELECT CASE
             WHEN :since4 = 0 THEN (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = :queue AND lane = 0 /* waiting */ AND priority = 4
                ORDER BY due_at LIMIT 1)
             ELSE (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = :queue AND lane = 0 /* waiting */ AND priority = 4 AND due_at >= :since4 AND fence >= 0
                ORDER BY due_at LIMIT 1)
           END AS due
    UNION ALL SELECT CASE
             WHEN :since5 = 0 THEN (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = :queue AND lane = 0 /* waiting */ AND priority = 5
                ORDER BY due_at LIMIT 1)
             ELSE (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = :queue AND lane = 0 /* waiting */ AND priority = 5 AND due_at >= :since5 AND fence >= 0
                ORDER BY due_at LIMIT 1)
           END AS due
    UNION ALL SELECT CASE
             WHEN :since6 = 0 THEN (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = :queue AND lane = 0 /* waiting */ AND priority = 6
                ORDER BY due_at LIMIT 1)
             ELSE (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = :queue AND lane = 0 /* waiting */ AND priority = 6 AND due_at >= :since6 AND fence >= 0
                ORDER BY due_at LIMIT 1)
           END AS due
    UNION ALL SELECT CASE
             WHEN :since7 = 0 THEN (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = :queue AND lane = 0 /* waiting */ AND priority = 7
                ORDER BY due_at LIMIT 1)
             ELSE (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = :queue AND lane = 0 /* waiting */ AND priority = 7 AND due_at >= :since7 AND fence >= 0
                ORDER BY due_at LIMIT 1)
           END AS due
    UNION ALL SELECT CASE
             WHEN :since8 = 0 THEN (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = :queue AND lane = 0 /* waiting */ AND priority = 8
                ORDER BY due_at LIMIT 1)
             ELSE (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = :queue AND lane = 0 /* waiting */ AND priority = 8 AND due_at >= :since8 AND fence >= 0
                ORDER BY due_at LIMIT 1)
           END AS due
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
 WHERE NOT EXISTS (SELECT 1 FROM dbq_kv n WHERE n.kind = 'pause' AND n.name = :queue);

-- ==== Record ====
-- Adds attempts to the history.
-- Runs after attempts have ended. Index: the primary key, which finds those that are there already.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   (:id, :fence, :queue, :attempt, :outcome, :taken, :ended, :worker, :error)
INSERT IGNORE INTO dbq_attempt (task, fence, queue, attempt, outcome, taken, ended, worker, error)
VALUES {rows};

-- ==== RecordLast ====
-- Adds the last attempts of tasks to the history, from the tasks' rows, when another attempt follows or the task is
-- removed.
-- Runs after a Settle of the same transaction for attempts that others follow, and before tasks are removed. Index: the
-- primary key of task.
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

-- ==== ExpireAttempts ====
-- Removes old attempts, a few at a time.
-- Runs in the cleaning. Index: attempt_ended.
DELETE FROM dbq_attempt
 WHERE queue = :queue
   AND ended <= {now} - :age
 ORDER BY ended
 LIMIT :limit;

-- ==== Archive ====
-- Copies finished tasks into the archive, just before the same transaction removes them.
-- Runs just before the purge of the same tasks, in its transaction. Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
INSERT IGNORE INTO dbq_archive (
  id, queue, reference, kind, state, priority, attempt, max_attempts, lapses, known_started, fence, due_at,
  lease_end, taken_by, taken_at, created, updated, payload_size, headers, payload, result, archived)
SELECT id, queue, reference, kind, state, priority, attempt, max_attempts, lapses, known_started, fence, due_at,
       lease_end, taken_by, taken_at, created, updated, payload_size, headers, payload, result, {now}
  FROM dbq_task AS t FORCE INDEX (PRIMARY)
 WHERE t.id IN ({rows})
   AND (state = 2 /* COMPLETED */ OR state = 4 /* POISON */ OR (state = 3 /* ERROR */ AND due IS NULL))
   FOR UPDATE;

-- ==== Own complete uniform ====
-- Settle for tasks under one fence that complete without a result.
-- Runs for tasks of one checkout that completed without a result. Index: the primary key. A list of ids takes half
-- the time of a list of SELECTs.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
UPDATE dbq_task FORCE INDEX (PRIMARY)
   SET state = 2 /* COMPLETED */,
       due_at = -1,
       lease_end = -1,
       updated = {now},
       result = NULL
 WHERE id IN ({rows})
   AND fence = :fence
   AND state = 1 /* PROCESSING */;

-- ==== Own due ====
-- Reports which priorities have a due task, without locks. Idle workers poll with it.
-- Runs in each poll, on the reading pool. Index: task_lane, once for each priority.
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
    UNION ALL SELECT 2 AS priority
      FROM DUAL
     WHERE CASE
             WHEN :since2 = 0 THEN (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = :queue AND lane = 0 /* waiting */ AND priority = 2
                ORDER BY due_at LIMIT 1)
             ELSE (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = :queue AND lane = 0 /* waiting */ AND priority = 2 AND due_at >= :since2 AND fence >= 0
                ORDER BY due_at LIMIT 1)
           END <= {now}
    UNION ALL SELECT 3 AS priority
      FROM DUAL
     WHERE CASE
             WHEN :since3 = 0 THEN (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = :queue AND lane = 0 /* waiting */ AND priority = 3
                ORDER BY due_at LIMIT 1)
             ELSE (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = :queue AND lane = 0 /* waiting */ AND priority = 3 AND due_at >= :since3 AND fence >= 0
                ORDER BY due_at LIMIT 1)
           END <= {now}
    UNION ALL SELECT 4 AS priority
      FROM DUAL
     WHERE CASE
             WHEN :since4 = 0 THEN (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = :queue AND lane = 0 /* waiting */ AND priority = 4
                ORDER BY due_at LIMIT 1)
             ELSE (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = :queue AND lane = 0 /* waiting */ AND priority = 4 AND due_at >= :since4 AND fence >= 0
                ORDER BY due_at LIMIT 1)
           END <= {now}
    UNION ALL SELECT 5 AS priority
      FROM DUAL
     WHERE CASE
             WHEN :since5 = 0 THEN (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = :queue AND lane = 0 /* waiting */ AND priority = 5
                ORDER BY due_at LIMIT 1)
             ELSE (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = :queue AND lane = 0 /* waiting */ AND priority = 5 AND due_at >= :since5 AND fence >= 0
                ORDER BY due_at LIMIT 1)
           END <= {now}
    UNION ALL SELECT 6 AS priority
      FROM DUAL
     WHERE CASE
             WHEN :since6 = 0 THEN (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = :queue AND lane = 0 /* waiting */ AND priority = 6
                ORDER BY due_at LIMIT 1)
             ELSE (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = :queue AND lane = 0 /* waiting */ AND priority = 6 AND due_at >= :since6 AND fence >= 0
                ORDER BY due_at LIMIT 1)
           END <= {now}
    UNION ALL SELECT 7 AS priority
      FROM DUAL
     WHERE CASE
             WHEN :since7 = 0 THEN (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = :queue AND lane = 0 /* waiting */ AND priority = 7
                ORDER BY due_at LIMIT 1)
             ELSE (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = :queue AND lane = 0 /* waiting */ AND priority = 7 AND due_at >= :since7 AND fence >= 0
                ORDER BY due_at LIMIT 1)
           END <= {now}
    UNION ALL SELECT 8 AS priority
      FROM DUAL
     WHERE CASE
             WHEN :since8 = 0 THEN (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = :queue AND lane = 0 /* waiting */ AND priority = 8
                ORDER BY due_at LIMIT 1)
             ELSE (
               SELECT due_at FROM dbq_task FORCE INDEX (dbq_task_lane)
                WHERE queue = :queue AND lane = 0 /* waiting */ AND priority = 8 AND due_at >= :since8 AND fence >= 0
                ORDER BY due_at LIMIT 1)
           END <= {now}
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
 WHERE NOT EXISTS (SELECT 1 FROM dbq_kv n WHERE n.kind = 'pause' AND n.name = :queue);

-- ==== Own extended ====
-- Reads which leases Extend has renewed.
-- Runs after Extend. Indexes: the primary keys of tasks and leases.
-- {rows} is a list of at most 500 of these, separated by " UNION ALL ":
--   SELECT CAST(:id AS BINARY(16)) AS id, :fence AS fence
SELECT t.id, t.fence
  FROM ({rows}) AS d
       STRAIGHT_JOIN dbq_task AS t FORCE INDEX (PRIMARY)
       ON t.id = d.id AND t.fence = d.fence AND t.state = 1 /* PROCESSING */
       STRAIGHT_JOIN dbq_lease AS l FORCE INDEX (PRIMARY)
       ON l.id = t.id AND l.fence = t.fence;

-- ==== Own insert uniform ====
-- Insert for new rows without a reference that share all but their ids and payloads.
-- Runs for a bulk enqueue of new tasks that share most values, after a query for the time: it takes the server 8
-- microseconds to read three times the text of the clock, for each row of a list.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   (:id, :queue, :kind, 0, :priority, :max_attempts, coalesce(:at, :now + :delay), :now, :now, :payload_size,
--   :headers, :payload)
INSERT INTO dbq_task (
  id, queue, kind, state, priority, max_attempts, due_at, created, updated, payload_size, headers, payload)
VALUES {rows};

-- ==== Own inserted ====
-- Reads which rows of Insert are there afterwards.
-- Runs after an insert that added some of its tasks and not all: it returns those that are there. Index: the primary
-- key.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
SELECT id
  FROM dbq_task FORCE INDEX (PRIMARY)
 WHERE id IN ({rows});

-- ==== Own known_started ====
-- Reads which attempts Start has marked.
-- Runs after Start. Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by " UNION ALL ":
--   SELECT CAST(:id AS BINARY(16)) AS id, :fence AS fence
SELECT t.id, t.fence
  FROM ({rows}) AS d
       STRAIGHT_JOIN dbq_task AS t FORCE INDEX (PRIMARY)
       ON t.id = d.id AND t.fence = d.fence AND t.state = 1 /* PROCESSING */ AND t.known_started = 1;

-- ==== Own lock expired ====
-- Locks those whose lease expired, whose fence is unchanged, and that nobody has locked.
-- Runs after "see expired". Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by " UNION ALL ":
--   SELECT CAST(:id AS BINARY(16)) AS id, :fence AS fence
SELECT t.id, t.queue, t.reference, t.kind, t.state, t.priority, t.attempt, t.max_attempts, t.lapses, t.fence, t.due,
       t.lease_until, t.holder, t.created, t.updated, t.headers, t.result,
       t.payload, t.known_started, {now} AS now
  FROM ({rows}) AS d
       STRAIGHT_JOIN dbq_task AS t FORCE INDEX (PRIMARY)
       ON t.id = d.id AND t.fence = d.fence AND t.state = 1 /* PROCESSING */
   FOR UPDATE SKIP LOCKED;

-- ==== Own lock ready ====
-- Strategy cas: locks the candidates whose fence is unchanged and that nobody has locked.
-- Runs after "see ready": reads again under lock what was seen without one, and only what is still the same.
-- Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by " UNION ALL ":
--   SELECT CAST(:id AS BINARY(16)) AS id, :fence AS fence
SELECT t.id, t.queue, t.reference, t.kind, t.state, t.priority, t.attempt, t.max_attempts, t.lapses, t.fence, t.due,
       t.lease_until, t.holder, t.created, t.updated, t.headers, t.result,
       t.payload, t.due_at AS was_due, {now} AS now
  FROM ({rows}) AS d
       STRAIGHT_JOIN dbq_task AS t FORCE INDEX (PRIMARY)
       ON t.id = d.id AND t.fence = d.fence AND t.lane = 0 /* waiting */ AND t.due_at <= {now}
   FOR UPDATE SKIP LOCKED;

-- ==== Own lock remove ====
-- Locks and returns the rows of Remove, if it found fewer than it was given and was undone.
-- Runs when Remove removed fewer tasks than it was given, and was undone. Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by " UNION ALL ":
--   SELECT CAST(:id AS BINARY(16)) AS id, :fence AS fence
SELECT t.id, t.fence
  FROM ({rows}) AS d
       STRAIGHT_JOIN dbq_task AS t FORCE INDEX (PRIMARY)
       ON t.id = d.id AND t.fence = d.fence AND t.state = 1 /* PROCESSING */
   FOR UPDATE;

-- ==== Own lock settle ====
-- Locks the rows that Settle will change, and returns them with the states that they will have.
-- Runs before Settle, which cannot return what it changes. Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by " UNION ALL ":
--   SELECT CAST(:id AS BINARY(16)) AS id, :fence AS fence, :state AS state, coalesce(:at, :after) AS again
SELECT t.id, t.fence,
       CASE
         WHEN d.state = 3 /* ERROR */ AND t.attempt >= t.max_attempts AND d.again IS NOT NULL THEN 4 /* POISON */
         ELSE d.state
       END AS state
  FROM ({rows}) AS d
       STRAIGHT_JOIN dbq_task AS t FORCE INDEX (PRIMARY)
       ON t.id = d.id AND t.fence = d.fence AND t.state = 1 /* PROCESSING */
   FOR UPDATE;

-- ==== Own lock uniform ====
-- Locks and returns the rows of a statement for tasks under one fence, if that found fewer than it was given and was
-- undone.
-- Runs when "complete uniform" changed fewer tasks than it was given, and was undone. Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
SELECT id
  FROM dbq_task FORCE INDEX (PRIMARY)
 WHERE id IN ({rows})
   AND fence = :fence
   AND state = 1 /* PROCESSING */
 ORDER BY id
   FOR UPDATE;

-- ==== Own oldest ====
-- Reports when the oldest task in PROCESSING was taken: scans for expired leases begin there.
-- Runs before "see expired", now and then. Index: task_lane, once for each priority. It queries the row's
-- updated, so that MySQL does not walk the whole index of a table that seems small.
SELECT LEAST({now} - :late, COALESCE(min(x.taken), {now})) AS updated
  FROM (
    (SELECT updated AS taken FROM dbq_task FORCE INDEX (dbq_task_lane)
      WHERE queue = :queue AND lane = 9 /* PROCESSING */ AND priority = 0 AND due_at >= :oldest - 4611686018427387904
      ORDER BY due_at LIMIT 1)
    UNION ALL (SELECT updated AS taken FROM dbq_task FORCE INDEX (dbq_task_lane)
      WHERE queue = :queue AND lane = 9 /* PROCESSING */ AND priority = 1 AND due_at >= :oldest - 4611686018427387904
      ORDER BY due_at LIMIT 1)
    UNION ALL (SELECT updated AS taken FROM dbq_task FORCE INDEX (dbq_task_lane)
      WHERE queue = :queue AND lane = 9 /* PROCESSING */ AND priority = 2 AND due_at >= :oldest - 4611686018427387904
      ORDER BY due_at LIMIT 1)
    UNION ALL (SELECT updated AS taken FROM dbq_task FORCE INDEX (dbq_task_lane)
      WHERE queue = :queue AND lane = 9 /* PROCESSING */ AND priority = 3 AND due_at >= :oldest - 4611686018427387904
      ORDER BY due_at LIMIT 1)
    UNION ALL (SELECT updated AS taken FROM dbq_task FORCE INDEX (dbq_task_lane)
      WHERE queue = :queue AND lane = 9 /* PROCESSING */ AND priority = 4 AND due_at >= :oldest - 4611686018427387904
      ORDER BY due_at LIMIT 1)
    UNION ALL (SELECT updated AS taken FROM dbq_task FORCE INDEX (dbq_task_lane)
      WHERE queue = :queue AND lane = 9 /* PROCESSING */ AND priority = 5 AND due_at >= :oldest - 4611686018427387904
      ORDER BY due_at LIMIT 1)
    UNION ALL (SELECT updated AS taken FROM dbq_task FORCE INDEX (dbq_task_lane)
      WHERE queue = :queue AND lane = 9 /* PROCESSING */ AND priority = 6 AND due_at >= :oldest - 4611686018427387904
      ORDER BY due_at LIMIT 1)
    UNION ALL (SELECT updated AS taken FROM dbq_task FORCE INDEX (dbq_task_lane)
      WHERE queue = :queue AND lane = 9 /* PROCESSING */ AND priority = 7 AND due_at >= :oldest - 4611686018427387904
      ORDER BY due_at LIMIT 1)
    UNION ALL (SELECT updated AS taken FROM dbq_task FORCE INDEX (dbq_task_lane)
      WHERE queue = :queue AND lane = 9 /* PROCESSING */ AND priority = 8 AND due_at >= :oldest - 4611686018427387904
      ORDER BY due_at LIMIT 1)
    UNION ALL (SELECT updated AS taken FROM dbq_task FORCE INDEX (dbq_task_lane)
      WHERE queue = :queue AND lane = 9 /* PROCESSING */ AND priority = 9 AND due_at >= :oldest - 4611686018427387904
      ORDER BY due_at LIMIT 1)) AS x;

-- ==== Own payloads ====
-- Reads the large payloads of the tasks that fit.
-- Runs when tasks of a checkout have large payloads. Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
SELECT id, payload
  FROM dbq_task FORCE INDEX (PRIMARY)
 WHERE id IN ({rows});

-- ==== Own poison ====
-- Moves tasks whose attempts are exhausted to POISON, after their last lease expired.
-- Runs for locked tasks whose lease expired and that have no attempts left. Index: the primary key.
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

-- ==== Own queue free ====
-- Strategy advisory: gives the queue's lock back, after the commit.
-- Strategy advisory. Runs after the transaction of a checkout.
DO RELEASE_LOCK(LEFT(SHA2(CONCAT(LOWER(DATABASE()), ' ', :name), 256), 60));

-- ==== Own queue lock ====
-- Strategy advisory: waits for the queue's lock, in a statement of its own.
-- Strategy advisory. Runs before the transaction of a checkout, and waits 30 seconds at most.
SELECT CASE GET_LOCK(LEFT(SHA2(CONCAT(LOWER(DATABASE()), ' ', :name), 256), 60), 30)
         WHEN 1 THEN 1
         ELSE (SELECT 1 UNION SELECT 2)
       END;

-- ==== Own ready ====
-- Finds due tasks: one ordered search for each priority. On a server it leases them as well.
-- Strategies skip-locked and advisory, while the queue's payloads are small. Runs once for each priority that has a
-- due task. Index: task_lane, one ordered range: a search ordered by priority and due time would lock what it walks
-- over.
SELECT t.id, t.queue, t.reference, t.kind, t.state, t.priority, t.attempt, t.max_attempts, t.lapses, t.fence, t.due,
       t.lease_until, t.holder, t.created, t.updated, t.headers, t.result,
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

-- ==== Own ready sizes ====
-- The same for a queue that may have large payloads: it locks tasks without reading the payloads.
-- The same for a queue that may have large payloads: the server reads every column that a statement names, also where
-- CASE leaves it out.
SELECT t.id, t.queue, t.reference, t.kind, t.state, t.priority, t.attempt, t.max_attempts, t.lapses, t.fence, t.due,
       t.lease_until, t.holder, t.created, t.updated, t.headers, t.result,
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

-- ==== Own see expired ====
-- Reads candidates to take over, without locks.
-- Every strategy: it locks afterwards, by the primary key. Index: task_lane, from the oldest lease on.
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
   AND NOT EXISTS (SELECT 1 FROM dbq_kv n WHERE n.kind = 'pause' AND n.name = :queue)
 LIMIT :limit;

-- ==== Own see ready ====
-- Strategy cas: reads candidates without locks.
-- Strategy cas, instead of "ready". Index: task_lane.
SELECT t.id, t.fence, t.payload_size, t.due_at AS was_due
  FROM dbq_task AS t FORCE INDEX (dbq_task_lane)
 WHERE t.queue = :queue
   AND t.lane = 0 /* waiting */
   AND t.priority = :priority
   AND t.due_at >= :since
   AND t.due_at <= {now}
 ORDER BY t.due_at, t.id
 LIMIT :limit;

-- ==== Own take ====
-- Leases the tasks that were found.
-- Runs for locked tasks that were due. Index: the primary key.
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

-- ==== Own take over ====
-- Takes over tasks whose lease expired; on SQLite those whose attempts are exhausted become POISON.
-- Runs for locked tasks whose lease expired and that have attempts left. Index: the primary key. The servers assign
-- from left to right: each value comes after what is computed from it.
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

-- ==== Own try lock expired ====
-- On TiDB, which has no SKIP LOCKED: the same, one by one, if a list of them fails.
-- On TiDB instead of "lock expired".
-- {rows} is a list of at most 500 of these, separated by " UNION ALL ":
--   SELECT CAST(:id AS BINARY(16)) AS id, :fence AS fence
SELECT t.id, t.queue, t.reference, t.kind, t.state, t.priority, t.attempt, t.max_attempts, t.lapses, t.fence, t.due,
       t.lease_until, t.holder, t.created, t.updated, t.headers, t.result,
       t.payload, t.known_started, {now} AS now
  FROM ({rows}) AS d
       STRAIGHT_JOIN dbq_task AS t FORCE INDEX (PRIMARY)
       ON t.id = d.id AND t.fence = d.fence AND t.state = 1 /* PROCESSING */
   FOR UPDATE NOWAIT;

-- ==== Own try lock ready ====
-- On TiDB, which has no SKIP LOCKED: the same, one by one, if a list of them fails.
-- On TiDB instead of "lock ready".
-- {rows} is a list of at most 500 of these, separated by " UNION ALL ":
--   SELECT CAST(:id AS BINARY(16)) AS id, :fence AS fence
SELECT t.id, t.queue, t.reference, t.kind, t.state, t.priority, t.attempt, t.max_attempts, t.lapses, t.fence, t.due,
       t.lease_until, t.holder, t.created, t.updated, t.headers, t.result,
       t.payload, t.due_at AS was_due, {now} AS now
  FROM ({rows}) AS d
       STRAIGHT_JOIN dbq_task AS t FORCE INDEX (PRIMARY)
       ON t.id = d.id AND t.fence = d.fence AND t.lane = 0 /* waiting */ AND t.due_at <= {now}
   FOR UPDATE NOWAIT;

-- ==== Own turn ====
-- Strategy skip-locked: a large checkout waits for others of its queue, a second at most.
-- Strategy skip-locked. Runs before the transaction of a checkout of 100 tasks or more that will find some.
DO GET_LOCK(LEFT(SHA2(CONCAT(LOWER(DATABASE()), ' ', :name), 256), 60), 1);

-- ==== Own turn over ====
-- Strategy skip-locked: lets the next one begin, before the commit.
-- Strategy skip-locked. Runs before the commit of such a checkout.
DO RELEASE_LOCK(LEFT(SHA2(CONCAT(LOWER(DATABASE()), ' ', :name), 256), 60));

-- ==== Own win ====
-- Keeps renewals off the tasks that are being taken over.
-- Runs for the locked tasks that are to be taken over. Index: the primary key of leases. A renewal and a takeover
-- both write the lease's row, and so find each other, also on different nodes of a cluster: a takeover puts the next
-- fence there, if no renewal under the task's fence is valid, and a renewal gives up when it meets a higher fence.
-- {rows} is a list of at most 500 of these, separated by " UNION ALL ":
--   SELECT CAST(:id AS BINARY(16)) AS id, :fence AS fence
INSERT INTO dbq_lease (id, fence, lease_until, keep_until)
SELECT d.id, d.fence + 1, :now + :lease, :now + :lease
  FROM ({rows}) AS d
    ON DUPLICATE KEY UPDATE
       fence = IF(dbq_lease.fence < d.fence OR dbq_lease.lease_until <= :now, d.fence + 1, dbq_lease.fence),
       lease_until = IF(
         dbq_lease.fence < d.fence OR dbq_lease.lease_until <= :now OR dbq_lease.fence = d.fence + 1,
         :now + :lease, dbq_lease.lease_until),
       keep_until = IF(
         dbq_lease.fence < d.fence OR dbq_lease.lease_until <= :now OR dbq_lease.fence = d.fence + 1,
         :now + :lease, dbq_lease.keep_until);

-- ==== Own won ====
-- Finds the tasks whose renewal did not come first.
-- Runs after "win". Index: the primary key of leases.
-- {rows} is a list of at most 500 of these, separated by " UNION ALL ":
--   SELECT CAST(:id AS BINARY(16)) AS id, :fence AS fence
SELECT l.id
  FROM ({rows}) AS d
       STRAIGHT_JOIN dbq_lease AS l FORCE INDEX (PRIMARY)
       ON l.id = d.id AND l.fence = d.fence + 1;

-- ==== Movable purge ====
-- Locks and returns the tasks that the Move of the same event will move.
-- Runs before Purge, which cannot return what it removes. Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
SELECT id
  FROM dbq_task FORCE INDEX (PRIMARY)
 WHERE id IN ({rows})
   AND (state = 2 /* COMPLETED */ OR state = 4 /* POISON */ OR (state = 3 /* ERROR */ AND due IS NULL))
 ORDER BY id
   FOR UPDATE;

-- ==== Movable quarantine ====
-- Locks and returns the tasks that the Move of the same event will move.
-- Runs first in the transaction of an operator's call. Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
SELECT id, queue, state, attempt, fence, holder, taken, updated, result, {now} AS now
  FROM dbq_task FORCE INDEX (PRIMARY)
 WHERE id IN ({rows})
   AND (state = 3 /* ERROR */) AND state >= 3 /* ERROR */
 ORDER BY id
   FOR UPDATE;

-- ==== Movable reenqueue ====
-- Locks and returns the tasks that the Move of the same event will move.
-- Runs first in the transaction of an operator's call. Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
SELECT id, queue, state, attempt, fence, holder, taken, updated, result, {now} AS now
  FROM dbq_task FORCE INDEX (PRIMARY)
 WHERE id IN ({rows})
   AND (state = 3 /* ERROR */ OR state = 4 /* POISON */) AND state >= 3 /* ERROR */
 ORDER BY id
   FOR UPDATE;

-- ==== Movable reject ====
-- Locks and returns the tasks that the Move of the same event will move.
-- Runs first in the transaction of an operator's call. Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
SELECT id, queue, state, attempt, fence, holder, taken, updated, result, {now} AS now
  FROM dbq_task FORCE INDEX (PRIMARY)
 WHERE id IN ({rows})
   AND (state = 0 /* CREATED */)
 ORDER BY id
   FOR UPDATE;

-- ==== Movable restore ====
-- Locks and returns the tasks that the Move of the same event will move.
-- Runs first in the transaction of an operator's call. Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
SELECT id, queue, state, attempt, fence, holder, taken, updated, result, {now} AS now
  FROM dbq_task FORCE INDEX (PRIMARY)
 WHERE id IN ({rows})
   AND (state = 4 /* POISON */) AND state >= 3 /* ERROR */
 ORDER BY id
   FOR UPDATE;

-- ==== Movable revoke ====
-- Locks and returns the tasks that the Move of the same event will move.
-- Runs first in the transaction of an operator's call. Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
SELECT id, queue, state, attempt, fence, holder, taken, updated, result, {now} AS now
  FROM dbq_task FORCE INDEX (PRIMARY)
 WHERE id IN ({rows})
   AND (state = 1 /* PROCESSING */)
 ORDER BY id
   FOR UPDATE;

-- ==== Move purge ====
-- A finished or parked task is removed.
-- Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
DELETE t
  FROM dbq_task AS t FORCE INDEX (PRIMARY)
 WHERE id IN ({rows})
   AND (state = 2 /* COMPLETED */ OR state = 4 /* POISON */ OR (state = 3 /* ERROR */ AND due IS NULL));

-- ==== Move quarantine ====
-- A failed task will not be retried.
-- Runs after Movable. Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
UPDATE dbq_task FORCE INDEX (PRIMARY)
   SET state = 4 /* POISON */,
       due_at = -1,
       lease_end = -1,
       taken_at = -1,
       updated = {now}
 WHERE id IN ({rows})
   AND (state = 3 /* ERROR */) AND state >= 3 /* ERROR */;

-- ==== Move reenqueue ====
-- A failed task becomes due again, and its attempts start over.
-- Runs after Movable. Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
UPDATE dbq_task FORCE INDEX (PRIMARY)
   SET state = 0 /* CREATED */,
       due_at = {now},
       attempt = 0,
       lapses = 0,
       lease_end = -1,
       taken_at = -1,
       updated = {now}
 WHERE id IN ({rows})
   AND (state = 3 /* ERROR */ OR state = 4 /* POISON */) AND state >= 3 /* ERROR */;

-- ==== Move reject ====
-- A task is parked before it runs.
-- Runs after Movable. Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
UPDATE dbq_task FORCE INDEX (PRIMARY)
   SET state = 3 /* ERROR */,
       due_at = -1,
       lease_end = -1,
       taken_at = -1,
       updated = {now}
 WHERE id IN ({rows})
   AND (state = 0 /* CREATED */);

-- ==== Move restore ====
-- A poisoned task is parked for inspection.
-- Runs after Movable. Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
UPDATE dbq_task FORCE INDEX (PRIMARY)
   SET state = 3 /* ERROR */,
       due_at = -1,
       lease_end = -1,
       taken_at = -1,
       updated = {now}
 WHERE id IN ({rows})
   AND (state = 4 /* POISON */) AND state >= 3 /* ERROR */;

-- ==== Move revoke ====
-- The lease is taken away, the handler's context ends, and the task is parked.
-- Runs after Movable. Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
UPDATE dbq_task FORCE INDEX (PRIMARY)
   SET state = 3 /* ERROR */,
       due_at = -1,
       fence = fence + 1,
       lease_end = -1,
       taken_at = -1,
       updated = {now}
 WHERE id IN ({rows})
   AND (state = 1 /* PROCESSING */);

-- ==== Version ====
-- Reads the newest migration that has been applied.
SELECT max(version) AS version, max(compatible) AS compatible
  FROM dbq_migration;

-- ==== SetVersion ====
-- Records a migration as applied.
INSERT INTO dbq_migration (version, title, compatible, applied)
SELECT :version, :title, :compatible, {now}
 FROM DUAL
 WHERE NOT EXISTS (SELECT 1 FROM dbq_migration WHERE version = :version);

-- ==== Drop ====
-- Removes all tables and views.
DROP VIEW IF EXISTS dbq_tasks;
DROP VIEW IF EXISTS dbq_enqueue;
DROP VIEW IF EXISTS dbq_attempts;
DROP TABLE IF EXISTS dbq_archive;
DROP TABLE IF EXISTS dbq_attempt;
DROP TABLE IF EXISTS dbq_kv;
DROP TABLE IF EXISTS dbq_lease;
DROP TABLE IF EXISTS dbq_task;
DROP TABLE IF EXISTS dbq_migration;

-- ==== Get ====
-- Reads one task.
SELECT t.id, t.queue, t.reference, t.kind, t.state, t.priority, t.attempt, t.max_attempts, t.lapses, t.fence, t.due,
CASE
  WHEN t.state = 1 /* PROCESSING */
  THEN COALESCE(
         (SELECT l.lease_until FROM dbq_lease AS l FORCE INDEX (PRIMARY)
           WHERE l.id = t.id AND l.fence = t.fence),
         t.lease_end)
END AS lease_until,
t.holder, t.created, t.updated, t.headers, t.result,
       t.payload, {now} AS now
  FROM dbq_task t
 WHERE t.id = :id;

-- ==== FindReference ====
-- Finds a task by its reference.
SELECT id
  FROM dbq_task
 WHERE reference = :reference AND queue = :queue;

-- ==== List ====
-- Lists tasks without their payloads. {where} consists of comparisons of columns; {order} is empty or DESC.
SELECT t.id, t.queue, t.reference, t.kind, t.state, t.priority, t.attempt, t.max_attempts, t.lapses, t.fence, t.due,
CASE
  WHEN t.state = 1 /* PROCESSING */
  THEN COALESCE(
         (SELECT l.lease_until FROM dbq_lease AS l FORCE INDEX (PRIMARY)
           WHERE l.id = t.id AND l.fence = t.fence),
         t.lease_end)
END AS lease_until,
t.holder, t.created, t.updated, t.headers, t.result,
       {now} AS now
  FROM dbq_task t
 WHERE {where}
 ORDER BY t.id{order}
 LIMIT :limit;

-- ==== FindIDs ====
-- Finds the tasks that an operator's bulk call changes.
SELECT t.id
  FROM dbq_task t
 WHERE {where}
 ORDER BY t.id
 LIMIT :limit;

-- ==== ListArchive ====
-- Lists tasks of the archive.
SELECT t.id, t.queue, t.reference, t.kind, t.state, t.priority, t.attempt, t.max_attempts, t.lapses, t.fence, t.due,
CASE
  WHEN t.state = 1 /* PROCESSING */
  THEN COALESCE(
         (SELECT l.lease_until FROM dbq_lease AS l FORCE INDEX (PRIMARY)
           WHERE l.id = t.id AND l.fence = t.fence),
         t.lease_end)
END AS lease_until,
t.holder, t.created, t.updated, t.headers, t.result,
       {now} AS now
  FROM dbq_archive t
 WHERE {where}
 ORDER BY t.id
 LIMIT :limit;

-- ==== Attempts ====
-- Reads the attempts of a task that the history has.
SELECT task, fence, queue, attempt, outcome, taken, ended, worker, error
  FROM dbq_attempt
 WHERE task = :id
 ORDER BY fence
 LIMIT :limit;

-- ==== LastAttempt ====
-- Reads the last attempt of a task from its row.
SELECT id, queue, state, attempt, fence, holder, taken, updated, result
  FROM dbq_task WHERE id = :id
UNION ALL
SELECT id, queue, state, attempt, fence, holder, taken, updated, result
  FROM dbq_archive WHERE id = :id;

-- ==== GetKV ====
-- Reads a key/value record, which all clients of these tables share, such as a queue's pause.
SELECT kind, name, version, value, updated, expires, {now} AS now
  FROM dbq_kv
 WHERE kind = :kind AND name = :name;

-- ==== ListKV ====
-- Reads the key/value records of a kind.
SELECT kind, name, version, value, updated, expires, {now} AS now
  FROM dbq_kv
 WHERE kind = :kind
 ORDER BY name
 LIMIT :limit;

-- ==== EarliestKV ====
-- Reads the key/value records of a kind that expire first, such as the schedules that are due next.
SELECT kind, name, version, value, updated, expires, {now} AS now
  FROM dbq_kv
 WHERE kind = :kind
   AND expires IS NOT NULL
 ORDER BY expires, name
 LIMIT :limit;

-- ==== AddKV ====
-- Adds a key/value record if there is none.
INSERT INTO dbq_kv (kind, name, version, value, updated, expires)
SELECT :kind, :name, {now}, :value, {now}, {now} + :ttl
 FROM DUAL
 WHERE NOT EXISTS (SELECT 1 FROM dbq_kv WHERE kind = :kind AND name = :name);

-- ==== SetKV ====
-- Changes a key/value record unless it was changed since it was read.
UPDATE dbq_kv
   SET version = version + 1,
       value = :value,
       updated = {now},
       expires = {now} + :ttl
 WHERE kind = :kind AND name = :name AND version = :version;

-- ==== DropKV ====
-- Removes a key/value record.
DELETE FROM dbq_kv
 WHERE kind = :kind AND name = :name;

-- ==== ExpireKV ====
-- Removes key/value records that have expired.
DELETE FROM dbq_kv
 WHERE kind = :kind AND expires <= {now} - :age;

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
CREATE TABLE IF NOT EXISTS {task} (
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
    COMMENT 'the part of the queue in the index {prefix}task_lane',
  key_queue VARBINARY(400) AS (CASE WHEN task_key IS NOT NULL AND due_at >= 0 THEN queue END) STORED,
  key_due BIGINT AS (CASE WHEN task_key IS NOT NULL AND due_at >= 0 THEN due_at END) STORED,
  order_queue VARBINARY(400) AS (CASE WHEN task_key IS NOT NULL
    AND (due_at >= 0 OR state IN (3, 4) AND cancelled = 0) THEN queue END) STORED,
  order_failed TINYINT AS (CASE WHEN task_key IS NOT NULL THEN due_at < 0 END) STORED,
  CONSTRAINT {prefix}task_state CHECK (state IN (0, 1, 2, 3, 4)),
  CONSTRAINT {prefix}task_priority CHECK (priority BETWEEN 0 AND 9),
  UNIQUE KEY {prefix}task_reference (reference, queue),
  KEY {prefix}task_lane (queue, lane, priority, due_at),
  KEY {prefix}task_key (key_queue, task_key, key_due),
  KEY {prefix}task_order (order_queue, task_key, order_failed)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4
  COMMENT = 'One row for each task. Only dbq may change it. To read tasks, use the view {tasks}.';

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
CREATE TABLE IF NOT EXISTS {lease} (
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
CREATE TABLE IF NOT EXISTS {unique_key} (
  id BINARY(16) NOT NULL PRIMARY KEY COMMENT 'a hash of queue, scope and name',
  task BINARY(16) NOT NULL COMMENT 'the last task that was enqueued with the key',
  expires BIGINT NOT NULL COMMENT 'when cleaning checks whether the row can be removed',
  queue VARBINARY(400) NOT NULL,
  scope VARBINARY(60) NOT NULL COMMENT 'the states or the period in which the task excludes others',
  name VARBINARY(800) NOT NULL,
  KEY {prefix}unique_key_expires (expires)
) ENGINE = InnoDB COMMENT = 'The keys of unique tasks.';

-- The tasks as a person reads them, with the names of states and with times as timestamps. Names are compared as bytes
-- here, too, by a collation that each product has under its own name.
CREATE OR REPLACE VIEW {tasks} AS
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
    COALESCE((SELECT l.lease_until FROM {lease} AS l FORCE INDEX (PRIMARY) WHERE l.id = t.id AND l.fence = t.fence),
      t.lease_end) END) MICROSECOND AS lease_until,
  CONVERT(holder USING utf8mb4) AS holder, '1970-01-01' + INTERVAL taken MICROSECOND AS taken,
  '1970-01-01' + INTERVAL created MICROSECOND AS created, '1970-01-01' + INTERVAL updated MICROSECOND AS updated,
  CONVERT(headers USING utf8mb4) AS headers, length(payload) AS payload_bytes, CONVERT(result USING utf8mb4) AS result,
  CONVERT(COALESCE((SELECT l.progress FROM {lease} AS l FORCE INDEX (PRIMARY)
    WHERE t.state = 1 AND l.id = t.id AND l.fence = t.fence), progress) USING utf8mb4) AS progress
  FROM {task} AS t;

-- For programs in other languages, which enqueue by SQL: the columns that they set, and the rows that dbq accepts. A
-- user needs privileges on it alone. dbq never uses it, so that its conditions cost dbq's statements nothing. They are
-- true of every row that dbq writes (an id has version 8 in a workflow): ON DUPLICATE KEY UPDATE checks the row that is
-- there.
CREATE OR REPLACE VIEW {enqueue} AS
SELECT id, queue, kind, reference, payload, payload_size, headers, priority, max_attempts, due_at AS due, created,
  updated, task_key
  FROM {task}
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

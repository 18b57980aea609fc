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
-- (task_key). They are null otherwise, so that an update of a task without a key leaves that index alone.
CREATE TABLE IF NOT EXISTS {task} (
  id BINARY(16) NOT NULL PRIMARY KEY,
  queue VARBINARY(400) NOT NULL,
  reference VARBINARY(800),
  kind VARBINARY(400) NOT NULL,
  task_key VARBINARY(800),
  state TINYINT NOT NULL DEFAULT 0,
  priority TINYINT NOT NULL DEFAULT 0,
  attempt SMALLINT NOT NULL DEFAULT 0,
  max_attempts SMALLINT NOT NULL DEFAULT 10,
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
  key_queue VARBINARY(400) AS (CASE WHEN task_key IS NOT NULL AND due_at >= 0 THEN queue END) STORED,
  key_due BIGINT AS (CASE WHEN task_key IS NOT NULL AND due_at >= 0 THEN due_at END) STORED,
  CONSTRAINT {prefix}task_state CHECK (state IN (0, 1, 2, 3, 4)),
  CONSTRAINT {prefix}task_priority CHECK (priority BETWEEN 0 AND 9),
  UNIQUE KEY {prefix}task_reference (reference, queue),
  KEY {prefix}task_lane (queue, lane, priority, due_at),
  KEY {prefix}task_key (key_queue, task_key, key_due)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- The renewals of leases. The first end of a lease is in the task's row. A heartbeat writes a row here, under the
-- task's fence, and not the task's row: that would fail a caller's transaction at REPEATABLE READ that completes the
-- task, on MariaDB, and would wait for a transaction that has locked it. A takeover writes the next fence here before
-- it takes the task, so a concurrent renewal and takeover conflict on this row, and only one of them succeeds.
--
-- lease_until is the end of the renewed lease. The row is kept until keep_until: a renewal may end before the lease
-- in the task's row, which would be valid again without it.
--
-- progress is what the holder has reported under this fence or, after a takeover, under the one before. The row of a
-- leased task that has progress is kept.
CREATE TABLE IF NOT EXISTS {lease} (
  id BINARY(16) NOT NULL PRIMARY KEY, fence BIGINT NOT NULL, lease_until BIGINT NOT NULL, keep_until BIGINT NOT NULL,
  progress VARBINARY(4000)
) ENGINE = InnoDB;

-- The keys of unique tasks. A key belongs to a queue and a scope: the states in which its task excludes others, or a
-- period. task is the last task that was enqueued with it. Nothing changes the row when that task ends: whether the
-- key is free follows from the task's state. id is a hash of queue, scope and name, so that the key is narrow. From
-- expires on, cleaning checks whether the row can be removed.
CREATE TABLE IF NOT EXISTS {unique_key} (
  id BINARY(16) NOT NULL PRIMARY KEY,
  task BINARY(16) NOT NULL,
  expires BIGINT NOT NULL,
  queue VARBINARY(400) NOT NULL,
  scope VARBINARY(60) NOT NULL,
  name VARBINARY(800) NOT NULL,
  KEY {prefix}unique_key_expires (expires)
) ENGINE = InnoDB;

-- The tasks as a person reads them, with the names of states and with times as timestamps.
CREATE OR REPLACE VIEW {tasks} AS
SELECT lower(hex(id)) AS id, CONVERT(queue USING utf8mb4) AS queue,
  CONVERT(reference USING utf8mb4) AS reference, CONVERT(kind USING utf8mb4) AS kind,
  CONVERT(task_key USING utf8mb4) AS task_key,
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
-- true of every row that dbq writes: ON DUPLICATE KEY UPDATE checks the row that is there.
CREATE OR REPLACE VIEW {enqueue} AS
SELECT id, queue, kind, reference, payload, payload_size, headers, priority, max_attempts, due_at AS due, created,
  updated, task_key
  FROM {task}
 WHERE HEX(id) REGEXP '^.{12}7.{3}[89AB]'
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

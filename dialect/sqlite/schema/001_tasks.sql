-- One row for each task. Times are microseconds since 1970 in UTC, by the database's clock. fence grows with every
-- change of owner: a statement under an outdated fence changes nothing.
--
-- The row id is SQLite's own: rows lie in the order of their insertion, and an index entry carries 8 bytes instead of
-- 16.
--
-- A row keeps its size when its task is taken and completed, so that it is written in place, without a payload that
-- has pages of its own. taken_by is padded with spaces to the length of a usual holder. lease_until is set where due
-- becomes null, and the padding grows where lease_until becomes null again. taken_at has its full width from the
-- start. The virtual columns holder and taken show null and the name instead.
--
-- A task that may become due has a due time; every other row has none. So one partial index (task_ready) serves
-- checkout in all states.
CREATE TABLE {task} (
  id BLOB NOT NULL CONSTRAINT {prefix}task_id_length CHECK (length(id) = 16),
  queue TEXT NOT NULL,
  reference TEXT,
  kind TEXT NOT NULL,
  task_key TEXT,
  state INTEGER NOT NULL
    CONSTRAINT {prefix}task_state CHECK (state = 0 OR state = 1 OR state = 2 OR state = 3 OR state = 4),
  priority INTEGER NOT NULL
    CONSTRAINT {prefix}task_priority CHECK (priority BETWEEN 0 AND 9),
  attempt INTEGER NOT NULL DEFAULT 0,
  max_attempts INTEGER NOT NULL,
  lapses INTEGER NOT NULL DEFAULT 0,
  known_started INTEGER NOT NULL DEFAULT 0,
  cancelled INTEGER NOT NULL DEFAULT 0,
  fence INTEGER NOT NULL DEFAULT 0,
  due INTEGER,
  lease_until INTEGER,
  taken_by TEXT NOT NULL DEFAULT '                                                ',
  holder TEXT AS (nullif(rtrim(taken_by), '')) VIRTUAL,
  taken_at INTEGER NOT NULL DEFAULT -1000000000000000,
  taken INTEGER AS (CASE WHEN taken_at > 0 THEN taken_at END) VIRTUAL,
  created INTEGER NOT NULL,
  updated INTEGER NOT NULL,
  headers TEXT,
  payload BLOB,
  result BLOB,
  progress BLOB) STRICT;

CREATE UNIQUE INDEX {prefix}task_id ON {task} (id);

-- A reference is unique within its queue.
CREATE UNIQUE INDEX {prefix}task_reference ON {task} (reference, queue) WHERE reference IS NOT NULL;

-- For checkouts: one ordered search for each priority.
CREATE INDEX {prefix}task_ready ON {task} (queue, priority, due, id) WHERE due IS NOT NULL;

-- For searches for expired leases: the leased tasks.
CREATE INDEX {prefix}task_busy ON {task} (queue) WHERE state = 1 /* PROCESSING */;

-- For queues with limits per key: the due tasks of each key. Tasks without a key are not in it.
CREATE INDEX {prefix}task_key ON {task} (queue, task_key, due, id) WHERE due IS NOT NULL AND task_key IS NOT NULL;

-- For queues with an order: the waiting tasks of each key by id, and its tasks that wait for an operator.
CREATE INDEX {prefix}task_order ON {task} (queue, task_key, id) WHERE due IS NOT NULL AND task_key IS NOT NULL;
CREATE INDEX {prefix}task_key_failed ON {task} (queue, task_key, id)
 WHERE due IS NULL AND task_key IS NOT NULL AND cancelled = 0 AND (state = 3 /* ERROR */ OR state = 4 /* POISON */);

-- For operators: the tasks in ERROR and POISON. SQLite uses a partial index only if a query has one of these
-- equalities, or both in this form.
CREATE INDEX {prefix}task_failed ON {task} (queue, state, id, cancelled)
 WHERE state = 3 /* ERROR */ OR state = 4 /* POISON */;

-- The keys of unique tasks. A key belongs to a queue and a scope: the states in which its task excludes others, or a
-- period. task is the last task that was enqueued with it. Nothing changes the row when that task ends: whether the
-- key is free follows from the task's state. id is a hash of queue, scope and name, so that the key is narrow. From
-- expires on, cleaning checks whether the row can be removed.
CREATE TABLE {unique_key} (
  id BLOB NOT NULL PRIMARY KEY,
  task BLOB NOT NULL,
  expires INTEGER NOT NULL,
  queue TEXT NOT NULL,
  scope TEXT NOT NULL,
  name TEXT NOT NULL) STRICT, WITHOUT ROWID;

CREATE INDEX {prefix}unique_key_expires ON {unique_key} (expires);

-- The tasks as a person reads them, with the names of states and with times as timestamps.
CREATE VIEW {tasks} AS
SELECT lower(hex(id)) AS id, queue, reference, kind, task_key,
  CASE state WHEN 0 THEN 'CREATED' WHEN 1 THEN 'PROCESSING' WHEN 2 THEN 'COMPLETED' WHEN 3 THEN 'ERROR'
    WHEN 4 THEN 'POISON' END AS state,
  cancelled, priority, attempt, max_attempts, lapses, fence,
  strftime('%Y-%m-%d %H:%M:%f', due / 1e6, 'unixepoch') AS due,
  strftime('%Y-%m-%d %H:%M:%f', lease_until / 1e6, 'unixepoch') AS lease_until, holder,
  strftime('%Y-%m-%d %H:%M:%f', taken / 1e6, 'unixepoch') AS taken,
  strftime('%Y-%m-%d %H:%M:%f', created / 1e6, 'unixepoch') AS created,
  strftime('%Y-%m-%d %H:%M:%f', updated / 1e6, 'unixepoch') AS updated,
  headers, length(payload) AS payload_bytes, CAST(result AS TEXT) AS result,
  CAST(progress AS TEXT) AS progress
  FROM {task};

-- For programs in other languages, which enqueue by SQL: the columns that they set.
CREATE VIEW {enqueue} AS
SELECT queue, kind, reference, payload, headers, priority, max_attempts, due, task_key
  FROM {task};

-- An insert into the view checks the row and adds it, unless its reference is taken. dbq never uses it, so that it
-- costs dbq's statements nothing. The id is a UUID of version 7. Its time is put together from single bytes: other
-- programs may bring a SQLite before 3.41, which has no unhex, or before 3.42, which has no unixepoch('subsec').
CREATE TRIGGER {prefix}enqueue_insert INSTEAD OF INSERT ON {enqueue} BEGIN
  SELECT CASE
    WHEN coalesce(length(NEW.queue), 0) NOT BETWEEN 1 AND 100
    THEN RAISE(ABORT, 'dbq: the queue must have 1 to 100 characters')
    WHEN coalesce(length(NEW.kind), 101) > 100
    THEN RAISE(ABORT, 'dbq: the kind must have at most 100 characters')
    WHEN length(NEW.reference) NOT BETWEEN 1 AND 200
    THEN RAISE(ABORT, 'dbq: the reference must be null or have 1 to 200 characters')
    WHEN length(NEW.task_key) NOT BETWEEN 1 AND 200
    THEN RAISE(ABORT, 'dbq: the key must be null or have 1 to 200 characters')
    WHEN NEW.queue || NEW.kind || coalesce(NEW.reference, '') || coalesce(NEW.task_key, '')
         GLOB '*[' || char(1) || '-' || char(31) || char(127) || '-' || char(159) || ']*'
      OR instr(NEW.queue || NEW.kind || coalesce(NEW.reference, '') || coalesce(NEW.task_key, ''), char(0)) > 0
    THEN RAISE(ABORT, 'dbq: the queue, kind, reference or key has a control character')
    WHEN length(CAST(NEW.payload AS BLOB)) > 104857600
    THEN RAISE(ABORT, 'dbq: the payload must have at most 100 MiB')
    WHEN length(CAST(NEW.headers AS BLOB)) > 4000
    THEN RAISE(ABORT, 'dbq: the headers must have at most 4000 bytes')
    WHEN json_type(NEW.headers) <> 'object'
    THEN RAISE(ABORT, 'dbq: the headers must be a JSON object')
    WHEN CAST(NEW.max_attempts AS INTEGER) NOT BETWEEN 1 AND 32767
    THEN RAISE(ABORT, 'dbq: max_attempts must be 1 to 32767')
    WHEN CAST(NEW.due AS INTEGER) NOT BETWEEN 0 AND 253402300799999999
    THEN RAISE(ABORT, 'dbq: due must be in microseconds since 1970')
  END;
  INSERT INTO {task} (
    id, queue, reference, kind, state, priority, max_attempts, due, created, updated, headers, payload,
    task_key)
  SELECT CAST(
           substr(hex.bytes, 1 + (clock.ms >> 40 & 255), 1)
             || substr(hex.bytes, 1 + (clock.ms >> 32 & 255), 1)
             || substr(hex.bytes, 1 + (clock.ms >> 24 & 255), 1)
             || substr(hex.bytes, 1 + (clock.ms >> 16 & 255), 1)
             || substr(hex.bytes, 1 + (clock.ms >> 8 & 255), 1)
             || substr(hex.bytes, 1 + (clock.ms & 255), 1)
             || x'70' || randomblob(1) || x'80' || randomblob(7) AS BLOB),
         NEW.queue, NEW.reference, NEW.kind, 0, coalesce(NEW.priority, 0), coalesce(NEW.max_attempts, 20),
         coalesce(NEW.due, clock.ms * 1000), clock.ms * 1000, clock.ms * 1000, NEW.headers, CAST(NEW.payload AS BLOB),
         NEW.task_key
    FROM (SELECT CAST(strftime('%s', 'now') || substr(strftime('%f', 'now'), 4) AS INTEGER) AS ms) AS clock,
         (SELECT CAST(
          x'000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f'
            || x'202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f'
            || x'404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f'
            || x'606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f'
            || x'808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f'
            || x'a0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebf'
            || x'c0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedf'
            || x'e0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff'
            AS BLOB) AS bytes) AS hex
   WHERE true
  ON CONFLICT DO NOTHING;
END;

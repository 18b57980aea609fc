-- One row for each task. Times are microseconds since 1970 in UTC, set by the database's clock. fence grows with
-- every change of owner; a statement of a lease whose fence is outdated changes nothing.
--
-- The row id is SQLite's own: rows lie in the order of insertion, and the indexes carry 8 bytes instead of 16.
--
-- A row keeps its size when its task is taken and completed, so that it is written in place, without a payload that
-- has pages of its own. taken_by is padded with spaces to the length of a usual holder. lease_until is set where due
-- becomes null, and the padding grows again where lease_until becomes null. taken_at has its full width from the
-- start. The virtual columns holder and taken show null and the name instead.
--
-- A task that may become due has a due time; every other row has none. One partial index (task_ready) serves checkout
-- in all states.
CREATE TABLE {task} (
  id BLOB NOT NULL CHECK (length(id) = 16),
  queue TEXT NOT NULL,
  reference TEXT,
  kind TEXT NOT NULL,
  state INTEGER NOT NULL CHECK (state = 0 OR state = 1 OR state = 2 OR state = 3 OR state = 4),
  priority INTEGER NOT NULL CHECK (priority BETWEEN 0 AND 9),
  attempt INTEGER NOT NULL DEFAULT 0,
  max_attempts INTEGER NOT NULL,
  lapses INTEGER NOT NULL DEFAULT 0,
  known_started INTEGER NOT NULL DEFAULT 0,
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
  result BLOB) STRICT;

CREATE UNIQUE INDEX {prefix}task_id ON {task} (id);

-- A reference is unique within its queue.
CREATE UNIQUE INDEX {prefix}task_reference ON {task} (reference, queue) WHERE reference IS NOT NULL;

-- For checkouts: one ordered search for each priority.
CREATE INDEX {prefix}task_ready ON {task} (queue, priority, due, id) WHERE due IS NOT NULL;

-- For searches of expired leases: the leased tasks.
CREATE INDEX {prefix}task_busy ON {task} (queue) WHERE state = 1;

-- For operators: the tasks in ERROR and POISON.
CREATE INDEX {prefix}task_failed ON {task} (queue, state, id) WHERE state >= 3;

-- The tasks as a person reads them: names of states, and times as timestamps.
CREATE VIEW {tasks} AS
SELECT lower(hex(id)) AS id, queue, reference, kind,
  CASE state WHEN 0 THEN 'CREATED' WHEN 1 THEN 'PROCESSING' WHEN 2 THEN 'COMPLETED' WHEN 3 THEN 'ERROR'
    WHEN 4 THEN 'POISON' END AS state,
  priority, attempt, max_attempts, lapses, fence,
  strftime('%Y-%m-%d %H:%M:%f', due / 1e6, 'unixepoch') AS due,
  strftime('%Y-%m-%d %H:%M:%f', lease_until / 1e6, 'unixepoch') AS lease_until, holder,
  strftime('%Y-%m-%d %H:%M:%f', taken / 1e6, 'unixepoch') AS taken,
  strftime('%Y-%m-%d %H:%M:%f', created / 1e6, 'unixepoch') AS created,
  strftime('%Y-%m-%d %H:%M:%f', updated / 1e6, 'unixepoch') AS updated,
  headers, length(payload) AS payload_bytes, CAST(result AS TEXT) AS result
  FROM {task};

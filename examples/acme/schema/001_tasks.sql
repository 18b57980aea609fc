-- A null reference is equal to no other.
CREATE TABLE {task} (
  id BLOB NOT NULL PRIMARY KEY, queue TEXT NOT NULL, reference TEXT, kind TEXT NOT NULL, task_key TEXT,
  state INTEGER NOT NULL CHECK (state IN (0, 1, 2, 3, 4)), priority INTEGER NOT NULL CHECK (priority BETWEEN 0 AND 9),
  attempt INTEGER NOT NULL DEFAULT 0, max_attempts INTEGER NOT NULL, fence INTEGER NOT NULL DEFAULT 0,
  lapses INTEGER NOT NULL DEFAULT 0, known_started INTEGER NOT NULL DEFAULT 0,
  cancelled INTEGER NOT NULL DEFAULT 0,
  due INTEGER, lease_until INTEGER, holder TEXT, taken INTEGER, created INTEGER NOT NULL, updated INTEGER NOT NULL,
  headers TEXT, payload BLOB, result BLOB, progress BLOB,
  UNIQUE (reference, queue)) STRICT;

CREATE INDEX {task}_ready ON {task} (queue, priority, due, id) WHERE due IS NOT NULL;

-- For queues with limits per key.
CREATE INDEX {task}_key ON {task} (queue, task_key, due, id) WHERE due IS NOT NULL AND task_key IS NOT NULL;

-- For queues with an order.
CREATE INDEX {task}_order ON {task} (queue, task_key, id) WHERE task_key IS NOT NULL;

CREATE INDEX {task}_busy ON {task} (queue) WHERE state = 1;

CREATE VIEW {tasks} AS SELECT hex(id) AS id, queue, reference, kind, task_key,
  CASE state WHEN 0 THEN 'CREATED' WHEN 1 THEN 'PROCESSING' WHEN 2 THEN 'COMPLETED' WHEN 3 THEN 'ERROR'
    WHEN 4 THEN 'POISON' END AS state, attempt, datetime(due / 1e6, 'unixepoch') AS due,
  datetime(lease_until / 1e6, 'unixepoch') AS lease_until, holder FROM {task};

-- Key/value records shared by all clients: pauses and settings of queues, the registry of workers, leaders,
-- schedules. Each write checks version. expires is when a record becomes invalid or, for a schedule, its next time.
CREATE TABLE {kv} (
  namespace TEXT NOT NULL,
  name TEXT NOT NULL,
  version INTEGER NOT NULL,
  value TEXT NOT NULL,
  updated INTEGER NOT NULL,
  expires INTEGER,
  PRIMARY KEY (namespace, name)) STRICT, WITHOUT ROWID;

CREATE INDEX {prefix}kv_expires ON {kv} (namespace, expires, name) WHERE expires IS NOT NULL;

-- The rates per key of queues with limits. A row is a key that has started tasks; full_at is when all of its starts are
-- free again, in microseconds since 1970 in UTC. A key without a row has all of them. Only a checkout that has locked
-- the limits of the queue writes its rows, and cleaning removes those whose time has passed.
CREATE TABLE {key_rate} (
  queue TEXT NOT NULL,
  task_key TEXT NOT NULL,
  full_at INTEGER NOT NULL,
  PRIMARY KEY (queue, task_key)) STRICT, WITHOUT ROWID;

CREATE INDEX {prefix}key_rate_full ON {key_rate} (full_at);

-- The history of attempts. The last attempt of a task is in the task's row. This table has the earlier ones, and the
-- last one of a task that was removed.
CREATE TABLE {attempt} (
  task BLOB NOT NULL,
  fence INTEGER NOT NULL,
  queue TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  outcome TEXT NOT NULL,
  taken INTEGER NOT NULL,
  ended INTEGER NOT NULL,
  worker TEXT NOT NULL,
  error BLOB,
  PRIMARY KEY (task, fence)) STRICT;

CREATE INDEX {prefix}attempt_ended ON {attempt} (queue, ended);

-- All attempts that have ended, including the last one of each task, which is in the task's row.
CREATE VIEW {attempts} AS
SELECT lower(hex(task)) AS task, attempt, outcome,
  strftime('%Y-%m-%d %H:%M:%f', taken / 1e6, 'unixepoch') AS taken,
  strftime('%Y-%m-%d %H:%M:%f', ended / 1e6, 'unixepoch') AS ended,
  worker, queue, fence, CAST(error AS TEXT) AS error
  FROM {attempt}
UNION ALL SELECT lower(hex(id)), attempt, CASE state WHEN 2 THEN 'completed' WHEN 3 THEN 'failed' ELSE 'poisoned' END,
  strftime('%Y-%m-%d %H:%M:%f', taken / 1e6, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', updated / 1e6, 'unixepoch'),
  substr(rtrim(holder, replace(holder, '#', '')), 1, length(rtrim(holder, replace(holder, '#', ''))) - 1), queue, fence,
  CASE WHEN state <> 2 THEN CAST(result AS TEXT) END
  FROM {task} AS t
 WHERE taken IS NOT NULL AND state IN (2, 3, 4)
   AND NOT EXISTS (SELECT 1 FROM {attempt} AS a WHERE a.task = t.id AND a.fence = t.fence);

-- Tasks that retention has moved out of the table of tasks. dbq never removes a row from it. An id can be used again
-- after its task was archived; the fences of its tasks differ.
CREATE TABLE {archive} (
  id BLOB NOT NULL CONSTRAINT {prefix}archive_id_length CHECK (length(id) = 16),
  queue TEXT NOT NULL,
  reference TEXT,
  kind TEXT NOT NULL,
  task_key TEXT,
  state INTEGER NOT NULL
    CONSTRAINT {prefix}archive_state CHECK (state = 0 OR state = 1 OR state = 2 OR state = 3 OR state = 4),
  priority INTEGER NOT NULL
    CONSTRAINT {prefix}archive_priority CHECK (priority BETWEEN 0 AND 9),
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
  progress BLOB,
  archived INTEGER NOT NULL) STRICT;

CREATE UNIQUE INDEX {prefix}archive_id ON {archive} (id, fence);

-- The tasks of the archive as a person reads them, with the names of states and with times as timestamps.
CREATE VIEW {archived} AS
SELECT lower(hex(id)) AS id, queue, reference, kind, task_key,
  CASE state WHEN 0 THEN 'CREATED' WHEN 1 THEN 'PROCESSING' WHEN 2 THEN 'COMPLETED' WHEN 3 THEN 'ERROR'
    WHEN 4 THEN 'POISON' END AS state,
  cancelled, priority, attempt, max_attempts, lapses, fence,
  strftime('%Y-%m-%d %H:%M:%f', due / 1e6, 'unixepoch') AS due, holder,
  strftime('%Y-%m-%d %H:%M:%f', taken / 1e6, 'unixepoch') AS taken,
  strftime('%Y-%m-%d %H:%M:%f', created / 1e6, 'unixepoch') AS created,
  strftime('%Y-%m-%d %H:%M:%f', updated / 1e6, 'unixepoch') AS updated,
  strftime('%Y-%m-%d %H:%M:%f', archived / 1e6, 'unixepoch') AS archived,
  headers, length(payload) AS payload_bytes, CAST(result AS TEXT) AS result,
  CAST(progress AS TEXT) AS progress
  FROM {archive};

-- The tasks of workflows. A task of a workflow has an id of version 8; a plain task has no row here. A workflow has no
-- row of its own: it is the tasks with its id.
-- needs counts the tasks that it still waits for, and dependents those that need it. run_at is its earliest start, and
-- delay the pause after the last task that it needs, in microseconds.
CREATE TABLE {step} (
  task BLOB NOT NULL PRIMARY KEY,
  workflow BLOB NOT NULL,
  name TEXT NOT NULL,
  queue TEXT NOT NULL,
  needs INTEGER NOT NULL
    CONSTRAINT {prefix}step_needs CHECK (needs >= 0),
  dependents INTEGER NOT NULL,
  run_at INTEGER,
  delay INTEGER NOT NULL) STRICT, WITHOUT ROWID;

CREATE INDEX {prefix}step_workflow ON {step} (workflow, task);

-- The task child needs the task parent of the same workflow. on_failure determines the fate of the child when the
-- parent goes to POISON: 0 cancels it, 1 lets it wait, 2 lets it run. met is 1 once the child no longer waits for the
-- parent.
CREATE TABLE {need} (
  parent BLOB NOT NULL,
  child BLOB NOT NULL,
  on_failure INTEGER NOT NULL
    CONSTRAINT {prefix}need_on_failure CHECK (on_failure IN (0, 1, 2)),
  met INTEGER NOT NULL
    CONSTRAINT {prefix}need_met CHECK (met IN (0, 1)),
  PRIMARY KEY (parent, child)) STRICT, WITHOUT ROWID;

CREATE INDEX {prefix}need_child ON {need} (child, parent);

-- What operators have changed, and who it was. The row of a change is written in the transaction of the change. A call
-- of several transactions has a row for each, its parts; the parts after part 0 have only their own changes. dbq never
-- updates a row.
CREATE TABLE {audit} (
  id BLOB NOT NULL,
  part INTEGER NOT NULL,
  happened INTEGER NOT NULL,
  who TEXT NOT NULL,
  program TEXT NOT NULL,
  address TEXT NOT NULL,
  request TEXT NOT NULL,
  action TEXT NOT NULL,
  queue TEXT NOT NULL,
  subject TEXT NOT NULL,
  task BLOB,
  task_filter TEXT NOT NULL,
  reason TEXT NOT NULL,
  old_value TEXT NOT NULL,
  new_value TEXT NOT NULL,
  changed INTEGER NOT NULL,
  PRIMARY KEY (id, part)) STRICT;

-- For the page of a task: the changes that operators made to it.
CREATE INDEX {prefix}audit_task ON {audit} (task, id) WHERE task IS NOT NULL;

-- Key/value records shared by all clients: pauses and settings of queues, the registry of workers, leaders,
-- schedules. Each write checks version. expires is when a record becomes invalid or, for a schedule, its next time.
CREATE TABLE IF NOT EXISTS {kv} (
  namespace VARBINARY(20) NOT NULL,
  name VARBINARY(800) NOT NULL,
  version BIGINT NOT NULL COMMENT 'checked by each write',
  value TEXT NOT NULL,
  updated BIGINT NOT NULL,
  expires BIGINT COMMENT 'when it becomes invalid or, for a schedule, its next time',
  PRIMARY KEY (namespace, name),
  KEY {prefix}kv_expires (namespace, expires, name)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4
  COMMENT = 'Records that all clients share, such as pauses, settings, workers and schedules.';

-- The rates per key of queues with limits. A row is a key that has started tasks; full_at is when all of its starts are
-- free again, in microseconds since 1970 in UTC. A key without a row has all of them. Only a checkout that has locked
-- the limits of the queue writes its rows, and cleaning removes those whose time has passed.
CREATE TABLE IF NOT EXISTS {key_rate} (
  queue VARBINARY(400) NOT NULL,
  task_key VARBINARY(800) NOT NULL,
  full_at BIGINT NOT NULL COMMENT 'when all starts of the key are free again, in microseconds since 1970',
  PRIMARY KEY (queue, task_key),
  KEY {prefix}key_rate_full (full_at)
) ENGINE = InnoDB COMMENT = 'The keys that have started tasks, in queues with a rate per key.';

-- The history of attempts. The last attempt of a task is in the task's row. This table has the earlier ones, and the
-- last one of a task that was removed.
CREATE TABLE IF NOT EXISTS {attempt} (
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
  KEY {prefix}attempt_ended (queue, ended)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4
  COMMENT = 'The history of attempts. The last attempt of a task is in the row of the task.';

-- All attempts that have ended, including the last one of each task, which is in the task's row.
CREATE OR REPLACE VIEW {attempts} AS
SELECT lower(hex(task)) AS task, attempt, CONVERT(outcome USING utf8mb4) AS outcome,
  '1970-01-01' + INTERVAL taken MICROSECOND AS taken,
  '1970-01-01' + INTERVAL ended MICROSECOND AS ended,
  CONVERT(worker USING utf8mb4) AS worker,
  CONVERT(queue USING utf8mb4) COLLATE /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */ AS queue, fence,
  CONVERT(error USING utf8mb4) AS error
  FROM {attempt}
UNION ALL SELECT lower(hex(id)), attempt, CASE state WHEN 2 THEN 'completed' WHEN 3 THEN 'failed' ELSE 'poisoned' END,
  '1970-01-01' + INTERVAL taken MICROSECOND, '1970-01-01' + INTERVAL updated MICROSECOND,
  CONVERT(LEFT(holder, LENGTH(holder) - LENGTH(SUBSTRING_INDEX(holder, '#', -1)) - 1) USING utf8mb4),
  CONVERT(queue USING utf8mb4) COLLATE /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */, fence,
  CASE WHEN state <> 2 THEN CONVERT(result USING utf8mb4) END
  FROM {task} AS t
 WHERE taken_at > 0 AND state IN (2, 3, 4)
   AND NOT EXISTS (SELECT 1 FROM {attempt} AS a WHERE a.task = t.id AND a.fence = t.fence);

-- Tasks that retention has moved out of the table of tasks. dbq never removes a row from it. An id can be used again
-- after its task was archived; the fences of its tasks differ.
CREATE TABLE IF NOT EXISTS {archive} (
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
  CONSTRAINT {prefix}archive_state CHECK (state IN (0, 1, 2, 3, 4)),
  CONSTRAINT {prefix}archive_priority CHECK (priority BETWEEN 0 AND 9)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COMMENT = 'Tasks that retention has moved out of the table of tasks.';

-- The tasks of the archive as a person reads them, with the names of states and with times as timestamps.
CREATE OR REPLACE VIEW {archived} AS
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
  FROM {archive};

-- The tasks of workflows. A task of a workflow has an id of version 8; a plain task has no row here. A workflow has no
-- row of its own: it is the tasks with its id.
CREATE TABLE IF NOT EXISTS {step} (
  task BINARY(16) NOT NULL PRIMARY KEY,
  workflow BINARY(16) NOT NULL,
  name VARBINARY(800) NOT NULL COMMENT 'the name of the step',
  queue VARBINARY(400) NOT NULL,
  needs INT NOT NULL COMMENT 'how many tasks it still waits for',
  dependents INT NOT NULL COMMENT 'how many tasks need it',
  run_at BIGINT COMMENT 'when it may start at the earliest, in microseconds since 1970 in UTC',
  delay BIGINT NOT NULL COMMENT 'the pause after the last task that it needs, in microseconds',
  CONSTRAINT {prefix}step_needs CHECK (needs >= 0),
  KEY {prefix}step_workflow (workflow, task)
) ENGINE = InnoDB COMMENT = 'The tasks of workflows. A plain task has no row here.';

-- The task child needs the task parent of the same workflow.
CREATE TABLE IF NOT EXISTS {need} (
  parent BINARY(16) NOT NULL,
  child BINARY(16) NOT NULL,
  on_failure TINYINT NOT NULL
    COMMENT 'what happens if the parent goes to POISON, 0 cancels the child, 1 lets it wait, 2 lets it go on',
  met TINYINT NOT NULL COMMENT '1 once the child no longer waits for the parent',
  CONSTRAINT {prefix}need_on_failure CHECK (on_failure IN (0, 1, 2)),
  CONSTRAINT {prefix}need_met CHECK (met IN (0, 1)),
  PRIMARY KEY (parent, child),
  KEY {prefix}need_child (child, parent)
) ENGINE = InnoDB COMMENT = 'The task child needs the task parent of the same workflow.';

-- What operators have changed, and who it was. The row of a change is written in the transaction of the change. A call
-- of several transactions has a row for each, its parts; the parts after part 0 have only their own changes. dbq never
-- updates a row.
CREATE TABLE IF NOT EXISTS {audit} (
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
  KEY {prefix}audit_task (task, id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COMMENT = 'What operators have changed, and who it was.';

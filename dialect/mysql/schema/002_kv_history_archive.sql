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
  CONVERT(worker USING utf8mb4) AS worker, CONVERT(queue USING utf8mb4) AS queue, fence,
  CONVERT(error USING utf8mb4) AS error
  FROM {attempt}
UNION ALL SELECT lower(hex(id)), attempt, CASE state WHEN 2 THEN 'completed' WHEN 3 THEN 'failed' ELSE 'poisoned' END,
  '1970-01-01' + INTERVAL taken MICROSECOND, '1970-01-01' + INTERVAL updated MICROSECOND,
  CONVERT(LEFT(holder, LENGTH(holder) - LENGTH(SUBSTRING_INDEX(holder, '#', -1)) - 1) USING utf8mb4),
  CONVERT(queue USING utf8mb4), fence, CASE WHEN state <> 2 THEN CONVERT(result USING utf8mb4) END
  FROM {task} AS t
 WHERE taken_at > 0 AND state IN (2, 3, 4)
   AND NOT EXISTS (SELECT 1 FROM {attempt} AS a WHERE a.task = t.id AND a.fence = t.fence);

-- Tasks that retention has moved out of the table of tasks. dbq never removes a row from it.
CREATE TABLE IF NOT EXISTS {archive} (
  id BINARY(16) NOT NULL PRIMARY KEY,
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
  CONSTRAINT {prefix}archive_state CHECK (state IN (0, 1, 2, 3, 4)),
  CONSTRAINT {prefix}archive_priority CHECK (priority BETWEEN 0 AND 9)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COMMENT = 'Tasks that retention has moved out of the table of tasks.';

-- The tasks of graphs. A task of a graph has an id of version 8; a plain task has no row here. needs counts the tasks
-- that it still waits for, and dependents those that need it. run_at and delay are when it may start, once it waits for
-- none. A graph has no row of its own: it is the tasks with its id.
CREATE TABLE IF NOT EXISTS {graph_task} (
  task BINARY(16) NOT NULL PRIMARY KEY,
  graph BINARY(16) NOT NULL,
  name VARBINARY(800) NOT NULL,
  queue VARBINARY(400) NOT NULL,
  needs INT NOT NULL,
  dependents INT NOT NULL,
  run_at BIGINT,
  delay BIGINT NOT NULL,
  KEY {prefix}graph_task_graph (graph, task)
) ENGINE = InnoDB;

-- What the tasks of graphs need: child waits for parent. on_failure is what happens when the parent goes to POISON: 0
-- cancels the child, 1 lets it wait, 2 lets it go on. met is 1 once the child no longer waits for the parent.
CREATE TABLE IF NOT EXISTS {graph_need} (
  parent BINARY(16) NOT NULL,
  child BINARY(16) NOT NULL,
  on_failure TINYINT NOT NULL,
  met TINYINT NOT NULL,
  PRIMARY KEY (parent, child),
  KEY {prefix}graph_need_child (child, parent)
) ENGINE = InnoDB;

-- Key/value records shared by all clients: pauses and settings of queues, the registry of workers, leaders,
-- schedules. Each write checks version. expires is when a record becomes invalid or, for a schedule, its next time.
CREATE TABLE {kv} (
  namespace VARCHAR2(20 BYTE) NOT NULL,
  name VARCHAR2(800 BYTE) NOT NULL,
  version NUMBER(19) NOT NULL,
  value VARCHAR2(4000 BYTE) NOT NULL,
  updated NUMBER(19) NOT NULL,
  expires NUMBER(19),
  CONSTRAINT {prefix}kv_pk PRIMARY KEY (namespace, name)
);

COMMENT ON TABLE {kv} IS 'Records that all clients share, such as pauses, settings, workers and schedules.';
COMMENT ON COLUMN {kv}.version IS 'checked by each write';
COMMENT ON COLUMN {kv}.expires IS 'when it becomes invalid or, for a schedule, its next time';

-- The history of attempts. The last attempt of a task is in the task's row. This table has the earlier ones, and the
-- last one of a task that was removed.
CREATE TABLE {attempt} (
  task RAW(16) NOT NULL,
  fence NUMBER(19) NOT NULL,
  queue VARCHAR2(400 BYTE) NOT NULL,
  attempt NUMBER(5) NOT NULL,
  outcome VARCHAR2(20 BYTE) NOT NULL,
  taken NUMBER(19) NOT NULL,
  ended NUMBER(19) NOT NULL,
  worker VARCHAR2(800 BYTE),
  error BLOB,
  CONSTRAINT {prefix}att_pk PRIMARY KEY (task, fence)
);

COMMENT ON TABLE {attempt} IS 'The history of attempts. The last attempt of a task is in the row of the task.';

CREATE INDEX {owner}att_ended ON {attempt} (queue, ended);

-- All attempts that have ended, including the last one of each task, which is in the task's row.
CREATE OR REPLACE VIEW {attempts} AS
SELECT LOWER(RAWTOHEX(task)) AS task, attempt, outcome,
  CAST(DATE '1970-01-01' AS TIMESTAMP) + NUMTODSINTERVAL(taken / 1000000, 'SECOND') AS taken,
  CAST(DATE '1970-01-01' AS TIMESTAMP) + NUMTODSINTERVAL(ended / 1000000, 'SECOND') AS ended,
  worker, queue, fence, error
  FROM {attempt}
UNION ALL SELECT LOWER(RAWTOHEX(id)), attempt,
  CASE state WHEN 2 THEN 'completed' WHEN 3 THEN 'failed' ELSE 'poisoned' END,
  CAST(DATE '1970-01-01' AS TIMESTAMP) + NUMTODSINTERVAL(taken / 1000000, 'SECOND'),
  CAST(DATE '1970-01-01' AS TIMESTAMP) + NUMTODSINTERVAL(updated / 1000000, 'SECOND'),
  SUBSTR(holder, 1, INSTR(holder, '#', -1) - 1), queue, fence, CASE WHEN state <> 2 THEN result END
  FROM {task} t
 WHERE taken IS NOT NULL AND state IN (2, 3, 4)
   AND NOT EXISTS (SELECT 1 FROM {attempt} a WHERE a.task = t.id AND a.fence = t.fence);

COMMENT ON TABLE {attempts} IS 'All attempts that have ended.';

-- Tasks that retention has moved out of the table of tasks. dbq never removes a row from it.
CREATE TABLE {archive} (
  id RAW(16) NOT NULL,
  queue VARCHAR2(400 BYTE) NOT NULL,
  reference VARCHAR2(800 BYTE),
  kind VARCHAR2(400 BYTE),
  task_key VARCHAR2(800 BYTE),
  state NUMBER(1) NOT NULL,
  priority NUMBER(1) NOT NULL,
  attempt NUMBER(5) DEFAULT 0 NOT NULL,
  max_attempts NUMBER(5) NOT NULL,
  lapses NUMBER(3) DEFAULT 0 NOT NULL,
  known_started NUMBER(1) DEFAULT 0 NOT NULL,
  cancelled NUMBER(1) DEFAULT 0 NOT NULL,
  fence NUMBER(19) DEFAULT 0 NOT NULL,
  due NUMBER(19),
  was_due NUMBER(19),
  lease_until NUMBER(19),
  taken NUMBER(19),
  holder VARCHAR2(800 BYTE),
  created NUMBER(19) NOT NULL,
  updated NUMBER(19) NOT NULL,
  headers VARCHAR2(4000 BYTE),
  payload_size NUMBER(10),
  result_size NUMBER(10),
  payload BLOB,
  result BLOB,
  progress BLOB,
  archived NUMBER(19) NOT NULL,
  CONSTRAINT {prefix}arch_pk PRIMARY KEY (id),
  CONSTRAINT {prefix}arch_state CHECK (state IN (0, 1, 2, 3, 4)),
  CONSTRAINT {prefix}arch_prio CHECK (priority BETWEEN 0 AND 9)
);

COMMENT ON TABLE {archive} IS 'Tasks that retention has moved out of the table of tasks.';
COMMENT ON COLUMN {archive}.archived IS 'when it was moved here';

-- The tasks of graphs. A task of a graph has an id of version 8; a plain task has no row here. needs counts the tasks
-- that it still waits for, and dependents those that need it. run_at and delay are when it may start, once it waits for
-- none. A graph has no row of its own: it is the tasks with its id.
CREATE TABLE {graph_task} (
  task RAW(16) NOT NULL,
  graph RAW(16) NOT NULL,
  name VARCHAR2(800 BYTE) NOT NULL,
  queue VARCHAR2(400 BYTE) NOT NULL,
  needs NUMBER(10) NOT NULL,
  dependents NUMBER(10) NOT NULL,
  run_at NUMBER(19),
  delay NUMBER(19) NOT NULL,
  CONSTRAINT {prefix}grtask_pk PRIMARY KEY (task)
) INITRANS 16;

CREATE INDEX {owner}grtask_gr ON {graph_task} (graph, task);

-- What the tasks of graphs need: child waits for parent. on_failure is what happens when the parent goes to POISON: 0
-- cancels the child, 1 lets it wait, 2 lets it go on. met is 1 once the child no longer waits for the parent.
CREATE TABLE {graph_need} (
  parent RAW(16) NOT NULL,
  child RAW(16) NOT NULL,
  on_failure NUMBER(1) NOT NULL,
  met NUMBER(1) NOT NULL,
  CONSTRAINT {prefix}grneed_pk PRIMARY KEY (parent, child)
) INITRANS 16;

CREATE INDEX {owner}grneed_ch ON {graph_need} (child, parent);

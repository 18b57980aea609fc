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

-- The rates per key of queues with limits. A row is a key that has started tasks; full_at is when all of its starts are
-- free again, in microseconds since 1970 in UTC. A key without a row has all of them. Only a checkout that has locked
-- the limits of the queue writes its rows, and cleaning removes those whose time has passed.
CREATE TABLE {key_rate} (
  queue VARCHAR2(400 BYTE) NOT NULL,
  task_key VARCHAR2(800 BYTE) NOT NULL,
  full_at NUMBER(19) NOT NULL,
  CONSTRAINT {prefix}krate_pk PRIMARY KEY (queue, task_key)
) INITRANS 16;

COMMENT ON TABLE {key_rate} IS 'The keys that have started tasks, in queues with a rate per key.';
COMMENT ON COLUMN {key_rate}.full_at IS 'when all starts of the key are free again, in microseconds since 1970';

CREATE INDEX {owner}krate_full ON {key_rate} (full_at);

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

-- Tasks that retention has moved out of the table of tasks. dbq never removes a row from it. An id can be used again
-- after its task was archived; the fences of its tasks differ.
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
  CONSTRAINT {prefix}arch_pk PRIMARY KEY (id, fence),
  CONSTRAINT {prefix}arch_state CHECK (state IN (0, 1, 2, 3, 4)),
  CONSTRAINT {prefix}arch_prio CHECK (priority BETWEEN 0 AND 9)
);

COMMENT ON TABLE {archive} IS 'Tasks that retention has moved out of the table of tasks.';
COMMENT ON COLUMN {archive}.archived IS 'when it was moved here';

-- The tasks of the archive as a person reads them, with the names of states and with times as timestamps.
CREATE OR REPLACE VIEW {archived} AS
SELECT LOWER(RAWTOHEX(id)) AS id, queue, reference, kind, task_key,
  CASE state WHEN 0 THEN 'CREATED' WHEN 1 THEN 'PROCESSING' WHEN 2 THEN 'COMPLETED' WHEN 3 THEN 'ERROR'
    WHEN 4 THEN 'POISON' END AS state,
  cancelled, priority, attempt, max_attempts, lapses, fence,
  CAST(DATE '1970-01-01' AS TIMESTAMP) + NUMTODSINTERVAL(due / 1000000, 'SECOND') AS due,
  holder,
  CAST(DATE '1970-01-01' AS TIMESTAMP) + NUMTODSINTERVAL(taken / 1000000, 'SECOND') AS taken,
  CAST(DATE '1970-01-01' AS TIMESTAMP) + NUMTODSINTERVAL(created / 1000000, 'SECOND') AS created,
  CAST(DATE '1970-01-01' AS TIMESTAMP) + NUMTODSINTERVAL(updated / 1000000, 'SECOND') AS updated,
  CAST(DATE '1970-01-01' AS TIMESTAMP) + NUMTODSINTERVAL(archived / 1000000, 'SECOND') AS archived,
  headers, payload_size AS payload_bytes, result, progress
  FROM {archive};

COMMENT ON TABLE {archived} IS 'The tasks of the archive, with the names of states, and with times as timestamps.';

-- The tasks of workflows. A task of a workflow has an id of version 8; a plain task has no row here. A workflow has no
-- row of its own: it is the tasks with its id.
CREATE TABLE {step} (
  task RAW(16) NOT NULL,
  workflow RAW(16) NOT NULL,
  name VARCHAR2(800 BYTE) NOT NULL,
  queue VARCHAR2(400 BYTE) NOT NULL,
  needs NUMBER(10) NOT NULL,
  dependents NUMBER(10) NOT NULL,
  run_at NUMBER(19),
  delay NUMBER(19) NOT NULL,
  CONSTRAINT {prefix}step_pk PRIMARY KEY (task),
  CONSTRAINT {prefix}step_needs CHECK (needs >= 0)
) INITRANS 16;

COMMENT ON TABLE {step} IS 'The tasks of workflows. A plain task has no row here.';
COMMENT ON COLUMN {step}.name IS 'the name of the step';
COMMENT ON COLUMN {step}.needs IS 'how many tasks it still waits for';
COMMENT ON COLUMN {step}.dependents IS 'how many tasks need it';
COMMENT ON COLUMN {step}.run_at IS 'when it may start at the earliest, in microseconds since 1970 in UTC';
COMMENT ON COLUMN {step}.delay IS 'the pause after the last task that it needs, in microseconds';

CREATE INDEX {owner}step_wf ON {step} (workflow, task);

-- The task child needs the task parent of the same workflow.
CREATE TABLE {need} (
  parent RAW(16) NOT NULL,
  child RAW(16) NOT NULL,
  on_failure NUMBER(1) NOT NULL,
  met NUMBER(1) NOT NULL,
  CONSTRAINT {prefix}need_pk PRIMARY KEY (parent, child),
  CONSTRAINT {prefix}need_fail CHECK (on_failure IN (0, 1, 2)),
  CONSTRAINT {prefix}need_met CHECK (met IN (0, 1))
) INITRANS 16;

COMMENT ON TABLE {need} IS 'The task child needs the task parent of the same workflow.';
COMMENT ON COLUMN {need}.on_failure IS
  'what happens if the parent goes to POISON, 0 cancels the child, 1 lets it wait, 2 lets it go on';
COMMENT ON COLUMN {need}.met IS '1 once the child no longer waits for the parent';

CREATE INDEX {owner}need_ch ON {need} (child, parent);

-- What operators have changed, and who it was. The row of a change is written in the transaction of the change. A call
-- of several transactions has a row for each, its parts; the parts after part 0 have only their own changes. dbq never
-- updates a row.
CREATE TABLE {audit} (
  id RAW(16) NOT NULL,
  part NUMBER(10) NOT NULL,
  happened NUMBER(19) NOT NULL,
  who VARCHAR2(800 BYTE),
  program VARCHAR2(800 BYTE),
  address VARCHAR2(800 BYTE),
  request VARCHAR2(800 BYTE),
  action VARCHAR2(100 BYTE),
  queue VARCHAR2(400 BYTE),
  subject VARCHAR2(800 BYTE),
  task RAW(16),
  task_filter VARCHAR2(4000 BYTE),
  reason VARCHAR2(4000 BYTE),
  old_value VARCHAR2(4000 BYTE),
  new_value VARCHAR2(4000 BYTE),
  changed NUMBER(10) NOT NULL,
  CONSTRAINT {prefix}audit_pk PRIMARY KEY (id, part)
);

-- For the page of a task: the changes that operators made to it.
CREATE INDEX {owner}audit_task ON {audit} (task, id);

COMMENT ON TABLE {audit} IS 'What operators have changed, and who it was.';
COMMENT ON COLUMN {audit}.part IS '0, or the number of a later transaction of the same call';
COMMENT ON COLUMN {audit}.subject IS 'the schedule, worker or token';
COMMENT ON COLUMN {audit}.changed IS 'how many tasks or settings';

-- Key/value records shared by all clients: pauses and settings of queues, the registry of workers, leaders,
-- schedules. Each write checks version. expires is when a record becomes invalid or, for a schedule, its next time.
CREATE TABLE {kv} (
  namespace varchar(20) COLLATE "C" NOT NULL,
  name varchar(200) COLLATE "C" NOT NULL,
  version bigint NOT NULL,
  value text NOT NULL,
  updated bigint NOT NULL,
  expires bigint,
  PRIMARY KEY (namespace, name));

COMMENT ON TABLE {kv} IS 'Records that all clients share, such as pauses, settings, workers and schedules.';
COMMENT ON COLUMN {kv}.version IS 'checked by each write';
COMMENT ON COLUMN {kv}.expires IS 'when it becomes invalid or, for a schedule, its next time';

CREATE INDEX {prefix}kv_expires ON {kv} (namespace, expires, name) WHERE expires IS NOT NULL;

-- The rates per key of queues with limits. A row is a key that has started tasks; full_at is when all of its starts are
-- free again, in microseconds since 1970 in UTC. A key without a row has all of them. Only a checkout that has locked
-- the limits of the queue writes its rows, and cleaning removes those whose time has passed.
CREATE TABLE {key_rate} (
  queue varchar(100) COLLATE "C" NOT NULL,
  task_key varchar(200) COLLATE "C" NOT NULL,
  full_at bigint NOT NULL,
  PRIMARY KEY (queue, task_key)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0,
  autovacuum_analyze_scale_factor = 0.05);

COMMENT ON TABLE {key_rate} IS 'The keys that have started tasks, in queues with a rate per key.';
COMMENT ON COLUMN {key_rate}.full_at IS 'when all starts of the key are free again, in microseconds since 1970';

CREATE INDEX {prefix}key_rate_full ON {key_rate} (full_at);

-- The history of attempts. The last attempt of a task is in the task's row. This table has the earlier ones, and the
-- last one of a task that was removed.
CREATE TABLE {attempt} (
  task uuid NOT NULL,
  fence bigint NOT NULL,
  taken bigint NOT NULL,
  ended bigint NOT NULL,
  attempt smallint NOT NULL,
  outcome varchar(20) NOT NULL,
  queue varchar(100) COLLATE "C" NOT NULL,
  worker varchar(200) NOT NULL,
  error bytea,
  PRIMARY KEY (task, fence));

COMMENT ON TABLE {attempt} IS 'The history of attempts. The last attempt of a task is in the row of the task.';

CREATE INDEX {prefix}attempt_ended ON {attempt} (queue, ended);

-- All attempts that have ended, including the last one of each task, which is in the task's row. error is text if it
-- is valid UTF-8, and escaped otherwise.
CREATE VIEW {attempts} AS
SELECT task, attempt, outcome, to_timestamp(taken / 1e6) AS taken, to_timestamp(ended / 1e6) AS ended,
  worker, queue, fence, CASE
    WHEN encode(error, 'hex') ~ (
      '^(0[1-9a-f]|[1-7][0-9a-f]|(c[2-9a-f]|d[0-9a-f])[89ab][0-9a-f]|(e0[ab]|e[1-9abcef][89ab]|ed[89])[0-9a-f]'
      '[89ab][0-9a-f]|(f0[9ab]|f[1-3][89ab]|f48)[0-9a-f]([89ab][0-9a-f]){2})*$')
    THEN convert_from(error, 'UTF8')
    ELSE encode(error, 'escape') END AS error
  FROM (
    SELECT task, attempt, outcome, taken, ended, worker, queue, fence, error
      FROM {attempt}
    UNION ALL
    SELECT id, attempt, CASE state WHEN 2 THEN 'completed' WHEN 3 THEN 'failed' ELSE 'poisoned' END,
      taken, updated, regexp_replace(holder, '#[^#]*$', ''), queue, fence, CASE WHEN state <> 2 THEN result END
      FROM {task} t
     WHERE taken IS NOT NULL AND state IN (2, 3, 4)
       AND NOT EXISTS (SELECT 1 FROM {attempt} a WHERE a.task = t.id AND a.fence = t.fence)
  ) ended_attempt;

COMMENT ON VIEW {attempts} IS 'All attempts that have ended.';

-- Tasks that retention has moved out of the table of tasks. dbq never removes a row from it. An id can be used again
-- after its task was archived; the fences of its tasks differ.
CREATE TABLE {archive} (LIKE {task} INCLUDING CONSTRAINTS INCLUDING COMMENTS,
  archived bigint NOT NULL, PRIMARY KEY (id, fence));

COMMENT ON TABLE {archive} IS 'Tasks that retention has moved out of the table of tasks.';
COMMENT ON COLUMN {archive}.archived IS 'when it was moved here';

-- The tasks of the archive as a person reads them, with the names of states and with times as timestamps.
CREATE VIEW {archived} AS
SELECT id, queue, reference, kind, task_key,
  CASE state WHEN 0 THEN 'CREATED' WHEN 1 THEN 'PROCESSING' WHEN 2 THEN 'COMPLETED' WHEN 3 THEN 'ERROR'
    WHEN 4 THEN 'POISON' END AS state,
  cancelled, priority, attempt, max_attempts, lapses, fence, to_timestamp(due / 1e6) AS due,
  holder, to_timestamp(taken / 1e6) AS taken, to_timestamp(created / 1e6) AS created,
  to_timestamp(updated / 1e6) AS updated, to_timestamp(archived / 1e6) AS archived,
  headers, octet_length(payload) AS payload_bytes, CASE
    WHEN encode(result, 'hex') ~ (
      '^(0[1-9a-f]|[1-7][0-9a-f]|(c[2-9a-f]|d[0-9a-f])[89ab][0-9a-f]|(e0[ab]|e[1-9abcef][89ab]|ed[89])[0-9a-f]'
      '[89ab][0-9a-f]|(f0[9ab]|f[1-3][89ab]|f48)[0-9a-f]([89ab][0-9a-f]){2})*$')
    THEN convert_from(result, 'UTF8')
    ELSE encode(result, 'escape') END AS result,
  encode(progress, 'escape') AS progress
  FROM {archive};

COMMENT ON VIEW {archived} IS 'The tasks of the archive, with the names of states, and with times as timestamps.';

-- The tasks of workflows. A task of a workflow has an id of version 8; a plain task has no row here. A workflow has no
-- row of its own: it is the tasks with its id.
CREATE TABLE {step} (
  task uuid PRIMARY KEY,
  workflow uuid NOT NULL,
  name varchar(200) COLLATE "C" NOT NULL,
  queue varchar(100) COLLATE "C" NOT NULL,
  needs integer NOT NULL
    CONSTRAINT {prefix}step_needs CHECK (needs >= 0),
  dependents integer NOT NULL,
  run_at bigint,
  delay bigint NOT NULL
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500,
  autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.05);

COMMENT ON TABLE {step} IS 'The tasks of workflows. A plain task has no row here.';
COMMENT ON COLUMN {step}.name IS 'the name of the step';
COMMENT ON COLUMN {step}.needs IS 'how many tasks it still waits for';
COMMENT ON COLUMN {step}.dependents IS 'how many tasks need it';
COMMENT ON COLUMN {step}.run_at IS 'when it may start at the earliest, in microseconds since 1970 in UTC';
COMMENT ON COLUMN {step}.delay IS 'the pause after the last task that it needs, in microseconds';

CREATE INDEX {prefix}step_workflow ON {step} (workflow, task);

-- The task child needs the task parent of the same workflow.
CREATE TABLE {need} (
  parent uuid NOT NULL,
  child uuid NOT NULL,
  on_failure smallint NOT NULL
    CONSTRAINT {prefix}need_on_failure CHECK (on_failure IN (0, 1, 2)),
  met smallint NOT NULL
    CONSTRAINT {prefix}need_met CHECK (met IN (0, 1)),
  PRIMARY KEY (parent, child)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500,
  autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.05);

COMMENT ON TABLE {need} IS 'The task child needs the task parent of the same workflow.';
COMMENT ON COLUMN {need}.on_failure IS
  'what happens if the parent goes to POISON, 0 cancels the child, 1 lets it wait, 2 lets it go on';
COMMENT ON COLUMN {need}.met IS '1 once the child no longer waits for the parent';

CREATE INDEX {prefix}need_child ON {need} (child, parent);

-- What operators have changed, and who it was. The row of a change is written in the transaction of the change. A call
-- of several transactions has a row for each, its parts; the parts after part 0 have only their own changes. dbq never
-- updates a row.
CREATE TABLE {audit} (
  id uuid NOT NULL,
  part integer NOT NULL,
  happened bigint NOT NULL,
  who varchar(200) COLLATE "C" NOT NULL,
  program varchar(200) COLLATE "C" NOT NULL,
  address varchar(200) COLLATE "C" NOT NULL,
  request varchar(200) COLLATE "C" NOT NULL,
  action varchar(100) COLLATE "C" NOT NULL,
  queue varchar(100) COLLATE "C" NOT NULL,
  subject varchar(200) COLLATE "C" NOT NULL,
  task uuid,
  task_filter text NOT NULL,
  reason text NOT NULL,
  old_value text NOT NULL,
  new_value text NOT NULL,
  changed integer NOT NULL,
  PRIMARY KEY (id, part));

-- For the page of a task: the changes that operators made to it.
CREATE INDEX {prefix}audit_task ON {audit} (task, id) WHERE task IS NOT NULL;

COMMENT ON TABLE {audit} IS 'What operators have changed, and who it was.';
COMMENT ON COLUMN {audit}.part IS '0, or the number of a later transaction of the same call';
COMMENT ON COLUMN {audit}.subject IS 'the schedule, worker or token';
COMMENT ON COLUMN {audit}.changed IS 'how many tasks or settings';

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

-- Tasks that retention has moved out of the table of tasks. dbq never removes a row from it.
CREATE TABLE {archive} (LIKE {task} INCLUDING CONSTRAINTS INCLUDING COMMENTS,
  archived bigint NOT NULL, PRIMARY KEY (id));

COMMENT ON TABLE {archive} IS 'Tasks that retention has moved out of the table of tasks.';
COMMENT ON COLUMN {archive}.archived IS 'when it was moved here';

-- The tasks of graphs. A task of a graph has an id of version 8; a plain task has no row here. needs counts the tasks
-- that it still waits for, and dependents those that need it. run_at and delay are when it may start, once it waits for
-- none. A graph has no row of its own: it is the tasks with its id.
CREATE TABLE {graph_task} (
  task uuid PRIMARY KEY,
  graph uuid NOT NULL,
  name varchar(200) COLLATE "C" NOT NULL,
  queue varchar(100) COLLATE "C" NOT NULL,
  needs integer NOT NULL,
  dependents integer NOT NULL,
  run_at bigint,
  delay bigint NOT NULL
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500,
  autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.05);

CREATE INDEX {prefix}graph_task_graph ON {graph_task} (graph, task);

-- What the tasks of graphs need: child waits for parent. on_failure is what happens when the parent goes to POISON: 0
-- cancels the child, 1 lets it wait, 2 lets it go on. met is 1 once the child no longer waits for the parent.
CREATE TABLE {graph_need} (
  parent uuid NOT NULL,
  child uuid NOT NULL,
  on_failure smallint NOT NULL,
  met smallint NOT NULL,
  PRIMARY KEY (parent, child)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500,
  autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.05);

CREATE INDEX {prefix}graph_need_child ON {graph_need} (child, parent);

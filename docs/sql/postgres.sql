-- Every statement that dbq runs on its tables, for review by a DBA. docs/scaling.md describes
-- the settings of its sessions. This page omits COMMIT, ROLLBACK, savepoints, LISTEN, and queries of the server's
-- version and settings.
-- Generated from the dialect by "go generate ./..."; do not edit.

-- ======== Conventions ========

-- A :name stands for a value, which is sent apart from the text and never written into it. In a statement that takes
-- many rows, it is an array. Times are microseconds since 1970 in UTC. States are 0 CREATED, 1 PROCESSING, 2
-- COMPLETED, 3 ERROR, 4 POISON. Tables begin with "dbq_" unless a program says otherwise.
--
-- {now} stands for the database's clock:
--   CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint)
--
-- In FindKeys, LockWaiting, LockKeys, DropKeys: The list comes from a subquery, which hides its length: the planner
-- uses the primary key, whatever it knows about the table.
--
-- In ready, ready within, see ready: Each priority has a search of its own. One search ordered by priority and due
-- time would read all future tasks of the better priorities on PostgreSQL before 18.
--
-- In ready, ready within, see ready, see expired, DueKeys, DueOfKeys, HeadsOfKeys: octet_length reads the size of a
-- payload from the task's row, even if the payload is compressed or stored outside of the row.
--
-- In ready, ready within, take ready: The update takes only rows that are still due. coalesce hides that condition
-- from the planner, which might otherwise read all of task_ready to find the rows. was_due keeps when the task became
-- due, because RETURNING cannot read old values before PostgreSQL 18. What the call itself has set is not returned.
--
-- In take ready, take expired, Start, DropLeases: OFFSET 0 hides the length of the arrays from the planner, which
-- would rather scan a small table for a long array than look up each row.
--
-- In take expired, Settle, Movable, Exhausted: The progress that heartbeats have stored is in the renewal.
--
-- In Settle, complete uniform, Remove, remove uniform: The CASE is always true. set_config bounds how long the
-- transaction waits for a row that another one has locked (lock_timeout). It is evaluated once, before any row is
-- locked; without a bound, in a caller's transaction, it leaves the session's setting.

-- ======== The schema ========

-- You can paste this section into the engine's client, to create the tables by hand. "dbq migrate" runs it.

-- dbq's tables for postgres

-- 0: migration

-- The table of applied migrations. dbq runs this file before every migration, so its statements can be repeated.
CREATE TABLE IF NOT EXISTS dbq_migration (
  version integer PRIMARY KEY, title text NOT NULL, compatible integer NOT NULL, applied bigint NOT NULL);

-- 1: tasks

-- One row for each task. Times are microseconds since 1970 in UTC, by the database's clock. fence grows with every
-- change of owner: a statement under an outdated fence changes nothing.
--
-- A task that may become due has a due time; every other row has none. So one partial index (task_ready) serves
-- checkout in all states, and a task that has ended is only in the indexes of its id, its reference and, unless it
-- completed, task_failed. lease_until is in no index, since each lease writes it. Leased tasks are found by updated,
-- the time at which they were taken (task_busy). was_due is the due time that a leased task had. Keys compare byte by
-- byte (COLLATE "C"). The columns are ordered by size, so that none is padded.
--
-- Checkout and completion change indexed columns, so their updates are never HOT. But a new version of a row on the
-- same page is logged as a difference: with a fillfactor of 70, a task writes 14 % less WAL. Each task leaves dead
-- versions of its row behind, which later searches have to pass. So autovacuum starts early (2 % of the table and 500
-- rows), does not pause, and keeps the planner's statistics fresh (5 %).
--
-- The defaults of id (a UUID of version 7), due, created, updated, state, priority and max_attempts are for rows that
-- are inserted through the view dbq_enqueue. dbq itself always sets these columns.
CREATE TABLE dbq_task (
  id uuid PRIMARY KEY DEFAULT CAST(
    lpad(to_hex(CAST(floor(extract(epoch FROM clock_timestamp()) * 1000) AS bigint)), 12, '0')
    || '7' || substr(CAST(gen_random_uuid() AS text), 16) AS uuid),
  fence bigint NOT NULL DEFAULT 0,
  due bigint DEFAULT CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint),
  was_due bigint,
  lease_until bigint,
  taken bigint,
  created bigint NOT NULL DEFAULT CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint),
  updated bigint NOT NULL DEFAULT CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint),
  state smallint NOT NULL DEFAULT 0
    CONSTRAINT dbq_task_state CHECK (state IN (0, 1, 2, 3, 4)),
  priority smallint NOT NULL DEFAULT 0
    CONSTRAINT dbq_task_priority CHECK (priority BETWEEN 0 AND 9),
  attempt smallint NOT NULL DEFAULT 0,
  max_attempts smallint NOT NULL DEFAULT 20,
  lapses smallint NOT NULL DEFAULT 0,
  known_started smallint NOT NULL DEFAULT 0,
  cancelled smallint NOT NULL DEFAULT 0,
  queue varchar(100) COLLATE "C" NOT NULL,
  reference varchar(200) COLLATE "C",
  kind varchar(100) COLLATE "C" NOT NULL,
  task_key varchar(200) COLLATE "C",
  holder varchar(200),
  headers text,
  payload bytea,
  result bytea,
  progress bytea
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500,
  autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.05);

COMMENT ON TABLE dbq_task IS 'One row for each task. Only dbq may change it. To read tasks, use the view dbq_tasks.';

COMMENT ON COLUMN dbq_task.fence IS 'grows with each change of owner; a change under an older fence is refused';

COMMENT ON COLUMN dbq_task.due IS 'when it may be leased, in microseconds since 1970 in UTC; null if it may not';

COMMENT ON COLUMN dbq_task.was_due IS 'the due time that it had when it was leased';

COMMENT ON COLUMN dbq_task.lease_until IS 'the end of its lease, unless the table of leases has a renewal';

COMMENT ON COLUMN dbq_task.taken IS 'when its last attempt began';

COMMENT ON COLUMN dbq_task.updated IS 'when its state or its owner last changed';

COMMENT ON COLUMN dbq_task.state IS '0 CREATED, 1 PROCESSING, 2 COMPLETED, 3 ERROR, 4 POISON';

COMMENT ON COLUMN dbq_task.priority IS '0 (first) to 9';

COMMENT ON COLUMN dbq_task.attempt IS 'the number of its last attempt';

COMMENT ON COLUMN dbq_task.max_attempts IS 'the number of attempts after which the task goes to POISON';

COMMENT ON COLUMN dbq_task.lapses IS 'leases in a row that expired without counting as an attempt';

COMMENT ON COLUMN dbq_task.known_started IS '1 if the attempt counts when its lease expires';

COMMENT ON COLUMN dbq_task.cancelled IS '1 if an operator has cancelled it';

COMMENT ON COLUMN dbq_task.reference IS 'unique within the queue while the row exists';

COMMENT ON COLUMN dbq_task.task_key IS 'the key to which limits per key apply';

COMMENT ON COLUMN dbq_task.holder IS 'the worker that leased it last, and the token of the checkout';

COMMENT ON COLUMN dbq_task.headers IS 'a JSON object';

COMMENT ON COLUMN dbq_task.result IS 'the result of a COMPLETED task, otherwise the last error or reason';

COMMENT ON COLUMN dbq_task.progress IS 'the progress that earlier attempts reported';

-- The renewals of leases. The first end of a lease is in the task's row. A heartbeat writes a row here, under the
-- task's fence, and not the task's row: that would fail a caller's transaction at REPEATABLE READ or SERIALIZABLE
-- that completes the task, and would wait for a transaction that has locked it. A takeover writes the next fence here
-- before it takes the task, so a concurrent renewal and takeover conflict on this row, and only one of them succeeds.
--
-- lease_until is the end of the renewed lease. The row is kept until keep_until: a renewal may end before the lease
-- in the task's row, which would be valid again without it. The table is narrow and has one index, and half of each
-- page is free (fillfactor 50), so that a renewal is a small HOT update.
--
-- progress is the holder's report under this fence or, after a takeover, under the one before. The row of a leased task
-- that has progress is kept. Long progress is stored outside of the row (toast_tuple_target), so that scans of the
-- table stay short.
CREATE TABLE dbq_lease (
  id uuid PRIMARY KEY,
  fence bigint NOT NULL,
  lease_until bigint NOT NULL,
  keep_until bigint NOT NULL,
  progress bytea
) WITH (fillfactor = 50, toast_tuple_target = 128,
  autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500,
  autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.05);

COMMENT ON TABLE dbq_lease IS 'Renewals of leases, and the progress that holders report.';

COMMENT ON COLUMN dbq_lease.id IS 'the task';

COMMENT ON COLUMN dbq_lease.lease_until IS 'the end of the renewed lease';

COMMENT ON COLUMN dbq_lease.keep_until IS 'when cleaning may remove the row';

-- The keys of unique tasks. A key belongs to a queue and a scope: the states in which its task excludes others, or a
-- period. task is the last task that was enqueued with it. Nothing changes the row when that task ends: whether the
-- key is free follows from the task's state. id is a hash of queue, scope and name, so that the key is narrow. From
-- expires on, cleaning checks whether the row can be removed.
CREATE TABLE dbq_unique_key (
  id uuid PRIMARY KEY,
  task uuid NOT NULL,
  expires bigint NOT NULL,
  queue varchar(100) COLLATE "C" NOT NULL,
  scope varchar(60) COLLATE "C" NOT NULL,
  name varchar(200) COLLATE "C" NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0,
  autovacuum_analyze_scale_factor = 0.05);

COMMENT ON TABLE dbq_unique_key IS 'The keys of unique tasks.';

COMMENT ON COLUMN dbq_unique_key.id IS 'a hash of queue, scope and name';

COMMENT ON COLUMN dbq_unique_key.task IS 'the last task that was enqueued with the key';

COMMENT ON COLUMN dbq_unique_key.expires IS 'when cleaning checks whether the row can be removed';

COMMENT ON COLUMN dbq_unique_key.scope IS 'the states or the period in which the task excludes others';

CREATE INDEX dbq_unique_key_expires ON dbq_unique_key (expires);

-- A reference is unique within its queue.
CREATE UNIQUE INDEX dbq_task_reference ON dbq_task (reference, queue) WHERE reference IS NOT NULL;

-- For checkouts: one ordered search for each priority.
CREATE INDEX dbq_task_ready ON dbq_task (queue, priority, due, id) WHERE due IS NOT NULL;

-- For searches for expired leases: the leased tasks, in the order in which they were taken.
CREATE INDEX dbq_task_busy ON dbq_task (queue, updated) WHERE state = 1 /* PROCESSING */;

-- For queues with limits per key: the due tasks of each key. Tasks without a key are not in it.
CREATE INDEX dbq_task_key ON dbq_task (queue, task_key, due, id) WHERE due IS NOT NULL AND task_key IS NOT NULL;

-- For queues with an order: the waiting tasks of each key by id, and its tasks that wait for an operator. The
-- expression keeps the planner from reading the primary key in order instead.
CREATE INDEX dbq_task_order ON dbq_task (queue, task_key, (CASE WHEN due IS NOT NULL THEN id END))
 WHERE due IS NOT NULL AND task_key IS NOT NULL;

CREATE INDEX dbq_task_key_failed ON dbq_task (queue, task_key, id)
 WHERE due IS NULL AND task_key IS NOT NULL AND cancelled = 0 AND state IN (3 /* ERROR */, 4 /* POISON */);

-- For operators: the tasks in ERROR and POISON.
CREATE INDEX dbq_task_failed ON dbq_task (queue, state, id) INCLUDE (cancelled)
 WHERE state IN (3 /* ERROR */, 4 /* POISON */);

-- The tasks as a person reads them, with the names of states and with times as timestamps. result is text if it is
-- valid UTF-8, and escaped otherwise. The pattern matches UTF-8 without NUL, which text cannot contain. progress is
-- escaped: a byte outside of ASCII is shown as \ooo.
CREATE VIEW dbq_tasks AS
SELECT id, queue, reference, kind, task_key,
  CASE state WHEN 0 THEN 'CREATED' WHEN 1 THEN 'PROCESSING' WHEN 2 THEN 'COMPLETED' WHEN 3 THEN 'ERROR'
    WHEN 4 THEN 'POISON' END AS state,
  cancelled, priority, attempt, max_attempts, lapses, fence, to_timestamp(due / 1e6) AS due,
  to_timestamp(CASE WHEN state = 1 THEN
    coalesce((SELECT l.lease_until FROM dbq_lease l WHERE l.id = t.id AND l.fence = t.fence), t.lease_until)
    END / 1e6) AS lease_until, holder, to_timestamp(taken / 1e6) AS taken,
  to_timestamp(created / 1e6) AS created, to_timestamp(updated / 1e6) AS updated,
  headers, octet_length(payload) AS payload_bytes, CASE
    WHEN encode(result, 'hex') ~ (
      '^(0[1-9a-f]|[1-7][0-9a-f]|(c[2-9a-f]|d[0-9a-f])[89ab][0-9a-f]|(e0[ab]|e[1-9abcef][89ab]|ed[89])[0-9a-f]'
      '[89ab][0-9a-f]|(f0[9ab]|f[1-3][89ab]|f48)[0-9a-f]([89ab][0-9a-f]){2})*$')
    THEN convert_from(result, 'UTF8')
    ELSE encode(result, 'escape') END AS result,
  encode(coalesce(
    (SELECT l.progress FROM dbq_lease l WHERE t.state = 1 AND l.id = t.id AND l.fence = t.fence), t.progress),
    'escape') AS progress
  FROM dbq_task t;

COMMENT ON VIEW dbq_tasks IS 'The tasks, with the names of states, and with times as timestamps.';

-- For programs in other languages, which enqueue by SQL: the columns that they set, and the rows that dbq accepts. A
-- user needs no privilege but INSERT on it. dbq never uses it, so that its conditions cost dbq's statements nothing.
CREATE VIEW dbq_enqueue AS
SELECT queue, kind, reference, payload, headers, priority, max_attempts, due, task_key
  FROM dbq_task
 WHERE queue <> ''
   AND (reference IS NULL OR reference <> '')
   AND (task_key IS NULL OR task_key <> '')
   AND concat(queue, kind, reference, task_key) !~ '[\u0001-\u001F\u007F-\u009F]'
   AND (payload IS NULL OR octet_length(payload) <= 104857600)
   AND (headers IS NULL OR octet_length(headers) <= 4000 AND json_typeof(CAST(headers AS json)) = 'object')
   AND max_attempts > 0
   AND due BETWEEN 0 AND 253402300799999999
  WITH LOCAL CHECK OPTION;

COMMENT ON VIEW dbq_enqueue IS 'Programs in other languages enqueue tasks by inserting here.';

INSERT INTO dbq_migration (version, title, compatible, applied)
SELECT 1, 'tasks', 1, CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint)
 WHERE NOT EXISTS (SELECT 1 FROM dbq_migration WHERE version = 1);

-- 2: shared tables

-- Key/value records shared by all clients: pauses and settings of queues, the registry of workers, leaders,
-- schedules. Each write checks version. expires is when a record becomes invalid or, for a schedule, its next time.
CREATE TABLE dbq_kv (
  namespace varchar(20) COLLATE "C" NOT NULL,
  name varchar(200) COLLATE "C" NOT NULL,
  version bigint NOT NULL,
  value text NOT NULL,
  updated bigint NOT NULL,
  expires bigint,
  PRIMARY KEY (namespace, name));

COMMENT ON TABLE dbq_kv IS 'Records that all clients share, such as pauses, settings, workers and schedules.';

COMMENT ON COLUMN dbq_kv.version IS 'checked by each write';

COMMENT ON COLUMN dbq_kv.expires IS 'when it becomes invalid or, for a schedule, its next time';

CREATE INDEX dbq_kv_expires ON dbq_kv (namespace, expires, name) WHERE expires IS NOT NULL;

-- The rates per key of queues with limits. A row is a key that has started tasks; full_at is when all of its starts are
-- free again, in microseconds since 1970 in UTC. A key without a row has all of them. Only a checkout that has locked
-- the limits of the queue writes its rows, and cleaning removes those whose time has passed.
CREATE TABLE dbq_key_rate (
  queue varchar(100) COLLATE "C" NOT NULL,
  task_key varchar(200) COLLATE "C" NOT NULL,
  full_at bigint NOT NULL,
  PRIMARY KEY (queue, task_key)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0,
  autovacuum_analyze_scale_factor = 0.05);

COMMENT ON TABLE dbq_key_rate IS 'The keys that have started tasks, in queues with a rate per key.';

COMMENT ON COLUMN dbq_key_rate.full_at IS 'when all starts of the key are free again, in microseconds since 1970';

CREATE INDEX dbq_key_rate_full ON dbq_key_rate (full_at);

-- The history of attempts. The last attempt of a task is in the task's row. This table has the earlier ones, and the
-- last one of a task that was removed.
CREATE TABLE dbq_attempt (
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

COMMENT ON TABLE dbq_attempt IS 'The history of attempts. The last attempt of a task is in the row of the task.';

CREATE INDEX dbq_attempt_ended ON dbq_attempt (queue, ended);

-- All attempts that have ended, including the last one of each task, which is in the task's row. error is text if it
-- is valid UTF-8, and escaped otherwise.
CREATE VIEW dbq_attempts AS
SELECT task, attempt, outcome, to_timestamp(taken / 1e6) AS taken, to_timestamp(ended / 1e6) AS ended,
  worker, queue, fence, CASE
    WHEN encode(error, 'hex') ~ (
      '^(0[1-9a-f]|[1-7][0-9a-f]|(c[2-9a-f]|d[0-9a-f])[89ab][0-9a-f]|(e0[ab]|e[1-9abcef][89ab]|ed[89])[0-9a-f]'
      '[89ab][0-9a-f]|(f0[9ab]|f[1-3][89ab]|f48)[0-9a-f]([89ab][0-9a-f]){2})*$')
    THEN convert_from(error, 'UTF8')
    ELSE encode(error, 'escape') END AS error
  FROM (
    SELECT task, attempt, outcome, taken, ended, worker, queue, fence, error
      FROM dbq_attempt
    UNION ALL
    SELECT id, attempt, CASE state WHEN 2 THEN 'completed' WHEN 3 THEN 'failed' ELSE 'poisoned' END,
      taken, updated, regexp_replace(holder, '#[^#]*$', ''), queue, fence, CASE WHEN state <> 2 THEN result END
      FROM dbq_task t
     WHERE taken IS NOT NULL AND state IN (2, 3, 4)
       AND NOT EXISTS (SELECT 1 FROM dbq_attempt a WHERE a.task = t.id AND a.fence = t.fence)
  ) ended_attempt;

COMMENT ON VIEW dbq_attempts IS 'All attempts that have ended.';

-- Tasks that retention has moved out of the table of tasks. dbq never removes a row from it. An id can be used again
-- after its task was archived; the fences of its tasks differ.
CREATE TABLE dbq_archive (LIKE dbq_task INCLUDING CONSTRAINTS INCLUDING COMMENTS,
  archived bigint NOT NULL, PRIMARY KEY (id, fence));

COMMENT ON TABLE dbq_archive IS 'Tasks that retention has moved out of the table of tasks.';

COMMENT ON COLUMN dbq_archive.archived IS 'when it was moved here';

-- The tasks of the archive as a person reads them, with the names of states and with times as timestamps.
CREATE VIEW dbq_archived AS
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
  FROM dbq_archive;

COMMENT ON VIEW dbq_archived IS 'The tasks of the archive, with the names of states, and with times as timestamps.';

-- The tasks of workflows. A task of a workflow has an id of version 8; a plain task has no row here. A workflow has no
-- row of its own: it is the tasks with its id.
CREATE TABLE dbq_step (
  task uuid PRIMARY KEY,
  workflow uuid NOT NULL,
  name varchar(200) COLLATE "C" NOT NULL,
  queue varchar(100) COLLATE "C" NOT NULL,
  needs integer NOT NULL
    CONSTRAINT dbq_step_needs CHECK (needs >= 0),
  dependents integer NOT NULL,
  run_at bigint,
  delay bigint NOT NULL
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500,
  autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.05);

COMMENT ON TABLE dbq_step IS 'The tasks of workflows. A plain task has no row here.';

COMMENT ON COLUMN dbq_step.name IS 'the name of the step';

COMMENT ON COLUMN dbq_step.needs IS 'how many tasks it still waits for';

COMMENT ON COLUMN dbq_step.dependents IS 'how many tasks need it';

COMMENT ON COLUMN dbq_step.run_at IS 'when it may start at the earliest, in microseconds since 1970 in UTC';

COMMENT ON COLUMN dbq_step.delay IS 'the pause after the last task that it needs, in microseconds';

CREATE INDEX dbq_step_workflow ON dbq_step (workflow, task);

-- The task child needs the task parent of the same workflow.
CREATE TABLE dbq_need (
  parent uuid NOT NULL,
  child uuid NOT NULL,
  on_failure smallint NOT NULL
    CONSTRAINT dbq_need_on_failure CHECK (on_failure IN (0, 1, 2)),
  met smallint NOT NULL
    CONSTRAINT dbq_need_met CHECK (met IN (0, 1)),
  PRIMARY KEY (parent, child)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500,
  autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.05);

COMMENT ON TABLE dbq_need IS 'The task child needs the task parent of the same workflow.';

COMMENT ON COLUMN dbq_need.on_failure IS
  'what happens if the parent goes to POISON, 0 cancels the child, 1 lets it wait, 2 lets it go on';

COMMENT ON COLUMN dbq_need.met IS '1 once the child no longer waits for the parent';

CREATE INDEX dbq_need_child ON dbq_need (child, parent);

-- What operators have changed, and who it was. The row of a change is written in the transaction of the change. A call
-- of several transactions has a row for each, its parts; the parts after part 0 have only their own changes. dbq never
-- updates a row.
CREATE TABLE dbq_audit (
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
CREATE INDEX dbq_audit_task ON dbq_audit (task, id) WHERE task IS NOT NULL;

COMMENT ON TABLE dbq_audit IS 'What operators have changed, and who it was.';

COMMENT ON COLUMN dbq_audit.part IS '0, or the number of a later transaction of the same call';

COMMENT ON COLUMN dbq_audit.subject IS 'the schedule, worker or token';

COMMENT ON COLUMN dbq_audit.changed IS 'how many tasks or settings';

INSERT INTO dbq_migration (version, title, compatible, applied)
SELECT 2, 'shared tables', 2, CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint)
 WHERE NOT EXISTS (SELECT 1 FROM dbq_migration WHERE version = 2);

-- 3: statistics

-- Statistics over time, one row for each queue, period and source. period is its length in seconds, or 0 for the minute
-- of one source: a worker, or the sampler of all queues, which also adds a row for each sample. Rows with a longer
-- period are the totals of all sources. since is when the period began, in microseconds since 1970 in UTC. The columns
-- from enqueued to released are sums; those from created to oldest_due are the highest number of tasks that was
-- sampled. latency and run_time are histograms.
CREATE TABLE dbq_stat (
  queue varchar(100) COLLATE "C" NOT NULL,
  period integer NOT NULL,
  since bigint NOT NULL,
  source varchar(200) COLLATE "C" NOT NULL,
  enqueued bigint NOT NULL,
  started bigint NOT NULL,
  completed bigint NOT NULL,
  failed bigint NOT NULL,
  poisoned bigint NOT NULL,
  released bigint NOT NULL,
  created bigint NOT NULL,
  processing bigint NOT NULL,
  error bigint NOT NULL,
  poison bigint NOT NULL,
  due bigint NOT NULL,
  parked bigint NOT NULL,
  oldest_due bigint NOT NULL,
  latency text NOT NULL,
  run_time text NOT NULL,
  PRIMARY KEY (period, queue, since, source));

COMMENT ON TABLE dbq_stat IS 'Statistics over time of each queue.';

COMMENT ON COLUMN dbq_stat.period IS 'seconds, or 0 for the minute of one source';

COMMENT ON COLUMN dbq_stat.since IS 'when the period began, in microseconds since 1970';

CREATE INDEX dbq_stat_since ON dbq_stat (period, since);

INSERT INTO dbq_migration (version, title, compatible, applied)
SELECT 3, 'statistics', 3, CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint)
 WHERE NOT EXISTS (SELECT 1 FROM dbq_migration WHERE version = 3);

-- ======== Sessions and migrations ========

-- ==== Begin ====
-- Begins a write transaction.
BEGIN ISOLATION LEVEL READ COMMITTED;

-- ==== Now ====
-- An expression, not a statement: the database's clock in microseconds since 1970.
CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint);

-- ==== BoundWaits ====
-- Limits, for a transaction of dbq, how long a statement waits for a lock before it is repeated.
-- Runs with the first statement of a transaction of dbq. A statement that waited longer for a lock would look like one
-- on a dead connection; one that fails is repeated. Migrations and transactions of the caller keep their own setting.
SET LOCAL lock_timeout = 1000;

-- ==== Notify ====
-- Wakes idle workers in other processes.
-- Runs after the transaction that enqueued, in a transaction of its own. A notification need not survive a crash, so
-- its commit does not wait for the disk.
SELECT pg_notify(CAST(:channel AS text), CAST(:payload AS text)),
       set_config('synchronous_commit', 'off', true);

-- ==== MigrationLock ====
-- Waits for other migrations of the same tables.
-- Runs first in the transaction of each migration, whose end releases the lock. The lock's name contains the schema
-- and the prefix of the tables, so clients that name the schema and clients that use the search path take the same
-- lock.
SELECT pg_advisory_xact_lock(hashtextextended(
         'dbq migration ' || coalesce(current_schema(), '') || ' ' || CAST(:name AS text), 0));

-- ==== Version ====
-- Reads the newest migration that has been applied. Runs when a client opens.
SELECT max(version) AS version, max(compatible) AS compatible
  FROM dbq_migration;

-- ==== SetVersion ====
-- Records a migration as applied, in its transaction.
INSERT INTO dbq_migration (version, title, compatible, applied)
SELECT :version, :title, :compatible, {now}
 WHERE NOT EXISTS (SELECT 1 FROM dbq_migration WHERE version = :version);

-- ==== Drop ====
-- Removes all tables and views. Runs only at the request of an operator.
DROP VIEW IF EXISTS dbq_tasks;
DROP VIEW IF EXISTS dbq_enqueue;
DROP VIEW IF EXISTS dbq_attempts;
DROP VIEW IF EXISTS dbq_archived;
DROP TABLE IF EXISTS dbq_stat;
DROP TABLE IF EXISTS dbq_audit;
DROP TABLE IF EXISTS dbq_need;
DROP TABLE IF EXISTS dbq_step;
DROP TABLE IF EXISTS dbq_archive;
DROP TABLE IF EXISTS dbq_attempt;
DROP TABLE IF EXISTS dbq_key_rate;
DROP TABLE IF EXISTS dbq_kv;
DROP TABLE IF EXISTS dbq_unique_key;
DROP TABLE IF EXISTS dbq_lease;
DROP TABLE IF EXISTS dbq_task;
DROP TABLE IF EXISTS dbq_migration;

-- ======== Enqueueing ========

-- ==== Insert ====
-- Adds tasks. A task whose id, or whose reference and queue, exists is skipped without an error.
-- Runs for each enqueue. Indexes: the primary key and task_reference find duplicates, which ON CONFLICT DO NOTHING
-- leaves out. The arrays have one element for each task. The fence of a reused id starts at the clock, above every
-- fence that the id has had.
-- At most 5000 rows.
WITH clock AS MATERIALIZED (SELECT {now} AS now)
INSERT INTO dbq_task (
  id, fence, queue, reference, kind, state, priority, max_attempts, due, created, updated, headers, payload, task_key)
SELECT d.id, d.reused * clock.now, CAST(:queue AS text), d.reference, d.kind, 0 /* CREATED */, d.priority,
       d.max_attempts, coalesce(d.at, clock.now + d.delay), clock.now, clock.now, d.headers, d.payload, d.task_key
  FROM clock,
       unnest(CAST(:id AS uuid[]), CAST(:reused AS smallint[]), CAST(:reference AS text[]), CAST(:kind AS text[]),
              CAST(:priority AS smallint[]), CAST(:max_attempts AS smallint[]), CAST(:at AS bigint[]),
              CAST(:delay AS bigint[]), CAST(:headers AS text[]), CAST(:payload AS bytea[]),
              CAST(:task_key AS text[]))
         AS d (id, reused, reference, kind, priority, max_attempts, at, delay, headers, payload, task_key)
ON CONFLICT DO NOTHING
RETURNING id;

-- ==== insert uniform ====
-- Insert for rows without a reference, whose ids are new, that differ only in ids and payloads.
-- Runs instead of Insert if the tasks are alike. Indexes: none is searched. ON CONFLICT is left out because it would
-- insert each row speculatively and confirm it in the log. SELECT unnest(...) needs no tuplestore, unlike FROM
-- unnest(...).
-- At most 5000 rows.
WITH clock AS MATERIALIZED (SELECT {now} AS now)
INSERT INTO dbq_task (id, queue, kind, state, priority, max_attempts, due, created, updated, headers, payload)
SELECT d.id, CAST(:queue AS text), CAST(:kind AS text), 0 /* CREATED */, CAST(:priority AS smallint),
       CAST(:max_attempts AS smallint), coalesce(CAST(:at AS bigint), clock.now + CAST(:delay AS bigint)),
       clock.now, clock.now, CAST(:headers AS text), d.payload
  FROM clock,
       (SELECT unnest(CAST(:id AS uuid[])) AS id, unnest(CAST(:payload AS bytea[])) AS payload) AS d;

-- ======== Unique tasks ========

-- ==== FindKeys ====
-- Reads unique keys, and the states of the tasks that they name.
-- Runs first for an enqueue of unique tasks. Indexes: the primary keys of unique_key and task.
-- At most 5000 rows.
SELECT k.id, k.task, k.expires, t.state, t.due
  FROM dbq_unique_key k
  LEFT JOIN dbq_task t ON t.id = k.task AND t.queue = k.queue
 WHERE k.id = ANY (CAST((SELECT CAST(:id AS uuid[])) AS uuid[]));

-- ==== LockWaiting ====
-- Locks waiting tasks whose keys are used again, so that they do not start before the outcome is decided. Also locks
-- tasks in PROCESSING if a task keeps its key until it ends.
-- Runs after FindKeys, before LockKeys: a transaction that has completed a task and enqueues its successor locks in
-- this order, too. Index: the primary key. state + 0 keeps the planner from using a partial index.
-- At most 5000 rows.
SELECT t.id, t.queue, t.state, t.due, t.created
  FROM dbq_task t
 WHERE t.id = ANY (CAST((SELECT CAST(:id AS uuid[])) AS uuid[]))
   AND (t.due IS NOT NULL OR t.state + 0 = 1 /* PROCESSING */ AND CAST(:running AS smallint) = 1)
 ORDER BY t.id
   FOR UPDATE;

-- ==== AddKeys ====
-- Adds keys that do not exist.
-- Runs after FindKeys, for keys that it has not found. Index: the primary key.
-- At most 5000 rows.
INSERT INTO dbq_unique_key (id, task, expires, queue, scope, name)
SELECT d.id, d.task, d.expires, CAST(:queue AS text), d.scope, d.name
  FROM unnest(CAST(:id AS uuid[]), CAST(:task AS uuid[]), CAST(:expires AS bigint[]), CAST(:scope AS text[]),
              CAST(:name AS text[])) AS d (id, task, expires, scope, name)
ON CONFLICT DO NOTHING;

-- ==== LockKeys ====
-- Locks the keys. After that, no other transaction can add a task with one of them.
-- Runs after AddKeys. Index: the primary key. It locks in the order of ids, so that no two calls deadlock.
-- At most 5000 rows.
SELECT k.id, k.task, k.expires
  FROM dbq_unique_key k
 WHERE k.id = ANY (CAST((SELECT CAST(:id AS uuid[])) AS uuid[]))
 ORDER BY k.id
   FOR UPDATE;

-- ==== SetKeys ====
-- Assigns keys to the added tasks.
-- Runs after Insert, for keys that name another task then. Index: the primary key.
-- At most 5000 rows.
UPDATE dbq_unique_key k
   SET task = d.task,
       expires = d.expires
  FROM (SELECT CAST(:id AS uuid[]) AS id, CAST(:task AS uuid[]) AS task, CAST(:expires AS bigint[]) AS expires
        OFFSET 0) AS given,
       unnest(given.id, given.task, given.expires) AS d (id, task, expires)
 WHERE k.id = d.id;

-- ==== Replace ====
-- Replaces the kind, key, payload, headers, priority and due time of a waiting task. Clears its progress, and raises
-- its fence: a checkout that has chosen the task by its old key and size must not lease it.
-- Runs after LockKeys, for one task at a time. Index: the primary key of task.
-- One row at a time.
UPDATE dbq_task
   SET kind = :kind,
       task_key = :task_key,
       priority = :priority,
       due = :at,
       headers = :headers,
       payload = :payload,
       progress = NULL,
       fence = fence + 1
 WHERE id = :id
   AND due IS NOT NULL;

-- ==== Postpone ====
-- Moves the due times of waiting tasks.
-- Runs after LockKeys. Index: the primary key.
-- At most 5000 rows.
UPDATE dbq_task t
   SET due = d.at
  FROM (SELECT CAST(:id AS uuid[]) AS id, CAST(:at AS bigint[]) AS at OFFSET 0) AS given,
       unnest(given.id, given.at) AS d (id, at)
 WHERE t.id = d.id
   AND t.due IS NOT NULL;

-- ==== OldKeys ====
-- Finds keys that cleaning may remove. Index: unique_key_expires.
SELECT id
  FROM dbq_unique_key
 WHERE expires <= {now}
 ORDER BY expires
 LIMIT :limit;

-- ==== DropKeys ====
-- Removes keys whose period has passed, or whose task has ended.
-- Runs for cleaning, after LockKeys. Index: the primary key.
-- At most 5000 rows.
DELETE FROM dbq_unique_key k
 WHERE k.id = ANY (CAST((SELECT CAST(:id AS uuid[])) AS uuid[]));

-- ======== Workflows ========

-- ==== AddWorkflowTasks ====
-- Adds the tasks of a workflow, after Insert in one transaction.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   (:id, :workflow_id, :name, :queue_name, :needs, :dependents, :at, :delay)
INSERT INTO dbq_step (task, workflow, name, queue, needs, dependents, run_at, delay)
VALUES {rows};

-- ==== AddWorkflowNeeds ====
-- Adds the dependencies of a workflow.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   (:parent, :child, :on_failure, 0)
INSERT INTO dbq_need (parent, child, on_failure, met)
VALUES {rows};

-- ==== AddWorkflowChange ====
-- Records, in the transaction that ends tasks of workflows, that their workflows have to be advanced.
INSERT INTO dbq_kv (namespace, name, version, value, updated)
SELECT :namespace, :name, {now}, :value, {now};

-- ==== WorkflowTasks ====
-- Reads tasks of workflows. Indexes: the primary key of step, and the primary key of task.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
SELECT s.task, s.workflow, s.name, s.queue, s.needs, s.dependents, s.run_at, s.delay, {now} AS now,
       t.state, t.due, t.cancelled
  FROM dbq_step s
  LEFT JOIN dbq_task t ON t.id = s.task
 WHERE s.task IN ({rows});

-- ==== LockWorkflowTasks ====
-- Locks tasks of workflows in the order of their ids. Of two transactions that advance a workflow, the later one then
-- sees the changes of the first. Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
SELECT task
  FROM dbq_step
 WHERE task IN ({rows})
 ORDER BY task
   FOR UPDATE;

-- ==== WorkflowNeeds ====
-- Reads the dependencies on the tasks that have ended. Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
SELECT n.parent, n.child, n.on_failure, n.met
  FROM dbq_need n
 WHERE n.parent IN ({rows})
   AND n.child > :above
   AND n.met <= :met
 ORDER BY n.child, n.parent
 LIMIT :limit;

-- ==== MeetNeeds ====
-- Marks dependencies as met. Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
UPDATE dbq_need
   SET met = 1
 WHERE parent IN ({rows})
   AND child > :above
   AND child <= :last
   AND met = 0
   AND on_failure >= :least;

-- ==== CountNeeds ====
-- Changes how many tasks a task still waits for. Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
UPDATE dbq_step
   SET needs = needs - :met
 WHERE task IN ({rows});

-- ==== NeededWorkflowTasks ====
-- Finds, before tasks are removed, those that others still need. Indexes: the primary keys of step and need, and the
-- primary key of task.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
SELECT s.task
  FROM dbq_step s
 WHERE s.task IN ({rows})
   AND EXISTS (
     SELECT 1
       FROM dbq_need n
       JOIN dbq_task c ON c.id = n.child
      WHERE n.parent = s.task
        AND c.state <> 2 /* COMPLETED */
        AND c.state <> 4 /* POISON */);

-- ==== DropWorkflowNeeds ====
-- Removes the dependencies on tasks that are removed. Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
DELETE FROM dbq_need
 WHERE parent IN ({rows});

-- ==== DropWorkflowTasks ====
-- Removes tasks from their workflows. Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
DELETE FROM dbq_step
 WHERE task IN ({rows});

-- ==== WorkflowParents ====
-- Reads the tasks that a task needs, with their results. Indexes: need_child, the primary key of step, and the
-- primary key of task.
SELECT s.task, s.workflow, s.name, s.queue, s.needs, s.dependents, s.run_at, s.delay, {now} AS now,
       t.state, t.due, t.cancelled,
       t.result
  FROM dbq_need n
  JOIN dbq_step s ON s.task = n.parent
  LEFT JOIN dbq_task t ON t.id = n.parent
 WHERE n.child = :child
   AND n.parent > :after
 ORDER BY n.parent
 LIMIT :limit;

-- ==== WorkflowStep ====
-- Reads a task of a workflow by the name of its step, for a signal. Indexes: step_workflow, and the primary
SELECT s.task, s.workflow, s.name, s.queue, s.needs, s.dependents, s.run_at, s.delay, {now} AS now,
       t.state, t.due, t.cancelled
  FROM dbq_step s
  LEFT JOIN dbq_task t ON t.id = s.task
 WHERE s.workflow = :workflow
   AND s.name = :name;

-- ==== WorkflowList ====
-- Reads the tasks of a workflow, for operators. Indexes: step_workflow, and the primary key of task.
SELECT s.task, s.workflow, s.name, s.queue, s.needs, s.dependents, s.run_at, s.delay, {now} AS now,
       t.state, t.due, t.cancelled
  FROM dbq_step s
  LEFT JOIN dbq_task t ON t.id = s.task
 WHERE s.workflow = :workflow
   AND s.task > :after
 ORDER BY s.task
 LIMIT :limit;

-- ==== Workflows ====
-- Finds the next workflow by its id, the newest first, for operators. Index: step_workflow.
SELECT workflow
  FROM dbq_step
 WHERE workflow < :before
 ORDER BY workflow DESC
 LIMIT :limit;

-- ==== OfWorkflow ====
-- A condition, not a statement: the task belongs to a workflow. Index: step_workflow.
id IN (SELECT s.task FROM dbq_step s WHERE s.workflow = :workflow);

-- ======== Checking out ========

-- ==== queue lock ====
-- Strategy advisory: waits for the queue's lock, in a separate statement.
-- Runs first in the transaction of a checkout, whose end releases the lock. The lock's name contains the table's oid,
-- so clients that name the schema and clients that use the search path take the same lock.
SELECT pg_advisory_xact_lock(hashtextextended(
         'dbq checkout ' || CAST(CAST('dbq_task' AS regclass) AS oid) || ' ' || CAST(:queue AS text), 0));

-- ==== ready ====
-- Leases due tasks in order.
-- Runs at each poll of a worker (strategies skip-locked and advisory). Index: task_ready, one ordered descent for
-- each priority, until there are enough tasks. pick finds and locks the tasks and keeps their addresses (ctid). The
-- update goes to these addresses: no join is left to plan, so wrong statistics cannot slow it down. pick is
-- MATERIALIZED because a LIMIT in a joined subquery may run once for each outer row. The statement expects small
-- payloads: if one is larger than an equal share of the bytes that a checkout may return, it takes nothing, and
-- "ready within" follows.
WITH clock AS MATERIALIZED (SELECT {now} AS now),
pick AS MATERIALIZED (
  SELECT x.ctid AS place, x.size
    FROM generate_series(0, 9) AS p (priority)
   CROSS JOIN LATERAL (
     SELECT t.id, t.fence, t.due, t.ctid, coalesce(octet_length(t.payload), 0) AS size
       FROM dbq_task t
      WHERE t.queue = :queue
        AND t.priority = p.priority
        AND t.due <= (SELECT now FROM clock)
        AND t.due >= (CAST(:since AS bigint[]))[p.priority + 1]
        AND NOT EXISTS (SELECT 1 FROM dbq_kv n WHERE n.namespace IN ('limit', 'pause') AND n.name = :queue)
      ORDER BY t.due, t.id
      LIMIT :limit
      FOR UPDATE SKIP LOCKED) AS x
   LIMIT :limit)
UPDATE dbq_task t
   SET state = 1 /* PROCESSING */,
       due = NULL,
       was_due = t.due,
       attempt = t.attempt + 1,
       fence = t.fence + 1,
       lease_until = clock.now + CAST(:lease AS bigint),
       holder = :holder,
       known_started = CAST(:known_started AS smallint),
       taken = clock.now,
       updated = clock.now
  FROM clock
 WHERE t.ctid = ANY (ARRAY(
         SELECT place
           FROM pick
          WHERE NOT EXISTS (SELECT 1 FROM pick AS p WHERE p.size > CAST(:share AS bigint))))
   AND coalesce(t.due <= clock.now, false)
RETURNING t.id, t.reference, t.kind, t.task_key, t.priority, t.attempt, t.max_attempts, t.lapses, t.fence, t.created,
          t.headers, t.payload, t.result, t.progress, t.was_due, clock.now;

-- ==== ready within ====
-- Like "ready", for a queue that may have large payloads: leases the first tasks whose payloads fit.
-- Runs after "ready", or instead of it while the queue's payloads are large. Index: task_ready. A running total of
-- the sizes ends the list where the bytes of the checkout are used up, which makes the statement a few percent
-- slower. cut reports that tasks were left.
WITH clock AS MATERIALIZED (SELECT {now} AS now),
pick AS MATERIALIZED (
  SELECT x.ctid AS place, x.size, sum(size) OVER (ROWS UNBOUNDED PRECEDING) AS total
    FROM generate_series(0, 9) AS p (priority)
   CROSS JOIN LATERAL (
     SELECT t.id, t.fence, t.due, t.ctid, coalesce(octet_length(t.payload), 0) AS size
       FROM dbq_task t
      WHERE t.queue = :queue
        AND t.priority = p.priority
        AND t.due <= (SELECT now FROM clock)
        AND t.due >= (CAST(:since AS bigint[]))[p.priority + 1]
        AND NOT EXISTS (SELECT 1 FROM dbq_kv n WHERE n.namespace IN ('limit', 'pause') AND n.name = :queue)
      ORDER BY t.due, t.id
      LIMIT :limit
      FOR UPDATE SKIP LOCKED) AS x
   LIMIT :limit)
UPDATE dbq_task t
   SET state = 1 /* PROCESSING */,
       due = NULL,
       was_due = t.due,
       attempt = t.attempt + 1,
       fence = t.fence + 1,
       lease_until = clock.now + CAST(:lease AS bigint),
       holder = :holder,
       known_started = CAST(:known_started AS smallint),
       taken = clock.now,
       updated = clock.now
  FROM clock
 WHERE t.ctid = ANY (ARRAY(
         SELECT place
           FROM pick
          WHERE total + CAST(:used AS bigint) <= greatest(CAST(:bytes AS bigint), size)))
   AND coalesce(t.due <= clock.now, false)
RETURNING t.id, t.reference, t.kind, t.task_key, t.priority, t.attempt, t.max_attempts, t.lapses, t.fence, t.created,
          t.headers, t.payload, t.result, t.progress, t.was_due, clock.now,
          (SELECT NOT bool_and(total + CAST(:used AS bigint) <= greatest(CAST(:bytes AS bigint), size))
             FROM pick) AS cut;

-- ==== see ready ====
-- Reads candidates in order, without locks.
-- Runs at each poll (strategy cas). Index: task_ready. "take ready" follows.
WITH clock AS MATERIALIZED (SELECT {now} AS now)
SELECT x.id, x.fence, x.size AS payload_size
  FROM generate_series(0, 9) AS p (priority)
 CROSS JOIN LATERAL (
   SELECT t.id, t.fence, t.due, t.ctid, coalesce(octet_length(t.payload), 0) AS size
     FROM dbq_task t
    WHERE t.queue = :queue
      AND t.priority = p.priority
      AND t.due <= (SELECT now FROM clock)
      AND t.due >= (CAST(:since AS bigint[]))[p.priority + 1]
      AND NOT EXISTS (SELECT 1 FROM dbq_kv n WHERE n.namespace IN ('limit', 'pause') AND n.name = :queue)
    ORDER BY t.due, t.id
    LIMIT :limit
    ) AS x
 LIMIT :limit;

-- ==== take ready ====
-- Strategy cas: leases the candidates whose fence is unchanged.
-- Runs after "see ready". Index: the primary key.
-- At most 5000 rows.
WITH clock AS MATERIALIZED (SELECT {now} AS now),
pick AS MATERIALIZED (
  SELECT t.id, t.fence
    FROM (SELECT CAST(:id AS uuid[]) AS id, CAST(:fence AS bigint[]) AS fence OFFSET 0) AS given,
         unnest(given.id, given.fence) AS d (id, fence),
         dbq_task t
   WHERE t.id = d.id
     AND t.fence = d.fence
     AND coalesce(t.due <= (SELECT now FROM clock), false)
     FOR UPDATE OF t SKIP LOCKED)
UPDATE dbq_task t
   SET state = 1 /* PROCESSING */,
       due = NULL,
       was_due = t.due,
       attempt = t.attempt + 1,
       fence = t.fence + 1,
       lease_until = clock.now + CAST(:lease AS bigint),
       holder = :holder,
       known_started = CAST(:known_started AS smallint),
       taken = clock.now,
       updated = clock.now
  FROM pick, clock
 WHERE t.id = pick.id AND t.fence = pick.fence
   AND coalesce(t.due <= clock.now, false)
RETURNING t.id, t.reference, t.kind, t.task_key, t.priority, t.attempt, t.max_attempts, t.lapses, t.fence, t.created,
          t.headers, t.payload, t.result, t.progress, t.was_due, clock.now;

-- ==== see expired ====
-- Reads candidates whose lease expired, without locks.
-- Runs at polls that found nothing due, and at intervals otherwise. Index: task_busy, from :oldest on. If it finds a
-- task, "take expired" follows in a transaction. It reads the few tasks in PROCESSING that were taken since :oldest,
-- but not those under this checkout's own token, which it may have taken a moment ago for a very short lease.
-- The lists of renewals (NOT IN, IN) are hashed once for a statement: the search makes one pass over the table lease
-- for each, whatever the planner believes of its size.
WITH clock AS MATERIALIZED (SELECT {now} AS now)
SELECT t.id, t.fence, coalesce(octet_length(t.payload), 0) AS payload_size
  FROM dbq_task t
 WHERE t.queue = :queue
   AND t.state = 1 /* PROCESSING */
   AND t.updated >= CAST(:oldest AS bigint)
   AND t.holder <> :holder
   AND (t.id, t.fence) NOT IN (
         SELECT l.id, l.fence
           FROM dbq_lease l
          WHERE l.lease_until > (SELECT now FROM clock))
   AND (t.lease_until <= (SELECT now FROM clock)
        OR (t.id, t.fence) IN (
             SELECT l.id, l.fence
               FROM dbq_lease l
              WHERE l.lease_until <= (SELECT now FROM clock)))
   AND NOT EXISTS (SELECT 1 FROM dbq_kv n WHERE n.namespace IN ('limit', 'pause') AND n.name = :queue)
 LIMIT :limit;

-- ==== take expired ====
-- Strategy cas: takes over the candidates whose fence is unchanged: it leases them again, or moves them to POISON if
-- their attempts are exhausted.
-- Runs after "see expired". Index: the primary key. pick locks the candidates whose fence is unchanged, claimed keeps
-- those that no renewal holds, done leases them again or moves them to POISON, and recorded adds their lost attempts
-- to the history. The lock gives pick the rows as they are now, and done reads its snapshot. The fence
-- connects the two: it is the same in all versions of a row that one lease has. So claim writes no fence that no lease
-- will have.
-- state + 0 hides the condition from the planner, which would otherwise start the join from the index task_busy.
-- A lease ends when its renewal does, a row of the table lease under the task's fence, if there is one.
-- claim writes the next fence into the table lease, unless a valid renewal holds the row: a renewal and a takeover
-- write the same row, so one of them sees the other. IS TRUE makes the planner hash that list instead of joining it
-- by a nested loop.
-- An attempt counts if it is known to have started. Otherwise its end is a lapse, and every 100th lapse in a row
-- counts as an attempt (lapses >= 99).
-- The result of a task whose attempts are exhausted names its last holder and the checkout that found it.
-- The outcome is crashed if the attempt counts, and lapsed otherwise.
-- At most 5000 rows.
WITH clock AS MATERIALIZED (SELECT {now} AS now),
pick AS MATERIALIZED (
  SELECT t.id, t.fence, t.holder AS was_holder, t.updated AS was_taken, t.attempt AS was_attempt,
                        coalesce((SELECT l.lease_until FROM dbq_lease l WHERE l.id = t.id AND l.fence = t.fence),
                                 t.lease_until) AS was_until
    FROM (SELECT CAST(:id AS uuid[]) AS id, CAST(:fence AS bigint[]) AS fence OFFSET 0) AS given,
         unnest(given.id, given.fence) AS d (id, fence),
         dbq_task t
   WHERE t.id = d.id
     AND t.fence = d.fence
     AND t.state + 0 = 1 /* PROCESSING */
     FOR UPDATE OF t SKIP LOCKED),
claim AS (
  INSERT INTO dbq_lease AS l (id, fence, lease_until, keep_until)
  SELECT pick.id, pick.fence + 1, clock.now + CAST(:lease AS bigint), clock.now + CAST(:lease AS bigint)
    FROM pick, clock
   ORDER BY pick.id
  ON CONFLICT (id) DO UPDATE
     SET fence = excluded.fence,
         lease_until = excluded.lease_until,
         keep_until = excluded.keep_until,
         progress = CASE WHEN l.fence >= excluded.fence - 1 THEN l.progress END
   WHERE l.fence < excluded.fence - 1
      OR l.lease_until <= (SELECT now FROM clock)
  RETURNING l.id),
claimed AS MATERIALIZED (
  SELECT pick.*
    FROM pick
   WHERE (pick.id IN (SELECT claim.id FROM claim)) IS TRUE),
done AS MATERIALIZED (
  UPDATE dbq_task t
     SET state = CASE WHEN attempt >= max_attempts AND (known_started = 1 OR lapses >= 99)
                      THEN 4 /* POISON */
                      ELSE 1 /* PROCESSING */ END,
         result = CASE WHEN attempt >= max_attempts AND (known_started = 1 OR lapses >= 99)
                       THEN convert_to('the lease of the last attempt expired, held by ' || t.holder ||
                                         ', found by ' || CAST(:holder AS text), 'UTF8')
                       ELSE t.result END,
         progress = coalesce((SELECT l.progress FROM dbq_lease l
                               WHERE l.id = t.id AND l.fence = t.fence), t.progress),
         lease_until = CASE WHEN attempt >= max_attempts AND (known_started = 1 OR lapses >= 99)
                            THEN NULL
                            ELSE clock.now + CAST(:lease AS bigint) END,
         holder = CASE WHEN attempt >= max_attempts AND (known_started = 1 OR lapses >= 99)
                       THEN t.holder
                       ELSE :holder END,
         attempt = CASE WHEN attempt >= max_attempts AND (known_started = 1 OR lapses >= 99)
                        THEN t.attempt
                        ELSE attempt + CASE WHEN (known_started = 1 OR lapses >= 99) THEN 1 ELSE 0 END END,
         lapses = CASE WHEN known_started = 1 THEN lapses WHEN lapses >= 99 THEN 0 ELSE lapses + 1 END,
         known_started = CAST(:known_started AS smallint),
         taken = CASE WHEN attempt >= max_attempts AND (known_started = 1 OR lapses >= 99)
                      THEN NULL
                      ELSE clock.now END,
         fence = t.fence + 1,
         updated = clock.now
    FROM claimed, clock
   WHERE t.id = claimed.id AND t.fence = claimed.fence
     AND t.state + 0 = 1 /* PROCESSING */
  RETURNING t.id, t.queue, t.reference, t.kind, t.task_key, t.state, t.priority, t.attempt, t.max_attempts, t.lapses,
            t.cancelled, t.fence, t.due, t.holder, t.created, t.updated, t.headers, t.result,
            t.progress, t.lease_until, t.payload, clock.now,
            claimed.was_holder, claimed.was_taken, claimed.was_attempt, claimed.was_until),
recorded AS (
  INSERT INTO dbq_attempt (task, fence, queue, attempt, outcome, taken, ended, worker, error)
  SELECT d.id, d.fence - 1, d.queue, d.was_attempt,
         CASE WHEN d.counts THEN 'crashed' ELSE 'lapsed' END,
         d.was_taken, d.was_until, regexp_replace(d.was_holder, '#[^#]*$', ''),
         convert_to(CASE WHEN d.counts
                         THEN 'the lease expired'
                         ELSE 'the lease expired before the attempt was known to have started' END, 'UTF8')
    FROM (SELECT done.*,
                 done.state <> 1 /* PROCESSING */ OR done.attempt <> done.was_attempt AS counts
            FROM done) AS d
  ON CONFLICT DO NOTHING)
SELECT done.*
  FROM done;

-- ==== oldest ====
-- Reports when the oldest task in PROCESSING was taken. Searches for expired leases begin there.
-- Runs after slow searches for expired leases, which start at its result from then on. Index: task_busy.
WITH clock AS MATERIALIZED (SELECT {now} AS now)
SELECT least(clock.now - CAST(:late AS bigint),
             (SELECT t.updated
                FROM dbq_task t
               WHERE t.queue = :queue
                 AND t.state = 1 /* PROCESSING */
                 AND t.updated >= CAST(:oldest AS bigint)
               ORDER BY t.updated
               LIMIT 1)) AS updated
  FROM clock;

-- ==== dead tuples ====
-- Reports whether the table has many dead tuples, which searches have to pass.
-- Runs after a slow search. It reads the server's statistics, no table.
SELECT {now} AS now
 WHERE pg_stat_get_dead_tuples(CAST('dbq_task' AS regclass)) >= CAST(:many AS bigint);

-- ======== Leases ========

-- ==== Start ====
-- Marks attempts as started. An attempt that is not marked does not count if its lease expires.
-- Runs when a worker starts tasks that it checked out ahead. Index: the primary key. state + 0 hides the condition
-- from the planner, which would otherwise start the join from the index task_busy.
-- At most 5000 rows.
UPDATE dbq_task t
   SET known_started = 1
  FROM (SELECT CAST(:id AS uuid[]) AS id, CAST(:fence AS bigint[]) AS fence OFFSET 0) AS given,
       unnest(given.id, given.fence) AS d (id, fence)
 WHERE t.id = d.id
   AND t.fence = d.fence
   AND t.state + 0 = 1 /* PROCESSING */
RETURNING t.id, t.fence;

-- ==== Extend ====
-- Renews leases.
-- Runs at each heartbeat of a worker, for all of its leases. Indexes: the primary keys of task and lease. A renewal is
-- a row of its own, so that a heartbeat neither writes nor locks a task. Rows are written in the order of ids, so that
-- no two heartbeats deadlock. A row with a higher fence is a takeover's and stays. A null :progress keeps what the
-- lease has. state + 0 hides the condition from the planner, which would otherwise start the join from the index
-- task_busy. OFFSET 0 hides the length of the arrays from it: it would rather scan a small table for a long array than
-- look up each row.
-- At most 5000 rows.
WITH clock AS MATERIALIZED (SELECT {now} AS now)
INSERT INTO dbq_lease AS l (id, fence, lease_until, keep_until, progress)
SELECT t.id, t.fence, clock.now + CAST(:lease AS bigint), greatest(t.lease_until, clock.now + CAST(:lease AS bigint)),
       d.progress
  FROM clock,
       (SELECT CAST(:id AS uuid[]) AS id, CAST(:fence AS bigint[]) AS fence, CAST(:progress AS bytea[]) AS progress
        OFFSET 0) AS given,
       unnest(given.id, given.fence, given.progress) AS d (id, fence, progress),
       dbq_task t
 WHERE t.id = d.id
   AND t.fence = d.fence
   AND t.state + 0 = 1 /* PROCESSING */
 ORDER BY t.id
ON CONFLICT (id) DO UPDATE
   SET fence = excluded.fence,
       lease_until = excluded.lease_until,
       keep_until = excluded.keep_until,
       progress = coalesce(excluded.progress, CASE WHEN l.fence = excluded.fence THEN l.progress END)
 WHERE l.fence <= excluded.fence
RETURNING l.id, l.fence;

-- ==== DropLeases ====
-- Removes the renewals of leases that were settled.
-- Runs after the settlement. Index: the primary key of lease.
-- At most 5000 rows.
DELETE FROM dbq_lease l
 USING (SELECT CAST(:id AS uuid[]) AS id, CAST(:fence AS bigint[]) AS fence OFFSET 0) AS given,
       unnest(given.id, given.fence) AS d (id, fence)
 WHERE l.id = d.id
   AND l.fence = d.fence;

-- ==== ExpireLeases ====
-- Removes renewals that ended long ago, in batches.
-- Runs in clients that renew leases or take tasks over, every 10 seconds at most, for renewals that DropLeases has
-- not removed. Index: none for the search, since the table has few rows, one for each long-running task; the primary
-- key for the rows found. SKIP LOCKED keeps it from waiting for heartbeats and takeovers. The progress of a task that
-- is still leased stays for the takeover.
DELETE FROM dbq_lease
 WHERE keep_until <= {now} - CAST(:age AS bigint)
   AND id = ANY (ARRAY(
         SELECT l.id
           FROM dbq_lease l
          WHERE l.keep_until <= {now} - CAST(:age AS bigint)
            AND (l.progress IS NULL
                 OR (SELECT t.state FROM dbq_task t WHERE t.id = l.id AND t.fence = l.fence)
                    IS DISTINCT FROM 1 /* PROCESSING */)
          LIMIT :limit
            FOR UPDATE OF l SKIP LOCKED));

-- ======== Settling ========

-- ==== Settle ====
-- Ends attempts (complete, fail, poison, release) whose fences are unchanged.
-- Runs for attempts that ended in different ways or under different fences. Index: the primary key, once for each
-- row. OFFSET 0 hides the length of the arrays from the planner, which would rather scan a small table for a long
-- array than look up each row. state + 0 hides the condition from it: it would otherwise start the join from
-- the index task_busy.
-- At most 5000 rows.
WITH clock AS MATERIALIZED (SELECT {now} AS now)
UPDATE dbq_task t
   SET state = CASE WHEN d.state = 3 /* ERROR */ AND coalesce(d.at, d.after) IS NOT NULL AND t.attempt >= t.max_attempts
                    THEN 4 /* POISON */ ELSE d.state END,
       due = CASE WHEN d.state = 3 /* ERROR */ AND t.attempt >= t.max_attempts
                  THEN NULL ELSE coalesce(d.at, clock.now + d.after) END,
       attempt = t.attempt - d.uncount,
       lease_until = NULL,
       updated = clock.now,
       result = CASE WHEN d.state = 0 /* CREATED */ THEN coalesce(d.result, t.result) ELSE d.result END,
       progress = CASE
         WHEN d.state <> 2 /* COMPLETED */
         THEN coalesce((SELECT l.progress FROM dbq_lease l
                         WHERE l.id = t.id AND l.fence = t.fence), t.progress)
       END
  FROM clock,
       (SELECT CAST(:id AS uuid[]) AS id, CAST(:fence AS bigint[]) AS fence, CAST(:state AS smallint[]) AS state,
               CAST(:at AS bigint[]) AS at, CAST(:after AS bigint[]) AS after, CAST(:uncount AS smallint[]) AS uncount,
               CAST(:result AS bytea[]) AS result
         WHERE CASE WHEN CAST(:lock_wait AS bigint) IS NULL THEN true
                    ELSE set_config('lock_timeout', CAST(CAST(:lock_wait AS bigint) AS text), true) IS NOT NULL
               END OFFSET 0) AS given,
       unnest(given.id, given.fence, given.state, given.at, given.after, given.uncount, given.result)
         AS d (id, fence, state, at, after, uncount, result)
 WHERE t.id = d.id
   AND t.fence = d.fence
   AND t.state + 0 = 1 /* PROCESSING */
RETURNING t.id, t.fence, t.state;

-- ==== complete uniform ====
-- Settle for tasks under one fence that complete without a result.
-- Runs instead of Settle for attempts under one fence: most tasks complete in their first attempt. Index: the primary
-- key.
-- The list comes from a subquery, which hides its length like OFFSET 0: the planner uses the primary key, whatever it
-- knows about the table.
-- At most 5000 rows.
UPDATE dbq_task t
   SET state = 2 /* COMPLETED */,
       due = NULL,
       lease_until = NULL,
       updated = (SELECT {now}),
       result = NULL,
       progress = NULL
 WHERE t.id = ANY (CAST((
         SELECT CAST(:id AS uuid[])
          WHERE CASE WHEN CAST(:lock_wait AS bigint) IS NULL THEN true
                     ELSE set_config('lock_timeout', CAST(CAST(:lock_wait AS bigint) AS text), true) IS NOT NULL
                END) AS uuid[]))
   AND t.fence = CAST(:fence AS bigint)
   AND t.state + 0 = 1 /* PROCESSING */
RETURNING t.id;

-- ==== Remove ====
-- Ends attempts and removes the tasks (complete and delete), if their fences are unchanged.
-- Runs instead of Settle for tasks that are not kept. Index: the primary key. OFFSET 0 and state + 0: see Settle.
-- At most 5000 rows.
DELETE FROM dbq_task t
 USING (SELECT CAST(:id AS uuid[]) AS id, CAST(:fence AS bigint[]) AS fence
         WHERE CASE WHEN CAST(:lock_wait AS bigint) IS NULL THEN true
                    ELSE set_config('lock_timeout', CAST(CAST(:lock_wait AS bigint) AS text), true) IS NOT NULL
               END OFFSET 0) AS given,
       unnest(given.id, given.fence) AS d (id, fence)
 WHERE t.id = d.id
   AND t.fence = d.fence
   AND t.state + 0 = 1 /* PROCESSING */
RETURNING t.id, t.fence;

-- ==== remove uniform ====
-- Remove for tasks under one fence.
-- Runs instead of Remove for attempts under one fence. Index: the primary key.
-- The list comes from a subquery, which hides its length like OFFSET 0: the planner uses the primary key, whatever it
-- knows about the table.
-- At most 5000 rows.
DELETE FROM dbq_task t
 WHERE t.id = ANY (CAST((
         SELECT CAST(:id AS uuid[])
          WHERE CASE WHEN CAST(:lock_wait AS bigint) IS NULL THEN true
                     ELSE set_config('lock_timeout', CAST(CAST(:lock_wait AS bigint) AS text), true) IS NOT NULL
                END) AS uuid[]))
   AND t.fence = CAST(:fence AS bigint)
   AND t.state + 0 = 1 /* PROCESSING */
RETURNING t.id;

-- ==== LockFree ====
-- Locks the tasks of a batch that no other transaction has locked; only these are then settled or leased.
-- Runs if a batch waited too long for a locked row, or a checkout of a queue with limits per key met one. Index: the
-- primary key.
-- At most 5000 rows.
SELECT t.id
  FROM dbq_task t
 WHERE t.id = ANY (CAST((SELECT CAST(:id AS uuid[])) AS uuid[]))
   FOR UPDATE SKIP LOCKED;

-- ======== Operators' events ========

-- ==== Movable cancel ====
-- Locks and returns the tasks that Move of the same event will change. A task that is no longer needed goes to
-- POISON, marked as cancelled. If it is running, its handler's context ends.
-- Runs first in the transaction of an operator's event. Index: the primary key. It locks in the order of ids, so that
-- no two calls deadlock.
-- At most 5000 rows.
SELECT t.id, t.queue, t.task_key, t.state, t.attempt, t.fence, t.holder, t.taken, t.updated,
       t.result, CASE WHEN t.state = 1 /* PROCESSING */ THEN (SELECT l.progress FROM dbq_lease l
                                                               WHERE l.id = t.id AND l.fence = t.fence) END AS progress,
       {now} AS now
  FROM dbq_task t
 WHERE t.id = ANY (CAST(:id AS uuid[]))
   AND (state = 0 /* CREATED */ OR state = 1 /* PROCESSING */ OR state = 3 /* ERROR */)
 ORDER BY t.id
   FOR UPDATE;

-- ==== Movable finish ====
-- Locks and returns the tasks that Move of the same event will change. A task is completed without an attempt, with a
-- result that may be given.
-- Runs first in the transaction of an operator's event. Index: the primary key. It locks in the order of ids, so that
-- no two calls deadlock.
-- At most 5000 rows.
SELECT t.id, t.queue, t.task_key, t.state, t.attempt, t.fence, t.holder, t.taken, t.updated,
       t.result, CASE WHEN t.state = 1 /* PROCESSING */ THEN (SELECT l.progress FROM dbq_lease l
                                                               WHERE l.id = t.id AND l.fence = t.fence) END AS progress,
       {now} AS now
  FROM dbq_task t
 WHERE t.id = ANY (CAST(:id AS uuid[]))
   AND (state = 0 /* CREATED */ OR state = 3 /* ERROR */ OR state = 4 /* POISON */)
 ORDER BY t.id
   FOR UPDATE;

-- ==== Movable purge ====
-- Locks and returns the tasks that Move of the same event will change. An ended or parked task is removed.
-- Runs before Archive and RecordLast, if they run: a task that becomes purgeable after them must stay. Index: the
-- primary key.
-- At most 5000 rows.
SELECT t.id, t.queue, t.task_key, t.state
  FROM dbq_task t
 WHERE t.id = ANY (CAST(:id AS uuid[]))
   AND (state = 2 /* COMPLETED */ OR state = 4 /* POISON */ OR (state = 3 /* ERROR */ AND due IS NULL))
 ORDER BY t.id
   FOR UPDATE;

-- ==== Movable quarantine ====
-- Locks and returns the tasks that Move of the same event will change. A failed task will not be retried.
-- Runs first in the transaction of an operator's event. Index: the primary key. It locks in the order of ids, so that
-- no two calls deadlock.
-- At most 5000 rows.
SELECT t.id, t.queue, t.task_key, t.state, t.attempt, t.fence, t.holder, t.taken, t.updated,
       t.result, CASE WHEN t.state = 1 /* PROCESSING */ THEN (SELECT l.progress FROM dbq_lease l
                                                               WHERE l.id = t.id AND l.fence = t.fence) END AS progress,
       {now} AS now
  FROM dbq_task t
 WHERE t.id = ANY (CAST(:id AS uuid[]))
   AND (state = 3 /* ERROR */)
 ORDER BY t.id
   FOR UPDATE;

-- ==== Movable reenqueue ====
-- Locks and returns the tasks that Move of the same event will change. A failed task becomes due again, and its
-- attempts start over.
-- Runs first in the transaction of an operator's event. Index: the primary key. It locks in the order of ids, so that
-- no two calls deadlock.
-- At most 5000 rows.
SELECT t.id, t.queue, t.task_key, t.state, t.attempt, t.fence, t.holder, t.taken, t.updated,
       t.result, CASE WHEN t.state = 1 /* PROCESSING */ THEN (SELECT l.progress FROM dbq_lease l
                                                               WHERE l.id = t.id AND l.fence = t.fence) END AS progress,
       {now} AS now
  FROM dbq_task t
 WHERE t.id = ANY (CAST(:id AS uuid[]))
   AND (state = 3 /* ERROR */ OR state = 4 /* POISON */)
 ORDER BY t.id
   FOR UPDATE;

-- ==== Movable reject ====
-- Locks and returns the tasks that Move of the same event will change. A task is parked before it runs.
-- Runs first in the transaction of an operator's event. Index: the primary key. It locks in the order of ids, so that
-- no two calls deadlock.
-- At most 5000 rows.
SELECT t.id, t.queue, t.task_key, t.state, t.attempt, t.fence, t.holder, t.taken, t.updated,
       t.result, CASE WHEN t.state = 1 /* PROCESSING */ THEN (SELECT l.progress FROM dbq_lease l
                                                               WHERE l.id = t.id AND l.fence = t.fence) END AS progress,
       {now} AS now
  FROM dbq_task t
 WHERE t.id = ANY (CAST(:id AS uuid[]))
   AND (state = 0 /* CREATED */)
 ORDER BY t.id
   FOR UPDATE;

-- ==== Movable restore ====
-- Locks and returns the tasks that Move of the same event will change. A poisoned task is parked for inspection.
-- Runs first in the transaction of an operator's event. Index: the primary key. It locks in the order of ids, so that
-- no two calls deadlock.
-- At most 5000 rows.
SELECT t.id, t.queue, t.task_key, t.state, t.attempt, t.fence, t.holder, t.taken, t.updated,
       t.result, CASE WHEN t.state = 1 /* PROCESSING */ THEN (SELECT l.progress FROM dbq_lease l
                                                               WHERE l.id = t.id AND l.fence = t.fence) END AS progress,
       {now} AS now
  FROM dbq_task t
 WHERE t.id = ANY (CAST(:id AS uuid[]))
   AND (state = 4 /* POISON */)
 ORDER BY t.id
   FOR UPDATE;

-- ==== Movable revoke ====
-- Locks and returns the tasks that Move of the same event will change. The lease is taken away, the handler's context
-- ends, and the task is parked.
-- Runs first in the transaction of an operator's event. Index: the primary key. It locks in the order of ids, so that
-- no two calls deadlock.
-- At most 5000 rows.
SELECT t.id, t.queue, t.task_key, t.state, t.attempt, t.fence, t.holder, t.taken, t.updated,
       t.result, CASE WHEN t.state = 1 /* PROCESSING */ THEN (SELECT l.progress FROM dbq_lease l
                                                               WHERE l.id = t.id AND l.fence = t.fence) END AS progress,
       {now} AS now
  FROM dbq_task t
 WHERE t.id = ANY (CAST(:id AS uuid[]))
   AND (state = 1 /* PROCESSING */)
 ORDER BY t.id
   FOR UPDATE;

-- ==== Move cancel ====
-- Applies an operator's event. A task that is no longer needed goes to POISON, marked as cancelled. If it is running,
-- its handler's context ends.
-- Runs after Movable. Index: the primary key.
-- At most 5000 rows.
UPDATE dbq_task t
   SET fence = fence + CASE WHEN (state = 1 /* PROCESSING */) THEN 1 ELSE 0 END,
       state = 4 /* POISON */,
       due = NULL,
       cancelled = 1,
       lease_until = NULL,
       taken = NULL,
       updated = {now}
 WHERE t.id = ANY (CAST(:id AS uuid[]))
   AND (state = 0 /* CREATED */ OR state = 1 /* PROCESSING */ OR state = 3 /* ERROR */);

-- ==== Move finish ====
-- Applies an operator's event. A task is completed without an attempt, with a result that may be given.
-- Runs after Movable. Index: the primary key.
-- At most 5000 rows.
UPDATE dbq_task t
   SET state = 2 /* COMPLETED */,
       due = NULL,
       cancelled = 0,
       progress = NULL,
       lease_until = NULL,
       taken = NULL,
       updated = {now}
 WHERE t.id = ANY (CAST(:id AS uuid[]))
   AND (state = 0 /* CREATED */ OR state = 3 /* ERROR */ OR state = 4 /* POISON */);

-- ==== Move purge ====
-- Applies an operator's event. An ended or parked task is removed.
-- Runs after Archive and RecordLast, if they run. Index: the primary key.
-- At most 5000 rows.
DELETE FROM dbq_task t
 WHERE t.id = ANY (CAST(:id AS uuid[]))
   AND (state = 2 /* COMPLETED */ OR state = 4 /* POISON */ OR (state = 3 /* ERROR */ AND due IS NULL))
RETURNING t.id, t.queue, t.task_key, t.state;

-- ==== Move quarantine ====
-- Applies an operator's event. A failed task will not be retried.
-- Runs after Movable. Index: the primary key.
-- At most 5000 rows.
UPDATE dbq_task t
   SET state = 4 /* POISON */,
       due = NULL,
       cancelled = 0,
       lease_until = NULL,
       taken = NULL,
       updated = {now}
 WHERE t.id = ANY (CAST(:id AS uuid[]))
   AND (state = 3 /* ERROR */);

-- ==== Move reenqueue ====
-- Applies an operator's event. A failed task becomes due again, and its attempts start over.
-- Runs after Movable. Index: the primary key.
-- At most 5000 rows.
UPDATE dbq_task t
   SET state = 0 /* CREATED */,
       due = {now},
       cancelled = 0,
       attempt = 0,
       lapses = 0,
       lease_until = NULL,
       taken = NULL,
       updated = {now}
 WHERE t.id = ANY (CAST(:id AS uuid[]))
   AND (state = 3 /* ERROR */ OR state = 4 /* POISON */);

-- ==== Move reject ====
-- Applies an operator's event. A task is parked before it runs.
-- Runs after Movable. Index: the primary key.
-- At most 5000 rows.
UPDATE dbq_task t
   SET state = 3 /* ERROR */,
       due = NULL,
       cancelled = 0,
       lease_until = NULL,
       taken = NULL,
       updated = {now}
 WHERE t.id = ANY (CAST(:id AS uuid[]))
   AND (state = 0 /* CREATED */);

-- ==== Move restore ====
-- Applies an operator's event. A poisoned task is parked for inspection.
-- Runs after Movable. Index: the primary key.
-- At most 5000 rows.
UPDATE dbq_task t
   SET state = 3 /* ERROR */,
       due = NULL,
       cancelled = 0,
       lease_until = NULL,
       taken = NULL,
       updated = {now}
 WHERE t.id = ANY (CAST(:id AS uuid[]))
   AND (state = 4 /* POISON */);

-- ==== Move revoke ====
-- Applies an operator's event. The lease is taken away, the handler's context ends, and the task is parked.
-- Runs after Movable. Index: the primary key.
-- At most 5000 rows.
UPDATE dbq_task t
   SET fence = fence + 1,
       state = 3 /* ERROR */,
       due = NULL,
       cancelled = 0,
       lease_until = NULL,
       taken = NULL,
       updated = {now}
 WHERE t.id = ANY (CAST(:id AS uuid[]))
   AND (state = 1 /* PROCESSING */);

-- ==== SetResult ====
-- Stores an operator's reason.
-- Runs after Move in the same transaction, if the operator gives a reason. Index: the primary key.
-- At most 5000 rows.
UPDATE dbq_task t
   SET result = d.result
  FROM (SELECT CAST(:id AS uuid[]) AS id, CAST(:result AS bytea[]) AS result OFFSET 0) AS given,
       unnest(given.id, given.result) AS d (id, result)
 WHERE t.id = d.id;

-- ==== SetProgress ====
-- Stores the progress of ended attempts in the tasks' rows, for the next attempts.
-- Runs after Settle or Move in the same transaction, for tasks whose holders have reported progress. Index: the primary
-- key.
-- At most 5000 rows.
UPDATE dbq_task t
   SET progress = d.progress
  FROM (SELECT CAST(:id AS uuid[]) AS id, CAST(:progress AS bytea[]) AS progress OFFSET 0) AS given,
       unnest(given.id, given.progress) AS d (id, progress)
 WHERE t.id = d.id;

-- ======== Reading and counting ========

-- ==== Get ====
-- Reads a task. Index: the primary key of task.
SELECT t.id, t.queue, t.reference, t.kind, t.task_key, t.state, t.priority, t.attempt, t.max_attempts, t.lapses,
       t.cancelled, t.fence, t.due, t.holder, t.created, t.updated, t.headers, t.result,
       CASE WHEN t.state = 1 /* PROCESSING */
            THEN coalesce((SELECT l.lease_until FROM dbq_lease l WHERE l.id = t.id AND l.fence = t.fence),
                          t.lease_until) END AS lease_until,
       CASE WHEN t.state = 1 /* PROCESSING */
            THEN coalesce((SELECT l.progress FROM dbq_lease l
                            WHERE l.id = t.id AND l.fence = t.fence), t.progress)
            ELSE t.progress END AS progress,
       t.payload, {now} AS now
  FROM dbq_task t
 WHERE t.id = :id;

-- ==== Poisoned ====
-- Reads tasks that went to POISON, for their dead-letter notices. Index: the primary key of task.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
SELECT t.id, t.queue, t.reference, t.kind, t.task_key, t.state, t.priority, t.attempt, t.max_attempts, t.lapses,
       t.cancelled, t.fence, t.due, t.holder, t.created, t.updated, t.headers, t.result,
       CASE WHEN t.state = 1 /* PROCESSING */
            THEN coalesce((SELECT l.lease_until FROM dbq_lease l WHERE l.id = t.id AND l.fence = t.fence),
                          t.lease_until) END AS lease_until,
       CASE WHEN t.state = 1 /* PROCESSING */
            THEN coalesce((SELECT l.progress FROM dbq_lease l
                            WHERE l.id = t.id AND l.fence = t.fence), t.progress)
            ELSE t.progress END AS progress,
       {now} AS now
  FROM dbq_task t
 WHERE t.id IN ({rows});

-- ==== FindReference ====
-- Finds a task by its reference. Index: the unique index of references.
SELECT id
  FROM dbq_task
 WHERE reference = :reference AND queue = :queue;

-- ==== List ====
-- Lists tasks without their payloads. {where} consists of comparisons of columns; {order} is empty or DESC. Index:
-- the primary key of task, or one that fits the filter.
SELECT t.id, t.queue, t.reference, t.kind, t.task_key, t.state, t.priority, t.attempt, t.max_attempts, t.lapses,
       t.cancelled, t.fence, t.due, t.holder, t.created, t.updated, t.headers, t.result,
       CASE WHEN t.state = 1 /* PROCESSING */
            THEN coalesce((SELECT l.lease_until FROM dbq_lease l WHERE l.id = t.id AND l.fence = t.fence),
                          t.lease_until) END AS lease_until,
       CASE WHEN t.state = 1 /* PROCESSING */
            THEN coalesce((SELECT l.progress FROM dbq_lease l
                            WHERE l.id = t.id AND l.fence = t.fence), t.progress)
            ELSE t.progress END AS progress,
       {now} AS now
  FROM dbq_task t
 WHERE {where}
 ORDER BY t.id{order}
 LIMIT :limit;

-- ==== FindIDs ====
-- Finds the tasks that an operator's bulk call changes, or retention removes. Index: as for List.
SELECT t.id
  FROM dbq_task t
 WHERE {where}
 ORDER BY t.id
 LIMIT :limit;

-- ==== Indexes CREATED ====
-- Not a statement: how an index leads to the tasks of a queue in the state, as {hint}, {where} and {order}.
queue = :queue AND due IS NOT NULL AND priority BETWEEN 0 AND 9 ORDER BY priority, due, id;

-- ==== Indexes ERROR ====
-- Not a statement: how an index leads to the tasks of a queue in the state, as {hint}, {where} and {order}.
queue = :queue AND state = 3 /* ERROR */ ORDER BY id;

-- ==== Indexes POISON ====
-- Not a statement: how an index leads to the tasks of a queue in the state, as {hint}, {where} and {order}.
queue = :queue AND state = 4 /* POISON */ ORDER BY id;

-- ==== Indexes PROCESSING ====
-- Not a statement: how an index leads to the tasks of a queue in the state, as {hint}, {where} and {order}.
queue = :queue AND state = 1 /* PROCESSING */ ORDER BY updated;

-- ==== ListSome ====
-- Lists tasks of a queue by one of Indexes, for the page of a queue's keys.
SELECT t.id, t.queue, t.reference, t.kind, t.task_key, t.state, t.priority, t.attempt, t.max_attempts, t.lapses,
       t.cancelled, t.fence, t.due, t.holder, t.created, t.updated, t.headers, t.result,
       CASE WHEN t.state = 1 /* PROCESSING */
            THEN coalesce((SELECT l.lease_until FROM dbq_lease l WHERE l.id = t.id AND l.fence = t.fence),
                          t.lease_until) END AS lease_until,
       CASE WHEN t.state = 1 /* PROCESSING */
            THEN coalesce((SELECT l.progress FROM dbq_lease l
                            WHERE l.id = t.id AND l.fence = t.fence), t.progress)
            ELSE t.progress END AS progress,
       {now} AS now
  FROM dbq_task t{hint}
 WHERE {where}{order}
 LIMIT :limit;

-- ==== SomeIDs ====
-- Finds the ids of a queue's tasks by one of Indexes, for a page of a list; not more than it can sort.
SELECT id
  FROM dbq_task t{hint}
 WHERE {where}{order}
 LIMIT :limit;

-- ==== MatchSome ====
-- Counts the tasks that a filter selects among some of a queue, by one of Indexes, before a bulk action.
SELECT count(*) AS looked, count(CASE WHEN {matches} THEN 1 END) AS matching
  FROM (
    SELECT id, queue, kind, task_key, state, due, cancelled, updated, holder
      FROM dbq_task t{hint}
     WHERE {where}{order}
    LIMIT :limit) t;

-- ==== Next ====
-- Reports when the next task of a queue is due. Idle workers sleep until then.
-- Runs when a worker finds nothing to do. Indexes: task_ready, one search for each priority, and task_busy for the
-- tasks in PROCESSING.
-- A full join is never a nested loop, which would read all of lease for each task in PROCESSING if the planner
-- believes that lease is empty.
WITH busy AS MATERIALIZED (
  SELECT t.id, t.fence, t.lease_until
    FROM dbq_task t
   WHERE t.queue = :queue
     AND t.state = 1 /* PROCESSING */
     AND t.updated >= CAST(:oldest AS bigint)),
renewed AS MATERIALIZED (
  SELECT l.id, l.fence, l.lease_until
    FROM dbq_lease l
   WHERE EXISTS (SELECT 1 FROM busy))
SELECT CASE WHEN NOT EXISTS (SELECT 1 FROM dbq_kv n WHERE n.namespace = 'pause' AND n.name = :queue) THEN least(
         (SELECT min(x.due)
            FROM generate_series(0, 9) AS p (priority)
           CROSS JOIN LATERAL (
             SELECT t.due
               FROM dbq_task t
              WHERE t.queue = :queue
                AND t.priority = p.priority
                AND t.due >= (CAST(:since AS bigint[]))[p.priority + 1]
              ORDER BY t.due, t.id
              LIMIT 1) AS x),
         (SELECT min(CASE WHEN b.id IS NOT NULL THEN coalesce(r.lease_until, b.lease_until) END)
            FROM busy b
            FULL JOIN renewed r ON r.id = b.id AND r.fence = b.fence)) END AS due,
       {now} AS now;

-- ==== Count ====
-- Counts all tasks of each queue by state, for exact statistics.
-- Runs if exact statistics are requested. Indexes: task_ready, task_busy and task_failed, one search in each. The
-- COMPLETED tasks take a scan of the table, which is slow if there are many.
WITH clock AS MATERIALIZED (SELECT {now} AS now)
SELECT queue, state, count(*) AS tasks, CAST(0 AS bigint) AS parked, count(*) FILTER (WHERE due <= clock.now) AS due,
       max(clock.now - due) FILTER (WHERE due <= clock.now) AS oldest, CAST(0 AS bigint) AS cancelled
  FROM dbq_task, clock
 WHERE due IS NOT NULL
 GROUP BY queue, state
UNION ALL
SELECT queue, 1 /* PROCESSING */, count(*), 0, 0, NULL, 0
  FROM dbq_task
 WHERE state = 1 /* PROCESSING */
 GROUP BY queue
UNION ALL
SELECT queue, state, count(*), count(*), 0, NULL, sum(cancelled)
  FROM dbq_task
 WHERE state IN (3 /* ERROR */, 4 /* POISON */)
   AND due IS NULL
 GROUP BY queue, state
UNION ALL
SELECT queue, 2 /* COMPLETED */, count(*), 0, 0, NULL, 0
  FROM dbq_task
 WHERE state = 2 /* COMPLETED */
 GROUP BY queue;

-- ==== CountUpTo ====
-- Counts the tasks of a queue by state, up to a limit for each.
-- Runs for statistics, once for each queue. Indexes: task_ready for waiting and due tasks, task_busy, and
-- task_failed. Each search is in the order of its index. Otherwise the planner may scan the table for a value that it
-- believes to be frequent, or read all entries of an index at once.
SELECT 0 /* CREATED */ AS state, count(*) FILTER (WHERE x.state = 0 /* CREATED */) AS tasks,
       CAST(0 AS bigint) AS parked, CAST(0 AS bigint) AS due, CAST(NULL AS bigint) AS oldest,
       CASE WHEN count(*) >= CAST(:limit AS bigint) THEN 1 ELSE 0 END AS cut, CAST(0 AS bigint) AS cancelled
  FROM (SELECT x.state
          FROM generate_series(0, 9) AS p (priority)
         CROSS JOIN LATERAL (
           SELECT t.state
             FROM dbq_task t
            WHERE t.queue = :queue
              AND t.priority = p.priority
              AND t.due IS NOT NULL
            ORDER BY t.due, t.id
            LIMIT CAST(:limit AS bigint)) AS x
         LIMIT CAST(:limit AS bigint)) AS x
UNION ALL
SELECT 0 /* CREATED */, 0, 0, count(*), {now} - min(x.due), 0, 0
  FROM generate_series(0, 9) AS p (priority)
 CROSS JOIN LATERAL (
   SELECT t.due
     FROM dbq_task t
    WHERE t.queue = :queue
      AND t.priority = p.priority
      AND t.due <= {now}
    ORDER BY t.due, t.id
    LIMIT CAST(:limit AS bigint)) AS x
UNION ALL
SELECT 1 /* PROCESSING */, count(*), 0, 0, NULL, CASE WHEN count(*) >= CAST(:limit AS bigint) THEN 1 ELSE 0 END, 0
  FROM (SELECT 1
          FROM dbq_task t
         WHERE t.queue = :queue
           AND t.state = 1 /* PROCESSING */
         ORDER BY t.updated
         LIMIT CAST(:limit AS bigint)) AS x
UNION ALL
SELECT f.state, x.tasks, CASE f.state WHEN 3 /* ERROR */ THEN x.tasks - x.due ELSE 0 END, 0, NULL,
       CASE WHEN x.tasks >= CAST(:limit AS bigint) THEN 1 ELSE 0 END, x.cancelled
  FROM (VALUES (3 /* ERROR */), (4 /* POISON */)) AS f (state)
 CROSS JOIN LATERAL (
   SELECT count(*) AS tasks, count(x.due) AS due, coalesce(sum(x.cancelled), 0) AS cancelled
     FROM (SELECT t.due, t.cancelled
             FROM dbq_task t
            WHERE t.queue = :queue
              AND t.state = f.state
              AND t.state IN (3 /* ERROR */, 4 /* POISON */)
            ORDER BY t.id
            LIMIT CAST(:limit AS bigint)) AS x) AS x;

-- ==== CountNewest ====
-- Counts the newest tasks in the states that have no index by queue.
-- Runs for statistics, once for all queues. Index: the primary key, from its end.
SELECT x.queue, 2 /* COMPLETED */ AS state, count(*) FILTER (WHERE x.state = 2 /* COMPLETED */) AS tasks,
       CASE WHEN sum(count(*)) OVER () >= CAST(:limit AS bigint) THEN 1 ELSE 0 END AS cut
  FROM (SELECT t.queue, t.state
          FROM dbq_task t
         ORDER BY t.id DESC
         LIMIT CAST(:limit AS bigint)) AS x
 GROUP BY x.queue;

-- ==== NextQueue ====
-- Finds the next queue by name.
-- Runs for statistics, once for each queue. Indexes: task_ready, task_busy and task_failed, one entry of each.
SELECT x.queue
  FROM ((SELECT t.queue
           FROM dbq_task t
          WHERE t.due IS NOT NULL
            AND t.queue > :queue
          ORDER BY t.queue
          LIMIT 1)
        UNION ALL
        (SELECT t.queue
           FROM dbq_task t
          WHERE t.state = 1 /* PROCESSING */
            AND t.queue > :queue
          ORDER BY t.queue
          LIMIT 1)
        UNION ALL
        (SELECT t.queue
           FROM dbq_task t
          WHERE t.state IN (3 /* ERROR */, 4 /* POISON */)
            AND t.queue > :queue
          ORDER BY t.queue
          LIMIT 1)) AS x
 ORDER BY x.queue
 LIMIT 1;

-- ==== IDBehind ====
-- Finds the end of the next batch of old tasks, for retention. Index: the primary key of task.
-- Runs for each part of the old tasks that retention passes over. Index: the primary key. With both bounds in one
-- search, the planner would read all ids between them and sort them if it believes that they are few.
SELECT x.id
  FROM (SELECT t.id
          FROM dbq_task t
         WHERE t.id > :after
         ORDER BY t.id
         LIMIT 1 OFFSET :offset) AS x
 WHERE x.id < :before;

-- ==== IDBefore ====
-- Finds the end of a page of a list for which there is no index. Index: the primary key of task.
SELECT t.id
  FROM dbq_task t
 WHERE t.id < :before
 ORDER BY t.id DESC
 LIMIT 1 OFFSET :offset;

-- ==== Peek ====
-- Reads the states of tasks, to determine whether a call whose connection was lost took effect.
-- Runs after a lost connection. Index: the primary key.
-- At most 5000 rows.
SELECT t.id, t.queue, t.state, t.fence, t.updated
  FROM dbq_task t
 WHERE t.id = ANY (CAST(:id AS uuid[]));

-- ==== Held ====
-- Reads the tasks leased by a checkout whose connection was lost before the answer. Index: the index of leased tasks.
SELECT t.id, t.queue, t.reference, t.kind, t.task_key, t.state, t.priority, t.attempt, t.max_attempts, t.lapses,
       t.cancelled, t.fence, t.due, t.holder, t.created, t.updated, t.headers, t.result,
       CASE WHEN t.state = 1 /* PROCESSING */
            THEN coalesce((SELECT l.lease_until FROM dbq_lease l WHERE l.id = t.id AND l.fence = t.fence),
                          t.lease_until) END AS lease_until,
       CASE WHEN t.state = 1 /* PROCESSING */
            THEN coalesce((SELECT l.progress FROM dbq_lease l
                            WHERE l.id = t.id AND l.fence = t.fence), t.progress)
            ELSE t.progress END AS progress,
       t.payload, {now} AS now
  FROM dbq_task t
 WHERE t.queue = :queue
   AND t.state = 1 /* PROCESSING */
   AND t.holder = :holder;

-- ==== Exhausted ====
-- Reads the tasks moved to POISON by a checkout whose connection was lost before the answer.
-- Runs after Held. Index: task_failed.
-- A lease ends when its renewal does, a row of the table lease under the task's fence, if there is one.
-- The result of a task whose attempts are exhausted names its last holder and the checkout that found it.
SELECT t.id, t.queue, t.reference, t.kind, t.task_key, t.state, t.priority, t.attempt, t.max_attempts, t.lapses,
       t.cancelled, t.fence, t.due, t.holder, t.created, t.updated, t.headers, t.result,
       CASE WHEN t.state = 1 /* PROCESSING */
            THEN coalesce((SELECT l.lease_until FROM dbq_lease l WHERE l.id = t.id AND l.fence = t.fence),
                          t.lease_until) END AS lease_until,
       CASE WHEN t.state = 1 /* PROCESSING */
            THEN coalesce((SELECT l.progress FROM dbq_lease l
                            WHERE l.id = t.id AND l.fence = t.fence), t.progress)
            ELSE t.progress END AS progress,
       t.payload, {now} AS now
  FROM dbq_task t
 WHERE t.queue = :queue
   AND t.state = 4 /* POISON */
   AND t.result = convert_to('the lease of the last attempt expired, held by ' || t.holder ||
                               ', found by ' || CAST(:holder AS text), 'UTF8');

-- ======== History, retention and archive ========

-- ==== Record ====
-- Adds attempts to the history.
-- Runs in the transaction of an operator's event, for attempts that the tasks' rows no longer describe. Index: the
-- primary key of attempt finds those that exist.
-- At most 5000 rows.
INSERT INTO dbq_attempt (task, fence, queue, attempt, outcome, taken, ended, worker, error)
SELECT d.id, d.fence, CAST(:queue AS text), d.attempt, d.outcome, d.taken, d.ended, d.worker, d.error
  FROM unnest(CAST(:id AS uuid[]), CAST(:fence AS bigint[]), CAST(:attempt AS smallint[]), CAST(:outcome AS text[]),
              CAST(:taken AS bigint[]), CAST(:ended AS bigint[]), CAST(:worker AS text[]), CAST(:error AS bytea[]))
         AS d (id, fence, attempt, outcome, taken, ended, worker, error)
ON CONFLICT DO NOTHING;

-- ==== RecordLast ====
-- Adds the last attempts of tasks to the history, from the tasks' rows, when another attempt follows or the task is
-- removed.
-- Runs after a Settle of the same transaction, for attempts that others follow, and before tasks are removed. Index:
-- the primary key of task. OFFSET 0 hides the length of the arrays from the planner, and state + 0 the condition: it
-- would otherwise start from the index task_busy.
-- At most 5000 rows.
INSERT INTO dbq_attempt (task, fence, queue, attempt, outcome, taken, ended, worker, error)
SELECT t.id, t.fence, t.queue,
       CASE t.state WHEN 0 /* CREATED */ THEN t.attempt + 1
                    ELSE t.attempt END,
       CASE t.state WHEN 0 /* CREATED */ THEN 'released'
                    WHEN 2 /* COMPLETED */ THEN 'completed'
                    WHEN 3 /* ERROR */ THEN 'failed'
                    ELSE 'poisoned' END,
       t.taken, t.updated, regexp_replace(t.holder, '#[^#]*$', ''),
       coalesce(d.error, CASE WHEN t.state IN (3 /* ERROR */, 4 /* POISON */) THEN t.result END)
  FROM (SELECT CAST(:id AS uuid[]) AS id, CAST(:error AS bytea[]) AS error OFFSET 0) AS given,
       unnest(given.id, given.error) AS d (id, error),
       dbq_task t
 WHERE t.id = d.id
   AND t.taken IS NOT NULL
   AND t.state + 0 <> 1 /* PROCESSING */
   FOR UPDATE OF t
ON CONFLICT DO NOTHING;

-- ==== Attempts ====
-- Reads the recorded attempts of a task. Index: the primary key.
SELECT task, fence, queue, attempt, outcome, taken, ended, worker, error
  FROM dbq_attempt
 WHERE task = :id
 ORDER BY fence
 LIMIT :limit;

-- ==== LastAttempt ====
-- Reads the last attempt of a task from its row, here or in the archive. Indexes: the primary key of task, and the
-- primary key of archive.
SELECT id, queue, state, attempt, fence, holder, taken, updated, result
  FROM dbq_task WHERE id = :id
UNION ALL
SELECT id, queue, state, attempt, fence, holder, taken, updated, result
  FROM dbq_archive WHERE id = :id;

-- ==== ExpireAttempts ====
-- Removes old attempts, in batches.
-- Runs for retention. Index: attempt_ended.
DELETE FROM dbq_attempt
 WHERE ctid = ANY (ARRAY(
         SELECT ctid
           FROM dbq_attempt
          WHERE queue = :queue
            AND ended <= {now} - CAST(:age AS bigint)
          ORDER BY ended
          LIMIT :limit));

-- ==== Archive ====
-- Copies finished tasks into the archive, before the same transaction removes them.
-- Runs just before the purge of the same tasks, in its transaction, if tasks are archived. Index: the primary key.
-- The columns are named because a later version may add some.
-- At most 5000 rows.
INSERT INTO dbq_archive (
  id, fence, due, was_due, lease_until, taken, created, updated, state, priority, attempt,
  max_attempts, lapses, known_started, cancelled, queue, reference, kind, task_key,
  holder, headers, payload, result, progress, archived)
SELECT id, fence, due, was_due, lease_until, taken, created, updated, state, priority, attempt,
       max_attempts, lapses, known_started, cancelled, queue, reference, kind, task_key,
       holder, headers, payload, result, progress,
       {now}
  FROM dbq_task t
 WHERE t.id = ANY (CAST(:id AS uuid[]))
   AND (state = 2 /* COMPLETED */ OR state = 4 /* POISON */ OR (state = 3 /* ERROR */ AND due IS NULL))
ON CONFLICT DO NOTHING;

-- ==== ListArchive ====
-- Lists tasks of the archive. Index: the primary key of archive.
SELECT t.id, t.queue, t.reference, t.kind, t.task_key, t.state, t.priority, t.attempt, t.max_attempts, t.lapses,
       t.cancelled, t.fence, t.due, t.holder, t.created, t.updated, t.headers, t.result,
       CASE WHEN t.state = 1 /* PROCESSING */
            THEN coalesce((SELECT l.lease_until FROM dbq_lease l WHERE l.id = t.id AND l.fence = t.fence),
                          t.lease_until) END AS lease_until,
       CASE WHEN t.state = 1 /* PROCESSING */
            THEN coalesce((SELECT l.progress FROM dbq_lease l
                            WHERE l.id = t.id AND l.fence = t.fence), t.progress)
            ELSE t.progress END AS progress,
       {now} AS now
  FROM dbq_archive t
 WHERE {where}
 ORDER BY t.id, t.fence
 LIMIT :limit;

-- ======== Key/value records ========

-- ==== GetKV ====
-- Reads a key/value record, which all clients of these tables share, such as a queue's pause. Index: the primary key.
SELECT namespace, name, version, value, updated, expires, {now} AS now
  FROM dbq_kv
 WHERE namespace = :namespace AND name = :name;

-- ==== ListKV ====
-- Reads the key/value records of a namespace. Index: the primary key.
SELECT namespace, name, version, value, updated, expires, {now} AS now
  FROM dbq_kv
 WHERE namespace = :namespace
 ORDER BY name
 LIMIT :limit;

-- ==== EarliestKV ====
-- Reads the key/value records of a namespace that expire first, such as the schedules that are due next. Index:
-- kv_expires, or else the primary key.
SELECT namespace, name, version, value, updated, expires, {now} AS now
  FROM dbq_kv
 WHERE namespace = :namespace
   AND expires IS NOT NULL
 ORDER BY expires, name
 LIMIT :limit;

-- ==== AddKV ====
-- Adds a key/value record if there is none. Index: the primary key.
INSERT INTO dbq_kv (namespace, name, version, value, updated, expires)
SELECT :namespace, :name, {now}, :value, {now}, {now} + :ttl
 WHERE NOT EXISTS (SELECT 1 FROM dbq_kv WHERE namespace = :namespace AND name = :name);

-- ==== SetKV ====
-- Changes a key/value record, unless it has changed since it was read. Index: the primary key.
UPDATE dbq_kv
   SET version = version + 1,
       value = :value,
       updated = {now},
       expires = {now} + :ttl
 WHERE namespace = :namespace AND name = :name AND version = :version;

-- ==== DropKV ====
-- Removes a key/value record. Index: the primary key.
DELETE FROM dbq_kv
 WHERE namespace = :namespace AND name = :name;

-- ==== ExpireKV ====
-- Removes key/value records that have expired. Index: as for EarliestKV.
DELETE FROM dbq_kv
 WHERE namespace = :namespace AND expires <= {now} - :age;

-- ======== Statistics over time ========

-- ==== AddStatistics ====
-- Adds the counts of a worker's minute, or the totals of a period. A row is never changed.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   (:queue_name, :period, :began, :source, :enqueued, :started, :completed, :failed, :poisoned, :released, :created,
--   :processing, :errors, :poison, :due, :parked, :oldest_due, :latency, :run_time)
INSERT INTO dbq_stat (
       queue, period, since, source, enqueued, started, completed, failed, poisoned, released,
       created, processing, error, poison, due, parked, oldest_due, latency, run_time)
VALUES {rows};

-- ==== Statistics ====
-- Reads the statistics of all queues. Index: stat_since.
SELECT queue, period, since, source, enqueued, started, completed, failed, poisoned, released,
       created, processing, error, poison, due, parked, oldest_due, latency, run_time
  FROM dbq_stat
 WHERE period = :period
   AND since >= :from
   AND since < :until
 LIMIT :limit;

-- ==== StatisticsOf ====
-- Reads the statistics of a queue. Index: the primary key.
SELECT queue, period, since, source, enqueued, started, completed, failed, poisoned, released,
       created, processing, error, poison, due, parked, oldest_due, latency, run_time
  FROM dbq_stat
 WHERE period = :period
   AND since >= :from
   AND since < :until
   AND queue IN (:queue, :samples)
 LIMIT :limit;

-- ==== OldestStatistics ====
-- Finds the next period to add up or to remove. Index: stat_since.
SELECT min(since) AS since
  FROM dbq_stat
 WHERE period = :period
   AND since >= :from;

-- ==== DropStatistics ====
-- Removes statistics whose retention has passed. Index: stat_since.
DELETE FROM dbq_stat
 WHERE period = :period
   AND since >= :from
   AND since < :until;

-- ==== CountIDs ====
-- Counts the tasks that were enqueued in some time, by their ids, after IDBehind has found how many they are. Index:
-- the primary key of task.
SELECT t.queue, count(*) AS tasks
  FROM dbq_task t
 WHERE t.id >= :after
   AND t.id < :before
 GROUP BY t.queue;

-- ======== Limits of queues ========

-- ==== LimitIdle ====
-- Limits, for a checkout's transaction, how long the server waits for a client that has stopped.
-- Runs before LockKV, for the transaction. A client that stops while it holds the lock would keep all other checkouts
-- of the queue waiting, as long as its connection stays open.
SET LOCAL idle_in_transaction_session_timeout = 10000;

-- ==== LockKV ====
-- Locks the limits of a queue for a checkout, until its transaction ends. Index: the primary key of kv.
UPDATE dbq_kv
   SET version = version + 1
 WHERE namespace = :namespace AND name = :name;

-- ==== QueueKV ====
-- Reads the limits of a queue that were locked, and whether it is paused. Index: the primary key of kv.
SELECT namespace, name, version, value, updated, expires, {now} AS now
  FROM dbq_kv
 WHERE namespace IN ('limit', 'pause')
   AND name = :name;

-- ==== Busy ====
-- Counts the tasks of a queue in PROCESSING. Index: the index of leased tasks.
SELECT count(*) AS tasks
  FROM dbq_task t
 WHERE t.queue = :queue
   AND t.state = 1 /* PROCESSING */;

-- ==== BusyKeys ====
-- Counts the tasks of a queue in PROCESSING, by key. Index: the index of leased tasks.
SELECT t.task_key, count(*) AS tasks
  FROM dbq_task t
 WHERE t.queue = :queue
   AND t.state = 1 /* PROCESSING */
 GROUP BY t.task_key;

-- ==== DueTasks ====
-- Finds the first due tasks of a queue that has limits per key.
SELECT * FROM (
SELECT * FROM (
  SELECT t.id, t.fence, t.task_key, t.priority, t.due AS was_due, length(t.payload) AS payload_size
    FROM dbq_task t
   WHERE t.queue = :queue AND t.priority = 0 AND t.due <= {now}
   ORDER BY t.due, t.id
   LIMIT :limit) x
UNION ALL
SELECT * FROM (
  SELECT t.id, t.fence, t.task_key, t.priority, t.due AS was_due, length(t.payload) AS payload_size
    FROM dbq_task t
   WHERE t.queue = :queue AND t.priority = 1 AND t.due <= {now}
   ORDER BY t.due, t.id
   LIMIT :limit) x
UNION ALL
SELECT * FROM (
  SELECT t.id, t.fence, t.task_key, t.priority, t.due AS was_due, length(t.payload) AS payload_size
    FROM dbq_task t
   WHERE t.queue = :queue AND t.priority = 2 AND t.due <= {now}
   ORDER BY t.due, t.id
   LIMIT :limit) x
UNION ALL
SELECT * FROM (
  SELECT t.id, t.fence, t.task_key, t.priority, t.due AS was_due, length(t.payload) AS payload_size
    FROM dbq_task t
   WHERE t.queue = :queue AND t.priority = 3 AND t.due <= {now}
   ORDER BY t.due, t.id
   LIMIT :limit) x
UNION ALL
SELECT * FROM (
  SELECT t.id, t.fence, t.task_key, t.priority, t.due AS was_due, length(t.payload) AS payload_size
    FROM dbq_task t
   WHERE t.queue = :queue AND t.priority = 4 AND t.due <= {now}
   ORDER BY t.due, t.id
   LIMIT :limit) x
UNION ALL
SELECT * FROM (
  SELECT t.id, t.fence, t.task_key, t.priority, t.due AS was_due, length(t.payload) AS payload_size
    FROM dbq_task t
   WHERE t.queue = :queue AND t.priority = 5 AND t.due <= {now}
   ORDER BY t.due, t.id
   LIMIT :limit) x
UNION ALL
SELECT * FROM (
  SELECT t.id, t.fence, t.task_key, t.priority, t.due AS was_due, length(t.payload) AS payload_size
    FROM dbq_task t
   WHERE t.queue = :queue AND t.priority = 6 AND t.due <= {now}
   ORDER BY t.due, t.id
   LIMIT :limit) x
UNION ALL
SELECT * FROM (
  SELECT t.id, t.fence, t.task_key, t.priority, t.due AS was_due, length(t.payload) AS payload_size
    FROM dbq_task t
   WHERE t.queue = :queue AND t.priority = 7 AND t.due <= {now}
   ORDER BY t.due, t.id
   LIMIT :limit) x
UNION ALL
SELECT * FROM (
  SELECT t.id, t.fence, t.task_key, t.priority, t.due AS was_due, length(t.payload) AS payload_size
    FROM dbq_task t
   WHERE t.queue = :queue AND t.priority = 8 AND t.due <= {now}
   ORDER BY t.due, t.id
   LIMIT :limit) x
UNION ALL
SELECT * FROM (
  SELECT t.id, t.fence, t.task_key, t.priority, t.due AS was_due, length(t.payload) AS payload_size
    FROM dbq_task t
   WHERE t.queue = :queue AND t.priority = 9 AND t.due <= {now}
   ORDER BY t.due, t.id
   LIMIT :limit) x) y
 LIMIT :limit;

-- ==== DueKeys ====
-- Finds the next keys that have tasks with a due time, and of each key the task that is due first.
-- Runs in a checkout of a queue with limits per key. Index: task_key, one entry for each key: the first after all
-- entries of the key before.
WITH RECURSIVE k AS (
  (SELECT t.id, t.fence, t.task_key, t.priority, t.due AS was_due, coalesce(octet_length(t.payload), 0) AS payload_size,
          1 AS n
     FROM dbq_task t
    WHERE t.queue = :queue
      AND t.task_key > :after
      AND t.due IS NOT NULL
    ORDER BY t.task_key, t.due, t.id
    LIMIT 1)
   UNION ALL
  SELECT x.*
    FROM k
   CROSS JOIN LATERAL (
     SELECT t.id, t.fence, t.task_key, t.priority, t.due AS was_due,
            coalesce(octet_length(t.payload), 0) AS payload_size, k.n + 1
       FROM dbq_task t
      WHERE t.queue = :queue
        AND t.task_key > k.task_key
        AND t.due IS NOT NULL
      ORDER BY t.task_key, t.due, t.id
      LIMIT 1) AS x
   WHERE k.n < CAST(:limit AS bigint))
SELECT k.id, k.fence, k.task_key, k.priority, k.was_due, k.payload_size, {now} AS now
  FROM k;

-- ==== DueOfKeys ====
-- Finds the first due tasks of some keys.
-- Runs in a checkout of a queue with limits per key. Index: task_key, one ordered range for each key.
-- At most 5000 rows.
SELECT x.*
  FROM unnest(CAST(:task_key AS text[])) AS d (task_key)
 CROSS JOIN LATERAL (
   SELECT t.id, t.fence, t.task_key, t.priority, t.due AS was_due, coalesce(octet_length(t.payload), 0) AS payload_size
     FROM dbq_task t
    WHERE t.queue = :queue
      AND t.task_key = d.task_key
      AND t.due <= {now}
    ORDER BY t.due, t.id
    LIMIT :limit) AS x;

-- ==== HeadsOfKeys ====
-- Finds the first tasks of some keys, in the order of their ids, that are due.
-- Runs in a checkout of a queue with an order. Indexes: task_order, one entry for each key, and task_key_failed.
-- At most 5000 rows.
SELECT x.*
  FROM unnest(CAST(:task_key AS text[])) AS d (task_key)
 CROSS JOIN LATERAL (
   SELECT t.id, t.fence, t.task_key, t.priority, t.due AS was_due, coalesce(octet_length(t.payload), 0) AS payload_size
     FROM dbq_task t
    WHERE t.queue = :queue
      AND t.task_key = d.task_key
      AND t.due IS NOT NULL
    ORDER BY CASE WHEN t.due IS NOT NULL THEN t.id END
    LIMIT 1) AS x
 WHERE x.was_due <= {now}
   AND (CAST(:block AS smallint) = 0 OR NOT EXISTS (
     SELECT 1
       FROM dbq_task f
      WHERE f.queue = :queue
        AND f.task_key = x.task_key
        AND f.id < x.id
        AND f.due IS NULL
        AND f.cancelled = 0
        AND f.state IN (3 /* ERROR */, 4 /* POISON */)));

-- ==== KeyRates ====
-- Reads how many tasks some keys have started. Index: the primary key of key_rate.
-- Runs in a checkout of a queue with a rate per key, for the keys of the tasks that it has found. Index: the primary
-- key.
-- At most 5000 rows.
SELECT k.task_key, k.full_at
  FROM dbq_key_rate k
 WHERE k.queue = :queue
   AND k.task_key = ANY (CAST(:name AS text[]));

-- ==== SetKeyRates ====
-- Records the starts of tasks of some keys.
-- Runs in a checkout of a queue with a rate per key, under the lock of the limits. Index: the primary key.
-- At most 5000 rows.
INSERT INTO dbq_key_rate (queue, task_key, full_at)
SELECT CAST(:queue AS text), d.task_key, d.full_at
  FROM unnest(CAST(:name AS text[]), CAST(:full_at AS bigint[])) AS d (task_key, full_at)
ON CONFLICT (queue, task_key) DO UPDATE
   SET full_at = excluded.full_at;

-- ==== DropKeyRates ====
-- Removes the starts of a queue whose rate per key was removed. Index: the primary key.
DELETE FROM dbq_key_rate
 WHERE queue = :queue;

-- ==== CapKeyRates ====
-- Applies a faster rate per key to the keys of a queue that have started tasks. Index: the primary key.
UPDATE dbq_key_rate
   SET full_at = :full_at
 WHERE queue = :queue AND full_at > :full_at;

-- ==== ExpireKeyRates ====
-- Removes the starts of keys that have all of their starts again, in batches. Index: key_rate_full.
-- Runs for cleaning. Index: key_rate_full. The condition is checked again on the row as it is under its lock.
DELETE FROM dbq_key_rate
 WHERE full_at <= {now} - CAST(:age AS bigint)
   AND ctid = ANY (ARRAY(
         SELECT ctid
           FROM dbq_key_rate
          WHERE full_at <= {now} - CAST(:age AS bigint)
          ORDER BY full_at
          LIMIT :limit));

-- ======== The audit ========

-- ==== AddAudit ====
-- Records an operator's change, in the transaction of the change.
INSERT INTO dbq_audit (id, part, happened, who, program, address, request, action, queue, subject, task,
       task_filter, reason, old_value, new_value, changed)
VALUES (:id, :part, {now}, :who, :program, :address, :request, :action, :queue, :subject, :task,
       :task_filter, :reason, :old_value, :new_value, :changed);

-- ==== ListAudit ====
-- Reads the audit. Index: the primary key.
SELECT a.id, a.happened, a.who, a.program, a.address, a.request, a.action, a.queue, a.subject, a.task,
       a.task_filter, a.reason, a.old_value, a.new_value,
       (SELECT sum(p.changed) FROM dbq_audit p WHERE p.id = a.id) AS changed
  FROM dbq_audit a
 WHERE a.part = 0 AND {where}
 ORDER BY a.id{order}
 LIMIT :limit;

-- ==== CountAudit ====
-- Counts the entries up to a limit, for statistics. Index: the primary key.
SELECT count(*) AS tasks
  FROM (SELECT id
          FROM dbq_audit
         WHERE part = 0
         LIMIT :limit) x;

-- ==== CountArchive ====
-- Counts the tasks of the archive up to a limit, for statistics. Index: the primary key of archive.
SELECT count(*) AS tasks
  FROM (SELECT id
          FROM dbq_archive
         LIMIT :limit) x;

-- ==== OldAudit ====
-- Finds entries that an operator's cleaning removes. Index: the primary key.
SELECT id
  FROM dbq_audit
 WHERE part = 0
   AND happened <= :until
 ORDER BY id
 LIMIT :limit;

-- ==== DropAudit ====
-- Removes entries. Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
DELETE FROM dbq_audit
 WHERE id IN ({rows});

-- Every statement that dbq runs on its tables, for review by a DBA. docs/scaling.md describes
-- the settings of its sessions. This page omits COMMIT, ROLLBACK, savepoints, LISTEN, and queries of the server's
-- version and settings.
-- Generated from the dialect by "go generate ./..."; do not edit.

-- ======== Conventions ========

-- A :name stands for a value, which is sent apart from the text and never written into it. Rows come as a list of
-- values, or as arrays, with which a statement is run once for each row. Times are microseconds since 1970 in UTC.
-- States are 0 CREATED, 1 PROCESSING, 2 COMPLETED, 3 ERROR, 4 POISON. Tables begin with "dbq_" unless a program says
-- otherwise.
--
-- {now} stands for the database's clock:
--   ((TO_NUMBER(TO_CHAR(SYS_EXTRACT_UTC(SYSTIMESTAMP), 'J')) - 2440588) * 86400000000
--    + TO_NUMBER(TO_CHAR(SYS_EXTRACT_UTC(SYSTIMESTAMP), 'SSSSSFF6')))
--
-- In MigrationLock, queue lock, queue free: The lock's number is a hash of its purpose, the schema of the tables and
-- their prefix. The schema is the configured one or else the session's, so all clients of the same tables take the
-- same lock. ALLOCATE_UNIQUE would commit. See "DBMS_LOCK" in the PL/SQL Packages and Types Reference.
--
-- In Insert, claim, Extend: A block runs its statements one by one, all at the one time that it reads first.
--
-- In ready, update, take: Each expression of a SET clause sees the row as it was.
--
-- In see expired, Next, Held: A lease ends when its renewal does, a row of the table lease under the task's fence, if
-- there is one.

-- ======== The schema ========

-- You can paste this section into the engine's client, to create the tables by hand. "dbq migrate" runs it.

-- dbq's tables for oracle

-- 0: migration

-- The table of applied migrations. dbq runs this file before every migration, so its statements can be repeated.
BEGIN EXECUTE IMMEDIATE 'CREATE TABLE dbq_migration (
  version NUMBER(10) NOT NULL, title VARCHAR2(200 CHAR) NOT NULL,
  compatible NUMBER(10) NOT NULL, applied NUMBER(19) NOT NULL,
  CONSTRAINT dbq_migr_pk PRIMARY KEY (version))';
EXCEPTION WHEN OTHERS THEN IF SQLCODE <> -955 THEN RAISE; END IF;
END;
/

-- 1: tasks

-- One row for each task. Times are microseconds since 1970 in UTC, by the database's clock. fence grows with every
-- change of owner: a statement under an outdated fence changes nothing.
--
-- Oracle has no partial indexes, but an index has no entry for a key whose columns are all null. The ready_ columns
-- are null if due is null, the key_ columns also if the task has no key, and busy_queue is null unless the task is
-- leased. payload_size and result_size are null for no payload and no result, since Oracle stores an empty BLOB and
-- null alike. was_due is the due time that a leased task had. INITRANS 16 lets 16 transactions write to one block at a
-- time.
BEGIN EXECUTE IMMEDIATE 'CREATE TABLE dbq_task (
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
  ready_queue VARCHAR2(400 BYTE) GENERATED ALWAYS AS (CASE WHEN due IS NOT NULL THEN queue END) VIRTUAL,
  ready_priority NUMBER(1) GENERATED ALWAYS AS (CASE WHEN due IS NOT NULL THEN priority END) VIRTUAL,
  ready_id RAW(16) GENERATED ALWAYS AS (CASE WHEN due IS NOT NULL THEN id END) VIRTUAL,
  key_queue VARCHAR2(400 BYTE) GENERATED ALWAYS AS
    (CASE WHEN task_key IS NOT NULL AND due IS NOT NULL THEN queue END) VIRTUAL,
  key_due NUMBER(19) GENERATED ALWAYS AS (CASE WHEN task_key IS NOT NULL THEN due END) VIRTUAL,
  key_name VARCHAR2(800 BYTE) GENERATED ALWAYS AS (CASE WHEN due IS NOT NULL THEN task_key END) VIRTUAL,
  order_queue VARCHAR2(400 BYTE) GENERATED ALWAYS AS (CASE WHEN task_key IS NOT NULL
    AND (due IS NOT NULL OR state IN (3, 4) AND cancelled = 0) THEN queue END) VIRTUAL,
  order_key VARCHAR2(800 BYTE) GENERATED ALWAYS AS
    (CASE WHEN due IS NOT NULL OR state IN (3, 4) AND cancelled = 0 THEN task_key END) VIRTUAL,
  order_failed NUMBER(1) GENERATED ALWAYS AS (CASE WHEN task_key IS NULL THEN NULL WHEN due IS NOT NULL THEN 0
    WHEN state IN (3, 4) AND cancelled = 0 THEN 1 END) VIRTUAL,
  order_id RAW(16) GENERATED ALWAYS AS (CASE WHEN task_key IS NOT NULL
    AND (due IS NOT NULL OR state IN (3, 4) AND cancelled = 0) THEN id END) VIRTUAL,
  busy_queue VARCHAR2(400 BYTE) GENERATED ALWAYS AS (CASE WHEN state = 1 THEN queue END) VIRTUAL,
  CONSTRAINT dbq_task_pk PRIMARY KEY (id),
  CONSTRAINT dbq_task_state CHECK (state IN (0, 1, 2, 3, 4)),
  CONSTRAINT dbq_task_prio CHECK (priority BETWEEN 0 AND 9)
) INITRANS 16';
EXCEPTION WHEN OTHERS THEN IF SQLCODE <> -955 THEN RAISE; END IF;
END;
/

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
-- task's fence, and not the task's row: that would fail a caller's SERIALIZABLE transaction that completes the task
-- (ORA-08177), and would wait for a transaction that has locked it. A takeover writes the next fence here before it
-- takes the task, so a concurrent renewal and takeover conflict on this row, and only one of them succeeds.
--
-- lease_until is the end of the renewed lease. The row is kept until keep_until: a renewal may end before the lease
-- in the task's row, which would be valid again without it.
--
-- progress is the holder's report under this fence or, after a takeover, under the one before. The row of a leased task
-- that has progress is kept.
BEGIN EXECUTE IMMEDIATE 'CREATE TABLE dbq_lease (
  id RAW(16) NOT NULL, fence NUMBER(19) NOT NULL, lease_until NUMBER(19) NOT NULL, keep_until NUMBER(19) NOT NULL,
  progress BLOB,
  CONSTRAINT dbq_lease_pk PRIMARY KEY (id)
) INITRANS 16';
EXCEPTION WHEN OTHERS THEN IF SQLCODE <> -955 THEN RAISE; END IF;
END;
/

COMMENT ON TABLE dbq_lease IS 'Renewals of leases, and the progress that holders report.';

COMMENT ON COLUMN dbq_lease.id IS 'the task';

COMMENT ON COLUMN dbq_lease.lease_until IS 'the end of the renewed lease';

COMMENT ON COLUMN dbq_lease.keep_until IS 'when cleaning may remove the row';

-- The keys of unique tasks. A key belongs to a queue and a scope: the states in which its task excludes others, or a
-- period. task is the last task that was enqueued with it. Nothing changes the row when that task ends: whether the
-- key is free follows from the task's state. id is a hash of queue, scope and name, so that the key is narrow. From
-- expires on, cleaning checks whether the row can be removed.
BEGIN EXECUTE IMMEDIATE 'CREATE TABLE dbq_unique_key (
  id RAW(16) NOT NULL,
  task RAW(16) NOT NULL,
  expires NUMBER(19) NOT NULL,
  queue VARCHAR2(400 BYTE) NOT NULL,
  scope VARCHAR2(60 BYTE) NOT NULL,
  name VARCHAR2(800 BYTE) NOT NULL,
  CONSTRAINT dbq_uniq_pk PRIMARY KEY (id)
) INITRANS 16';
EXCEPTION WHEN OTHERS THEN IF SQLCODE <> -955 THEN RAISE; END IF;
END;
/

COMMENT ON TABLE dbq_unique_key IS 'The keys of unique tasks.';

COMMENT ON COLUMN dbq_unique_key.id IS 'a hash of queue, scope and name';

COMMENT ON COLUMN dbq_unique_key.task IS 'the last task that was enqueued with the key';

COMMENT ON COLUMN dbq_unique_key.expires IS 'when cleaning checks whether the row can be removed';

COMMENT ON COLUMN dbq_unique_key.scope IS 'the states or the period in which the task excludes others';

BEGIN EXECUTE IMMEDIATE 'CREATE INDEX dbq_uniq_exp ON dbq_unique_key (expires)';
EXCEPTION WHEN OTHERS THEN IF SQLCODE <> -955 THEN RAISE; END IF;
END;
/

-- A reference is unique within its queue. The queue in the key is null without a reference: a key of a null reference
-- and a queue would allow one such task in each queue.
BEGIN EXECUTE IMMEDIATE 'CREATE UNIQUE INDEX dbq_task_ref
  ON dbq_task (reference, CASE WHEN reference IS NOT NULL THEN queue END) INITRANS 16';
EXCEPTION WHEN OTHERS THEN IF SQLCODE <> -955 THEN RAISE; END IF;
END;
/

-- For checkouts: one ordered search for each priority.
BEGIN EXECUTE IMMEDIATE 'CREATE INDEX dbq_task_ready
  ON dbq_task (ready_queue, ready_priority, due, ready_id) INITRANS 16';
EXCEPTION WHEN OTHERS THEN IF SQLCODE <> -955 THEN RAISE; END IF;
END;
/

-- For searches for expired leases: the leased tasks.
BEGIN EXECUTE IMMEDIATE 'CREATE INDEX dbq_task_busy ON dbq_task (busy_queue) INITRANS 16';
EXCEPTION WHEN OTHERS THEN IF SQLCODE <> -955 THEN RAISE; END IF;
END;
/

-- For queues with limits per key: the due tasks of each key. Tasks without a key are not in it.
BEGIN EXECUTE IMMEDIATE 'CREATE INDEX dbq_task_key ON dbq_task (key_queue, key_name, key_due) INITRANS 16';
EXCEPTION WHEN OTHERS THEN IF SQLCODE <> -955 THEN RAISE; END IF;
END;
/

-- For queues with an order: the waiting tasks of each key by id, and its tasks that wait for an operator.
BEGIN EXECUTE IMMEDIATE 'CREATE INDEX dbq_task_order ON dbq_task (order_queue, order_key, order_failed, order_id)
  INITRANS 16';
EXCEPTION WHEN OTHERS THEN IF SQLCODE <> -955 THEN RAISE; END IF;
END;
/

-- The tasks as a person reads them, with the names of states and with times as timestamps.
BEGIN EXECUTE IMMEDIATE 'CREATE OR REPLACE VIEW dbq_tasks AS
SELECT LOWER(RAWTOHEX(id)) AS id, queue, reference, kind, task_key,
  CASE state WHEN 0 THEN ''CREATED'' WHEN 1 THEN ''PROCESSING'' WHEN 2 THEN ''COMPLETED'' WHEN 3 THEN ''ERROR''
    WHEN 4 THEN ''POISON'' END AS state,
  cancelled, priority, attempt, max_attempts, lapses, fence,
  CAST(DATE ''1970-01-01'' AS TIMESTAMP) + NUMTODSINTERVAL(due / 1000000, ''SECOND'') AS due,
  CAST(DATE ''1970-01-01'' AS TIMESTAMP) + NUMTODSINTERVAL(CASE WHEN t.state = 1 THEN
    COALESCE((SELECT l.lease_until FROM dbq_lease l WHERE l.id = t.id AND l.fence = t.fence), t.lease_until) END
    / 1000000, ''SECOND'') AS lease_until,
  holder,
  CAST(DATE ''1970-01-01'' AS TIMESTAMP) + NUMTODSINTERVAL(taken / 1000000, ''SECOND'') AS taken,
  CAST(DATE ''1970-01-01'' AS TIMESTAMP) + NUMTODSINTERVAL(created / 1000000, ''SECOND'') AS created,
  CAST(DATE ''1970-01-01'' AS TIMESTAMP) + NUMTODSINTERVAL(updated / 1000000, ''SECOND'') AS updated,
  headers, payload_size AS payload_bytes, result,
  COALESCE((SELECT l.progress FROM dbq_lease l WHERE t.state = 1 AND l.id = t.id AND l.fence = t.fence), t.progress)
    AS progress
  FROM dbq_task t';
EXCEPTION WHEN OTHERS THEN IF SQLCODE <> -955 THEN RAISE; END IF;
END;
/

COMMENT ON TABLE dbq_tasks IS 'The tasks, with the names of states, and with times as timestamps.';

INSERT INTO dbq_migration (version, title, compatible, applied)
SELECT 1, 'tasks', 1, ((TO_NUMBER(TO_CHAR(SYS_EXTRACT_UTC(SYSTIMESTAMP), 'J')) - 2440588) * 86400000000
 + TO_NUMBER(TO_CHAR(SYS_EXTRACT_UTC(SYSTIMESTAMP), 'SSSSSFF6')))
 FROM dual
 WHERE NOT EXISTS (SELECT 1 FROM dbq_migration WHERE version = 1);

-- 2: shared tables

-- Key/value records shared by all clients: pauses and settings of queues, the registry of workers, leaders,
-- schedules. Each write checks version. expires is when a record becomes invalid or, for a schedule, its next time.
BEGIN EXECUTE IMMEDIATE 'CREATE TABLE dbq_kv (
  namespace VARCHAR2(20 BYTE) NOT NULL,
  name VARCHAR2(800 BYTE) NOT NULL,
  version NUMBER(19) NOT NULL,
  value VARCHAR2(4000 BYTE) NOT NULL,
  updated NUMBER(19) NOT NULL,
  expires NUMBER(19),
  CONSTRAINT dbq_kv_pk PRIMARY KEY (namespace, name)
)';
EXCEPTION WHEN OTHERS THEN IF SQLCODE <> -955 THEN RAISE; END IF;
END;
/

COMMENT ON TABLE dbq_kv IS 'Records that all clients share, such as pauses, settings, workers and schedules.';

COMMENT ON COLUMN dbq_kv.version IS 'checked by each write';

COMMENT ON COLUMN dbq_kv.expires IS 'when it becomes invalid or, for a schedule, its next time';

-- The rates per key of queues with limits. A row is a key that has started tasks; full_at is when all of its starts are
-- free again, in microseconds since 1970 in UTC. A key without a row has all of them. Only a checkout that has locked
-- the limits of the queue writes its rows, and cleaning removes those whose time has passed.
BEGIN EXECUTE IMMEDIATE 'CREATE TABLE dbq_key_rate (
  queue VARCHAR2(400 BYTE) NOT NULL,
  task_key VARCHAR2(800 BYTE) NOT NULL,
  full_at NUMBER(19) NOT NULL,
  CONSTRAINT dbq_krate_pk PRIMARY KEY (queue, task_key)
) INITRANS 16';
EXCEPTION WHEN OTHERS THEN IF SQLCODE <> -955 THEN RAISE; END IF;
END;
/

COMMENT ON TABLE dbq_key_rate IS 'The keys that have started tasks, in queues with a rate per key.';

COMMENT ON COLUMN dbq_key_rate.full_at IS 'when all starts of the key are free again, in microseconds since 1970';

BEGIN EXECUTE IMMEDIATE 'CREATE INDEX dbq_krate_full ON dbq_key_rate (full_at)';
EXCEPTION WHEN OTHERS THEN IF SQLCODE <> -955 THEN RAISE; END IF;
END;
/

-- The history of attempts. The last attempt of a task is in the task's row. This table has the earlier ones, and the
-- last one of a task that was removed.
BEGIN EXECUTE IMMEDIATE 'CREATE TABLE dbq_attempt (
  task RAW(16) NOT NULL,
  fence NUMBER(19) NOT NULL,
  queue VARCHAR2(400 BYTE) NOT NULL,
  attempt NUMBER(5) NOT NULL,
  outcome VARCHAR2(20 BYTE) NOT NULL,
  taken NUMBER(19) NOT NULL,
  ended NUMBER(19) NOT NULL,
  worker VARCHAR2(800 BYTE),
  error BLOB,
  CONSTRAINT dbq_att_pk PRIMARY KEY (task, fence)
)';
EXCEPTION WHEN OTHERS THEN IF SQLCODE <> -955 THEN RAISE; END IF;
END;
/

COMMENT ON TABLE dbq_attempt IS 'The history of attempts. The last attempt of a task is in the row of the task.';

BEGIN EXECUTE IMMEDIATE 'CREATE INDEX dbq_att_ended ON dbq_attempt (queue, ended)';
EXCEPTION WHEN OTHERS THEN IF SQLCODE <> -955 THEN RAISE; END IF;
END;
/

-- All attempts that have ended, including the last one of each task, which is in the task's row.
BEGIN EXECUTE IMMEDIATE 'CREATE OR REPLACE VIEW dbq_attempts AS
SELECT LOWER(RAWTOHEX(task)) AS task, attempt, outcome,
  CAST(DATE ''1970-01-01'' AS TIMESTAMP) + NUMTODSINTERVAL(taken / 1000000, ''SECOND'') AS taken,
  CAST(DATE ''1970-01-01'' AS TIMESTAMP) + NUMTODSINTERVAL(ended / 1000000, ''SECOND'') AS ended,
  worker, queue, fence, error
  FROM dbq_attempt
UNION ALL SELECT LOWER(RAWTOHEX(id)), attempt,
  CASE state WHEN 2 THEN ''completed'' WHEN 3 THEN ''failed'' ELSE ''poisoned'' END,
  CAST(DATE ''1970-01-01'' AS TIMESTAMP) + NUMTODSINTERVAL(taken / 1000000, ''SECOND''),
  CAST(DATE ''1970-01-01'' AS TIMESTAMP) + NUMTODSINTERVAL(updated / 1000000, ''SECOND''),
  SUBSTR(holder, 1, INSTR(holder, ''#'', -1) - 1), queue, fence, CASE WHEN state <> 2 THEN result END
  FROM dbq_task t
 WHERE taken IS NOT NULL AND state IN (2, 3, 4)
   AND NOT EXISTS (SELECT 1 FROM dbq_attempt a WHERE a.task = t.id AND a.fence = t.fence)';
EXCEPTION WHEN OTHERS THEN IF SQLCODE <> -955 THEN RAISE; END IF;
END;
/

COMMENT ON TABLE dbq_attempts IS 'All attempts that have ended.';

-- Tasks that retention has moved out of the table of tasks. dbq never removes a row from it. An id can be used again
-- after its task was archived; the fences of its tasks differ.
BEGIN EXECUTE IMMEDIATE 'CREATE TABLE dbq_archive (
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
  CONSTRAINT dbq_arch_pk PRIMARY KEY (id, fence),
  CONSTRAINT dbq_arch_state CHECK (state IN (0, 1, 2, 3, 4)),
  CONSTRAINT dbq_arch_prio CHECK (priority BETWEEN 0 AND 9)
)';
EXCEPTION WHEN OTHERS THEN IF SQLCODE <> -955 THEN RAISE; END IF;
END;
/

COMMENT ON TABLE dbq_archive IS 'Tasks that retention has moved out of the table of tasks.';

COMMENT ON COLUMN dbq_archive.archived IS 'when it was moved here';

-- The tasks of the archive as a person reads them, with the names of states and with times as timestamps.
BEGIN EXECUTE IMMEDIATE 'CREATE OR REPLACE VIEW dbq_archived AS
SELECT LOWER(RAWTOHEX(id)) AS id, queue, reference, kind, task_key,
  CASE state WHEN 0 THEN ''CREATED'' WHEN 1 THEN ''PROCESSING'' WHEN 2 THEN ''COMPLETED'' WHEN 3 THEN ''ERROR''
    WHEN 4 THEN ''POISON'' END AS state,
  cancelled, priority, attempt, max_attempts, lapses, fence,
  CAST(DATE ''1970-01-01'' AS TIMESTAMP) + NUMTODSINTERVAL(due / 1000000, ''SECOND'') AS due,
  holder,
  CAST(DATE ''1970-01-01'' AS TIMESTAMP) + NUMTODSINTERVAL(taken / 1000000, ''SECOND'') AS taken,
  CAST(DATE ''1970-01-01'' AS TIMESTAMP) + NUMTODSINTERVAL(created / 1000000, ''SECOND'') AS created,
  CAST(DATE ''1970-01-01'' AS TIMESTAMP) + NUMTODSINTERVAL(updated / 1000000, ''SECOND'') AS updated,
  CAST(DATE ''1970-01-01'' AS TIMESTAMP) + NUMTODSINTERVAL(archived / 1000000, ''SECOND'') AS archived,
  headers, payload_size AS payload_bytes, result, progress
  FROM dbq_archive';
EXCEPTION WHEN OTHERS THEN IF SQLCODE <> -955 THEN RAISE; END IF;
END;
/

COMMENT ON TABLE dbq_archived IS 'The tasks of the archive, with the names of states, and with times as timestamps.';

-- The tasks of workflows. A task of a workflow has an id of version 8; a plain task has no row here. A workflow has no
-- row of its own: it is the tasks with its id.
BEGIN EXECUTE IMMEDIATE 'CREATE TABLE dbq_step (
  task RAW(16) NOT NULL,
  workflow RAW(16) NOT NULL,
  name VARCHAR2(800 BYTE) NOT NULL,
  queue VARCHAR2(400 BYTE) NOT NULL,
  needs NUMBER(10) NOT NULL,
  dependents NUMBER(10) NOT NULL,
  run_at NUMBER(19),
  delay NUMBER(19) NOT NULL,
  CONSTRAINT dbq_step_pk PRIMARY KEY (task),
  CONSTRAINT dbq_step_needs CHECK (needs >= 0)
) INITRANS 16';
EXCEPTION WHEN OTHERS THEN IF SQLCODE <> -955 THEN RAISE; END IF;
END;
/

COMMENT ON TABLE dbq_step IS 'The tasks of workflows. A plain task has no row here.';

COMMENT ON COLUMN dbq_step.name IS 'the name of the step';

COMMENT ON COLUMN dbq_step.needs IS 'how many tasks it still waits for';

COMMENT ON COLUMN dbq_step.dependents IS 'how many tasks need it';

COMMENT ON COLUMN dbq_step.run_at IS 'when it may start at the earliest, in microseconds since 1970 in UTC';

COMMENT ON COLUMN dbq_step.delay IS 'the pause after the last task that it needs, in microseconds';

BEGIN EXECUTE IMMEDIATE 'CREATE INDEX dbq_step_wf ON dbq_step (workflow, task)';
EXCEPTION WHEN OTHERS THEN IF SQLCODE <> -955 THEN RAISE; END IF;
END;
/

-- The task child needs the task parent of the same workflow.
BEGIN EXECUTE IMMEDIATE 'CREATE TABLE dbq_need (
  parent RAW(16) NOT NULL,
  child RAW(16) NOT NULL,
  on_failure NUMBER(1) NOT NULL,
  met NUMBER(1) NOT NULL,
  CONSTRAINT dbq_need_pk PRIMARY KEY (parent, child),
  CONSTRAINT dbq_need_fail CHECK (on_failure IN (0, 1, 2)),
  CONSTRAINT dbq_need_met CHECK (met IN (0, 1))
) INITRANS 16';
EXCEPTION WHEN OTHERS THEN IF SQLCODE <> -955 THEN RAISE; END IF;
END;
/

COMMENT ON TABLE dbq_need IS 'The task child needs the task parent of the same workflow.';

COMMENT ON COLUMN dbq_need.on_failure IS
  'what happens if the parent goes to POISON, 0 cancels the child, 1 lets it wait, 2 lets it go on';

COMMENT ON COLUMN dbq_need.met IS '1 once the child no longer waits for the parent';

BEGIN EXECUTE IMMEDIATE 'CREATE INDEX dbq_need_ch ON dbq_need (child, parent)';
EXCEPTION WHEN OTHERS THEN IF SQLCODE <> -955 THEN RAISE; END IF;
END;
/

-- What operators have changed, and who it was. The row of a change is written in the transaction of the change. A call
-- of several transactions has a row for each, its parts; the parts after part 0 have only their own changes. dbq never
-- updates a row.
BEGIN EXECUTE IMMEDIATE 'CREATE TABLE dbq_audit (
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
  CONSTRAINT dbq_audit_pk PRIMARY KEY (id, part)
)';
EXCEPTION WHEN OTHERS THEN IF SQLCODE <> -955 THEN RAISE; END IF;
END;
/

-- For the page of a task: the changes that operators made to it.
BEGIN EXECUTE IMMEDIATE 'CREATE INDEX dbq_audit_task ON dbq_audit (task, id)';
EXCEPTION WHEN OTHERS THEN IF SQLCODE <> -955 THEN RAISE; END IF;
END;
/

COMMENT ON TABLE dbq_audit IS 'What operators have changed, and who it was.';

COMMENT ON COLUMN dbq_audit.part IS '0, or the number of a later transaction of the same call';

COMMENT ON COLUMN dbq_audit.subject IS 'the schedule, worker or token';

COMMENT ON COLUMN dbq_audit.changed IS 'how many tasks or settings';

INSERT INTO dbq_migration (version, title, compatible, applied)
SELECT 2, 'shared tables', 2, ((TO_NUMBER(TO_CHAR(SYS_EXTRACT_UTC(SYSTIMESTAMP), 'J')) - 2440588) * 86400000000
 + TO_NUMBER(TO_CHAR(SYS_EXTRACT_UTC(SYSTIMESTAMP), 'SSSSSFF6')))
 FROM dual
 WHERE NOT EXISTS (SELECT 1 FROM dbq_migration WHERE version = 2);

-- 3: statistics

-- Statistics over time, one row for each queue, period and source. period is its length in seconds, or 0 for the minute
-- of one source: a worker, or the sampler of all queues, which also adds a row for each sample. Rows with a longer
-- period are the totals of all sources. since is when the period began, in microseconds since 1970 in UTC. The columns
-- from enqueued to released are sums; those from created to oldest_due are the highest number of tasks that was
-- sampled. latency and run_time are histograms.
BEGIN EXECUTE IMMEDIATE 'CREATE TABLE dbq_stat (
  queue VARCHAR2(400 BYTE) NOT NULL,
  period NUMBER(10) NOT NULL,
  since NUMBER(19) NOT NULL,
  source VARCHAR2(800 BYTE) NOT NULL,
  enqueued NUMBER(19) NOT NULL,
  started NUMBER(19) NOT NULL,
  completed NUMBER(19) NOT NULL,
  failed NUMBER(19) NOT NULL,
  poisoned NUMBER(19) NOT NULL,
  released NUMBER(19) NOT NULL,
  created NUMBER(19) NOT NULL,
  processing NUMBER(19) NOT NULL,
  error NUMBER(19) NOT NULL,
  poison NUMBER(19) NOT NULL,
  due NUMBER(19) NOT NULL,
  parked NUMBER(19) NOT NULL,
  oldest_due NUMBER(19) NOT NULL,
  latency VARCHAR2(4000 BYTE),
  run_time VARCHAR2(4000 BYTE),
  CONSTRAINT dbq_stat_pk PRIMARY KEY (period, queue, since, source)
)';
EXCEPTION WHEN OTHERS THEN IF SQLCODE <> -955 THEN RAISE; END IF;
END;
/

COMMENT ON TABLE dbq_stat IS 'Statistics over time of each queue.';

COMMENT ON COLUMN dbq_stat.period IS 'seconds, or 0 for the minute of one source';

COMMENT ON COLUMN dbq_stat.since IS 'when the period began, in microseconds since 1970';

BEGIN EXECUTE IMMEDIATE 'CREATE INDEX dbq_stat_since ON dbq_stat (period, since)';
EXCEPTION WHEN OTHERS THEN IF SQLCODE <> -955 THEN RAISE; END IF;
END;
/

INSERT INTO dbq_migration (version, title, compatible, applied)
SELECT 3, 'statistics', 3, ((TO_NUMBER(TO_CHAR(SYS_EXTRACT_UTC(SYSTIMESTAMP), 'J')) - 2440588) * 86400000000
 + TO_NUMBER(TO_CHAR(SYS_EXTRACT_UTC(SYSTIMESTAMP), 'SSSSSFF6')))
 FROM dual
 WHERE NOT EXISTS (SELECT 1 FROM dbq_migration WHERE version = 3);

-- ======== Sessions and migrations ========

-- ==== Now ====
-- An expression, not a statement: the database's clock in microseconds since 1970.
((TO_NUMBER(TO_CHAR(SYS_EXTRACT_UTC(SYSTIMESTAMP), 'J')) - 2440588) * 86400000000
 + TO_NUMBER(TO_CHAR(SYS_EXTRACT_UTC(SYSTIMESTAMP), 'SSSSSFF6')));

-- ==== MigrationLock ====
-- Waits for other migrations of the same tables.
-- Runs before a migration, and waits at most 300 seconds. Without a grant on DBMS_LOCK the inner block does not
-- compile, which is the error 6550. The migration then runs without the lock: if another process runs the same one,
-- each statement can be run again.
DECLARE
  l_id NUMBER(10);
BEGIN
  SELECT ORA_HASH(SYS_CONTEXT('USERENV', 'CURRENT_SCHEMA') || ' dbq_ ' || 'migration', 1073741823)
    INTO l_id
    FROM dual;
  EXECUTE IMMEDIATE 'BEGIN
    IF DBMS_LOCK.REQUEST(' || l_id || ', 6, 300, FALSE) NOT IN (0, 4) THEN
      RAISE_APPLICATION_ERROR(-20001, ''dbq: the lock could not be acquired in time'');
    END IF;
  END;';
EXCEPTION WHEN OTHERS THEN
  IF SQLCODE <> -6550 THEN RAISE; END IF;
END;
/

-- ==== MigrationLock free ====
-- Lets the next migration begin.
-- Runs after a migration.
DECLARE
  l_id NUMBER(10);
BEGIN
  SELECT ORA_HASH(SYS_CONTEXT('USERENV', 'CURRENT_SCHEMA') || ' dbq_ ' || 'migration', 1073741823)
    INTO l_id
    FROM dual;
  EXECUTE IMMEDIATE 'BEGIN
    IF DBMS_LOCK.RELEASE(' || l_id || ') <> 0 THEN
      RAISE_APPLICATION_ERROR(-20001, ''dbq: the lock could not be released'');
    END IF;
  END;';
EXCEPTION WHEN OTHERS THEN
  IF SQLCODE <> -6550 THEN RAISE; END IF;
END;
/

-- ==== Version ====
-- Reads the newest migration that has been applied. Runs when a client opens.
SELECT max(version) AS version, max(compatible) AS compatible
  FROM dbq_migration;

-- ==== SetVersion ====
-- Records a migration as applied, in its transaction.
INSERT INTO dbq_migration (version, title, compatible, applied)
SELECT :version, :title, :compatible, {now}
 FROM dual
 WHERE NOT EXISTS (SELECT 1 FROM dbq_migration WHERE version = :version);

-- ==== Drop ====
-- Removes all tables and views. Runs only at the request of an operator.
BEGIN EXECUTE IMMEDIATE 'DROP VIEW dbq_tasks';
EXCEPTION WHEN OTHERS THEN IF SQLCODE <> -942 THEN RAISE; END IF;
END;
/
BEGIN EXECUTE IMMEDIATE 'DROP VIEW dbq_attempts';
EXCEPTION WHEN OTHERS THEN IF SQLCODE <> -942 THEN RAISE; END IF;
END;
/
BEGIN EXECUTE IMMEDIATE 'DROP VIEW dbq_archived';
EXCEPTION WHEN OTHERS THEN IF SQLCODE <> -942 THEN RAISE; END IF;
END;
/
BEGIN EXECUTE IMMEDIATE 'DROP TABLE dbq_stat PURGE';
EXCEPTION WHEN OTHERS THEN IF SQLCODE <> -942 THEN RAISE; END IF;
END;
/
BEGIN EXECUTE IMMEDIATE 'DROP TABLE dbq_audit PURGE';
EXCEPTION WHEN OTHERS THEN IF SQLCODE <> -942 THEN RAISE; END IF;
END;
/
BEGIN EXECUTE IMMEDIATE 'DROP TABLE dbq_need PURGE';
EXCEPTION WHEN OTHERS THEN IF SQLCODE <> -942 THEN RAISE; END IF;
END;
/
BEGIN EXECUTE IMMEDIATE 'DROP TABLE dbq_step PURGE';
EXCEPTION WHEN OTHERS THEN IF SQLCODE <> -942 THEN RAISE; END IF;
END;
/
BEGIN EXECUTE IMMEDIATE 'DROP TABLE dbq_archive PURGE';
EXCEPTION WHEN OTHERS THEN IF SQLCODE <> -942 THEN RAISE; END IF;
END;
/
BEGIN EXECUTE IMMEDIATE 'DROP TABLE dbq_attempt PURGE';
EXCEPTION WHEN OTHERS THEN IF SQLCODE <> -942 THEN RAISE; END IF;
END;
/
BEGIN EXECUTE IMMEDIATE 'DROP TABLE dbq_key_rate PURGE';
EXCEPTION WHEN OTHERS THEN IF SQLCODE <> -942 THEN RAISE; END IF;
END;
/
BEGIN EXECUTE IMMEDIATE 'DROP TABLE dbq_kv PURGE';
EXCEPTION WHEN OTHERS THEN IF SQLCODE <> -942 THEN RAISE; END IF;
END;
/
BEGIN EXECUTE IMMEDIATE 'DROP TABLE dbq_unique_key PURGE';
EXCEPTION WHEN OTHERS THEN IF SQLCODE <> -942 THEN RAISE; END IF;
END;
/
BEGIN EXECUTE IMMEDIATE 'DROP TABLE dbq_lease PURGE';
EXCEPTION WHEN OTHERS THEN IF SQLCODE <> -942 THEN RAISE; END IF;
END;
/
BEGIN EXECUTE IMMEDIATE 'DROP TABLE dbq_task PURGE';
EXCEPTION WHEN OTHERS THEN IF SQLCODE <> -942 THEN RAISE; END IF;
END;
/
BEGIN EXECUTE IMMEDIATE 'DROP TABLE dbq_migration PURGE';
EXCEPTION WHEN OTHERS THEN IF SQLCODE <> -942 THEN RAISE; END IF;
END;
/

-- ======== Enqueueing ========

-- ==== Insert ====
-- Adds tasks. A task whose id, or whose reference and queue, exists is skipped without an error.
-- Runs for an enqueue, and for each part of a bulk enqueue, in blocks of a few sizes. Indexes: the primary key and
-- task_ref find duplicates. Only PL/SQL can leave out a row whose key exists, wait for another transaction that is
-- about to insert it, and keep the surrounding transaction usable.
-- At most 100 rows.
DECLARE
  l_now NUMBER(19);
BEGIN
  SELECT {now} INTO l_now FROM dual;
  -- for each row:
  BEGIN
    INSERT INTO dbq_task (
      id, fence, queue, reference, kind, state, priority, max_attempts, due, created, updated,
      headers, payload_size, payload, task_key)
    VALUES (
      :id, :reused * l_now, :queue, :reference, :kind, 0 /* CREATED */, :priority, :max_attempts,
      COALESCE(:at, l_now + :delay), l_now, l_now,
      :headers, :payload_size, :payload, :task_key);
  EXCEPTION WHEN DUP_VAL_ON_INDEX THEN NULL;
  END;
END;
/

-- ==== insert one ====
-- Insert for a single row.
-- Runs instead of Insert for each task, if the caller gave the id of one. Indexes: the primary key and task_ref find a
-- duplicate: the statement fails with ORA-00001, and the transaction goes on. A block would not report whether it added
-- its row.
-- One row at a time.
INSERT INTO dbq_task (
  id, fence, queue, reference, kind, state, priority, max_attempts, due, created, updated,
  headers, payload_size, payload, task_key)
VALUES (
  :id, :reused * {now}, :queue, :reference, :kind, 0 /* CREATED */, :priority, :max_attempts,
  COALESCE(:at, {now} + :delay), {now}, {now},
  :headers, :payload_size, :payload, :task_key);

-- ==== inserted ====
-- Reads which rows exist after Insert.
-- Runs after each block of an enqueue. Index: the primary key.
-- At most 100 rows.
SELECT id
  FROM dbq_task
 WHERE 1 = 0
    -- for each row:
    OR id = :id;

-- ======== Unique tasks ========

-- ==== FindKeys ====
-- Reads unique keys, and the states of the tasks that they name.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
SELECT k.id, k.task, k.expires,
       (SELECT t.state FROM dbq_task t WHERE t.id = k.task AND t.queue = k.queue) AS state,
       (SELECT t.due FROM dbq_task t WHERE t.id = k.task AND t.queue = k.queue) AS due
  FROM dbq_unique_key k
 WHERE k.id IN ({rows});

-- ==== LockWaiting ====
-- Locks waiting tasks whose keys are used again, so that they do not start before the outcome is decided. Also locks
-- tasks in PROCESSING if a task keeps its key until it ends.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
SELECT id, queue, state, due, created
  FROM dbq_task
 WHERE id IN ({rows})
   AND (due IS NOT NULL OR state = 1 /* PROCESSING */ AND :running = 1)
 ORDER BY id
   FOR UPDATE;

-- ==== AddKeys ====
-- Adds keys that do not exist.
-- Runs after FindKeys, for keys that it has not found. Index: the primary key.
-- At most 100 rows.
BEGIN
  -- for each row:
  BEGIN
    INSERT INTO dbq_unique_key (id, task, expires, queue, scope, name)
    VALUES (:id, :task, :expires, :queue, :scope, :name);
  EXCEPTION WHEN DUP_VAL_ON_INDEX THEN NULL;
  END;
END;
/

-- ==== LockKeys ====
-- Locks the keys. After that, no other transaction can add a task with one of them.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
SELECT id, task, expires
  FROM dbq_unique_key
 WHERE id IN ({rows})
 ORDER BY id
   FOR UPDATE;

-- ==== SetKeys ====
-- Assigns keys to the added tasks.
-- Runs after Insert, with arrays, for keys that name another task then. Index: the primary key.
-- At most 500 rows.
UPDATE dbq_unique_key
   SET task = :task,
       expires = :expires
 WHERE id = :id;

-- ==== Replace ====
-- Replaces the kind, key, payload, headers, priority and due time of a waiting task. Clears its progress, and raises
-- its fence: a checkout that has chosen the task by its old key and size must not lease it.
-- Runs after LockKeys, for one task at a time, since payloads may be large. Index: the primary key.
-- One row at a time.
UPDATE dbq_task
   SET kind = :kind,
       task_key = :task_key,
       priority = :priority,
       due = :at,
       headers = :headers,
       payload_size = :payload_size,
       payload = :payload,
       progress = NULL,
       fence = fence + 1
 WHERE id = :id
   AND due IS NOT NULL;

-- ==== Postpone ====
-- Moves the due times of waiting tasks.
-- Runs after LockKeys, with arrays. Index: the primary key.
-- At most 500 rows.
UPDATE dbq_task
   SET due = :at
 WHERE id = :id
   AND due IS NOT NULL;

-- ==== OldKeys ====
-- Finds keys that cleaning may remove. Index: unique_key_expires.
SELECT id
  FROM dbq_unique_key
 WHERE expires <= {now}
 ORDER BY expires
 FETCH FIRST :limit ROWS ONLY;

-- ==== DropKeys ====
-- Removes keys whose period has passed, or whose task has ended.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
DELETE FROM dbq_unique_key
 WHERE id IN ({rows});

-- ======== Workflows ========

-- ==== AddWorkflowTasks ====
-- Adds the tasks of a workflow, after Insert in one transaction.
-- Runs after Insert in the transaction of a workflow, with arrays.
-- At most 500 rows.
INSERT INTO dbq_step (task, workflow, name, queue, needs, dependents, run_at, delay)
VALUES (:id, :workflow_id, :name, :queue_name, :needs, :dependents, :at, :delay);

-- ==== AddWorkflowNeeds ====
-- Adds the dependencies of a workflow.
-- Runs after AddWorkflowTasks, with arrays.
-- At most 500 rows.
INSERT INTO dbq_need (parent, child, on_failure, met)
VALUES (:parent, :child, :on_failure, 0);

-- ==== AddWorkflowChange ====
-- Records, in the transaction that ends tasks of workflows, that their workflows have to be advanced.
INSERT INTO dbq_kv (namespace, name, version, value, updated)
SELECT :namespace, :name, {now}, :value, {now}
 FROM dual;

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
 FETCH FIRST :limit ROWS ONLY;

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
 FETCH FIRST :limit ROWS ONLY;

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
 FETCH FIRST :limit ROWS ONLY;

-- ==== Workflows ====
-- Finds the next workflow by its id, the newest first, for operators. Index: step_workflow.
SELECT workflow
  FROM dbq_step
 WHERE workflow < :before
 ORDER BY workflow DESC
 FETCH FIRST :limit ROWS ONLY;

-- ==== OfWorkflow ====
-- A condition, not a statement: the task belongs to a workflow. Index: step_workflow.
id IN (SELECT s.task FROM dbq_step s WHERE s.workflow = :workflow);

-- ======== Checking out ========

-- ==== due ====
-- Reports which priorities have a due task, without locks.
-- Runs at each poll, outside of a transaction. Index: task_ready, once for each priority. The searches of a checkout
-- name their index in a hint: by statistics that were gathered while a queue was empty or full, the optimizer would
-- choose another plan, which reads and locks more. See "INDEX Hint" in the SQL Language Reference.
SELECT 0 AS priority
  FROM dual
 WHERE EXISTS (
         SELECT /*+ INDEX(t dbq_task_ready) */ 1
           FROM dbq_task t
          WHERE t.ready_queue = :queue
            AND t.ready_priority = 0
            AND t.due <= {now})
   AND NOT EXISTS (SELECT 1 FROM dbq_kv n WHERE n.namespace IN ('limit', 'pause') AND n.name = :queue)
UNION ALL SELECT 1 AS priority
  FROM dual
 WHERE EXISTS (
         SELECT /*+ INDEX(t dbq_task_ready) */ 1
           FROM dbq_task t
          WHERE t.ready_queue = :queue
            AND t.ready_priority = 1
            AND t.due <= {now})
   AND NOT EXISTS (SELECT 1 FROM dbq_kv n WHERE n.namespace IN ('limit', 'pause') AND n.name = :queue)
-- and so on for the priorities 2 to 8
UNION ALL SELECT 9 AS priority
  FROM dual
 WHERE EXISTS (
         SELECT /*+ INDEX(t dbq_task_ready) */ 1
           FROM dbq_task t
          WHERE t.ready_queue = :queue
            AND t.ready_priority = 9
            AND t.due <= {now})
   AND NOT EXISTS (SELECT 1 FROM dbq_kv n WHERE n.namespace IN ('limit', 'pause') AND n.name = :queue);

-- ==== queue lock ====
-- Strategy advisory: waits for the queue's lock, in a separate statement.
-- Runs before the transaction of a checkout, and waits at most 30 seconds. The lock belongs to the session and
-- outlives a commit. REQUEST returns 0 for success and 4 if the session has the lock already.
DECLARE
  l_id NUMBER(10);
BEGIN
  SELECT ORA_HASH(SYS_CONTEXT('USERENV', 'CURRENT_SCHEMA') || ' dbq_ ' || 'checkout ' || :queue, 1073741823)
    INTO l_id
    FROM dual;
  IF DBMS_LOCK.REQUEST(l_id, 6, 30, FALSE) NOT IN (0, 4) THEN
    RAISE_APPLICATION_ERROR(-20001, 'dbq: the lock could not be acquired in time');
  END IF;
END;
/

-- ==== queue free ====
-- Strategy advisory: releases the queue's lock.
-- Runs after the transaction of a checkout.
DECLARE
  l_id NUMBER(10);
BEGIN
  SELECT ORA_HASH(SYS_CONTEXT('USERENV', 'CURRENT_SCHEMA') || ' dbq_ ' || 'checkout ' || :queue, 1073741823)
    INTO l_id
    FROM dual;
  IF DBMS_LOCK.RELEASE(l_id) <> 0 THEN
    RAISE_APPLICATION_ERROR(-20001, 'dbq: the lock could not be released');
  END IF;
END;
/

-- ==== ready ====
-- Leases due tasks in order.
-- Runs for a checkout (strategies skip-locked and advisory). Index: task_ready, once for each priority. A cursor
-- locks rows as it fetches them, so one that fetches no more than it may take locks no more. FETCH FIRST cannot be
-- combined with FOR UPDATE (SQL Language Reference, "row_limiting_clause"), and ROWNUM would count rows that others
-- have locked. One FETCH may return fewer rows than there are, because SKIP LOCKED passes over rows after they were
-- found, and a row that was changed meanwhile is no longer due. So the block fetches until it gets no row or the
-- batch is full. See "FETCH Statement" and "SELECT FOR UPDATE and FOR UPDATE Cursors" in the PL/SQL Language
-- Reference.
DECLARE
  TYPE id_list IS TABLE OF RAW(16);
  l_ids id_list;
  l_now NUMBER(19);
  l_room NUMBER(10) := :limit;
  l_queue VARCHAR2(400 BYTE) := :queue;
  l_holder VARCHAR2(800 BYTE) := :holder;
  l_lease NUMBER(19) := :lease;
  l_known_started NUMBER(1) := :known_started;
  CURSOR c_ready (p_priority NUMBER) IS
    SELECT /*+ INDEX(t dbq_task_ready) */ t.id
      FROM dbq_task t
     WHERE t.ready_queue = l_queue
       AND t.ready_priority = p_priority
       AND t.due <= l_now
     ORDER BY t.due, t.ready_id
       FOR UPDATE SKIP LOCKED;
BEGIN
  SELECT {now} INTO l_now FROM dual;
  FOR l_priority IN 0 .. 9 LOOP
    EXIT WHEN l_room < 1;
    OPEN c_ready(l_priority);
    LOOP
      FETCH c_ready BULK COLLECT INTO l_ids LIMIT l_room;
      EXIT WHEN l_ids.COUNT = 0;
      FORALL i IN 1 .. l_ids.COUNT
        UPDATE dbq_task
           SET state = 1 /* PROCESSING */,
               was_due = due,
               due = NULL,
               attempt = attempt + 1,
               fence = fence + 1,
               lease_until = l_now + l_lease,
               holder = l_holder,
               known_started = l_known_started,
               taken = l_now,
               updated = l_now
         WHERE id = l_ids(i)
           AND due <= l_now;
      l_room := l_room - SQL%ROWCOUNT;
      EXIT WHEN l_room < 1;
    END LOOP;
    CLOSE c_ready;
  END LOOP;
END;
/

-- ==== update ====
-- Strategy update: leases due tasks of one priority, which a subquery selects.
-- Runs once for each priority that has a due task (strategy update). Index: task_ready, one ordered range. It may
-- wait for rows of another checkout, and then finds that they are no longer due.
UPDATE dbq_task
   SET state = 1 /* PROCESSING */,
       was_due = due,
       due = NULL,
       attempt = attempt + 1,
       fence = fence + 1,
       lease_until = {now} + :lease,
       holder = :holder,
       known_started = :known_started,
       taken = {now},
       updated = {now}
 WHERE (id, fence) IN (
         SELECT /*+ INDEX(t dbq_task_ready) */ t.id, t.fence
           FROM dbq_task t
          WHERE t.ready_queue = :queue
            AND t.ready_priority = :priority
            AND t.due <= {now}
          ORDER BY t.due, t.ready_id
          FETCH FIRST :limit ROWS ONLY)
   AND due <= {now};

-- ==== see ready ====
-- Reads candidates in order, without locks.
-- Runs once for each priority that has a due task: with strategy cas, and with the others after they met a large
-- payload. Index: task_ready, one ordered range. "lock ready" follows.
SELECT /*+ INDEX(t dbq_task_ready) */ t.id, t.fence, t.payload_size
  FROM dbq_task t
 WHERE t.ready_queue = :queue
   AND t.ready_priority = :priority
   AND t.due <= {now}
 ORDER BY t.due, t.ready_id
 FETCH FIRST :limit ROWS ONLY;

-- ==== lock ready ====
-- Locks the candidates that no other transaction has locked and whose fence is unchanged.
-- Runs after "see ready". Index: the primary key. It reads the candidates again, under lock, and leaves out those
-- that are no longer due.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   (:id, :fence)
SELECT /*+ INDEX(t dbq_task_pk) */ t.id, t.fence, t.payload_size
  FROM dbq_task t
 WHERE (t.id, t.fence) IN ({rows})
   AND t.due <= {now}
   FOR UPDATE SKIP LOCKED;

-- ==== take ====
-- Leases the tasks found.
-- Runs for locked tasks that were due, with arrays. Index: the primary key.
-- At most 500 rows.
UPDATE dbq_task
   SET state = 1 /* PROCESSING */,
       was_due = due,
       due = NULL,
       attempt = attempt + 1,
       fence = fence + 1,
       lease_until = {now} + :lease,
       holder = :holder,
       known_started = :known_started,
       taken = {now},
       updated = {now}
 WHERE id = :id
   AND fence = :fence
   AND due <= {now};

-- ==== see expired ====
-- Reads candidates whose lease expired, without locks.
-- Runs at polls that found nothing due, and at intervals otherwise. Index: task_busy. "lock expired" follows.
SELECT /*+ INDEX(t dbq_task_busy) */ t.id, t.fence, t.payload_size,
       COALESCE(
         (SELECT l.lease_until FROM dbq_lease l WHERE l.id = t.id AND l.fence = t.fence),
         t.lease_until) AS was_until
  FROM dbq_task t
 WHERE t.busy_queue = :queue
   AND COALESCE(
         (SELECT l.lease_until FROM dbq_lease l WHERE l.id = t.id AND l.fence = t.fence),
         t.lease_until) <= {now}
   AND t.holder <> :holder
   AND NOT EXISTS (SELECT 1 FROM dbq_kv n WHERE n.namespace IN ('limit', 'pause') AND n.name = :queue)
 FETCH FIRST :limit ROWS ONLY;

-- ==== lock expired ====
-- Locks the candidates that no other transaction has locked and whose fence is unchanged.
-- Runs after "see expired". Index: the primary key.
-- The row is locked, so only the row itself is read, no renewal.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   (:id, :fence)
SELECT /*+ INDEX(t dbq_task_pk) */
       t.id, t.queue, t.reference, t.kind, t.task_key, t.state, t.priority, t.attempt, t.max_attempts, t.lapses,
       t.cancelled, t.fence, t.due, t.holder, t.created, t.updated, t.headers, t.result, t.result_size,
       t.lease_until, t.progress,
       t.known_started, t.payload_size, {now} AS now
  FROM dbq_task t
 WHERE (t.id, t.fence) IN ({rows})
   AND t.state = 1 /* PROCESSING */
   FOR UPDATE SKIP LOCKED;

-- ==== claim ====
-- Prevents renewals of tasks that are being taken over.
-- Runs for locked tasks that are to be taken over. Index: the primary key of lease. A renewal and a takeover write
-- the same row, so one of them sees the other. The takeover writes the next fence if no renewal under the task's
-- fence is valid. A renewal gives up if it finds a higher fence. Each writes the row as it is now, whatever its
-- queries have seen.
-- At most 100 rows.
DECLARE
  l_now NUMBER(19);
BEGIN
  SELECT {now} INTO l_now FROM dual;
  -- for each row:
  BEGIN
    UPDATE dbq_lease
       SET progress = CASE WHEN fence >= :fence THEN progress END,
           fence = :fence + 1,
           lease_until = l_now + :lease,
           keep_until = l_now + :lease
     WHERE id = :id
       AND (fence < :fence OR lease_until <= l_now);
    IF SQL%ROWCOUNT = 0 THEN
      INSERT INTO dbq_lease (id, fence, lease_until, keep_until)
      VALUES (:id, :fence + 1, l_now + :lease, l_now + :lease);
    END IF;
  EXCEPTION WHEN DUP_VAL_ON_INDEX THEN NULL;
  END;
END;
/

-- ==== claimed ====
-- Reads which tasks can be taken over, because they were not renewed first.
-- Runs after claim. Index: the primary key of lease.
-- At most 100 rows.
SELECT l.id, l.progress
  FROM dbq_lease l
 WHERE 1 = 0
    -- for each row:
    OR l.id = :id AND l.fence = :fence + 1;

-- ==== take over ====
-- Leases again the tasks whose lease expired.
-- Runs for locked tasks whose lease expired and that have attempts left, with arrays. Index: the primary key. was_due
-- marks a task that was taken over: it has no due time by which it could be sorted. An attempt counts if it is known
-- to have started. Otherwise its end is a lapse, and every 100th lapse in a row counts as an attempt (lapses >= 99).
-- At most 500 rows.
UPDATE dbq_task
   SET was_due = -1,
       attempt = attempt + CASE WHEN (known_started = 1 OR lapses >= 99) THEN 1 ELSE 0 END,
       lapses = CASE WHEN known_started = 1 THEN lapses WHEN lapses >= 99 THEN 0 ELSE lapses + 1 END,
       known_started = :known_started,
       fence = fence + 1,
       lease_until = {now} + :lease,
       holder = :holder,
       taken = {now},
       updated = {now}
 WHERE id = :id
   AND fence = :fence
   AND state = 1 /* PROCESSING */;

-- ==== poison ====
-- Moves tasks to POISON whose last lease expired and whose attempts are exhausted.
-- Runs for locked tasks whose lease expired and whose attempts are exhausted, with arrays. Index: the primary key.
-- At most 500 rows.
UPDATE dbq_task
   SET state = 4 /* POISON */,
       fence = fence + 1,
       lease_until = NULL,
       taken = NULL,
       updated = {now},
       result_size = :result_size,
       result = :result
 WHERE id = :id
   AND fence = :fence
   AND state = 1 /* PROCESSING */;

-- ==== taken ====
-- Reads the tasks that this checkout has leased, by its token.
-- Runs at the end of the transaction of a checkout. Index: task_busy. Each statement that leases tasks marks
-- them with the checkout's own token, so a block need not return them.
-- The row is locked, so only the row itself is read, no renewal.
SELECT t.id, t.queue, t.reference, t.kind, t.task_key, t.state, t.priority, t.attempt, t.max_attempts, t.lapses,
       t.cancelled, t.fence, t.due, t.holder, t.created, t.updated, t.headers, t.result, t.result_size,
       t.lease_until, t.progress,
       CASE WHEN t.payload_size > :share THEN NULL ELSE t.payload END AS payload, t.payload_size,
       t.was_due, {now} AS now
  FROM dbq_task t
 WHERE t.busy_queue = :queue
   AND t.holder = :holder;

-- ======== Leases ========

-- ==== Start ====
-- Marks attempts as started. An attempt that is not marked does not count if its lease expires.
-- Runs before a handler, if the checkout has not marked the attempt, with arrays, after "lock". Index: the primary
-- key.
-- At most 500 rows.
UPDATE dbq_task
   SET known_started = 1
 WHERE id = :id
   AND fence = :fence
   AND state = 1 /* PROCESSING */;

-- ==== Extend ====
-- Renews leases.
-- Runs at each heartbeat of a worker, for all of its leases. A renewal is a row of its own, so that a heartbeat neither
-- writes nor locks a task. Indexes: the primary keys of task and lease. A null :progress_size keeps the progress that
-- the lease has.
-- At most 100 rows.
DECLARE
  l_now NUMBER(19);
BEGIN
  SELECT {now} INTO l_now FROM dual;
  -- for each row:
  BEGIN
    UPDATE dbq_lease
       SET progress = CASE WHEN :progress_size IS NULL AND fence = :fence THEN progress
                           ELSE :progress END,
           fence = :fence,
           lease_until = l_now + :lease,
           keep_until = (SELECT GREATEST(t.lease_until, l_now + :lease) FROM dbq_task t WHERE t.id = :id)
     WHERE id = :id
       AND fence <= :fence
       AND EXISTS (SELECT 1 FROM dbq_task t WHERE t.id = :id AND t.fence = :fence AND t.state = 1 /* PROCESSING */);
    IF SQL%ROWCOUNT = 0 THEN
      INSERT INTO dbq_lease (id, fence, lease_until, keep_until, progress)
      SELECT t.id, t.fence, l_now + :lease, GREATEST(t.lease_until, l_now + :lease), :progress
        FROM dbq_task t
       WHERE t.id = :id AND t.fence = :fence AND t.state = 1 /* PROCESSING */;
    END IF;
  EXCEPTION WHEN DUP_VAL_ON_INDEX THEN NULL;
  END;
END;
/

-- ==== extended ====
-- Reads which leases Extend has renewed.
-- Runs after Extend. Indexes: the primary keys of task and lease.
-- At most 100 rows.
SELECT t.id, t.fence
  FROM dbq_task t, dbq_lease l
 WHERE l.id = t.id
   AND l.fence = t.fence
   AND t.state = 1 /* PROCESSING */
   AND (1 = 0
        -- for each row:
        OR t.id = :id AND t.fence = :fence);

-- ==== DropLeases ====
-- Removes the renewals of leases that were settled.
-- Runs after settlements of tasks whose leases were renewed, with arrays. Index: the primary key of lease.
-- At most 500 rows.
DELETE FROM dbq_lease
 WHERE id = :id
   AND fence = :fence;

-- ==== ExpireLeases ====
-- Removes renewals that ended long ago, in batches.
-- Runs in clients that renew leases or take tasks over, every 10 seconds at most, for renewals that DropLeases has
-- not removed. Index: none for the search, since the table has few rows, one for each long-running task; the primary
-- key for the rows found. A DELETE would wait for rows that heartbeats and takeovers have locked. The cursor skips
-- them, and locks no more rows than it fetches. The progress of a task that is still leased stays for the takeover.
DECLARE
  TYPE id_list IS TABLE OF RAW(16);
  l_ids id_list;
  l_before NUMBER(19);
  l_limit NUMBER(10) := :limit;
  l_age NUMBER(19) := :age;
  CURSOR c_ended IS
    SELECT l.id
      FROM dbq_lease l
     WHERE l.keep_until <= l_before
       AND (l.progress IS NULL
            OR NOT EXISTS (
                 SELECT 1 FROM dbq_task t WHERE t.id = l.id AND t.fence = l.fence AND t.state = 1 /* PROCESSING */))
       FOR UPDATE SKIP LOCKED;
BEGIN
  SELECT {now} - l_age INTO l_before FROM dual;
  OPEN c_ended;
  FETCH c_ended BULK COLLECT INTO l_ids LIMIT l_limit;
  CLOSE c_ended;
  FORALL i IN 1 .. l_ids.COUNT
    DELETE FROM dbq_lease
     WHERE id = l_ids(i);
END;
/

-- ======== Settling ========

-- ==== Settle ====
-- Ends attempts (complete, fail, poison, release) whose fences are unchanged.
-- Runs for each batch of settlements, with arrays, after "lock". Index: the primary key. Each expression of the SET
-- clause sees the row as it was.
-- At most 500 rows.
UPDATE dbq_task
   SET due = CASE
         WHEN :state = 3 /* ERROR */ AND attempt >= max_attempts THEN NULL
         ELSE COALESCE(:at, {now} + :after)
       END,
       state = CASE
         WHEN :state = 3 /* ERROR */ AND attempt >= max_attempts AND COALESCE(:at, :after) IS NOT NULL
         THEN 4 /* POISON */
         ELSE :state
       END,
       attempt = attempt - :uncount,
       lease_until = NULL,
       updated = {now},
       result_size = CASE
         WHEN :state = 0 /* CREATED */ AND :result_size IS NULL THEN result_size
         ELSE :result_size
       END,
       result = CASE
         WHEN :state = 0 /* CREATED */ AND :result_size IS NULL THEN result
         ELSE :result
       END,
       progress = CASE
         WHEN :state <> 2 /* COMPLETED */
         THEN COALESCE((SELECT l.progress FROM dbq_lease l WHERE l.id = :id AND l.fence = :fence), progress)
       END
 WHERE id = :id
   AND fence = :fence
   AND state = 1 /* PROCESSING */;

-- ==== lock ====
-- Locks and returns the rows that Settle, Remove or Start will change.
-- Runs before Settle, Remove and Start, whose arrays return nothing. Index: the primary key. It locks in the order of
-- ids, so that no two batches deadlock.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   (:id, :fence)
SELECT /*+ INDEX(t dbq_task_pk) */ t.id, t.fence, t.state
  FROM dbq_task t
 WHERE (t.id, t.fence) IN ({rows})
   AND t.state = 1 /* PROCESSING */
 ORDER BY t.id
   FOR UPDATE;

-- ==== settled ====
-- Reads the new states of the rows that Settle has changed.
-- Runs after Settle. Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   (:id, :fence)
SELECT /*+ INDEX(t dbq_task_pk) */ t.id, t.fence, t.state
  FROM dbq_task t
 WHERE (t.id, t.fence) IN ({rows});

-- ==== Remove ====
-- Ends attempts and removes the tasks (complete and delete), if their fences are unchanged.
-- Runs for tasks that are not kept, with arrays, after "lock". Index: the primary key.
-- At most 500 rows.
DELETE FROM dbq_task
 WHERE id = :id
   AND fence = :fence
   AND state = 1 /* PROCESSING */;

-- ==== LockFree ====
-- Locks the tasks of a batch that no other transaction has locked; only these are then settled or leased.
-- Runs if a batch of settlements, or a checkout of a queue with limits per key, met a locked task. Index: the primary
-- key.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
SELECT /*+ INDEX(t dbq_task_pk) */ t.id
  FROM dbq_task t
 WHERE t.id IN ({rows})
   FOR UPDATE SKIP LOCKED;

-- ======== Operators' events ========

-- ==== Movable cancel ====
-- Locks and returns the tasks that Move of the same event will change. A task that is no longer needed goes to
-- POISON, marked as cancelled. If it is running, its handler's context ends.
-- Runs first in the transaction of an operator's event. Index: the primary key. It locks in the order of ids, so that
-- no two calls deadlock.
-- The progress that heartbeats have stored is in the renewal.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
SELECT id, queue, task_key, state, attempt, fence, holder, taken, updated,
       result, result_size,
       CASE
         WHEN t.state = 1 /* PROCESSING */
         THEN (SELECT l.progress FROM dbq_lease l
                WHERE l.id = t.id AND l.fence = t.fence)
       END AS progress,
       {now} AS now
  FROM dbq_task t
 WHERE id IN ({rows})
   AND (state = 0 /* CREATED */ OR state = 1 /* PROCESSING */ OR state = 3 /* ERROR */)
 ORDER BY id
   FOR UPDATE;

-- ==== Movable finish ====
-- Locks and returns the tasks that Move of the same event will change. A task is completed without an attempt, with a
-- result that may be given.
-- Runs first in the transaction of an operator's event. Index: the primary key. It locks in the order of ids, so that
-- no two calls deadlock.
-- The progress that heartbeats have stored is in the renewal.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
SELECT id, queue, task_key, state, attempt, fence, holder, taken, updated,
       result, result_size,
       CASE
         WHEN t.state = 1 /* PROCESSING */
         THEN (SELECT l.progress FROM dbq_lease l
                WHERE l.id = t.id AND l.fence = t.fence)
       END AS progress,
       {now} AS now
  FROM dbq_task t
 WHERE id IN ({rows})
   AND (state = 0 /* CREATED */ OR state = 3 /* ERROR */ OR state = 4 /* POISON */)
 ORDER BY id
   FOR UPDATE;

-- ==== Movable purge ====
-- Locks and returns the tasks that Move of the same event will change. An ended or parked task is removed.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
SELECT id, queue, task_key, state
  FROM dbq_task
 WHERE id IN ({rows})
   AND (state = 2 /* COMPLETED */ OR state = 4 /* POISON */ OR (state = 3 /* ERROR */ AND due IS NULL))
 ORDER BY id
   FOR UPDATE;

-- ==== Movable quarantine ====
-- Locks and returns the tasks that Move of the same event will change. A failed task will not be retried.
-- Runs first in the transaction of an operator's event. Index: the primary key. It locks in the order of ids, so that
-- no two calls deadlock.
-- The progress that heartbeats have stored is in the renewal.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
SELECT id, queue, task_key, state, attempt, fence, holder, taken, updated,
       result, result_size,
       CASE
         WHEN t.state = 1 /* PROCESSING */
         THEN (SELECT l.progress FROM dbq_lease l
                WHERE l.id = t.id AND l.fence = t.fence)
       END AS progress,
       {now} AS now
  FROM dbq_task t
 WHERE id IN ({rows})
   AND (state = 3 /* ERROR */)
 ORDER BY id
   FOR UPDATE;

-- ==== Movable reenqueue ====
-- Locks and returns the tasks that Move of the same event will change. A failed task becomes due again, and its
-- attempts start over.
-- Runs first in the transaction of an operator's event. Index: the primary key. It locks in the order of ids, so that
-- no two calls deadlock.
-- The progress that heartbeats have stored is in the renewal.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
SELECT id, queue, task_key, state, attempt, fence, holder, taken, updated,
       result, result_size,
       CASE
         WHEN t.state = 1 /* PROCESSING */
         THEN (SELECT l.progress FROM dbq_lease l
                WHERE l.id = t.id AND l.fence = t.fence)
       END AS progress,
       {now} AS now
  FROM dbq_task t
 WHERE id IN ({rows})
   AND (state = 3 /* ERROR */ OR state = 4 /* POISON */)
 ORDER BY id
   FOR UPDATE;

-- ==== Movable reject ====
-- Locks and returns the tasks that Move of the same event will change. A task is parked before it runs.
-- Runs first in the transaction of an operator's event. Index: the primary key. It locks in the order of ids, so that
-- no two calls deadlock.
-- The progress that heartbeats have stored is in the renewal.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
SELECT id, queue, task_key, state, attempt, fence, holder, taken, updated,
       result, result_size,
       CASE
         WHEN t.state = 1 /* PROCESSING */
         THEN (SELECT l.progress FROM dbq_lease l
                WHERE l.id = t.id AND l.fence = t.fence)
       END AS progress,
       {now} AS now
  FROM dbq_task t
 WHERE id IN ({rows})
   AND (state = 0 /* CREATED */)
 ORDER BY id
   FOR UPDATE;

-- ==== Movable restore ====
-- Locks and returns the tasks that Move of the same event will change. A poisoned task is parked for inspection.
-- Runs first in the transaction of an operator's event. Index: the primary key. It locks in the order of ids, so that
-- no two calls deadlock.
-- The progress that heartbeats have stored is in the renewal.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
SELECT id, queue, task_key, state, attempt, fence, holder, taken, updated,
       result, result_size,
       CASE
         WHEN t.state = 1 /* PROCESSING */
         THEN (SELECT l.progress FROM dbq_lease l
                WHERE l.id = t.id AND l.fence = t.fence)
       END AS progress,
       {now} AS now
  FROM dbq_task t
 WHERE id IN ({rows})
   AND (state = 4 /* POISON */)
 ORDER BY id
   FOR UPDATE;

-- ==== Movable revoke ====
-- Locks and returns the tasks that Move of the same event will change. The lease is taken away, the handler's context
-- ends, and the task is parked.
-- Runs first in the transaction of an operator's event. Index: the primary key. It locks in the order of ids, so that
-- no two calls deadlock.
-- The progress that heartbeats have stored is in the renewal.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
SELECT id, queue, task_key, state, attempt, fence, holder, taken, updated,
       result, result_size,
       CASE
         WHEN t.state = 1 /* PROCESSING */
         THEN (SELECT l.progress FROM dbq_lease l
                WHERE l.id = t.id AND l.fence = t.fence)
       END AS progress,
       {now} AS now
  FROM dbq_task t
 WHERE id IN ({rows})
   AND (state = 1 /* PROCESSING */)
 ORDER BY id
   FOR UPDATE;

-- ==== Move cancel ====
-- Applies an operator's event. A task that is no longer needed goes to POISON, marked as cancelled. If it is running,
-- its handler's context ends.
-- Runs after Movable, with arrays. Index: the primary key.
-- At most 500 rows.
UPDATE dbq_task
   SET fence = fence + CASE WHEN (state = 1 /* PROCESSING */) THEN 1 ELSE 0 END,
       state = 4 /* POISON */,
       due = NULL,
       cancelled = 1,
       lease_until = NULL,
       taken = NULL,
       updated = {now}
 WHERE id = :id
   AND (state = 0 /* CREATED */ OR state = 1 /* PROCESSING */ OR state = 3 /* ERROR */);

-- ==== Move finish ====
-- Applies an operator's event. A task is completed without an attempt, with a result that may be given.
-- Runs after Movable, with arrays. Index: the primary key.
-- At most 500 rows.
UPDATE dbq_task
   SET state = 2 /* COMPLETED */,
       due = NULL,
       cancelled = 0,
       progress = NULL,
       lease_until = NULL,
       taken = NULL,
       updated = {now}
 WHERE id = :id
   AND (state = 0 /* CREATED */ OR state = 3 /* ERROR */ OR state = 4 /* POISON */);

-- ==== Move purge ====
-- Applies an operator's event. An ended or parked task is removed.
-- Runs after Purgeable, with arrays. Index: the primary key.
-- At most 500 rows.
DELETE FROM dbq_task
 WHERE id = :id
   AND (state = 2 /* COMPLETED */ OR state = 4 /* POISON */ OR (state = 3 /* ERROR */ AND due IS NULL));

-- ==== Move quarantine ====
-- Applies an operator's event. A failed task will not be retried.
-- Runs after Movable, with arrays. Index: the primary key.
-- At most 500 rows.
UPDATE dbq_task
   SET state = 4 /* POISON */,
       due = NULL,
       cancelled = 0,
       lease_until = NULL,
       taken = NULL,
       updated = {now}
 WHERE id = :id
   AND (state = 3 /* ERROR */);

-- ==== Move reenqueue ====
-- Applies an operator's event. A failed task becomes due again, and its attempts start over.
-- Runs after Movable, with arrays. Index: the primary key.
-- At most 500 rows.
UPDATE dbq_task
   SET state = 0 /* CREATED */,
       due = {now},
       cancelled = 0,
       attempt = 0,
       lapses = 0,
       lease_until = NULL,
       taken = NULL,
       updated = {now}
 WHERE id = :id
   AND (state = 3 /* ERROR */ OR state = 4 /* POISON */);

-- ==== Move reject ====
-- Applies an operator's event. A task is parked before it runs.
-- Runs after Movable, with arrays. Index: the primary key.
-- At most 500 rows.
UPDATE dbq_task
   SET state = 3 /* ERROR */,
       due = NULL,
       cancelled = 0,
       lease_until = NULL,
       taken = NULL,
       updated = {now}
 WHERE id = :id
   AND (state = 0 /* CREATED */);

-- ==== Move restore ====
-- Applies an operator's event. A poisoned task is parked for inspection.
-- Runs after Movable, with arrays. Index: the primary key.
-- At most 500 rows.
UPDATE dbq_task
   SET state = 3 /* ERROR */,
       due = NULL,
       cancelled = 0,
       lease_until = NULL,
       taken = NULL,
       updated = {now}
 WHERE id = :id
   AND (state = 4 /* POISON */);

-- ==== Move revoke ====
-- Applies an operator's event. The lease is taken away, the handler's context ends, and the task is parked.
-- Runs after Movable, with arrays. Index: the primary key.
-- At most 500 rows.
UPDATE dbq_task
   SET fence = fence + 1,
       state = 3 /* ERROR */,
       due = NULL,
       cancelled = 0,
       lease_until = NULL,
       taken = NULL,
       updated = {now}
 WHERE id = :id
   AND (state = 1 /* PROCESSING */);

-- ==== SetResult ====
-- Stores an operator's reason.
-- Runs after Move in the same transaction, if the operator gives a reason. Index: the primary key.
-- At most 500 rows.
UPDATE dbq_task
   SET result = :result,
       result_size = :result_size
 WHERE id = :id;

-- ==== SetProgress ====
-- Stores the progress of ended attempts in the tasks' rows, for the next attempts.
-- Runs after Settle, Move or a takeover in the same transaction, for tasks whose holders have reported progress, with
-- arrays. Index: the primary key.
-- At most 500 rows.
UPDATE dbq_task
   SET progress = :progress
 WHERE id = :id;

-- ======== Reading and counting ========

-- ==== Get ====
-- Reads a task. Index: the primary key of task.
SELECT t.id, t.queue, t.reference, t.kind, t.task_key, t.state, t.priority, t.attempt, t.max_attempts, t.lapses,
       t.cancelled, t.fence, t.due, t.holder, t.created, t.updated, t.headers, t.result, t.result_size,
       CASE
         WHEN t.state = 1 /* PROCESSING */
         THEN COALESCE(
                (SELECT l.lease_until FROM dbq_lease l WHERE l.id = t.id AND l.fence = t.fence),
                t.lease_until)
       END AS lease_until,
       CASE
         WHEN t.state = 1 /* PROCESSING */
         THEN COALESCE((SELECT l.progress FROM dbq_lease l
                         WHERE l.id = t.id AND l.fence = t.fence), t.progress)
         ELSE t.progress
       END AS progress,
       t.payload, t.payload_size, {now} AS now
  FROM dbq_task t
 WHERE t.id = :id;

-- ==== Poisoned ====
-- Reads tasks that went to POISON, for their dead-letter notices. Index: the primary key of task.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
SELECT t.id, t.queue, t.reference, t.kind, t.task_key, t.state, t.priority, t.attempt, t.max_attempts, t.lapses,
       t.cancelled, t.fence, t.due, t.holder, t.created, t.updated, t.headers, t.result, t.result_size,
       CASE
         WHEN t.state = 1 /* PROCESSING */
         THEN COALESCE(
                (SELECT l.lease_until FROM dbq_lease l WHERE l.id = t.id AND l.fence = t.fence),
                t.lease_until)
       END AS lease_until,
       CASE
         WHEN t.state = 1 /* PROCESSING */
         THEN COALESCE((SELECT l.progress FROM dbq_lease l
                         WHERE l.id = t.id AND l.fence = t.fence), t.progress)
         ELSE t.progress
       END AS progress,
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
       t.cancelled, t.fence, t.due, t.holder, t.created, t.updated, t.headers, t.result, t.result_size,
       CASE
         WHEN t.state = 1 /* PROCESSING */
         THEN COALESCE(
                (SELECT l.lease_until FROM dbq_lease l WHERE l.id = t.id AND l.fence = t.fence),
                t.lease_until)
       END AS lease_until,
       CASE
         WHEN t.state = 1 /* PROCESSING */
         THEN COALESCE((SELECT l.progress FROM dbq_lease l
                         WHERE l.id = t.id AND l.fence = t.fence), t.progress)
         ELSE t.progress
       END AS progress,
       {now} AS now
  FROM dbq_task t
 WHERE {where}
 ORDER BY t.id{order}
 FETCH FIRST :limit ROWS ONLY;

-- ==== FindIDs ====
-- Finds the tasks that an operator's bulk call changes, or retention removes. Index: as for List.
SELECT t.id
  FROM dbq_task t
 WHERE {where}
 ORDER BY t.id
 FETCH FIRST :limit ROWS ONLY;

-- ==== ListSome ====
-- Lists tasks of a queue by one of Indexes, for the page of a queue's keys.
SELECT t.id, t.queue, t.reference, t.kind, t.task_key, t.state, t.priority, t.attempt, t.max_attempts, t.lapses,
       t.cancelled, t.fence, t.due, t.holder, t.created, t.updated, t.headers, t.result, t.result_size,
       CASE
         WHEN t.state = 1 /* PROCESSING */
         THEN COALESCE(
                (SELECT l.lease_until FROM dbq_lease l WHERE l.id = t.id AND l.fence = t.fence),
                t.lease_until)
       END AS lease_until,
       CASE
         WHEN t.state = 1 /* PROCESSING */
         THEN COALESCE((SELECT l.progress FROM dbq_lease l
                         WHERE l.id = t.id AND l.fence = t.fence), t.progress)
         ELSE t.progress
       END AS progress,
       {now} AS now
  FROM dbq_task t{hint}
 WHERE {where}{order}
 FETCH FIRST :limit ROWS ONLY;

-- ==== SomeIDs ====
-- Finds the ids of a queue's tasks by one of Indexes, for a page of a list; not more than it can sort.
SELECT id
  FROM dbq_task t{hint}
 WHERE {where}{order}
 FETCH FIRST :limit ROWS ONLY;

-- ==== MatchSome ====
-- Counts the tasks that a filter selects among some of a queue, by one of Indexes, before a bulk action.
SELECT count(*) AS looked, count(CASE WHEN {matches} THEN 1 END) AS matching
  FROM (
    SELECT id, queue, kind, task_key, state, due, cancelled, updated, holder
      FROM dbq_task t{hint}
     WHERE {where}{order}
    FETCH FIRST :limit ROWS ONLY) t;

-- ==== Next ====
-- Reports when the next task of a queue is due. Idle workers sleep until then.
-- Runs when a worker is idle. Indexes: task_ready, once for each priority, and task_busy.
SELECT MIN(due) AS due, {now} AS now
  FROM (
    SELECT MIN(due) AS due FROM dbq_task WHERE ready_queue = :queue AND ready_priority = 0
    UNION ALL SELECT MIN(due) AS due FROM dbq_task WHERE ready_queue = :queue AND ready_priority = 1
    -- and so on for the priorities 2 to 8
    UNION ALL SELECT MIN(due) AS due FROM dbq_task WHERE ready_queue = :queue AND ready_priority = 9
    UNION ALL
    SELECT MIN(COALESCE(
                 (SELECT l.lease_until FROM dbq_lease l WHERE l.id = t.id AND l.fence = t.fence),
                 t.lease_until)) AS due
      FROM dbq_task t
     WHERE t.busy_queue = :queue)
 WHERE NOT EXISTS (SELECT 1 FROM dbq_kv n WHERE n.namespace = 'pause' AND n.name = :queue);

-- ==== Count ====
-- Counts all tasks of each queue by state, for exact statistics.
-- Runs if exact statistics are requested. Index: none; it scans the table.
SELECT queue, state, COUNT(*) AS tasks, COUNT(*) - COUNT(due) AS parked,
       COUNT(CASE WHEN due <= {now} THEN 1 END) AS due,
       {now} - MIN(CASE WHEN due <= {now} THEN due END) AS oldest,
       COUNT(CASE WHEN cancelled = 1 THEN 1 END) AS cancelled
  FROM dbq_task
 GROUP BY queue, state;

-- ==== CountUpTo ====
-- Counts the tasks of a queue by state, up to a limit for each.
-- Runs for statistics and metrics, once for each queue. Indexes: task_ready and task_busy; each part stops at the
-- limit.
SELECT 0 /* CREATED */ AS state, 0 AS tasks, {now} - MIN(due) AS oldest, COUNT(*) AS due, 0 AS cut
  FROM (
    SELECT due
      FROM (
        SELECT due FROM dbq_task
         WHERE ready_queue = :queue AND ready_priority = 0 AND due <= {now}
         ORDER BY due FETCH FIRST :limit ROWS ONLY)
    UNION ALL SELECT due
      FROM (
        SELECT due FROM dbq_task
         WHERE ready_queue = :queue AND ready_priority = 1 AND due <= {now}
         ORDER BY due FETCH FIRST :limit ROWS ONLY)
    -- and so on for the priorities 2 to 8
    UNION ALL SELECT due
      FROM (
        SELECT due FROM dbq_task
         WHERE ready_queue = :queue AND ready_priority = 9 AND due <= {now}
         ORDER BY due FETCH FIRST :limit ROWS ONLY))
UNION ALL
SELECT 0 /* CREATED */, COUNT(CASE WHEN state = 0 /* CREATED */ THEN 1 END), NULL, 0,
       CASE WHEN COUNT(*) >= :limit THEN 1 ELSE 0 END
  FROM (
    SELECT state FROM dbq_task WHERE ready_queue = :queue FETCH FIRST :limit ROWS ONLY)
UNION ALL
SELECT 3 /* ERROR */, COUNT(CASE WHEN state = 3 /* ERROR */ THEN 1 END), NULL, 0,
       CASE WHEN COUNT(*) >= :limit THEN 1 ELSE 0 END
  FROM (
    SELECT state FROM dbq_task WHERE ready_queue = :queue FETCH FIRST :limit ROWS ONLY)
UNION ALL
SELECT 1 /* PROCESSING */, COUNT(*), NULL, 0,
       CASE WHEN COUNT(*) >= :limit THEN 1 ELSE 0 END
  FROM (
    SELECT state FROM dbq_task WHERE busy_queue = :queue FETCH FIRST :limit ROWS ONLY);

-- ==== CountNewest ====
-- Counts the newest tasks in the states that have no index by queue.
-- Runs for statistics and metrics, once for all queues. Index: the primary key, from its end.
SELECT queue, state, COUNT(*) AS tasks, COUNT(CASE WHEN state = 3 /* ERROR */ THEN 1 END) AS parked,
       COUNT(CASE WHEN cancelled = 1 THEN 1 END) AS cancelled,
       CASE
         WHEN (SELECT COUNT(*) FROM (SELECT id FROM dbq_task FETCH FIRST :limit ROWS ONLY)) >= :limit
         THEN 1
         ELSE 0
       END AS cut
  FROM (
    SELECT queue, state, due, cancelled FROM dbq_task
     ORDER BY id DESC FETCH FIRST :limit ROWS ONLY)
 WHERE due IS NULL
   AND state <> 1 /* PROCESSING */
 GROUP BY queue, state;

-- ==== NextQueue ====
-- Finds the next queue by name.
-- Runs for statistics, once for each queue. Indexes: task_ready and task_busy, one entry of each.
SELECT queue
  FROM (
    SELECT MIN(ready_queue) AS queue FROM dbq_task WHERE ready_queue > :queue
    UNION ALL
    SELECT MIN(busy_queue) AS queue FROM dbq_task WHERE busy_queue > :queue)
 WHERE queue IS NOT NULL
 ORDER BY queue;

-- ==== IDBehind ====
-- Finds the end of the next batch of old tasks, for retention. Index: the primary key of task.
-- Runs for each part of the old tasks that retention passes over. Index: the primary key alone.
SELECT t.id
  FROM dbq_task t
 WHERE t.id > :after
   AND t.id < :before
 ORDER BY t.id
 OFFSET :offset ROWS FETCH NEXT 1 ROWS ONLY;

-- ==== IDBefore ====
-- Finds the end of a page of a list for which there is no index. Index: the primary key of task.
-- Runs for each page of a list that no index leads to. Index: the primary key alone.
SELECT t.id
  FROM dbq_task t
 WHERE t.id < :before
 ORDER BY t.id DESC
 OFFSET :offset ROWS FETCH NEXT 1 ROWS ONLY;

-- ==== Peek ====
-- Reads the states of tasks, to determine whether a call whose connection was lost took effect.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
SELECT t.id, t.queue, t.state, t.fence, t.updated
  FROM dbq_task t
 WHERE t.id IN ({rows});

-- ==== Held ====
-- Reads the tasks leased by a checkout whose connection was lost before the answer. Index: the index of leased tasks.
-- Runs after a lost connection. Index: task_busy.
-- The progress that heartbeats have stored is in the renewal.
SELECT t.id, t.queue, t.reference, t.kind, t.task_key, t.state, t.priority, t.attempt, t.max_attempts, t.lapses,
       t.cancelled, t.fence, t.due, t.holder, t.created, t.updated, t.headers, t.result, t.result_size,
       CASE
         WHEN t.state = 1 /* PROCESSING */
         THEN COALESCE(
                (SELECT l.lease_until FROM dbq_lease l WHERE l.id = t.id AND l.fence = t.fence),
                t.lease_until)
       END AS lease_until,
       CASE
         WHEN t.state = 1 /* PROCESSING */
         THEN COALESCE((SELECT l.progress FROM dbq_lease l
                         WHERE l.id = t.id AND l.fence = t.fence), t.progress)
         ELSE t.progress
       END AS progress,
       t.payload, t.payload_size, {now} AS now
  FROM dbq_task t
 WHERE t.busy_queue = :queue
   AND t.holder = :holder;

-- ======== History, retention and archive ========

-- ==== Record ====
-- Adds attempts to the history.
-- Runs after attempts have ended. Index: the primary key of attempt finds those that exist.
-- At most 100 rows.
BEGIN
  -- for each row:
  BEGIN
    INSERT INTO dbq_attempt (task, fence, queue, attempt, outcome, taken, ended, worker, error)
    VALUES (:id, :fence, :queue, :attempt, :outcome, :taken, :ended, :worker, :error);
  EXCEPTION WHEN DUP_VAL_ON_INDEX THEN NULL;
  END;
END;
/

-- ==== RecordLast ====
-- Adds the last attempts of tasks to the history, from the tasks' rows, when another attempt follows or the task is
-- removed.
-- Runs with arrays, after a Settle of the same transaction, for attempts that others follow, and before tasks are
-- removed. Indexes: the primary keys of task and attempt.
-- At most 500 rows.
INSERT INTO dbq_attempt (task, fence, queue, attempt, outcome, taken, ended, worker, error)
SELECT t.id, t.fence, t.queue,
       CASE t.state WHEN 0 /* CREATED */ THEN t.attempt + 1
                    ELSE t.attempt END,
       CASE t.state WHEN 0 /* CREATED */ THEN 'released'
                    WHEN 2 /* COMPLETED */ THEN 'completed'
                    WHEN 3 /* ERROR */ THEN 'failed'
                    ELSE 'poisoned' END,
       t.taken, t.updated, SUBSTR(t.holder, 1, INSTR(t.holder, '#', -1) - 1),
       CASE WHEN :error_size IS NOT NULL THEN :error
            WHEN t.state IN (3 /* ERROR */, 4 /* POISON */) THEN t.result END
  FROM dbq_task t
 WHERE t.id = :id
   AND t.taken IS NOT NULL
   AND t.state <> 1 /* PROCESSING */
   AND NOT EXISTS (SELECT 1 FROM dbq_attempt a WHERE a.task = t.id AND a.fence = t.fence);

-- ==== Attempts ====
-- Reads the recorded attempts of a task. Index: the primary key.
SELECT task, fence, queue, attempt, outcome, taken, ended, worker, error
  FROM dbq_attempt
 WHERE task = :id
 ORDER BY fence
 FETCH FIRST :limit ROWS ONLY;

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
-- Runs for retention. Index: att_ended.
DELETE FROM dbq_attempt
 WHERE queue = :queue
   AND ended <= {now} - :age
   AND ROWNUM <= :limit;

-- ==== Archive ====
-- Copies finished tasks into the archive, before the same transaction removes them.
-- Runs just before the purge of the same tasks, in its transaction, which has locked them. Indexes: the primary keys
-- of task and archive.
-- The columns are those that Oracle does not compute.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
INSERT INTO dbq_archive (
  id, queue, reference, kind, task_key, state, priority, attempt, max_attempts, lapses, known_started,
  cancelled, fence, due, was_due, lease_until, taken, holder, created, updated, headers, payload_size, result_size,
  payload, result, progress, archived)
SELECT id, queue, reference, kind, task_key, state, priority, attempt, max_attempts, lapses, known_started,
       cancelled, fence, due, was_due, lease_until, taken, holder, created, updated, headers, payload_size, result_size,
       payload, result, progress, {now}
  FROM dbq_task t
 WHERE id IN ({rows})
   AND (state = 2 /* COMPLETED */ OR state = 4 /* POISON */ OR (state = 3 /* ERROR */ AND due IS NULL))
   AND NOT EXISTS (SELECT 1 FROM dbq_archive a WHERE a.id = t.id AND a.fence = t.fence);

-- ==== ListArchive ====
-- Lists tasks of the archive. Index: the primary key of archive.
SELECT t.id, t.queue, t.reference, t.kind, t.task_key, t.state, t.priority, t.attempt, t.max_attempts, t.lapses,
       t.cancelled, t.fence, t.due, t.holder, t.created, t.updated, t.headers, t.result, t.result_size,
       CASE
         WHEN t.state = 1 /* PROCESSING */
         THEN COALESCE(
                (SELECT l.lease_until FROM dbq_lease l WHERE l.id = t.id AND l.fence = t.fence),
                t.lease_until)
       END AS lease_until,
       CASE
         WHEN t.state = 1 /* PROCESSING */
         THEN COALESCE((SELECT l.progress FROM dbq_lease l
                         WHERE l.id = t.id AND l.fence = t.fence), t.progress)
         ELSE t.progress
       END AS progress,
       {now} AS now
  FROM dbq_archive t
 WHERE {where}
 ORDER BY t.id, t.fence
 FETCH FIRST :limit ROWS ONLY;

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
 FETCH FIRST :limit ROWS ONLY;

-- ==== EarliestKV ====
-- Reads the key/value records of a namespace that expire first, such as the schedules that are due next. Index:
-- kv_expires, or else the primary key.
SELECT namespace, name, version, value, updated, expires, {now} AS now
  FROM dbq_kv
 WHERE namespace = :namespace
   AND expires IS NOT NULL
 ORDER BY expires, name
 FETCH FIRST :limit ROWS ONLY;

-- ==== AddKV ====
-- Adds a key/value record if there is none. Index: the primary key.
INSERT INTO dbq_kv (namespace, name, version, value, updated, expires)
SELECT :namespace, :name, {now}, :value, {now}, {now} + :ttl
 FROM dual
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
-- Runs once a minute in each worker that was busy, and for the totals, with arrays.
-- At most 500 rows.
INSERT INTO dbq_stat (
       queue, period, since, source, enqueued, started, completed, failed, poisoned, released, created, processing,
       error, poison, due, parked, oldest_due, latency, run_time)
VALUES (:queue_name, :period, :began, :source, :enqueued, :started, :completed, :failed, :poisoned, :released, :created,
       :processing, :errors, :poison, :due, :parked, :oldest_due, :latency, :run_time);

-- ==== Statistics ====
-- Reads the statistics of all queues. Index: stat_since.
SELECT queue, period, since, source, enqueued, started, completed, failed, poisoned, released,
       created, processing, error, poison, due, parked, oldest_due, latency, run_time
  FROM dbq_stat
 WHERE period = :period
   AND since >= :from
   AND since < :until
 FETCH FIRST :limit ROWS ONLY;

-- ==== StatisticsOf ====
-- Reads the statistics of a queue. Index: the primary key.
SELECT queue, period, since, source, enqueued, started, completed, failed, poisoned, released,
       created, processing, error, poison, due, parked, oldest_due, latency, run_time
  FROM dbq_stat
 WHERE period = :period
   AND since >= :from
   AND since < :until
   AND queue IN (:queue, :samples)
 FETCH FIRST :limit ROWS ONLY;

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
-- Runs in a checkout of a queue with limits. Index: task_busy.
SELECT COUNT(*) AS tasks
  FROM dbq_task t
 WHERE t.busy_queue = :queue;

-- ==== BusyKeys ====
-- Counts the tasks of a queue in PROCESSING, by key. Index: the index of leased tasks.
-- Runs in a checkout of a queue with limits per key. Index: task_busy.
SELECT t.task_key, COUNT(*) AS tasks
  FROM dbq_task t
 WHERE t.busy_queue = :queue
 GROUP BY t.task_key;

-- ==== DueTasks ====
-- Finds the first due tasks of a queue that has limits per key.
-- Runs in a checkout of a queue with limits per key. Index: task_ready, one ordered range for each priority.
SELECT *
  FROM (
    SELECT *
      FROM (
        SELECT /*+ INDEX(t dbq_task_ready) */ t.id, t.fence, t.task_key, t.priority, t.due AS was_due, t.payload_size
          FROM dbq_task t
         WHERE t.ready_queue = :queue AND t.ready_priority = 0 AND t.due <= {now}
         ORDER BY t.due, t.ready_id
         FETCH FIRST :limit ROWS ONLY)
    UNION ALL SELECT *
      FROM (
        SELECT /*+ INDEX(t dbq_task_ready) */ t.id, t.fence, t.task_key, t.priority, t.due AS was_due, t.payload_size
          FROM dbq_task t
         WHERE t.ready_queue = :queue AND t.ready_priority = 1 AND t.due <= {now}
         ORDER BY t.due, t.ready_id
         FETCH FIRST :limit ROWS ONLY)
    -- and so on for the priorities 2 to 8
    UNION ALL SELECT *
      FROM (
        SELECT /*+ INDEX(t dbq_task_ready) */ t.id, t.fence, t.task_key, t.priority, t.due AS was_due, t.payload_size
          FROM dbq_task t
         WHERE t.ready_queue = :queue AND t.ready_priority = 9 AND t.due <= {now}
         ORDER BY t.due, t.ready_id
         FETCH FIRST :limit ROWS ONLY))
 FETCH FIRST :limit ROWS ONLY;

-- ==== DueKeys ====
-- Finds the next keys that have tasks with a due time, and of each key the task that is due first.
-- Runs in a checkout of a queue with limits per key. Index: task_key. It reads all entries of the keys that it
-- returns.
SELECT x.*, {now} AS now
  FROM (
    SELECT t.key_name
      FROM dbq_task t
     WHERE t.key_queue = :queue AND t.key_name > :after
     GROUP BY t.key_name
     ORDER BY t.key_name
     FETCH FIRST :limit ROWS ONLY) k
 CROSS APPLY (
   SELECT t.id, t.fence, t.task_key, t.priority, t.due AS was_due, t.payload_size
     FROM dbq_task t
    WHERE t.key_queue = :queue AND t.key_name = k.key_name
    ORDER BY t.key_due, t.id
    FETCH FIRST 1 ROWS ONLY) x;

-- ==== DueOfKeys ====
-- Finds the first due tasks of some keys.
-- Runs in a checkout of a queue with limits per key. Index: task_key, one ordered range for each key.
-- {rows} is a list of at most 500 of these, separated by " UNION ALL ":
--   SELECT * FROM ( SELECT t.id, t.fence, t.task_key, t.priority, t.due AS was_due, t.payload_size FROM dbq_task t
--   WHERE t.key_queue = :queue AND t.key_name = :task_key AND t.key_due <= {now} ORDER BY t.key_due, t.id FETCH FIRST
--   :limit ROWS ONLY)
SELECT *
  FROM ({rows});

-- ==== HeadsOfKeys ====
-- Finds the first tasks of some keys, in the order of their ids, that are due.
-- Runs in a checkout of a queue with an order. Index: task_order, one or two entries for each key.
-- {rows} is a list of at most 500 of these, separated by " UNION ALL ":
--   SELECT t.id, t.fence, t.task_key, t.priority, t.due AS was_due, t.payload_size FROM dbq_task t WHERE t.id = (
--   SELECT MIN(h.order_id) FROM dbq_task h WHERE h.order_queue = :queue AND h.order_key = :task_key AND
--   h.order_failed = 0) AND t.due <= {now} AND (:block = 0 OR NOT EXISTS ( SELECT 1 FROM dbq_task f WHERE
--   f.order_queue = :queue AND f.order_key = :task_key AND f.order_failed = 1 AND f.order_id < t.id))
SELECT *
  FROM ({rows});

-- ==== KeyRates ====
-- Reads how many tasks some keys have started. Index: the primary key of key_rate.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :name
SELECT task_key, full_at
  FROM dbq_key_rate
 WHERE queue = :queue
   AND task_key IN ({rows});

-- ==== SetKeyRates ====
-- Records the starts of tasks of some keys.
-- Runs in a checkout of a queue with a rate per key, under the lock of the limits. Index: the primary key.
-- At most 100 rows.
BEGIN
  -- for each row:
  BEGIN
    UPDATE dbq_key_rate SET full_at = :full_at WHERE queue = :queue AND task_key = :name;
    IF SQL%ROWCOUNT = 0 THEN
      INSERT INTO dbq_key_rate (queue, task_key, full_at) VALUES (:queue, :name, :full_at);
    END IF;
  END;
END;
/

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
-- Runs for cleaning. Index: krate_full.
DELETE FROM dbq_key_rate
 WHERE full_at <= {now} - :age
   AND ROWNUM <= :limit;

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
 FETCH FIRST :limit ROWS ONLY;

-- ==== CountAudit ====
-- Counts the entries up to a limit, for statistics. Index: the primary key.
SELECT count(*) AS tasks
  FROM (SELECT id
          FROM dbq_audit
         WHERE part = 0
         FETCH FIRST :limit ROWS ONLY) x;

-- ==== CountArchive ====
-- Counts the tasks of the archive up to a limit, for statistics. Index: the primary key of archive.
SELECT count(*) AS tasks
  FROM (SELECT id
          FROM dbq_archive
         FETCH FIRST :limit ROWS ONLY) x;

-- ==== OldAudit ====
-- Finds entries that an operator's cleaning removes. Index: the primary key.
SELECT id
  FROM dbq_audit
 WHERE part = 0
   AND happened <= :until
 ORDER BY id
 FETCH FIRST :limit ROWS ONLY;

-- ==== DropAudit ====
-- Removes entries. Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
DELETE FROM dbq_audit
 WHERE id IN ({rows});

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
-- are inserted through the view {enqueue}. dbq itself always sets these columns.
CREATE TABLE {task} (
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
    CONSTRAINT {prefix}task_state CHECK (state IN (0, 1, 2, 3, 4)),
  priority smallint NOT NULL DEFAULT 0
    CONSTRAINT {prefix}task_priority CHECK (priority BETWEEN 0 AND 9),
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

COMMENT ON TABLE {task} IS 'One row for each task. Only dbq may change it. To read tasks, use the view {tasks}.';
COMMENT ON COLUMN {task}.fence IS 'grows with each change of owner; a change under an older fence is refused';
COMMENT ON COLUMN {task}.due IS 'when it may be leased, in microseconds since 1970 in UTC; null if it may not';
COMMENT ON COLUMN {task}.was_due IS 'the due time that it had when it was leased';
COMMENT ON COLUMN {task}.lease_until IS 'the end of its lease, unless the table of leases has a renewal';
COMMENT ON COLUMN {task}.taken IS 'when its last attempt began';
COMMENT ON COLUMN {task}.updated IS 'when its state or its owner last changed';
COMMENT ON COLUMN {task}.state IS '0 CREATED, 1 PROCESSING, 2 COMPLETED, 3 ERROR, 4 POISON';
COMMENT ON COLUMN {task}.priority IS '0 (first) to 9';
COMMENT ON COLUMN {task}.attempt IS 'the number of its last attempt';
COMMENT ON COLUMN {task}.max_attempts IS 'the number of attempts after which the task goes to POISON';
COMMENT ON COLUMN {task}.lapses IS 'leases in a row that expired without counting as an attempt';
COMMENT ON COLUMN {task}.known_started IS '1 if the attempt counts when its lease expires';
COMMENT ON COLUMN {task}.cancelled IS '1 if an operator has cancelled it';
COMMENT ON COLUMN {task}.reference IS 'unique within the queue while the row exists';
COMMENT ON COLUMN {task}.task_key IS 'the key to which limits per key apply';
COMMENT ON COLUMN {task}.holder IS 'the worker that leased it last, and the token of the checkout';
COMMENT ON COLUMN {task}.headers IS 'a JSON object';
COMMENT ON COLUMN {task}.result IS 'the result of a COMPLETED task, otherwise the last error or reason';
COMMENT ON COLUMN {task}.progress IS 'the progress that earlier attempts reported';

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
CREATE TABLE {lease} (
  id uuid PRIMARY KEY,
  fence bigint NOT NULL,
  lease_until bigint NOT NULL,
  keep_until bigint NOT NULL,
  progress bytea
) WITH (fillfactor = 50, toast_tuple_target = 128,
  autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500,
  autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.05);

COMMENT ON TABLE {lease} IS 'Renewals of leases, and the progress that holders report.';
COMMENT ON COLUMN {lease}.id IS 'the task';
COMMENT ON COLUMN {lease}.lease_until IS 'the end of the renewed lease';
COMMENT ON COLUMN {lease}.keep_until IS 'when cleaning may remove the row';

-- The keys of unique tasks. A key belongs to a queue and a scope: the states in which its task excludes others, or a
-- period. task is the last task that was enqueued with it. Nothing changes the row when that task ends: whether the
-- key is free follows from the task's state. id is a hash of queue, scope and name, so that the key is narrow. From
-- expires on, cleaning checks whether the row can be removed.
CREATE TABLE {unique_key} (
  id uuid PRIMARY KEY,
  task uuid NOT NULL,
  expires bigint NOT NULL,
  queue varchar(100) COLLATE "C" NOT NULL,
  scope varchar(60) COLLATE "C" NOT NULL,
  name varchar(200) COLLATE "C" NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0,
  autovacuum_analyze_scale_factor = 0.05);

COMMENT ON TABLE {unique_key} IS 'The keys of unique tasks.';
COMMENT ON COLUMN {unique_key}.id IS 'a hash of queue, scope and name';
COMMENT ON COLUMN {unique_key}.task IS 'the last task that was enqueued with the key';
COMMENT ON COLUMN {unique_key}.expires IS 'when cleaning checks whether the row can be removed';
COMMENT ON COLUMN {unique_key}.scope IS 'the states or the period in which the task excludes others';

CREATE INDEX {prefix}unique_key_expires ON {unique_key} (expires);

-- A reference is unique within its queue.
CREATE UNIQUE INDEX {prefix}task_reference ON {task} (reference, queue) WHERE reference IS NOT NULL;

-- For checkouts: one ordered search for each priority.
CREATE INDEX {prefix}task_ready ON {task} (queue, priority, due, id) WHERE due IS NOT NULL;

-- For searches for expired leases: the leased tasks, in the order in which they were taken.
CREATE INDEX {prefix}task_busy ON {task} (queue, updated) WHERE state = 1 /* PROCESSING */;

-- For queues with limits per key: the due tasks of each key. Tasks without a key are not in it.
CREATE INDEX {prefix}task_key ON {task} (queue, task_key, due, id) WHERE due IS NOT NULL AND task_key IS NOT NULL;

-- For queues with an order: the waiting tasks of each key by id, and its tasks that wait for an operator. The
-- expression keeps the planner from reading the primary key in order instead.
CREATE INDEX {prefix}task_order ON {task} (queue, task_key, (CASE WHEN due IS NOT NULL THEN id END))
 WHERE due IS NOT NULL AND task_key IS NOT NULL;
CREATE INDEX {prefix}task_key_failed ON {task} (queue, task_key, id)
 WHERE due IS NULL AND task_key IS NOT NULL AND cancelled = 0 AND state IN (3 /* ERROR */, 4 /* POISON */);

-- For operators: the tasks in ERROR and POISON.
CREATE INDEX {prefix}task_failed ON {task} (queue, state, id) INCLUDE (cancelled)
 WHERE state IN (3 /* ERROR */, 4 /* POISON */);

-- The tasks as a person reads them, with the names of states and with times as timestamps. result is text if it is
-- valid UTF-8, and escaped otherwise. The pattern matches UTF-8 without NUL, which text cannot contain. progress is
-- escaped: a byte outside of ASCII is shown as \ooo.
CREATE VIEW {tasks} AS
SELECT id, queue, reference, kind, task_key,
  CASE state WHEN 0 THEN 'CREATED' WHEN 1 THEN 'PROCESSING' WHEN 2 THEN 'COMPLETED' WHEN 3 THEN 'ERROR'
    WHEN 4 THEN 'POISON' END AS state,
  cancelled, priority, attempt, max_attempts, lapses, fence, to_timestamp(due / 1e6) AS due,
  to_timestamp(CASE WHEN state = 1 THEN
    coalesce((SELECT l.lease_until FROM {lease} l WHERE l.id = t.id AND l.fence = t.fence), t.lease_until)
    END / 1e6) AS lease_until, holder, to_timestamp(taken / 1e6) AS taken,
  to_timestamp(created / 1e6) AS created, to_timestamp(updated / 1e6) AS updated,
  headers, octet_length(payload) AS payload_bytes, CASE
    WHEN encode(result, 'hex') ~ (
      '^(0[1-9a-f]|[1-7][0-9a-f]|(c[2-9a-f]|d[0-9a-f])[89ab][0-9a-f]|(e0[ab]|e[1-9abcef][89ab]|ed[89])[0-9a-f]'
      '[89ab][0-9a-f]|(f0[9ab]|f[1-3][89ab]|f48)[0-9a-f]([89ab][0-9a-f]){2})*$')
    THEN convert_from(result, 'UTF8')
    ELSE encode(result, 'escape') END AS result,
  encode(coalesce(
    (SELECT l.progress FROM {lease} l WHERE t.state = 1 AND l.id = t.id AND l.fence = t.fence), t.progress),
    'escape') AS progress
  FROM {task} t;

COMMENT ON VIEW {tasks} IS 'The tasks, with the names of states, and with times as timestamps.';

-- For programs in other languages, which enqueue by SQL: the columns that they set, and the rows that dbq accepts. A
-- user needs no privilege but INSERT on it. dbq never uses it, so that its conditions cost dbq's statements nothing.
CREATE VIEW {enqueue} AS
SELECT queue, kind, reference, payload, headers, priority, max_attempts, due, task_key
  FROM {task}
 WHERE queue <> ''
   AND (reference IS NULL OR reference <> '')
   AND (task_key IS NULL OR task_key <> '')
   AND concat(queue, kind, reference, task_key) !~ '[\u0001-\u001F\u007F-\u009F]'
   AND (payload IS NULL OR octet_length(payload) <= 104857600)
   AND (headers IS NULL OR octet_length(headers) <= 4000 AND json_typeof(CAST(headers AS json)) = 'object')
   AND max_attempts > 0
   AND due BETWEEN 0 AND 253402300799999999
  WITH LOCAL CHECK OPTION;

COMMENT ON VIEW {enqueue} IS 'Programs in other languages enqueue tasks by inserting here.';

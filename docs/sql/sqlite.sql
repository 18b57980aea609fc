-- Every statement that dbq runs on its tables, for review by a DBA. docs/scaling.md describes
-- the settings of its sessions. This page omits COMMIT, ROLLBACK, savepoints, LISTEN, and queries of the server's
-- version and settings.
-- Generated from the dialect by "go generate ./..."; do not edit.

-- ======== Conventions ========

-- A :name stands for a value, which is sent apart from the text and never written into it. Rows come as a list of
-- values. Times are microseconds since 1970 in UTC. States are 0 CREATED, 1 PROCESSING, 2 COMPLETED, 3 ERROR, 4
-- POISON. Tables begin with "dbq_" unless a program says otherwise.
--
-- {now} stands for the database's clock:
--   CAST(unixepoch('subsec') * 1000000 AS INTEGER)
--
-- In take, take given, take over: The holder's name is padded with spaces to 48 bytes, so that the row keeps its
-- size. With the seven bytes that a completion adds, it stays below 58, from where on SQLite stores a text's length
-- in two bytes.
--
-- In take over, Start, Extend, Settle: A plus before a column keeps SQLite from searching by it: otherwise SQLite
-- reads all tasks in PROCESSING, or all tasks, and looks up each one in the list.
--
-- In complete one, complete uniform, remove one, remove uniform, lock uniform: A plus before a column keeps SQLite
-- from searching by it.

-- ======== The schema ========

-- You can paste this section into the engine's client, to create the tables by hand. "dbq migrate" runs it.

-- dbq's tables for sqlite

-- 0: migration

-- The table of applied migrations. dbq runs this file before every migration, so its statements can be repeated. The
-- default is for a SQLite before 3.42 that runs these statements: it has no unixepoch('subsec'), which is null then.
CREATE TABLE IF NOT EXISTS dbq_migration (
  version INTEGER PRIMARY KEY,
  title TEXT NOT NULL,
  compatible INTEGER NOT NULL,
  applied INTEGER NOT NULL ON CONFLICT REPLACE DEFAULT (CAST(strftime('%s', 'now') AS INTEGER) * 1000000)) STRICT;

-- 1: tasks

-- One row for each task. Times are microseconds since 1970 in UTC, by the database's clock. fence grows with every
-- change of owner: a statement under an outdated fence changes nothing.
--
-- The row id is SQLite's own: rows lie in the order of their insertion, and an index entry carries 8 bytes instead of
-- 16.
--
-- A row keeps its size when its task is taken and completed, so that it is written in place, without a payload that
-- has pages of its own. taken_by is padded with spaces to the length of a usual holder. lease_until is set where due
-- becomes null, and the padding grows where lease_until becomes null again. taken_at has its full width from the
-- start. The virtual columns holder and taken show null and the name instead.
--
-- A task that may become due has a due time; every other row has none. So one partial index (task_ready) serves
-- checkout in all states.
CREATE TABLE dbq_task (
  id BLOB NOT NULL CONSTRAINT dbq_task_id_length CHECK (length(id) = 16),
  queue TEXT NOT NULL,
  reference TEXT,
  kind TEXT NOT NULL,
  task_key TEXT,
  state INTEGER NOT NULL
    CONSTRAINT dbq_task_state CHECK (state = 0 OR state = 1 OR state = 2 OR state = 3 OR state = 4),
  priority INTEGER NOT NULL
    CONSTRAINT dbq_task_priority CHECK (priority BETWEEN 0 AND 9),
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
  progress BLOB) STRICT;

CREATE UNIQUE INDEX dbq_task_id ON dbq_task (id);

-- A reference is unique within its queue.
CREATE UNIQUE INDEX dbq_task_reference ON dbq_task (reference, queue) WHERE reference IS NOT NULL;

-- For checkouts: one ordered search for each priority.
CREATE INDEX dbq_task_ready ON dbq_task (queue, priority, due, id) WHERE due IS NOT NULL;

-- For searches for expired leases: the leased tasks.
CREATE INDEX dbq_task_busy ON dbq_task (queue) WHERE state = 1 /* PROCESSING */;

-- For queues with limits per key: the due tasks of each key. Tasks without a key are not in it.
CREATE INDEX dbq_task_key ON dbq_task (queue, task_key, due, id) WHERE due IS NOT NULL AND task_key IS NOT NULL;

-- For queues with an order: the waiting tasks of each key by id, and its tasks that wait for an operator.
CREATE INDEX dbq_task_order ON dbq_task (queue, task_key, id) WHERE due IS NOT NULL AND task_key IS NOT NULL;

CREATE INDEX dbq_task_key_failed ON dbq_task (queue, task_key, id)
 WHERE due IS NULL AND task_key IS NOT NULL AND cancelled = 0 AND (state = 3 /* ERROR */ OR state = 4 /* POISON */);

-- For operators: the tasks in ERROR and POISON. SQLite uses a partial index only if a query has one of these
-- equalities, or both in this form.
CREATE INDEX dbq_task_failed ON dbq_task (queue, state, id, cancelled)
 WHERE state = 3 /* ERROR */ OR state = 4 /* POISON */;

-- The keys of unique tasks. A key belongs to a queue and a scope: the states in which its task excludes others, or a
-- period. task is the last task that was enqueued with it. Nothing changes the row when that task ends: whether the
-- key is free follows from the task's state. id is a hash of queue, scope and name, so that the key is narrow. From
-- expires on, cleaning checks whether the row can be removed.
CREATE TABLE dbq_unique_key (
  id BLOB NOT NULL PRIMARY KEY,
  task BLOB NOT NULL,
  expires INTEGER NOT NULL,
  queue TEXT NOT NULL,
  scope TEXT NOT NULL,
  name TEXT NOT NULL) STRICT, WITHOUT ROWID;

CREATE INDEX dbq_unique_key_expires ON dbq_unique_key (expires);

-- The tasks as a person reads them, with the names of states and with times as timestamps.
CREATE VIEW dbq_tasks AS
SELECT lower(hex(id)) AS id, queue, reference, kind, task_key,
  CASE state WHEN 0 THEN 'CREATED' WHEN 1 THEN 'PROCESSING' WHEN 2 THEN 'COMPLETED' WHEN 3 THEN 'ERROR'
    WHEN 4 THEN 'POISON' END AS state,
  cancelled, priority, attempt, max_attempts, lapses, fence,
  strftime('%Y-%m-%d %H:%M:%f', due / 1e6, 'unixepoch') AS due,
  strftime('%Y-%m-%d %H:%M:%f', lease_until / 1e6, 'unixepoch') AS lease_until, holder,
  strftime('%Y-%m-%d %H:%M:%f', taken / 1e6, 'unixepoch') AS taken,
  strftime('%Y-%m-%d %H:%M:%f', created / 1e6, 'unixepoch') AS created,
  strftime('%Y-%m-%d %H:%M:%f', updated / 1e6, 'unixepoch') AS updated,
  headers, length(payload) AS payload_bytes, CAST(result AS TEXT) AS result,
  CAST(progress AS TEXT) AS progress
  FROM dbq_task;

-- For programs in other languages, which enqueue by SQL: the columns that they set.
CREATE VIEW dbq_enqueue AS
SELECT queue, kind, reference, payload, headers, priority, max_attempts, due, task_key
  FROM dbq_task;

-- An insert into the view checks the row and adds it, unless its reference is taken. dbq never uses it, so that it
-- costs dbq's statements nothing. The id is a UUID of version 7. Its time is put together from single bytes: other
-- programs may bring a SQLite before 3.41, which has no unhex, or before 3.42, which has no unixepoch('subsec').
CREATE TRIGGER dbq_enqueue_insert INSTEAD OF INSERT ON dbq_enqueue BEGIN
  SELECT CASE
    WHEN coalesce(length(NEW.queue), 0) NOT BETWEEN 1 AND 100
    THEN RAISE(ABORT, 'dbq: the queue must have 1 to 100 characters')
    WHEN coalesce(length(NEW.kind), 101) > 100
    THEN RAISE(ABORT, 'dbq: the kind must have at most 100 characters')
    WHEN length(NEW.reference) NOT BETWEEN 1 AND 200
    THEN RAISE(ABORT, 'dbq: the reference must be null or have 1 to 200 characters')
    WHEN length(NEW.task_key) NOT BETWEEN 1 AND 200
    THEN RAISE(ABORT, 'dbq: the key must be null or have 1 to 200 characters')
    WHEN NEW.queue || NEW.kind || coalesce(NEW.reference, '') || coalesce(NEW.task_key, '')
         GLOB '*[' || char(1) || '-' || char(31) || char(127) || '-' || char(159) || ']*'
      OR instr(NEW.queue || NEW.kind || coalesce(NEW.reference, '') || coalesce(NEW.task_key, ''), char(0)) > 0
    THEN RAISE(ABORT, 'dbq: the queue, kind, reference or key has a control character')
    WHEN length(CAST(NEW.payload AS BLOB)) > 104857600
    THEN RAISE(ABORT, 'dbq: the payload must have at most 100 MiB')
    WHEN length(CAST(NEW.headers AS BLOB)) > 4000
    THEN RAISE(ABORT, 'dbq: the headers must have at most 4000 bytes')
    WHEN json_type(NEW.headers) <> 'object'
    THEN RAISE(ABORT, 'dbq: the headers must be a JSON object')
    WHEN CAST(NEW.max_attempts AS INTEGER) NOT BETWEEN 1 AND 32767
    THEN RAISE(ABORT, 'dbq: max_attempts must be 1 to 32767')
    WHEN CAST(NEW.due AS INTEGER) NOT BETWEEN 0 AND 253402300799999999
    THEN RAISE(ABORT, 'dbq: due must be in microseconds since 1970')
  END;
  INSERT INTO dbq_task (
    id, queue, reference, kind, state, priority, max_attempts, due, created, updated, headers, payload,
    task_key)
  SELECT CAST(
           substr(hex.bytes, 1 + (clock.ms >> 40 & 255), 1)
             || substr(hex.bytes, 1 + (clock.ms >> 32 & 255), 1)
             || substr(hex.bytes, 1 + (clock.ms >> 24 & 255), 1)
             || substr(hex.bytes, 1 + (clock.ms >> 16 & 255), 1)
             || substr(hex.bytes, 1 + (clock.ms >> 8 & 255), 1)
             || substr(hex.bytes, 1 + (clock.ms & 255), 1)
             || x'70' || randomblob(1) || x'80' || randomblob(7) AS BLOB),
         NEW.queue, NEW.reference, NEW.kind, 0, coalesce(NEW.priority, 0), coalesce(NEW.max_attempts, 20),
         coalesce(NEW.due, clock.ms * 1000), clock.ms * 1000, clock.ms * 1000, NEW.headers, CAST(NEW.payload AS BLOB),
         NEW.task_key
    FROM (SELECT CAST(strftime('%s', 'now') || substr(strftime('%f', 'now'), 4) AS INTEGER) AS ms) AS clock,
         (SELECT CAST(
          x'000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f'
            || x'202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f'
            || x'404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f'
            || x'606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f'
            || x'808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f'
            || x'a0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebf'
            || x'c0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedf'
            || x'e0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff'
            AS BLOB) AS bytes) AS hex
   WHERE true
  ON CONFLICT DO NOTHING;
END;

INSERT INTO dbq_migration (version, title, compatible, applied)
SELECT 1, 'tasks', 1, CAST(unixepoch('subsec') * 1000000 AS INTEGER)
 WHERE NOT EXISTS (SELECT 1 FROM dbq_migration WHERE version = 1);

-- 2: shared tables

-- Key/value records shared by all clients: pauses and settings of queues, the registry of workers, leaders,
-- schedules. Each write checks version. expires is when a record becomes invalid or, for a schedule, its next time.
CREATE TABLE dbq_kv (
  namespace TEXT NOT NULL,
  name TEXT NOT NULL,
  version INTEGER NOT NULL,
  value TEXT NOT NULL,
  updated INTEGER NOT NULL,
  expires INTEGER,
  PRIMARY KEY (namespace, name)) STRICT, WITHOUT ROWID;

CREATE INDEX dbq_kv_expires ON dbq_kv (namespace, expires, name) WHERE expires IS NOT NULL;

-- The rates per key of queues with limits. A row is a key that has started tasks; full_at is when all of its starts are
-- free again, in microseconds since 1970 in UTC. A key without a row has all of them. Only a checkout that has locked
-- the limits of the queue writes its rows, and cleaning removes those whose time has passed.
CREATE TABLE dbq_key_rate (
  queue TEXT NOT NULL,
  task_key TEXT NOT NULL,
  full_at INTEGER NOT NULL,
  PRIMARY KEY (queue, task_key)) STRICT, WITHOUT ROWID;

CREATE INDEX dbq_key_rate_full ON dbq_key_rate (full_at);

-- The history of attempts. The last attempt of a task is in the task's row. This table has the earlier ones, and the
-- last one of a task that was removed.
CREATE TABLE dbq_attempt (
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

CREATE INDEX dbq_attempt_ended ON dbq_attempt (queue, ended);

-- All attempts that have ended, including the last one of each task, which is in the task's row.
CREATE VIEW dbq_attempts AS
SELECT lower(hex(task)) AS task, attempt, outcome,
  strftime('%Y-%m-%d %H:%M:%f', taken / 1e6, 'unixepoch') AS taken,
  strftime('%Y-%m-%d %H:%M:%f', ended / 1e6, 'unixepoch') AS ended,
  worker, queue, fence, CAST(error AS TEXT) AS error
  FROM dbq_attempt
UNION ALL SELECT lower(hex(id)), attempt, CASE state WHEN 2 THEN 'completed' WHEN 3 THEN 'failed' ELSE 'poisoned' END,
  strftime('%Y-%m-%d %H:%M:%f', taken / 1e6, 'unixepoch'), strftime('%Y-%m-%d %H:%M:%f', updated / 1e6, 'unixepoch'),
  substr(rtrim(holder, replace(holder, '#', '')), 1, length(rtrim(holder, replace(holder, '#', ''))) - 1), queue, fence,
  CASE WHEN state <> 2 THEN CAST(result AS TEXT) END
  FROM dbq_task AS t
 WHERE taken IS NOT NULL AND state IN (2, 3, 4)
   AND NOT EXISTS (SELECT 1 FROM dbq_attempt AS a WHERE a.task = t.id AND a.fence = t.fence);

-- Tasks that retention has moved out of the table of tasks. dbq never removes a row from it. An id can be used again
-- after its task was archived; the fences of its tasks differ.
CREATE TABLE dbq_archive (
  id BLOB NOT NULL CONSTRAINT dbq_archive_id_length CHECK (length(id) = 16),
  queue TEXT NOT NULL,
  reference TEXT,
  kind TEXT NOT NULL,
  task_key TEXT,
  state INTEGER NOT NULL
    CONSTRAINT dbq_archive_state CHECK (state = 0 OR state = 1 OR state = 2 OR state = 3 OR state = 4),
  priority INTEGER NOT NULL
    CONSTRAINT dbq_archive_priority CHECK (priority BETWEEN 0 AND 9),
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

CREATE UNIQUE INDEX dbq_archive_id ON dbq_archive (id, fence);

-- The tasks of the archive as a person reads them, with the names of states and with times as timestamps.
CREATE VIEW dbq_archived AS
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
  FROM dbq_archive;

-- The tasks of workflows. A task of a workflow has an id of version 8; a plain task has no row here. A workflow has no
-- row of its own: it is the tasks with its id.
-- needs counts the tasks that it still waits for, and dependents those that need it. run_at is its earliest start, and
-- delay the pause after the last task that it needs, in microseconds.
CREATE TABLE dbq_step (
  task BLOB NOT NULL PRIMARY KEY,
  workflow BLOB NOT NULL,
  name TEXT NOT NULL,
  queue TEXT NOT NULL,
  needs INTEGER NOT NULL
    CONSTRAINT dbq_step_needs CHECK (needs >= 0),
  dependents INTEGER NOT NULL,
  run_at INTEGER,
  delay INTEGER NOT NULL) STRICT, WITHOUT ROWID;

CREATE INDEX dbq_step_workflow ON dbq_step (workflow, task);

-- The task child needs the task parent of the same workflow. on_failure determines the fate of the child when the
-- parent goes to POISON: 0 cancels it, 1 lets it wait, 2 lets it run. met is 1 once the child no longer waits for the
-- parent.
CREATE TABLE dbq_need (
  parent BLOB NOT NULL,
  child BLOB NOT NULL,
  on_failure INTEGER NOT NULL
    CONSTRAINT dbq_need_on_failure CHECK (on_failure IN (0, 1, 2)),
  met INTEGER NOT NULL
    CONSTRAINT dbq_need_met CHECK (met IN (0, 1)),
  PRIMARY KEY (parent, child)) STRICT, WITHOUT ROWID;

CREATE INDEX dbq_need_child ON dbq_need (child, parent);

-- What operators have changed, and who it was. The row of a change is written in the transaction of the change. A call
-- of several transactions has a row for each, its parts; the parts after part 0 have only their own changes. dbq never
-- updates a row.
CREATE TABLE dbq_audit (
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
CREATE INDEX dbq_audit_task ON dbq_audit (task, id) WHERE task IS NOT NULL;

INSERT INTO dbq_migration (version, title, compatible, applied)
SELECT 2, 'shared tables', 2, CAST(unixepoch('subsec') * 1000000 AS INTEGER)
 WHERE NOT EXISTS (SELECT 1 FROM dbq_migration WHERE version = 2);

-- 3: statistics

-- Statistics over time, one row for each queue, period and source. period is its length in seconds, or 0 for the minute
-- of one source: a worker, or the sampler of all queues, which also adds a row for each sample. Rows with a longer
-- period are the totals of all sources. since is when the period began, in microseconds since 1970 in UTC. The columns
-- from enqueued to released are sums; those from created to oldest_due are the highest number of tasks that was
-- sampled. latency and run_time are histograms.
CREATE TABLE dbq_stat (
  queue TEXT NOT NULL,
  period INTEGER NOT NULL,
  since INTEGER NOT NULL,
  source TEXT NOT NULL,
  enqueued INTEGER NOT NULL,
  started INTEGER NOT NULL,
  completed INTEGER NOT NULL,
  failed INTEGER NOT NULL,
  poisoned INTEGER NOT NULL,
  released INTEGER NOT NULL,
  created INTEGER NOT NULL,
  processing INTEGER NOT NULL,
  error INTEGER NOT NULL,
  poison INTEGER NOT NULL,
  due INTEGER NOT NULL,
  parked INTEGER NOT NULL,
  oldest_due INTEGER NOT NULL,
  latency TEXT NOT NULL,
  run_time TEXT NOT NULL,
  PRIMARY KEY (period, queue, since, source)) STRICT, WITHOUT ROWID;

CREATE INDEX dbq_stat_since ON dbq_stat (period, since);

INSERT INTO dbq_migration (version, title, compatible, applied)
SELECT 3, 'statistics', 3, CAST(unixepoch('subsec') * 1000000 AS INTEGER)
 WHERE NOT EXISTS (SELECT 1 FROM dbq_migration WHERE version = 3);

-- ======== Sessions and migrations ========

-- ==== Begin ====
-- Begins a write transaction.
BEGIN IMMEDIATE;

-- ==== Now ====
-- An expression, not a statement: the database's clock in microseconds since 1970.
CAST(unixepoch('subsec') * 1000000 AS INTEGER);

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
DROP TABLE IF EXISTS dbq_task;
DROP TABLE IF EXISTS dbq_migration;

-- ======== Enqueueing ========

-- ==== Insert ====
-- Adds tasks. A task whose id, or whose reference and queue, exists is skipped without an error.
-- Runs for each part of a bulk enqueue. Indexes: task_id and task_reference find duplicates.
-- SQLite's clock has milliseconds, within which a task may be removed and added again. So the fence of a reused id
-- starts at the caller's clock if that is later: it is the same machine's clock, and finer.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   (:id, :reference, :kind, :priority, :max_attempts, :at, :delay, :headers, :payload, :reused, :task_key)
INSERT INTO dbq_task (
  id, queue, reference, kind, state, priority, max_attempts, due, created, updated, headers, payload, fence, task_key)
SELECT d.column1, :queue, d.column2, d.column3, 0 /* CREATED */, d.column4, d.column5,
       coalesce(d.column6, {now} + d.column7), {now}, {now}, d.column8, d.column9, d.column10 * max({now}, :clock),
       d.column11
  FROM (VALUES {rows}) AS d
 WHERE true
ON CONFLICT DO NOTHING
RETURNING id;

-- ==== insert one ====
-- Insert for a single row.
-- Runs for an enqueue of a single task. Indexes: task_id and task_reference find duplicates.
-- SQLite's clock has milliseconds, within which a task may be removed and added again. So the fence of a reused id
-- starts at the caller's clock if that is later: it is the same machine's clock, and finer.
-- One row at a time.
INSERT INTO dbq_task (
  id, queue, reference, kind, state, priority, max_attempts, due, created, updated, headers, payload, fence, task_key)
VALUES (
  :id, :queue, :reference, :kind, 0 /* CREATED */, :priority, :max_attempts,
  coalesce(:at, {now} + :delay), {now}, {now}, :headers, :payload, :reused * max({now}, :clock), :task_key)
ON CONFLICT DO NOTHING;

-- ==== insert one new ====
-- Insert for a single row without a reference, whose id is new.
-- Runs for an enqueue of a single task without a reference and a key. Indexes: none is searched.
-- One row at a time.
INSERT INTO dbq_task (
  id, queue, reference, kind, state, priority, max_attempts, due, created, updated, headers, payload)
VALUES (
  :id, :queue, NULL, :kind, 0 /* CREATED */, :priority, :max_attempts,
  coalesce(:at, {now} + :delay), {now}, {now}, :headers, :payload);

-- ==== insert uniform ====
-- Insert for rows without a reference, whose ids are new, that differ only in ids and payloads.
-- Runs for a bulk enqueue of tasks that are alike, whose common values are bound once. Indexes: none is searched.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   (:id, :payload)
INSERT INTO dbq_task (
  id, queue, reference, kind, state, priority, max_attempts, due, created, updated, headers, payload)
SELECT d.column1, :queue, NULL, :kind, 0 /* CREATED */, :priority, :max_attempts,
       coalesce(:at, {now} + :delay), {now}, {now}, :headers, d.column2
  FROM (VALUES {rows}) AS d;

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
-- Runs after FindKeys. There is no other writer, so it need not lock. Index: task_id.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   (:id)
SELECT t.id, t.queue, t.state, t.due, t.created
  FROM (VALUES {rows}) AS d
  JOIN dbq_task AS t ON t.id = +d.column1
 WHERE +t.due IS NOT NULL
    OR +t.state = 1 /* PROCESSING */ AND :running = 1
 ORDER BY t.id;

-- ==== AddKeys ====
-- Adds keys that do not exist.
-- Runs after FindKeys, for keys that it has not found. Index: the primary key.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   (:id, :task, :expires, :queue, :scope, :name)
INSERT INTO dbq_unique_key (id, task, expires, queue, scope, name)
VALUES {rows}
ON CONFLICT DO NOTHING;

-- ==== LockKeys ====
-- Locks the keys. After that, no other transaction can add a task with one of them.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
SELECT id, task, expires
  FROM dbq_unique_key
 WHERE id IN ({rows})
 ORDER BY id;

-- ==== SetKeys ====
-- Assigns keys to the added tasks.
-- One row at a time.
UPDATE dbq_unique_key
   SET task = :task,
       expires = :expires
 WHERE id = :id;

-- ==== Replace ====
-- Replaces the kind, key, payload, headers, priority and due time of a waiting task. Clears its progress, and raises
-- its fence: a checkout that has chosen the task by its old key and size must not lease it.
-- Runs after LockKeys, for one task at a time. Index: task_id.
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
-- One row at a time.
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
 LIMIT :limit;

-- ==== DropKeys ====
-- Removes keys whose period has passed, or whose task has ended.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
DELETE FROM dbq_unique_key
 WHERE id IN ({rows});

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
-- Reads tasks of workflows. Indexes: the primary key of step, and task_id.
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
 ORDER BY task;

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
-- Finds, before tasks are removed, those that others still need. Indexes: the primary keys of step and need, and
-- task_id.
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
-- Reads the tasks that a task needs, with their results. Indexes: need_child, the primary key of step, and task_id.
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
-- Reads the tasks of a workflow, for operators. Indexes: step_workflow, and task_id.
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

-- ==== any ====
-- Reports whether a task is due or a lease has expired, without the writer's lock.
-- Runs at each poll, before the transaction of a checkout. Indexes: task_ready, once for each priority, and
-- task_busy.
SELECT {now} AS now
 WHERE (EXISTS (
         SELECT 1 FROM dbq_task WHERE queue = :queue AND priority = 0 AND due <= {now}
         UNION ALL SELECT 1 FROM dbq_task WHERE queue = :queue AND priority = 1 AND due <= {now}
         -- and so on for the priorities 2 to 8
         UNION ALL SELECT 1 FROM dbq_task WHERE queue = :queue AND priority = 9 AND due <= {now})
     OR EXISTS (
         SELECT 1 FROM dbq_task WHERE queue = :queue AND state = 1 /* PROCESSING */ AND lease_until <= {now}))
   AND NOT EXISTS (SELECT 1 FROM dbq_kv n WHERE n.namespace IN ('limit', 'pause') AND n.name = :queue);

-- ==== ready ====
-- Finds due tasks in order.
-- Runs in the transaction of a checkout. Index: task_ready, one ordered search for each priority, until there are
-- enough tasks. One search ordered by priority and due time would read all future tasks of the better priorities. The
-- plus before :limit keeps one plan for all limits: SQLite would prepare the statement again for each value of a bare
-- variable. The rows are returned as "take" will leave them.
SELECT t.id, t.reference, t.kind, t.task_key, t.priority, t.attempt + 1 AS attempt, t.max_attempts, t.lapses,
       t.fence + 1 AS fence, t.created, t.headers,
       CASE WHEN length(t.payload) <= :share THEN t.payload END AS payload, length(t.payload) AS payload_size,
       t.result, length(t.result) AS result_size, t.progress, t.due AS was_due, {now} AS now
  FROM (
    SELECT * FROM (
      SELECT rowid FROM dbq_task WHERE queue = :queue AND priority = 0 AND due <= {now} ORDER BY due, id LIMIT +:limit)
    UNION ALL SELECT * FROM (
      SELECT rowid FROM dbq_task WHERE queue = :queue AND priority = 1 AND due <= {now} ORDER BY due, id LIMIT +:limit)
    -- and so on for the priorities 2 to 8
    UNION ALL SELECT * FROM (
      SELECT rowid FROM dbq_task WHERE queue = :queue AND priority = 9 AND due <= {now} ORDER BY due, id LIMIT +:limit)
    LIMIT +:limit) AS d
 CROSS JOIN dbq_task AS t ON t.rowid = d.rowid;

-- ==== payloads ====
-- Reads the large payloads of the tasks that fit.
-- Runs if tasks of a checkout have payloads larger than their share of its bytes. Index: task_id.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   (:id)
SELECT t.id, t.payload
  FROM (VALUES {rows}) AS d
  JOIN dbq_task AS t ON t.id = +d.column1;

-- ==== take ====
-- Leases the tasks found.
-- Runs once for each priority of which "ready" returned tasks, in the same transaction. Index: task_ready, up to the
-- last of these tasks. No others come in between, because there is no other writer. RETURNING would copy each row
-- once more, and a list of ids would be bound and looked up. OR FAIL needs no journal for the statement alone: if it
-- fails, the whole transaction is rolled back.
UPDATE OR FAIL dbq_task
   SET state = 1 /* PROCESSING */,
       due = NULL,
       attempt = attempt + 1,
       fence = fence + 1,
       lease_until = :now + :lease,
       taken_by = printf('%-48s', :holder),
       known_started = :known_started,
       taken_at = :now,
       updated = :now
 WHERE queue = :queue
   AND priority = :priority
   AND due IS NOT NULL
   AND (due, id) <= (:was_due, :id);

-- ==== expired ====
-- Finds tasks whose lease expired.
-- Runs in the transaction of a checkout, if nothing is due, and at intervals otherwise. Index: task_busy. "take over"
-- follows.
SELECT id, fence, length(payload) AS payload_size, holder AS was_holder, updated AS was_taken,
       attempt AS was_attempt, lease_until AS was_until
  FROM dbq_task
 WHERE queue = :queue
   AND state = 1 /* PROCESSING */
   AND lease_until <= {now}
   AND holder <> :holder
 LIMIT :limit;

-- ==== given ====
-- Finds the due tasks that a checkout of a queue with limits per key has chosen.
-- Runs in a queue with limits per key, for the chosen tasks. Index: task_id. The rows are returned as "take given" will
-- leave them. coalesce keeps SQLite from reading all of task_ready.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   (:id, :fence)
SELECT t.id, t.reference, t.kind, t.task_key, t.priority, t.attempt + 1 AS attempt, t.max_attempts, t.lapses,
       t.fence + 1 AS fence, t.created, t.headers,
       CASE WHEN length(t.payload) <= :share THEN t.payload END AS payload, length(t.payload) AS payload_size,
       t.result, length(t.result) AS result_size, t.progress, t.due AS was_due, {now} AS now
  FROM (VALUES {rows}) AS d
 CROSS JOIN dbq_task AS t ON t.id = d.column1
 WHERE t.fence = d.column2
   AND coalesce(t.due, {now} + 1) <= {now};

-- ==== take given ====
-- Leases the due tasks that a checkout of a queue with limits per key has chosen.
-- Runs after "given", in the same transaction. Index: task_id. The comment of "take" on RETURNING and OR FAIL applies
-- here, too.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
UPDATE OR FAIL dbq_task
   SET state = 1 /* PROCESSING */,
       due = NULL,
       attempt = attempt + 1,
       fence = fence + 1,
       lease_until = :now + :lease,
       taken_by = printf('%-48s', :holder),
       known_started = :known_started,
       taken_at = :now,
       updated = :now
 WHERE id IN ({rows});

-- ==== take over ====
-- Leases again the tasks whose lease expired.
-- Runs for the tasks that "expired" returned, and moves those to POISON whose attempts are exhausted. Index: task_id.
-- An attempt counts if it is known to have started.
-- Otherwise its end is a lapse, and every 100th lapse in a row counts as an attempt (lapses >= 99).
-- The result of a task whose attempts are exhausted names its last holder and the checkout that found it.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   (:id, :fence)
UPDATE dbq_task
   SET state = CASE
         WHEN attempt >= max_attempts AND (known_started = 1 OR lapses >= 99) THEN 4 /* POISON */
         ELSE 1 /* PROCESSING */
       END,
       result = CASE
         WHEN attempt >= max_attempts AND (known_started = 1 OR lapses >= 99)
         THEN CAST('the lease of the last attempt expired, held by ' || holder || ', found by ' || :holder AS BLOB)
         ELSE result
       END,
       lease_until = CASE
         WHEN attempt >= max_attempts AND (known_started = 1 OR lapses >= 99) THEN NULL
         ELSE {now} + :lease
       END,
       taken_by = CASE
         WHEN attempt >= max_attempts AND (known_started = 1 OR lapses >= 99) THEN taken_by
         ELSE printf('%-48s', :holder)
       END,
       attempt = CASE
         WHEN attempt >= max_attempts AND (known_started = 1 OR lapses >= 99) THEN attempt
         ELSE attempt + CASE WHEN (known_started = 1 OR lapses >= 99) THEN 1 ELSE 0 END
       END,
       lapses = CASE WHEN known_started = 1 THEN lapses WHEN lapses >= 99 THEN 0 ELSE lapses + 1 END,
       known_started = :known_started,
       fence = fence + 1,
       taken_at = CASE
         WHEN attempt >= max_attempts AND (known_started = 1 OR lapses >= 99) THEN -1
         ELSE {now}
       END,
       updated = {now}
  FROM (VALUES {rows}) AS d
 WHERE dbq_task.id = +d.column1
   AND dbq_task.fence = +d.column2
   AND +dbq_task.state = 1 /* PROCESSING */
   AND lease_until <= {now}
RETURNING id, queue, reference, kind, task_key, state, priority, attempt, max_attempts, lapses, cancelled, fence, due,
          lease_until, holder, created, updated, headers, result, length(result) AS result_size, progress,
          payload, length(payload) AS payload_size, {now} AS now;

-- ======== Leases ========

-- ==== Start ====
-- Marks attempts as started. An attempt that is not marked does not count if its lease expires.
-- Runs before a handler, if the checkout has not marked the attempt. Index: task_id.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   (:id, :fence)
UPDATE dbq_task
   SET known_started = 1
  FROM (VALUES {rows}) AS d
 WHERE dbq_task.id = +d.column1
   AND dbq_task.fence = +d.column2
   AND +dbq_task.state = 1 /* PROCESSING */
RETURNING id, fence;

-- ==== Extend ====
-- Renews leases.
-- Runs at each heartbeat of a worker, for all of its leases. Index: task_id.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   (:id, :fence, :progress)
UPDATE dbq_task
   SET lease_until = {now} + :lease,
       progress = coalesce(d.column3, progress)
  FROM (VALUES {rows}) AS d
 WHERE dbq_task.id = +d.column1
   AND dbq_task.fence = +d.column2
   AND +dbq_task.state = 1 /* PROCESSING */
RETURNING id, fence;

-- ======== Settling ========

-- ==== Settle ====
-- Ends attempts (complete, fail, poison, release) whose fences are unchanged.
-- Runs for each batch of settlements. Index: task_id.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   (:id, :fence, :state, :at, :after, :uncount, :result)
UPDATE dbq_task
   SET state = CASE
         WHEN d.column3 = 3 /* ERROR */ AND coalesce(d.column4, d.column5) IS NOT NULL
           AND attempt >= max_attempts THEN 4 /* POISON */
         ELSE d.column3
       END,
       due = CASE
         WHEN d.column3 = 3 /* ERROR */ AND attempt >= max_attempts THEN NULL
         ELSE coalesce(d.column4, {now} + d.column5)
       END,
       attempt = attempt - d.column6,
       lease_until = NULL,
       updated = {now},
       result = CASE WHEN d.column3 = 0 /* CREATED */ THEN coalesce(d.column7, result) ELSE d.column7 END,
       progress = CASE WHEN d.column3 <> 2 /* COMPLETED */ THEN progress END
  FROM (VALUES {rows}) AS d
 WHERE dbq_task.id = +d.column1
   AND dbq_task.fence = +d.column2
   AND +dbq_task.state = 1 /* PROCESSING */
RETURNING id, fence, state;

-- ==== complete one ====
-- Settle for a single task that completes without a result.
-- Runs for a single task that completes without a result. Index: task_id.
-- The seven spaces take the room of the lease's end, so that the row keeps its size and is written in place.
-- One row at a time.
UPDATE dbq_task
   SET state = 2 /* COMPLETED */,
       due = NULL,
       lease_until = NULL,
       updated = {now},
       result = NULL,
       progress = NULL,
       taken_by = taken_by || '       '
 WHERE id = :id
   AND +fence = :fence
   AND +state = 1 /* PROCESSING */;

-- ==== complete uniform ====
-- Settle for tasks under one fence that complete without a result.
-- Runs for tasks of one checkout that complete without a result. Index: task_id. SQLite reads a list of ids in half
-- the time of a list of rows. Without RETURNING it changes each row as it finds it, not after it has found all of
-- them.
-- The seven spaces take the room of the lease's end, so that the row keeps its size and is written in place.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
UPDATE dbq_task
   SET state = 2 /* COMPLETED */,
       due = NULL,
       lease_until = NULL,
       updated = {now},
       result = NULL,
       progress = NULL,
       taken_by = taken_by || '       '
 WHERE id IN ({rows})
   AND +fence = :fence
   AND +state = 1 /* PROCESSING */;

-- ==== Remove ====
-- Ends attempts and removes the tasks (complete and delete), if their fences are unchanged.
-- Runs for tasks that are not kept. Index: task_id.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   (:id, :fence)
DELETE FROM dbq_task
 WHERE rowid IN (
   SELECT t.rowid
     FROM (VALUES {rows}) AS d
     JOIN dbq_task AS t ON t.id = +d.column1 AND t.fence = +d.column2 AND +t.state = 1 /* PROCESSING */)
RETURNING id, fence;

-- ==== remove one ====
-- Remove for a single task.
-- Runs for a single task that is not kept. Index: task_id.
-- One row at a time.
DELETE FROM dbq_task
 WHERE id = :id
   AND +fence = :fence
   AND +state = 1 /* PROCESSING */;

-- ==== remove uniform ====
-- Remove for tasks under one fence.
-- Runs for tasks of one checkout that are not kept. Index: task_id.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
DELETE FROM dbq_task
 WHERE id IN ({rows})
   AND +fence = :fence
   AND +state = 1 /* PROCESSING */;

-- ==== lock uniform ====
-- Locks and returns the rows of a statement for tasks under one fence, after it found fewer rows than requested and
-- was rolled back.
-- Runs before "complete uniform" or "remove uniform" runs again, if it found fewer tasks than it was given. Index:
-- task_id.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
SELECT id
  FROM dbq_task
 WHERE id IN ({rows})
   AND +fence = :fence
   AND +state = 1 /* PROCESSING */;

-- ======== Operators' events ========

-- ==== Movable cancel ====
-- Locks and returns the tasks that Move of the same event will change. A task that is no longer needed goes to
-- POISON, marked as cancelled. If it is running, its handler's context ends.
-- Runs first in the transaction of an operator's event. Index: task_id.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   (:id)
SELECT id, queue, task_key, state, attempt, fence, holder, taken, updated, result,
       length(result) AS result_size, {now} AS now
  FROM dbq_task
 WHERE dbq_task.rowid IN (
   SELECT t.rowid
     FROM (VALUES {rows}) AS d
     JOIN dbq_task AS t ON t.id = +d.column1)
   AND (state = 0 /* CREATED */ OR state = 1 /* PROCESSING */ OR state = 3 /* ERROR */)
 ORDER BY id;

-- ==== Movable finish ====
-- Locks and returns the tasks that Move of the same event will change. A task is completed without an attempt, with a
-- result that may be given.
-- Runs first in the transaction of an operator's event. Index: task_id.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   (:id)
SELECT id, queue, task_key, state, attempt, fence, holder, taken, updated, result,
       length(result) AS result_size, {now} AS now
  FROM dbq_task
 WHERE dbq_task.rowid IN (
   SELECT t.rowid
     FROM (VALUES {rows}) AS d
     JOIN dbq_task AS t ON t.id = +d.column1)
   AND (state = 0 /* CREATED */ OR state = 3 /* ERROR */ OR state = 4 /* POISON */)
 ORDER BY id;

-- ==== Movable purge ====
-- Locks and returns the tasks that Move of the same event will change. An ended or parked task is removed.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
SELECT id, queue, task_key, state
  FROM dbq_task
 WHERE id IN ({rows})
   AND (state = 2 /* COMPLETED */ OR state = 4 /* POISON */ OR (state = 3 /* ERROR */ AND due IS NULL))
 ORDER BY id;

-- ==== Movable quarantine ====
-- Locks and returns the tasks that Move of the same event will change. A failed task will not be retried.
-- Runs first in the transaction of an operator's event. Index: task_id.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   (:id)
SELECT id, queue, task_key, state, attempt, fence, holder, taken, updated, result,
       length(result) AS result_size, {now} AS now
  FROM dbq_task
 WHERE dbq_task.rowid IN (
   SELECT t.rowid
     FROM (VALUES {rows}) AS d
     JOIN dbq_task AS t ON t.id = +d.column1)
   AND (state = 3 /* ERROR */)
 ORDER BY id;

-- ==== Movable reenqueue ====
-- Locks and returns the tasks that Move of the same event will change. A failed task becomes due again, and its
-- attempts start over.
-- Runs first in the transaction of an operator's event. Index: task_id.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   (:id)
SELECT id, queue, task_key, state, attempt, fence, holder, taken, updated, result,
       length(result) AS result_size, {now} AS now
  FROM dbq_task
 WHERE dbq_task.rowid IN (
   SELECT t.rowid
     FROM (VALUES {rows}) AS d
     JOIN dbq_task AS t ON t.id = +d.column1)
   AND (state = 3 /* ERROR */ OR state = 4 /* POISON */)
 ORDER BY id;

-- ==== Movable reject ====
-- Locks and returns the tasks that Move of the same event will change. A task is parked before it runs.
-- Runs first in the transaction of an operator's event. Index: task_id.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   (:id)
SELECT id, queue, task_key, state, attempt, fence, holder, taken, updated, result,
       length(result) AS result_size, {now} AS now
  FROM dbq_task
 WHERE dbq_task.rowid IN (
   SELECT t.rowid
     FROM (VALUES {rows}) AS d
     JOIN dbq_task AS t ON t.id = +d.column1)
   AND (state = 0 /* CREATED */)
 ORDER BY id;

-- ==== Movable restore ====
-- Locks and returns the tasks that Move of the same event will change. A poisoned task is parked for inspection.
-- Runs first in the transaction of an operator's event. Index: task_id.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   (:id)
SELECT id, queue, task_key, state, attempt, fence, holder, taken, updated, result,
       length(result) AS result_size, {now} AS now
  FROM dbq_task
 WHERE dbq_task.rowid IN (
   SELECT t.rowid
     FROM (VALUES {rows}) AS d
     JOIN dbq_task AS t ON t.id = +d.column1)
   AND (state = 4 /* POISON */)
 ORDER BY id;

-- ==== Movable revoke ====
-- Locks and returns the tasks that Move of the same event will change. The lease is taken away, the handler's context
-- ends, and the task is parked.
-- Runs first in the transaction of an operator's event. Index: task_id.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   (:id)
SELECT id, queue, task_key, state, attempt, fence, holder, taken, updated, result,
       length(result) AS result_size, {now} AS now
  FROM dbq_task
 WHERE dbq_task.rowid IN (
   SELECT t.rowid
     FROM (VALUES {rows}) AS d
     JOIN dbq_task AS t ON t.id = +d.column1)
   AND (state = 1 /* PROCESSING */)
 ORDER BY id;

-- ==== Move cancel ====
-- Applies an operator's event. A task that is no longer needed goes to POISON, marked as cancelled. If it is running,
-- its handler's context ends.
-- Runs after Movable. Index: task_id.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   (:id)
UPDATE dbq_task
   SET fence = fence + CASE WHEN (state = 1 /* PROCESSING */) THEN 1 ELSE 0 END,
       state = 4 /* POISON */,
       due = NULL,
       cancelled = 1,
       lease_until = NULL,
       taken_at = -1,
       updated = {now}
 WHERE dbq_task.rowid IN (
   SELECT t.rowid
     FROM (VALUES {rows}) AS d
     JOIN dbq_task AS t ON t.id = +d.column1)
   AND (state = 0 /* CREATED */ OR state = 1 /* PROCESSING */ OR state = 3 /* ERROR */);

-- ==== Move finish ====
-- Applies an operator's event. A task is completed without an attempt, with a result that may be given.
-- Runs after Movable. Index: task_id.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   (:id)
UPDATE dbq_task
   SET state = 2 /* COMPLETED */,
       due = NULL,
       cancelled = 0,
       progress = NULL,
       lease_until = NULL,
       taken_at = -1,
       updated = {now}
 WHERE dbq_task.rowid IN (
   SELECT t.rowid
     FROM (VALUES {rows}) AS d
     JOIN dbq_task AS t ON t.id = +d.column1)
   AND (state = 0 /* CREATED */ OR state = 3 /* ERROR */ OR state = 4 /* POISON */);

-- ==== Move purge ====
-- Applies an operator's event. An ended or parked task is removed.
-- Runs after Archive and RecordLast, if they run. Index: task_id.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   (:id)
DELETE FROM dbq_task
 WHERE dbq_task.rowid IN (
   SELECT t.rowid
     FROM (VALUES {rows}) AS d
     JOIN dbq_task AS t ON t.id = +d.column1)
   AND (state = 2 /* COMPLETED */ OR state = 4 /* POISON */ OR (state = 3 /* ERROR */ AND due IS NULL))
RETURNING id, queue, task_key, state;

-- ==== Move quarantine ====
-- Applies an operator's event. A failed task will not be retried.
-- Runs after Movable. Index: task_id.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   (:id)
UPDATE dbq_task
   SET state = 4 /* POISON */,
       due = NULL,
       cancelled = 0,
       lease_until = NULL,
       taken_at = -1,
       updated = {now}
 WHERE dbq_task.rowid IN (
   SELECT t.rowid
     FROM (VALUES {rows}) AS d
     JOIN dbq_task AS t ON t.id = +d.column1)
   AND (state = 3 /* ERROR */);

-- ==== Move reenqueue ====
-- Applies an operator's event. A failed task becomes due again, and its attempts start over.
-- Runs after Movable. Index: task_id.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   (:id)
UPDATE dbq_task
   SET state = 0 /* CREATED */,
       due = {now},
       cancelled = 0,
       attempt = 0,
       lapses = 0,
       lease_until = NULL,
       taken_at = -1,
       updated = {now}
 WHERE dbq_task.rowid IN (
   SELECT t.rowid
     FROM (VALUES {rows}) AS d
     JOIN dbq_task AS t ON t.id = +d.column1)
   AND (state = 3 /* ERROR */ OR state = 4 /* POISON */);

-- ==== Move reject ====
-- Applies an operator's event. A task is parked before it runs.
-- Runs after Movable. Index: task_id.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   (:id)
UPDATE dbq_task
   SET state = 3 /* ERROR */,
       due = NULL,
       cancelled = 0,
       lease_until = NULL,
       taken_at = -1,
       updated = {now}
 WHERE dbq_task.rowid IN (
   SELECT t.rowid
     FROM (VALUES {rows}) AS d
     JOIN dbq_task AS t ON t.id = +d.column1)
   AND (state = 0 /* CREATED */);

-- ==== Move restore ====
-- Applies an operator's event. A poisoned task is parked for inspection.
-- Runs after Movable. Index: task_id.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   (:id)
UPDATE dbq_task
   SET state = 3 /* ERROR */,
       due = NULL,
       cancelled = 0,
       lease_until = NULL,
       taken_at = -1,
       updated = {now}
 WHERE dbq_task.rowid IN (
   SELECT t.rowid
     FROM (VALUES {rows}) AS d
     JOIN dbq_task AS t ON t.id = +d.column1)
   AND (state = 4 /* POISON */);

-- ==== Move revoke ====
-- Applies an operator's event. The lease is taken away, the handler's context ends, and the task is parked.
-- Runs after Movable. Index: task_id.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   (:id)
UPDATE dbq_task
   SET fence = fence + 1,
       state = 3 /* ERROR */,
       due = NULL,
       cancelled = 0,
       lease_until = NULL,
       taken_at = -1,
       updated = {now}
 WHERE dbq_task.rowid IN (
   SELECT t.rowid
     FROM (VALUES {rows}) AS d
     JOIN dbq_task AS t ON t.id = +d.column1)
   AND (state = 1 /* PROCESSING */);

-- ==== SetResult ====
-- Stores an operator's reason.
-- Runs after Move in the same transaction, if the operator gives a reason. Index: task_id.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   (:id, :result)
UPDATE dbq_task
   SET result = d.column2
  FROM (VALUES {rows}) AS d
 WHERE dbq_task.id = +d.column1;

-- ==== SetProgress ====
-- Stores the progress of ended attempts in the tasks' rows, for the next attempts.
-- Runs after Settle in the same transaction, for tasks whose holders have reported progress. Index: task_id.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   (:id, :progress)
UPDATE dbq_task
   SET progress = d.column2
  FROM (VALUES {rows}) AS d
 WHERE dbq_task.id = +d.column1;

-- ======== Reading and counting ========

-- ==== Get ====
-- Reads a task. Index: task_id.
SELECT id, queue, reference, kind, task_key, state, priority, attempt, max_attempts, lapses, cancelled, fence, due,
       lease_until, holder, created, updated, headers, result, length(result) AS result_size, progress,
       payload, length(payload) AS payload_size, {now} AS now
  FROM dbq_task t
 WHERE t.id = :id;

-- ==== Poisoned ====
-- Reads tasks that went to POISON, for their dead-letter notices. Index: task_id.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   :id
SELECT id, queue, reference, kind, task_key, state, priority, attempt, max_attempts, lapses, cancelled, fence, due,
       lease_until, holder, created, updated, headers, result, length(result) AS result_size, progress,
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
-- task_id, or one that fits the filter.
SELECT id, queue, reference, kind, task_key, state, priority, attempt, max_attempts, lapses, cancelled, fence, due,
       lease_until, holder, created, updated, headers, result, length(result) AS result_size, progress,
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
queue = :queue AND due IS NOT NULL ORDER BY priority, due, id;

-- ==== Indexes ERROR ====
-- Not a statement: how an index leads to the tasks of a queue in the state, as {hint}, {where} and {order}.
queue = :queue AND state = 3 /* ERROR */ ORDER BY id;

-- ==== Indexes POISON ====
-- Not a statement: how an index leads to the tasks of a queue in the state, as {hint}, {where} and {order}.
queue = :queue AND state = 4 /* POISON */ ORDER BY id;

-- ==== Indexes PROCESSING ====
-- Not a statement: how an index leads to the tasks of a queue in the state, as {hint}, {where} and {order}.
queue = :queue AND state = 1 /* PROCESSING */;

-- ==== ListSome ====
-- Lists tasks of a queue by one of Indexes, for the page of a queue's keys.
SELECT id, queue, reference, kind, task_key, state, priority, attempt, max_attempts, lapses, cancelled, fence, due,
       lease_until, holder, created, updated, headers, result, length(result) AS result_size, progress,
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
-- Runs when a worker is idle. Indexes: task_ready, once for each priority, and task_busy.
SELECT min(due) AS due, {now} AS now
  FROM (
    SELECT * FROM (
      SELECT due FROM dbq_task WHERE queue = :queue AND priority = 0 AND due IS NOT NULL ORDER BY due, id LIMIT 1)
    UNION ALL SELECT * FROM (
      SELECT due FROM dbq_task WHERE queue = :queue AND priority = 1 AND due IS NOT NULL ORDER BY due, id LIMIT 1)
    -- and so on for the priorities 2 to 8
    UNION ALL SELECT * FROM (
      SELECT due FROM dbq_task WHERE queue = :queue AND priority = 9 AND due IS NOT NULL ORDER BY due, id LIMIT 1)
    UNION ALL SELECT min(lease_until) FROM dbq_task WHERE queue = :queue AND state = 1 /* PROCESSING */)
 WHERE NOT EXISTS (SELECT 1 FROM dbq_kv n WHERE n.namespace = 'pause' AND n.name = :queue);

-- ==== Count ====
-- Counts all tasks of each queue by state, for exact statistics.
-- Runs if exact statistics are requested. Indexes: task_ready, task_busy and task_failed, each read once. The
-- COMPLETED tasks take a scan of the table.
SELECT queue, state, count(*) AS tasks, 0 AS parked, count(*) FILTER (WHERE due <= {now}) AS due,
       {now} - min(due) FILTER (WHERE due <= {now}) AS oldest, 0 AS cancelled
  FROM dbq_task
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
 WHERE (state = 3 /* ERROR */ OR state = 4 /* POISON */)
   AND due IS NULL
 GROUP BY queue, state
UNION ALL
SELECT queue, 2 /* COMPLETED */, count(*), 0, 0, NULL, 0
  FROM dbq_task
 WHERE state = 2 /* COMPLETED */
 GROUP BY queue;

-- ==== CountUpTo ====
-- Counts the tasks of a queue by state, up to a limit for each.
-- Runs for statistics and metrics, once for each queue. Indexes: task_ready, task_busy and task_failed; each part
-- stops at the limit.
SELECT 0 /* CREATED */ AS state, count(*) FILTER (WHERE state = 0 /* CREATED */) AS tasks, 0 AS parked, 0 AS due,
       NULL AS oldest, CASE WHEN count(*) >= :limit THEN 1 ELSE 0 END AS cut, 0 AS cancelled
  FROM (
    SELECT state FROM dbq_task WHERE queue = :queue AND due IS NOT NULL LIMIT +:limit)
UNION ALL
SELECT 0 /* CREATED */, 0, 0, count(*), {now} - min(due), 0, 0
  FROM (
    SELECT * FROM (
      SELECT due FROM dbq_task WHERE queue = :queue AND priority = 0 AND due <= {now} ORDER BY due, id LIMIT +:limit)
    UNION ALL SELECT * FROM (
      SELECT due FROM dbq_task WHERE queue = :queue AND priority = 1 AND due <= {now} ORDER BY due, id LIMIT +:limit)
    -- and so on for the priorities 2 to 8
    UNION ALL SELECT * FROM (
      SELECT due FROM dbq_task WHERE queue = :queue AND priority = 9 AND due <= {now} ORDER BY due, id LIMIT +:limit))
UNION ALL
SELECT 1 /* PROCESSING */, count(*), 0, 0, NULL, CASE WHEN count(*) >= :limit THEN 1 ELSE 0 END, 0
  FROM (
    SELECT 1 FROM dbq_task WHERE queue = :queue AND state = 1 /* PROCESSING */ LIMIT +:limit)
UNION ALL
SELECT 3 /* ERROR */, count(*), count(*) - count(due), 0, NULL, CASE WHEN count(*) >= :limit THEN 1 ELSE 0 END, 0
  FROM (
    SELECT due FROM dbq_task WHERE queue = :queue AND state = 3 /* ERROR */ LIMIT +:limit)
UNION ALL
SELECT 4 /* POISON */, count(*), 0, 0, NULL, CASE WHEN count(*) >= :limit THEN 1 ELSE 0 END, coalesce(sum(cancelled), 0)
  FROM (
    SELECT cancelled FROM dbq_task WHERE queue = :queue AND state = 4 /* POISON */ LIMIT +:limit);

-- ==== CountNewest ====
-- Counts the newest tasks in the states that have no index by queue.
-- Runs for statistics and metrics, once for all queues. Index: task_id, from its end, up to the limit.
SELECT x.queue, 2 /* COMPLETED */ AS state, count(*) FILTER (WHERE x.state = 2 /* COMPLETED */) AS tasks,
       CASE WHEN sum(count(*)) OVER () >= +:limit THEN 1 ELSE 0 END AS cut
  FROM (SELECT t.queue, t.state FROM dbq_task t ORDER BY t.id DESC LIMIT +:limit) AS x
 GROUP BY x.queue;

-- ==== NextQueue ====
-- Finds the next queue by name.
-- Runs for statistics, once for each queue. Indexes: task_ready, task_busy and task_failed, one search in each.
SELECT min(queue) AS queue
  FROM (
    SELECT * FROM (
      SELECT queue FROM dbq_task WHERE due IS NOT NULL AND queue > :queue ORDER BY queue LIMIT 1)
    UNION ALL
    SELECT * FROM (
      SELECT queue FROM dbq_task WHERE state = 1 /* PROCESSING */ AND queue > :queue ORDER BY queue LIMIT 1)
    UNION ALL
    SELECT * FROM (
      SELECT queue
        FROM dbq_task
       WHERE (state = 3 /* ERROR */ OR state = 4 /* POISON */)
         AND queue > :queue
       ORDER BY queue
       LIMIT 1))
HAVING min(queue) IS NOT NULL;

-- ==== IDBehind ====
-- Finds the end of the next batch of old tasks, for retention. Index: task_id.
SELECT t.id
  FROM dbq_task t
 WHERE t.id > :after
   AND t.id < :before
 ORDER BY t.id
 LIMIT 1 OFFSET :offset;

-- ==== IDBefore ====
-- Finds the end of a page of a list for which there is no index. Index: task_id.
SELECT t.id
  FROM dbq_task t
 WHERE t.id < :before
 ORDER BY t.id DESC
 LIMIT 1 OFFSET :offset;

-- ==== Peek ====
-- Reads the states of tasks, to determine whether a call whose connection was lost took effect.
-- Runs after a lost connection. Index: task_id.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   (:id)
SELECT t.id, t.queue, t.state, t.fence, t.updated
  FROM (VALUES {rows}) AS d
  JOIN dbq_task AS t ON t.id = +d.column1;

-- ==== Held ====
-- Reads the tasks leased by a checkout whose connection was lost before the answer. Index: the index of leased tasks.
SELECT id, queue, reference, kind, task_key, state, priority, attempt, max_attempts, lapses, cancelled, fence, due,
       lease_until, holder, created, updated, headers, result, length(result) AS result_size, progress,
       payload, length(payload) AS payload_size, {now} AS now
  FROM dbq_task t
 WHERE t.queue = :queue
   AND t.state = 1 /* PROCESSING */
   AND t.holder = :holder;

-- ==== Exhausted ====
-- Reads the tasks moved to POISON by a checkout whose connection was lost before the answer.
-- Runs after a lost connection. Index: task_failed.
-- The result of a task whose attempts are exhausted names its last holder and the checkout that found it.
SELECT id, queue, reference, kind, task_key, state, priority, attempt, max_attempts, lapses, cancelled, fence, due,
       lease_until, holder, created, updated, headers, result, length(result) AS result_size, progress,
       payload, length(payload) AS payload_size, {now} AS now
  FROM dbq_task
 WHERE queue = :queue
   AND state = 4 /* POISON */
   AND result = CAST('the lease of the last attempt expired, held by ' || holder || ', found by ' || :holder AS BLOB);

-- ======== History, retention and archive ========

-- ==== Record ====
-- Adds attempts to the history.
-- Runs after attempts have ended. Index: the primary key of attempt finds those that exist.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   (:id, :fence, :queue, :attempt, :outcome, :taken, :ended, :worker, :error)
INSERT INTO dbq_attempt (task, fence, queue, attempt, outcome, taken, ended, worker, error)
VALUES {rows}
ON CONFLICT DO NOTHING;

-- ==== RecordLast ====
-- Adds the last attempts of tasks to the history, from the tasks' rows, when another attempt follows or the task is
-- removed.
-- Runs after a Settle of the same transaction, for attempts that others follow, and before tasks are removed. Index:
-- task_id. rtrim removes all characters but # from the end of the holder, which leaves it up to its last #.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   (:id, :error)
INSERT INTO dbq_attempt (task, fence, queue, attempt, outcome, taken, ended, worker, error)
SELECT t.id, t.fence, t.queue, t.attempt + (t.state = 0 /* CREATED */),
       CASE t.state WHEN 0 /* CREATED */ THEN 'released'
                    WHEN 2 /* COMPLETED */ THEN 'completed'
                    WHEN 3 /* ERROR */ THEN 'failed'
                    ELSE 'poisoned' END,
       t.taken_at, t.updated,
       substr(rtrim(t.holder, replace(t.holder, '#', '')), 1,
              length(rtrim(t.holder, replace(t.holder, '#', ''))) - 1),
       coalesce(d.column2, CASE WHEN t.state IN (3 /* ERROR */, 4 /* POISON */) THEN t.result END)
  FROM (VALUES {rows}) AS d
  JOIN dbq_task AS t ON t.id = +d.column1
 WHERE t.taken_at > 0
   AND +t.state <> 1 /* PROCESSING */
ON CONFLICT DO NOTHING;

-- ==== Attempts ====
-- Reads the recorded attempts of a task. Index: the primary key.
SELECT task, fence, queue, attempt, outcome, taken, ended, worker, error
  FROM dbq_attempt
 WHERE task = :id
 ORDER BY fence
 LIMIT :limit;

-- ==== LastAttempt ====
-- Reads the last attempt of a task from its row, here or in the archive. Indexes: task_id, and archive_id.
SELECT id, queue, state, attempt, fence, holder, taken, updated, result
  FROM dbq_task WHERE id = :id
UNION ALL
SELECT id, queue, state, attempt, fence, holder, taken, updated, result
  FROM dbq_archive WHERE id = :id;

-- ==== ExpireAttempts ====
-- Removes old attempts, in batches.
-- Runs for retention. Index: attempt_ended.
DELETE FROM dbq_attempt
 WHERE rowid IN (
   SELECT rowid
     FROM dbq_attempt
    WHERE queue = :queue
      AND ended <= {now} - :age
    ORDER BY ended
    LIMIT :limit);

-- ==== Archive ====
-- Copies finished tasks into the archive, before the same transaction removes them.
-- Runs just before the purge of the same tasks, in its transaction. Index: task_id.
-- The columns are those that SQLite does not compute.
-- {rows} is a list of at most 500 of these, separated by ", ":
--   (:id)
INSERT INTO dbq_archive (
  id, queue, reference, kind, task_key, state, priority, attempt, max_attempts, lapses, known_started, cancelled,
  fence, due, lease_until, taken_by, taken_at, created, updated, headers, payload, result, progress, archived)
SELECT id, queue, reference, kind, task_key, state, priority, attempt, max_attempts, lapses, known_started, cancelled,
       fence, due, lease_until, taken_by, taken_at, created, updated, headers, payload, result, progress, {now}
  FROM (VALUES {rows}) AS d
  JOIN dbq_task AS t ON t.id = +d.column1
 WHERE (state = 2 /* COMPLETED */ OR state = 4 /* POISON */ OR (state = 3 /* ERROR */ AND due IS NULL))
ON CONFLICT DO NOTHING;

-- ==== ListArchive ====
-- Lists tasks of the archive. Index: archive_id.
SELECT id, queue, reference, kind, task_key, state, priority, attempt, max_attempts, lapses, cancelled, fence, due,
       lease_until, holder, created, updated, headers, result, length(result) AS result_size, progress,
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
-- task_id.
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
WITH RECURSIVE k (id, n) AS (
  SELECT (SELECT t.id
            FROM dbq_task t
           WHERE t.queue = :queue AND t.task_key > :after AND t.due IS NOT NULL
           ORDER BY t.task_key, t.due, t.id
           LIMIT 1), 1
   UNION ALL
  SELECT (SELECT t.id
            FROM dbq_task t
           WHERE t.queue = :queue AND t.task_key > p.task_key AND t.due IS NOT NULL
           ORDER BY t.task_key, t.due, t.id
           LIMIT 1), k.n + 1
    FROM k
   CROSS JOIN dbq_task p
   WHERE p.id = k.id AND k.n < :limit)
SELECT t.id, t.fence, t.task_key, t.priority, t.due AS was_due, length(t.payload) AS payload_size, {now} AS now
  FROM k
 CROSS JOIN dbq_task t
 WHERE t.id = k.id;

-- ==== DueOfKeys ====
-- Finds the first due tasks of some keys.
-- {rows} is a list of at most 100 of these, separated by " UNION ALL ":
--   SELECT * FROM ( SELECT t.id, t.fence, t.task_key, t.priority, t.due AS was_due, length(t.payload) AS payload_size
--   FROM dbq_task t WHERE t.queue = :queue AND t.task_key = :task_key AND t.due <= {now} ORDER BY t.due, t.id LIMIT
--   :limit) x
{rows};

-- ==== HeadsOfKeys ====
-- Finds the first tasks of some keys, in the order of their ids, that are due.
-- {rows} is a list of at most 100 of these, separated by " UNION ALL ":
--   SELECT * FROM ( SELECT t.id, t.fence, t.task_key, t.priority, t.due AS was_due, length(t.payload) AS payload_size
--   FROM dbq_task t WHERE t.queue = :queue AND t.task_key = :task_key AND t.due IS NOT NULL ORDER BY t.id LIMIT 1) x
--   WHERE x.was_due <= {now} AND (:block = 0 OR NOT EXISTS ( SELECT 1 FROM dbq_task f WHERE f.queue = :queue AND
--   f.task_key = :task_key AND f.id < x.id AND f.due IS NULL AND f.cancelled = 0 AND (f.state = 3 /* ERROR */ OR
--   f.state = 4 /* POISON */)))
{rows};

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
-- {rows} is a list of at most 500 of these, separated by ", ":
--   (:queue, :name, :full_at)
INSERT INTO dbq_key_rate (queue, task_key, full_at)
VALUES {rows}
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
DELETE FROM dbq_key_rate
 WHERE (queue, task_key) IN (
   SELECT queue, task_key
     FROM dbq_key_rate
    WHERE full_at <= {now} - :age
    ORDER BY full_at
    LIMIT :limit)
   AND full_at <= {now} - :age;

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
-- Counts the tasks of the archive up to a limit, for statistics. Index: archive_id.
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

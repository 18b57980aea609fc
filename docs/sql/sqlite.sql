-- Every statement that dbq sends to this engine, for who wants to review them.
-- Generated from the dialect by "go generate ./..."; do not edit.
--
-- A :name stands for a value, which is sent apart from the text and never written into it. Rows come as a list of values.
-- Times are microseconds since 1970 in UTC. States are 0 CREATED, 1 PROCESSING, 2 COMPLETED, 3 ERROR, 4 POISON.
-- Tables begin with "dbq_" unless a program says otherwise.

-- ======== The schema ========

-- dbq's tables for sqlite

CREATE TABLE IF NOT EXISTS dbq_migration (
  version INTEGER PRIMARY KEY, title TEXT NOT NULL, compatible INTEGER NOT NULL, applied INTEGER NOT NULL) STRICT;

-- 1: tasks
CREATE TABLE dbq_task (
  id BLOB NOT NULL CHECK (length(id) = 16),
  queue TEXT NOT NULL,
  reference TEXT,
  kind TEXT NOT NULL,
  state INTEGER NOT NULL CHECK (state = 0 OR state = 1 OR state = 2 OR state = 3 OR state = 4),
  priority INTEGER NOT NULL CHECK (priority BETWEEN 0 AND 9),
  attempt INTEGER NOT NULL DEFAULT 0,
  max_attempts INTEGER NOT NULL,
  lapses INTEGER NOT NULL DEFAULT 0,
  started INTEGER NOT NULL DEFAULT 0,
  fence INTEGER NOT NULL DEFAULT 0,
  due INTEGER,
  lease_until INTEGER,
  taken_by TEXT NOT NULL DEFAULT '                                                ',
  holder TEXT AS (nullif(rtrim(taken_by), '')) VIRTUAL,
  created INTEGER NOT NULL,
  updated INTEGER NOT NULL,
  headers TEXT,
  payload BLOB,
  result BLOB) STRICT;
CREATE UNIQUE INDEX dbq_task_id ON dbq_task (id);
CREATE UNIQUE INDEX dbq_task_reference ON dbq_task (reference, queue) WHERE reference IS NOT NULL;
CREATE INDEX dbq_task_ready ON dbq_task (queue, priority, due, id) WHERE due IS NOT NULL;
CREATE INDEX dbq_task_busy ON dbq_task (queue) WHERE state = 1;
CREATE INDEX dbq_task_failed ON dbq_task (queue, state, id) WHERE state >= 3;
CREATE VIEW dbq_tasks AS SELECT lower(hex(id)) AS id, queue, reference, kind,
  CASE state WHEN 0 THEN 'CREATED' WHEN 1 THEN 'PROCESSING' WHEN 2 THEN 'COMPLETED' WHEN 3 THEN 'ERROR' WHEN 4 THEN 'POISON' END AS state,
  priority, attempt, max_attempts, lapses, fence,
  strftime('%Y-%m-%d %H:%M:%f', due / 1e6, 'unixepoch') AS due,
  strftime('%Y-%m-%d %H:%M:%f', lease_until / 1e6, 'unixepoch') AS lease_until, holder,
  strftime('%Y-%m-%d %H:%M:%f', created / 1e6, 'unixepoch') AS created,
  strftime('%Y-%m-%d %H:%M:%f', updated / 1e6, 'unixepoch') AS updated,
  headers, length(payload) AS payload_bytes, CAST(result AS TEXT) AS result FROM dbq_task;
INSERT INTO dbq_migration (version, title, compatible, applied) VALUES (1, 'tasks', 1, CAST(unixepoch('subsec') * 1000000 AS INTEGER));

-- 2: notes, history, archive
CREATE TABLE dbq_note (
  kind TEXT NOT NULL,
  name TEXT NOT NULL,
  version INTEGER NOT NULL,
  value TEXT NOT NULL,
  updated INTEGER NOT NULL,
  expires INTEGER,
  PRIMARY KEY (kind, name)) STRICT, WITHOUT ROWID;
CREATE TABLE dbq_attempt (
  task BLOB NOT NULL,
  fence INTEGER NOT NULL,
  queue TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  outcome TEXT NOT NULL,
  started INTEGER NOT NULL,
  ended INTEGER NOT NULL,
  worker TEXT NOT NULL,
  error BLOB,
  PRIMARY KEY (task, fence)) STRICT;
CREATE INDEX dbq_attempt_ended ON dbq_attempt (queue, ended);
CREATE VIEW dbq_attempts AS SELECT lower(hex(task)) AS task, attempt, outcome,
  strftime('%Y-%m-%d %H:%M:%f', started / 1e6, 'unixepoch') AS started,
  strftime('%Y-%m-%d %H:%M:%f', ended / 1e6, 'unixepoch') AS ended,
  worker, queue, fence, CAST(error AS TEXT) AS error FROM dbq_attempt;
CREATE TABLE dbq_archive (
  id BLOB NOT NULL CHECK (length(id) = 16),
  queue TEXT NOT NULL,
  reference TEXT,
  kind TEXT NOT NULL,
  state INTEGER NOT NULL CHECK (state = 0 OR state = 1 OR state = 2 OR state = 3 OR state = 4),
  priority INTEGER NOT NULL CHECK (priority BETWEEN 0 AND 9),
  attempt INTEGER NOT NULL DEFAULT 0,
  max_attempts INTEGER NOT NULL,
  lapses INTEGER NOT NULL DEFAULT 0,
  started INTEGER NOT NULL DEFAULT 0,
  fence INTEGER NOT NULL DEFAULT 0,
  due INTEGER,
  lease_until INTEGER,
  taken_by TEXT NOT NULL DEFAULT '                                                ',
  holder TEXT AS (nullif(rtrim(taken_by), '')) VIRTUAL,
  created INTEGER NOT NULL,
  updated INTEGER NOT NULL,
  headers TEXT,
  payload BLOB,
  result BLOB,
  archived INTEGER NOT NULL) STRICT;
CREATE UNIQUE INDEX dbq_archive_id ON dbq_archive (id);
INSERT INTO dbq_migration (version, title, compatible, applied) VALUES (2, 'notes, history, archive', 2, CAST(unixepoch('subsec') * 1000000 AS INTEGER));

-- ======== The statements ========

-- Begin. Begins a write transaction.
BEGIN IMMEDIATE;

-- Now. An expression, not a statement: the database's clock in microseconds since 1970.
CAST(unixepoch('subsec') * 1000000 AS INTEGER);

-- Version. Reads the newest migration that has been applied.
SELECT max(version) AS version, max(compatible) AS compatible FROM dbq_migration;

-- SetVersion. Notes a migration as applied.
INSERT INTO dbq_migration (version, title, compatible, applied) VALUES (:version, :title, :compatible, CAST(unixepoch('subsec') * 1000000 AS INTEGER));

-- MigrationTable. Makes the table of applied migrations.
CREATE TABLE IF NOT EXISTS dbq_migration (
  version INTEGER PRIMARY KEY, title TEXT NOT NULL, compatible INTEGER NOT NULL, applied INTEGER NOT NULL) STRICT;

-- Drop. Removes everything, for tests and for leaving.
DROP VIEW IF EXISTS dbq_tasks;
DROP VIEW IF EXISTS dbq_attempts;
DROP TABLE IF EXISTS dbq_task;
DROP TABLE IF EXISTS dbq_note;
DROP TABLE IF EXISTS dbq_attempt;
DROP TABLE IF EXISTS dbq_archive;
DROP TABLE IF EXISTS dbq_migration;

-- Insert. Adds tasks. What is there already, by id or by reference and queue, is left out and is no error.
-- At most 500 rows. {rows} is a list, with ", " in between, of (:id, :reference, :kind, :priority, :max_attempts, :at, :delay, :headers, :payload, :reused)
-- The second one is for a single row.
INSERT INTO dbq_task (id, queue, reference, kind, state, priority, max_attempts, due, created, updated, headers, payload, fence)
SELECT d.column1, :queue, d.column2, d.column3, 0, d.column4, d.column5, coalesce(d.column6, CAST(unixepoch('subsec') * 1000000 AS INTEGER) + d.column7), CAST(unixepoch('subsec') * 1000000 AS INTEGER), CAST(unixepoch('subsec') * 1000000 AS INTEGER), d.column8,
       d.column9, d.column10 * max(CAST(unixepoch('subsec') * 1000000 AS INTEGER), :clock)
  FROM (VALUES {rows}) AS d WHERE true
ON CONFLICT DO NOTHING
RETURNING id;
INSERT INTO dbq_task (id, queue, reference, kind, state, priority, max_attempts, due, created, updated, headers, payload, fence)
VALUES (:id, :queue, :reference, :kind, 0, :priority, :max_attempts, coalesce(:at, CAST(unixepoch('subsec') * 1000000 AS INTEGER) + :delay), CAST(unixepoch('subsec') * 1000000 AS INTEGER), CAST(unixepoch('subsec') * 1000000 AS INTEGER), :headers, :payload,
  :reused * max(CAST(unixepoch('subsec') * 1000000 AS INTEGER), :clock))
ON CONFLICT DO NOTHING;

-- InsertAlike. Adds new tasks without a reference that share all but their ids and payloads.
-- At most 500 rows. {rows} is a list, with ", " in between, of (:id, :payload)
-- The second one is for a single row.
INSERT INTO dbq_task (id, queue, reference, kind, state, priority, max_attempts, due, created, updated, headers, payload)
SELECT d.column1, :queue, NULL, :kind, 0, :priority, :max_attempts, coalesce(:at, CAST(unixepoch('subsec') * 1000000 AS INTEGER) + :delay), CAST(unixepoch('subsec') * 1000000 AS INTEGER), CAST(unixepoch('subsec') * 1000000 AS INTEGER), :headers, d.column2
  FROM (VALUES {rows}) AS d;
INSERT INTO dbq_task (id, queue, reference, kind, state, priority, max_attempts, due, created, updated, headers, payload)
VALUES (:id, :queue, NULL, :kind, 0, :priority, :max_attempts, coalesce(:at, CAST(unixepoch('subsec') * 1000000 AS INTEGER) + :delay), CAST(unixepoch('subsec') * 1000000 AS INTEGER), CAST(unixepoch('subsec') * 1000000 AS INTEGER), :headers, :payload);

-- Settle. Ends attempts (complete, fail, poison, release), if their fences are still valid.
-- At most 500 rows. {rows} is a list, with ", " in between, of (:id, :fence, :state, :at, :after, :uncount, :result)
UPDATE dbq_task SET
  state = CASE WHEN d.column3 = 3 AND coalesce(d.column4, d.column5) IS NOT NULL AND attempt >= max_attempts THEN 4 ELSE d.column3 END,
  due = CASE WHEN d.column3 = 3 AND attempt >= max_attempts THEN NULL ELSE coalesce(d.column4, CAST(unixepoch('subsec') * 1000000 AS INTEGER) + d.column5) END,
  attempt = attempt - d.column6, lease_until = NULL, updated = CAST(unixepoch('subsec') * 1000000 AS INTEGER),
  result = CASE WHEN d.column3 = 0 THEN coalesce(d.column7, result) ELSE d.column7 END
  FROM (VALUES {rows}) AS d
 WHERE dbq_task.id = +d.column1 AND dbq_task.fence = +d.column2 AND +dbq_task.state = 1
RETURNING id, fence, state;

-- Complete. Ends attempts that completed without a result, if their common fence is still valid.
-- At most 500 rows. {rows} is a list, with ", " in between, of :id
-- What is asked beside the change is asked only when it touched fewer. It is undone to a savepoint then, if it is to be asked before.
-- The second one is for a single row.
SELECT id FROM dbq_task WHERE id IN ({rows}) AND +fence = :fence AND +state = 1;
UPDATE dbq_task SET state = 2, due = NULL, lease_until = NULL, updated = CAST(unixepoch('subsec') * 1000000 AS INTEGER), result = NULL,
  taken_by = taken_by || '       ' WHERE id IN ({rows}) AND +fence = :fence AND +state = 1;
UPDATE dbq_task SET state = 2, due = NULL, lease_until = NULL, updated = CAST(unixepoch('subsec') * 1000000 AS INTEGER), result = NULL,
  taken_by = taken_by || '       ' WHERE id = :id AND +fence = :fence AND +state = 1;

-- Remove. Ends attempts and removes the tasks (complete and delete), if their fences are still valid.
-- At most 500 rows. {rows} is a list, with ", " in between, of (:id, :fence)
-- The second one is for a single row.
DELETE FROM dbq_task WHERE rowid IN (
  SELECT t.rowid FROM (VALUES {rows}) AS d JOIN dbq_task AS t ON t.id = +d.column1 AND t.fence = +d.column2 AND +t.state = 1)
RETURNING id, fence;
DELETE FROM dbq_task WHERE id = :id AND +fence = :fence AND +state = 1;

-- RemoveAlike. Ends attempts and removes the tasks, if their common fence is still valid.
-- At most 500 rows. {rows} is a list, with ", " in between, of :id
-- What is asked beside the change is asked only when it touched fewer. It is undone to a savepoint then, if it is to be asked before.
SELECT id FROM dbq_task WHERE id IN ({rows}) AND +fence = :fence AND +state = 1;
DELETE FROM dbq_task WHERE id IN ({rows}) AND +fence = :fence AND +state = 1;

-- Extend. Renews leases. On servers a renewal is a row of its own, so that a heartbeat writes and locks no task.
-- At most 500 rows. {rows} is a list, with ", " in between, of (:id, :fence)
UPDATE dbq_task SET lease_until = CAST(unixepoch('subsec') * 1000000 AS INTEGER) + :lease
  FROM (VALUES {rows}) AS d
 WHERE dbq_task.id = +d.column1 AND dbq_task.fence = +d.column2 AND +dbq_task.state = 1
RETURNING id, fence;

-- Start. Marks attempts as started, where a lease that runs out must count as an attempt.
-- At most 500 rows. {rows} is a list, with ", " in between, of (:id, :fence)
UPDATE dbq_task SET started = 1
  FROM (VALUES {rows}) AS d
 WHERE dbq_task.id = +d.column1 AND dbq_task.fence = +d.column2 AND +dbq_task.state = 1
RETURNING id, fence;

-- Move reject. A task is taken out before it runs, and parked.
-- At most 500 rows. {rows} is a list, with ", " in between, of (:id)
SELECT id, queue, state, attempt, fence, holder, updated, result, length(result) AS result_size, CAST(unixepoch('subsec') * 1000000 AS INTEGER) AS now
  FROM dbq_task WHERE dbq_task.rowid IN (SELECT t.rowid FROM (VALUES {rows}) AS d JOIN dbq_task AS t ON t.id = +d.column1) AND (state = 0) ORDER BY id;
UPDATE dbq_task SET state = 3, due = NULL, updated = CAST(unixepoch('subsec') * 1000000 AS INTEGER) WHERE dbq_task.rowid IN (SELECT t.rowid FROM (VALUES {rows}) AS d JOIN dbq_task AS t ON t.id = +d.column1) AND (state = 0);

-- Move revoke. The lease is taken away and the task parked; its worker learns so at its next call.
-- At most 500 rows. {rows} is a list, with ", " in between, of (:id)
SELECT id, queue, state, attempt, fence, holder, updated, result, length(result) AS result_size, CAST(unixepoch('subsec') * 1000000 AS INTEGER) AS now
  FROM dbq_task WHERE dbq_task.rowid IN (SELECT t.rowid FROM (VALUES {rows}) AS d JOIN dbq_task AS t ON t.id = +d.column1) AND (state = 1) ORDER BY id;
UPDATE dbq_task SET state = 3, due = NULL, lease_until = NULL, fence = fence + 1, updated = CAST(unixepoch('subsec') * 1000000 AS INTEGER) WHERE dbq_task.rowid IN (SELECT t.rowid FROM (VALUES {rows}) AS d JOIN dbq_task AS t ON t.id = +d.column1) AND (state = 1);

-- Move reenqueue. A failed task is due again, and its attempts start over.
-- At most 500 rows. {rows} is a list, with ", " in between, of (:id)
SELECT id, queue, state, attempt, fence, holder, updated, result, length(result) AS result_size, CAST(unixepoch('subsec') * 1000000 AS INTEGER) AS now
  FROM dbq_task WHERE dbq_task.rowid IN (SELECT t.rowid FROM (VALUES {rows}) AS d JOIN dbq_task AS t ON t.id = +d.column1) AND (state = 3 OR state = 4) AND state >= 3 ORDER BY id;
UPDATE dbq_task SET state = 0, due = CAST(unixepoch('subsec') * 1000000 AS INTEGER), attempt = 0, lapses = 0, updated = CAST(unixepoch('subsec') * 1000000 AS INTEGER) WHERE dbq_task.rowid IN (SELECT t.rowid FROM (VALUES {rows}) AS d JOIN dbq_task AS t ON t.id = +d.column1) AND (state = 3 OR state = 4) AND state >= 3;

-- Move quarantine. A failed task is not to be retried.
-- At most 500 rows. {rows} is a list, with ", " in between, of (:id)
SELECT id, queue, state, attempt, fence, holder, updated, result, length(result) AS result_size, CAST(unixepoch('subsec') * 1000000 AS INTEGER) AS now
  FROM dbq_task WHERE dbq_task.rowid IN (SELECT t.rowid FROM (VALUES {rows}) AS d JOIN dbq_task AS t ON t.id = +d.column1) AND (state = 3) AND state >= 3 ORDER BY id;
UPDATE dbq_task SET state = 4, due = NULL, updated = CAST(unixepoch('subsec') * 1000000 AS INTEGER) WHERE dbq_task.rowid IN (SELECT t.rowid FROM (VALUES {rows}) AS d JOIN dbq_task AS t ON t.id = +d.column1) AND (state = 3) AND state >= 3;

-- Move restore. A poisoned task is parked for inspection.
-- At most 500 rows. {rows} is a list, with ", " in between, of (:id)
SELECT id, queue, state, attempt, fence, holder, updated, result, length(result) AS result_size, CAST(unixepoch('subsec') * 1000000 AS INTEGER) AS now
  FROM dbq_task WHERE dbq_task.rowid IN (SELECT t.rowid FROM (VALUES {rows}) AS d JOIN dbq_task AS t ON t.id = +d.column1) AND (state = 4) AND state >= 3 ORDER BY id;
UPDATE dbq_task SET state = 3, due = NULL, updated = CAST(unixepoch('subsec') * 1000000 AS INTEGER) WHERE dbq_task.rowid IN (SELECT t.rowid FROM (VALUES {rows}) AS d JOIN dbq_task AS t ON t.id = +d.column1) AND (state = 4) AND state >= 3;

-- Move purge. A finished or parked task is removed.
-- At most 500 rows. {rows} is a list, with ", " in between, of (:id)
DELETE FROM dbq_task WHERE dbq_task.rowid IN (SELECT t.rowid FROM (VALUES {rows}) AS d JOIN dbq_task AS t ON t.id = +d.column1) AND (state = 2 OR state = 4 OR (state = 3 AND due IS NULL)) RETURNING id;

-- SetResult. Stores what an operator said, after Move in the same transaction.
-- At most 500 rows. {rows} is a list, with ", " in between, of (:id, :result)
UPDATE dbq_task SET result = d.column2 FROM (VALUES {rows}) AS d WHERE dbq_task.id = +d.column1;

-- Get. Reads one task.
SELECT id, queue, reference, kind, state, priority, attempt, max_attempts, lapses, fence, due, lease_until, holder, created, updated, headers, payload, length(payload) AS payload_size, result, length(result) AS result_size, CAST(unixepoch('subsec') * 1000000 AS INTEGER) AS now FROM dbq_task WHERE id = :id;

-- Held. Reads what one checkout holds, when its connection died before it had the answer.
SELECT id, queue, reference, kind, state, priority, attempt, max_attempts, lapses, fence, due, lease_until, holder, created, updated, headers, payload, length(payload) AS payload_size, result, length(result) AS result_size, CAST(unixepoch('subsec') * 1000000 AS INTEGER) AS now FROM dbq_task WHERE queue = :queue AND state = 1 AND holder = :holder;

-- Exhausted. Reads what one checkout moved to POISON, when its connection died before it had the answer.
SELECT id, queue, reference, kind, state, priority, attempt, max_attempts, lapses, fence, due, lease_until, holder, created, updated, headers, payload, length(payload) AS payload_size, result, length(result) AS result_size, CAST(unixepoch('subsec') * 1000000 AS INTEGER) AS now FROM dbq_task
 WHERE queue = :queue AND state = 4 AND state >= 3 AND result = CAST('the lease of the last attempt ran out, held by ' || holder || ', found by ' || :holder AS BLOB);

-- List. Lists tasks without their payloads. {where} is made of comparisons of plain columns, {order} is empty or DESC.
SELECT id, queue, reference, kind, state, priority, attempt, max_attempts, lapses, fence, due, lease_until, holder, created, updated, headers, NULL AS payload, result, length(result) AS result_size, CAST(unixepoch('subsec') * 1000000 AS INTEGER) AS now FROM dbq_task WHERE {where} ORDER BY id{order} LIMIT :limit;

-- FindIDs. Finds the tasks that an operator's bulk call changes.
SELECT id FROM dbq_task WHERE {where} ORDER BY id LIMIT :limit;

-- IDBehind. Finds where the next part of the old tasks ends, for cleaning.
SELECT t.id FROM dbq_task AS t WHERE t.id > :after AND t.id < :before ORDER BY t.id LIMIT 1 OFFSET :offset;

-- Peek. Reads where tasks are, to find out whether a call whose connection died had happened.
-- At most 500 rows. {rows} is a list, with ", " in between, of (:id)
SELECT t.id, t.queue, t.state, t.fence, t.updated FROM (VALUES {rows}) AS d JOIN dbq_task AS t ON t.id = +d.column1;

-- FindReference. Finds a task by its reference.
SELECT id FROM dbq_task WHERE reference = :reference AND queue = :queue;

-- Count. Counts the tasks of each queue by state, all of them.
SELECT queue, state, count(*) AS tasks, 0 AS parked, count(*) FILTER (WHERE due <= CAST(unixepoch('subsec') * 1000000 AS INTEGER)) AS due, CAST(unixepoch('subsec') * 1000000 AS INTEGER) - min(due) FILTER (WHERE due <= CAST(unixepoch('subsec') * 1000000 AS INTEGER)) AS oldest
  FROM dbq_task WHERE due IS NOT NULL GROUP BY queue, state
UNION ALL SELECT queue, 1, count(*), 0, 0, NULL FROM dbq_task WHERE state = 1 GROUP BY queue
UNION ALL SELECT queue, state, count(*), count(*), 0, NULL FROM dbq_task WHERE state >= 3 AND due IS NULL GROUP BY queue, state
UNION ALL SELECT queue, 2, count(*), 0, 0, NULL FROM dbq_task WHERE state = 2 GROUP BY queue;

-- CountUpTo. Counts the tasks of a queue by state, up to a limit of each.
SELECT 0 AS state, count(*) FILTER (WHERE state = 0) AS tasks, 0 AS parked, 0 AS due, NULL AS oldest, CASE WHEN count(*) >= :limit THEN 1 ELSE 0 END AS cut
  FROM (SELECT state FROM dbq_task WHERE queue = :queue AND due IS NOT NULL LIMIT +:limit)
UNION ALL SELECT 0, 0, 0, count(*), CAST(unixepoch('subsec') * 1000000 AS INTEGER) - min(due), 0 FROM (SELECT * FROM (SELECT due FROM dbq_task WHERE queue = :queue AND priority = 0 AND due <= CAST(unixepoch('subsec') * 1000000 AS INTEGER) ORDER BY due, id LIMIT +:limit)
UNION ALL SELECT * FROM (SELECT due FROM dbq_task WHERE queue = :queue AND priority = 1 AND due <= CAST(unixepoch('subsec') * 1000000 AS INTEGER) ORDER BY due, id LIMIT +:limit)
UNION ALL SELECT * FROM (SELECT due FROM dbq_task WHERE queue = :queue AND priority = 2 AND due <= CAST(unixepoch('subsec') * 1000000 AS INTEGER) ORDER BY due, id LIMIT +:limit)
UNION ALL SELECT * FROM (SELECT due FROM dbq_task WHERE queue = :queue AND priority = 3 AND due <= CAST(unixepoch('subsec') * 1000000 AS INTEGER) ORDER BY due, id LIMIT +:limit)
UNION ALL SELECT * FROM (SELECT due FROM dbq_task WHERE queue = :queue AND priority = 4 AND due <= CAST(unixepoch('subsec') * 1000000 AS INTEGER) ORDER BY due, id LIMIT +:limit)
UNION ALL SELECT * FROM (SELECT due FROM dbq_task WHERE queue = :queue AND priority = 5 AND due <= CAST(unixepoch('subsec') * 1000000 AS INTEGER) ORDER BY due, id LIMIT +:limit)
UNION ALL SELECT * FROM (SELECT due FROM dbq_task WHERE queue = :queue AND priority = 6 AND due <= CAST(unixepoch('subsec') * 1000000 AS INTEGER) ORDER BY due, id LIMIT +:limit)
UNION ALL SELECT * FROM (SELECT due FROM dbq_task WHERE queue = :queue AND priority = 7 AND due <= CAST(unixepoch('subsec') * 1000000 AS INTEGER) ORDER BY due, id LIMIT +:limit)
UNION ALL SELECT * FROM (SELECT due FROM dbq_task WHERE queue = :queue AND priority = 8 AND due <= CAST(unixepoch('subsec') * 1000000 AS INTEGER) ORDER BY due, id LIMIT +:limit)
UNION ALL SELECT * FROM (SELECT due FROM dbq_task WHERE queue = :queue AND priority = 9 AND due <= CAST(unixepoch('subsec') * 1000000 AS INTEGER) ORDER BY due, id LIMIT +:limit))
UNION ALL SELECT 1, count(*), 0, 0, NULL, CASE WHEN count(*) >= :limit THEN 1 ELSE 0 END
  FROM (SELECT 1 FROM dbq_task WHERE queue = :queue AND state = 1 LIMIT +:limit)
UNION ALL SELECT 3, count(*), count(*) - count(due), 0, NULL, CASE WHEN count(*) >= :limit THEN 1 ELSE 0 END
  FROM (SELECT due FROM dbq_task WHERE queue = :queue AND state = 3 AND state >= 3 LIMIT +:limit)
UNION ALL SELECT 4, count(*), 0, 0, NULL, CASE WHEN count(*) >= :limit THEN 1 ELSE 0 END
  FROM (SELECT 1 FROM dbq_task WHERE queue = :queue AND state = 4 AND state >= 3 LIMIT +:limit);

-- CountNewest. Counts the newest tasks that have ended, which are in no index by their queue.
SELECT x.queue, 2 AS state, count(*) FILTER (WHERE x.state = 2) AS tasks,
       CASE WHEN sum(count(*)) OVER () >= +:limit THEN 1 ELSE 0 END AS cut
  FROM (SELECT t.queue, t.state FROM dbq_task t ORDER BY t.id DESC LIMIT +:limit) AS x GROUP BY x.queue;

-- NextQueue. Finds the next queue by name.
SELECT min(queue) AS queue FROM (
  SELECT * FROM (SELECT queue FROM dbq_task WHERE due IS NOT NULL AND queue > :queue ORDER BY queue LIMIT 1)
  UNION ALL SELECT * FROM (SELECT queue FROM dbq_task WHERE state = 1 AND queue > :queue ORDER BY queue LIMIT 1)
  UNION ALL SELECT * FROM (SELECT queue FROM dbq_task WHERE state >= 3 AND queue > :queue ORDER BY queue LIMIT 1))
 HAVING min(queue) IS NOT NULL;

-- Next. Tells when the next task of a queue is due: what an idle worker asks.
SELECT min(due) AS due, CAST(unixepoch('subsec') * 1000000 AS INTEGER) AS now FROM (SELECT * FROM (SELECT due FROM dbq_task WHERE queue = :queue AND priority = 0 AND due IS NOT NULL ORDER BY due, id LIMIT 1)
UNION ALL SELECT * FROM (SELECT due FROM dbq_task WHERE queue = :queue AND priority = 1 AND due IS NOT NULL ORDER BY due, id LIMIT 1)
UNION ALL SELECT * FROM (SELECT due FROM dbq_task WHERE queue = :queue AND priority = 2 AND due IS NOT NULL ORDER BY due, id LIMIT 1)
UNION ALL SELECT * FROM (SELECT due FROM dbq_task WHERE queue = :queue AND priority = 3 AND due IS NOT NULL ORDER BY due, id LIMIT 1)
UNION ALL SELECT * FROM (SELECT due FROM dbq_task WHERE queue = :queue AND priority = 4 AND due IS NOT NULL ORDER BY due, id LIMIT 1)
UNION ALL SELECT * FROM (SELECT due FROM dbq_task WHERE queue = :queue AND priority = 5 AND due IS NOT NULL ORDER BY due, id LIMIT 1)
UNION ALL SELECT * FROM (SELECT due FROM dbq_task WHERE queue = :queue AND priority = 6 AND due IS NOT NULL ORDER BY due, id LIMIT 1)
UNION ALL SELECT * FROM (SELECT due FROM dbq_task WHERE queue = :queue AND priority = 7 AND due IS NOT NULL ORDER BY due, id LIMIT 1)
UNION ALL SELECT * FROM (SELECT due FROM dbq_task WHERE queue = :queue AND priority = 8 AND due IS NOT NULL ORDER BY due, id LIMIT 1)
UNION ALL SELECT * FROM (SELECT due FROM dbq_task WHERE queue = :queue AND priority = 9 AND due IS NOT NULL ORDER BY due, id LIMIT 1)
UNION ALL SELECT min(lease_until) FROM dbq_task WHERE queue = :queue AND state = 1)
 WHERE NOT EXISTS (SELECT 1 FROM dbq_note WHERE kind = 'pause' AND name = :queue);

-- Note. Reads a note: a small fact that all who work on these tables share, such as that a queue is paused.
SELECT kind, name, version, value, updated, expires, CAST(unixepoch('subsec') * 1000000 AS INTEGER) AS now FROM dbq_note WHERE kind = :kind AND name = :name;

-- Notes. Reads the notes of a kind.
SELECT kind, name, version, value, updated, expires, CAST(unixepoch('subsec') * 1000000 AS INTEGER) AS now FROM dbq_note WHERE kind = :kind ORDER BY name LIMIT :limit;

-- AddNote. Adds a note where there is none.
INSERT INTO dbq_note (kind, name, version, value, updated, expires) VALUES (:kind, :name, 1, :value, CAST(unixepoch('subsec') * 1000000 AS INTEGER), CAST(unixepoch('subsec') * 1000000 AS INTEGER) + :ttl)
ON CONFLICT DO NOTHING;

-- SetNote. Changes a note, if nobody else has since it was read.
UPDATE dbq_note SET version = version + 1, value = :value, updated = CAST(unixepoch('subsec') * 1000000 AS INTEGER), expires = CAST(unixepoch('subsec') * 1000000 AS INTEGER) + :ttl
 WHERE kind = :kind AND name = :name AND version = :version;

-- DropNote. Removes a note.
DELETE FROM dbq_note WHERE kind = :kind AND name = :name;

-- ExpireNotes. Removes notes whose time is over.
DELETE FROM dbq_note WHERE kind = :kind AND expires <= CAST(unixepoch('subsec') * 1000000 AS INTEGER) - :age;

-- Record. Adds attempts to the history.
-- At most 500 rows. {rows} is a list, with ", " in between, of (:id, :fence, :queue, :attempt, :outcome, :started, :ended, :worker, :error)
INSERT INTO dbq_attempt (task, fence, queue, attempt, outcome, started, ended, worker, error) VALUES {rows} ON CONFLICT DO NOTHING;

-- RecordAlike. Adds attempts to the history that ended alike, without an error, and are most likely new.
-- At most 500 rows. {rows} is a list, with ", " in between, of (:id, :fence, :queue, :attempt, :started, :ended)
INSERT INTO dbq_attempt (task, fence, queue, attempt, outcome, started, ended, worker)
SELECT d.column1, d.column2, d.column3, d.column4, :outcome, d.column5, d.column6, :worker FROM (VALUES {rows}) AS d;

-- Attempts. Reads the attempts of a task.
SELECT task, fence, queue, attempt, outcome, started, ended, worker, error FROM dbq_attempt WHERE task = :id ORDER BY fence LIMIT :limit;

-- ExpireAttempts. Removes old attempts, a few at a time.
DELETE FROM dbq_attempt WHERE rowid IN (
  SELECT rowid FROM dbq_attempt WHERE queue = :queue AND ended <= CAST(unixepoch('subsec') * 1000000 AS INTEGER) - :age ORDER BY ended LIMIT :limit);

-- Archive. Copies ended tasks into the archive, just before they are removed in the same transaction.
-- At most 500 rows. {rows} is a list, with ", " in between, of (:id)
INSERT INTO dbq_archive (id, queue, reference, kind, state, priority, attempt, max_attempts, lapses, started, fence, due, lease_until, taken_by, created, updated, headers, payload, result, archived) SELECT t.id, t.queue, t.reference, t.kind, t.state, t.priority, t.attempt, t.max_attempts, t.lapses, t.started, t.fence, t.due, t.lease_until, t.taken_by, t.created, t.updated, t.headers, t.payload, t.result, CAST(unixepoch('subsec') * 1000000 AS INTEGER) FROM (VALUES {rows}) AS d JOIN dbq_task AS t ON t.id = +d.column1
 WHERE (state = 2 OR state = 4 OR (state = 3 AND due IS NULL)) ON CONFLICT DO NOTHING;

-- ListArchive. Lists tasks of the archive.
SELECT id, queue, reference, kind, state, priority, attempt, max_attempts, lapses, fence, due, lease_until, holder, created, updated, headers, NULL AS payload, result, length(result) AS result_size, CAST(unixepoch('subsec') * 1000000 AS INTEGER) AS now FROM dbq_archive WHERE {where} ORDER BY id LIMIT :limit;

-- Checkout any. Tells whether there is anything to take, without the writer's lock.
SELECT CAST(unixepoch('subsec') * 1000000 AS INTEGER) AS now
 WHERE (EXISTS (SELECT 1 FROM dbq_task WHERE queue = :queue AND priority = 0 AND due <= CAST(unixepoch('subsec') * 1000000 AS INTEGER)
UNION ALL SELECT 1 FROM dbq_task WHERE queue = :queue AND priority = 1 AND due <= CAST(unixepoch('subsec') * 1000000 AS INTEGER)
UNION ALL SELECT 1 FROM dbq_task WHERE queue = :queue AND priority = 2 AND due <= CAST(unixepoch('subsec') * 1000000 AS INTEGER)
UNION ALL SELECT 1 FROM dbq_task WHERE queue = :queue AND priority = 3 AND due <= CAST(unixepoch('subsec') * 1000000 AS INTEGER)
UNION ALL SELECT 1 FROM dbq_task WHERE queue = :queue AND priority = 4 AND due <= CAST(unixepoch('subsec') * 1000000 AS INTEGER)
UNION ALL SELECT 1 FROM dbq_task WHERE queue = :queue AND priority = 5 AND due <= CAST(unixepoch('subsec') * 1000000 AS INTEGER)
UNION ALL SELECT 1 FROM dbq_task WHERE queue = :queue AND priority = 6 AND due <= CAST(unixepoch('subsec') * 1000000 AS INTEGER)
UNION ALL SELECT 1 FROM dbq_task WHERE queue = :queue AND priority = 7 AND due <= CAST(unixepoch('subsec') * 1000000 AS INTEGER)
UNION ALL SELECT 1 FROM dbq_task WHERE queue = :queue AND priority = 8 AND due <= CAST(unixepoch('subsec') * 1000000 AS INTEGER)
UNION ALL SELECT 1 FROM dbq_task WHERE queue = :queue AND priority = 9 AND due <= CAST(unixepoch('subsec') * 1000000 AS INTEGER))
    OR EXISTS (SELECT 1 FROM dbq_task WHERE queue = :queue AND state = 1 AND lease_until <= CAST(unixepoch('subsec') * 1000000 AS INTEGER)))
   AND NOT EXISTS (SELECT 1 FROM dbq_note WHERE kind = 'pause' AND name = :queue);

-- Checkout expired. Takes over tasks whose lease ran out; those whose attempts are spent become POISON.
SELECT id, fence, length(payload) AS payload_size, holder AS was_holder, updated AS was_taken, attempt AS was_attempt,
  lease_until AS was_until FROM dbq_task
 WHERE queue = :queue AND state = 1 AND lease_until <= CAST(unixepoch('subsec') * 1000000 AS INTEGER) AND holder <> :holder LIMIT :limit;

-- Checkout ready. Finds due tasks: one ordered search for each priority. On a server it leases them as well.
SELECT t.id, t.reference, t.kind, t.priority, t.attempt + 1 AS attempt, t.max_attempts, t.lapses, t.fence + 1 AS fence, t.created, t.headers, CASE WHEN length(t.payload) <= :share THEN t.payload END AS payload, length(t.payload) AS payload_size, t.result, length(t.result) AS result_size, t.due AS was_due, CAST(unixepoch('subsec') * 1000000 AS INTEGER) AS now FROM (SELECT * FROM (SELECT rowid FROM dbq_task
  WHERE queue = :queue AND priority = 0 AND due <= CAST(unixepoch('subsec') * 1000000 AS INTEGER) ORDER BY due, id LIMIT +:limit)
UNION ALL SELECT * FROM (SELECT rowid FROM dbq_task
  WHERE queue = :queue AND priority = 1 AND due <= CAST(unixepoch('subsec') * 1000000 AS INTEGER) ORDER BY due, id LIMIT +:limit)
UNION ALL SELECT * FROM (SELECT rowid FROM dbq_task
  WHERE queue = :queue AND priority = 2 AND due <= CAST(unixepoch('subsec') * 1000000 AS INTEGER) ORDER BY due, id LIMIT +:limit)
UNION ALL SELECT * FROM (SELECT rowid FROM dbq_task
  WHERE queue = :queue AND priority = 3 AND due <= CAST(unixepoch('subsec') * 1000000 AS INTEGER) ORDER BY due, id LIMIT +:limit)
UNION ALL SELECT * FROM (SELECT rowid FROM dbq_task
  WHERE queue = :queue AND priority = 4 AND due <= CAST(unixepoch('subsec') * 1000000 AS INTEGER) ORDER BY due, id LIMIT +:limit)
UNION ALL SELECT * FROM (SELECT rowid FROM dbq_task
  WHERE queue = :queue AND priority = 5 AND due <= CAST(unixepoch('subsec') * 1000000 AS INTEGER) ORDER BY due, id LIMIT +:limit)
UNION ALL SELECT * FROM (SELECT rowid FROM dbq_task
  WHERE queue = :queue AND priority = 6 AND due <= CAST(unixepoch('subsec') * 1000000 AS INTEGER) ORDER BY due, id LIMIT +:limit)
UNION ALL SELECT * FROM (SELECT rowid FROM dbq_task
  WHERE queue = :queue AND priority = 7 AND due <= CAST(unixepoch('subsec') * 1000000 AS INTEGER) ORDER BY due, id LIMIT +:limit)
UNION ALL SELECT * FROM (SELECT rowid FROM dbq_task
  WHERE queue = :queue AND priority = 8 AND due <= CAST(unixepoch('subsec') * 1000000 AS INTEGER) ORDER BY due, id LIMIT +:limit)
UNION ALL SELECT * FROM (SELECT rowid FROM dbq_task
  WHERE queue = :queue AND priority = 9 AND due <= CAST(unixepoch('subsec') * 1000000 AS INTEGER) ORDER BY due, id LIMIT +:limit)
LIMIT +:limit) AS d CROSS JOIN dbq_task AS t ON t.rowid = d.rowid;

-- Checkout take. Leases the tasks that were found.
UPDATE OR FAIL dbq_task SET state = 1, due = NULL, attempt = attempt + 1, fence = fence + 1,
  lease_until = :now + :lease, taken_by = printf('%-48s', :holder), started = :begun, updated = :now
 WHERE queue = :queue AND priority = :priority AND due IS NOT NULL AND (due, id) <= (:was_due, :id);

-- CheckoutBatch payloads. Reads the large payloads of the tasks that fit.
-- At most 500 rows. {rows} is a list, with ", " in between, of (:id)
SELECT t.id, t.payload FROM (VALUES {rows}) AS d JOIN dbq_task AS t ON t.id = +d.column1;

-- CheckoutBatch take over. Takes over tasks whose lease ran out; on SQLite those whose attempts are spent become POISON.
-- At most 500 rows. {rows} is a list, with ", " in between, of (:id, :fence)
UPDATE dbq_task SET state = CASE WHEN attempt >= max_attempts AND (started = 1 OR lapses >= 99) THEN 4 ELSE 1 END,
  result = CASE WHEN attempt >= max_attempts AND (started = 1 OR lapses >= 99) THEN CAST('the lease of the last attempt ran out, held by ' || holder || ', found by ' || :holder AS BLOB) ELSE result END,
  lease_until = CASE WHEN attempt >= max_attempts AND (started = 1 OR lapses >= 99) THEN NULL ELSE CAST(unixepoch('subsec') * 1000000 AS INTEGER) + :lease END,
  taken_by = CASE WHEN attempt >= max_attempts AND (started = 1 OR lapses >= 99) THEN taken_by ELSE printf('%-48s', :holder) END,
  attempt = CASE WHEN attempt >= max_attempts AND (started = 1 OR lapses >= 99) THEN attempt ELSE CASE WHEN (started = 1 OR lapses >= 99) THEN attempt + 1 ELSE attempt END END,
  lapses = CASE WHEN started = 1 THEN lapses WHEN lapses >= 99 THEN 0 ELSE lapses + 1 END, started = :begun, fence = fence + 1, updated = CAST(unixepoch('subsec') * 1000000 AS INTEGER)
  FROM (VALUES {rows}) AS d
 WHERE dbq_task.id = +d.column1 AND dbq_task.fence = +d.column2 AND +dbq_task.state = 1 AND lease_until <= CAST(unixepoch('subsec') * 1000000 AS INTEGER)
RETURNING id, queue, reference, kind, state, priority, attempt, max_attempts, lapses, fence, due, lease_until, holder, created, updated, headers, payload, length(payload) AS payload_size, result, length(result) AS result_size, CAST(unixepoch('subsec') * 1000000 AS INTEGER) AS now;

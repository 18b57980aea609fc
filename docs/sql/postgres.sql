-- Every statement that dbq sends to this engine, for who wants to review them.
-- Generated from the dialect by "go generate ./..."; do not edit.
--
-- A :name stands for a value, which is sent apart from the text and never written into it. In a statement that takes many rows, it is an array.
-- Times are microseconds since 1970 in UTC. States are 0 CREATED, 1 PROCESSING, 2 COMPLETED, 3 ERROR, 4 POISON.
-- Tables begin with "dbq_" unless a program says otherwise.

-- ======== The schema ========

-- dbq's tables for postgres

CREATE TABLE IF NOT EXISTS dbq_migration (
  version integer PRIMARY KEY, title text NOT NULL, compatible integer NOT NULL, applied bigint NOT NULL);

-- 1: tasks
CREATE TABLE dbq_task (
  id uuid PRIMARY KEY,
  fence bigint NOT NULL DEFAULT 0,
  due bigint,
  was_due bigint,
  lease_until bigint,
  created bigint NOT NULL,
  updated bigint NOT NULL,
  state smallint NOT NULL CHECK (state IN (0, 1, 2, 3, 4)),
  priority smallint NOT NULL CHECK (priority BETWEEN 0 AND 9),
  attempt smallint NOT NULL DEFAULT 0,
  max_attempts smallint NOT NULL,
  lapses smallint NOT NULL DEFAULT 0,
  started smallint NOT NULL DEFAULT 0,
  queue varchar(100) COLLATE "C" NOT NULL,
  reference varchar(200) COLLATE "C",
  kind varchar(100) COLLATE "C" NOT NULL,
  holder varchar(200),
  headers text,
  payload bytea,
  result bytea
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0,
  autovacuum_analyze_scale_factor = 0.05);
CREATE TABLE dbq_lease (
  id uuid PRIMARY KEY,
  fence bigint NOT NULL,
  lease_until bigint NOT NULL,
  keep_until bigint NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0,
  autovacuum_analyze_scale_factor = 0.05);
CREATE UNIQUE INDEX dbq_task_reference ON dbq_task (reference, queue) WHERE reference IS NOT NULL;
CREATE INDEX dbq_task_ready ON dbq_task (queue, priority, due, id) WHERE due IS NOT NULL;
CREATE INDEX dbq_task_busy ON dbq_task (queue, updated) WHERE state = 1;
CREATE INDEX dbq_task_failed ON dbq_task (queue, state, id) WHERE state >= 3;
CREATE VIEW dbq_tasks AS SELECT id, queue, reference, kind,
  CASE state WHEN 0 THEN 'CREATED' WHEN 1 THEN 'PROCESSING' WHEN 2 THEN 'COMPLETED' WHEN 3 THEN 'ERROR' WHEN 4 THEN 'POISON' END AS state,
  priority, attempt, max_attempts, lapses, fence, to_timestamp(due / 1e6) AS due,
  to_timestamp(CASE WHEN state = 1 THEN coalesce((SELECT l.lease_until FROM dbq_lease l WHERE l.id = t.id AND l.fence = t.fence), t.lease_until) END / 1e6) AS lease_until, holder,
  to_timestamp(created / 1e6) AS created, to_timestamp(updated / 1e6) AS updated,
  headers, octet_length(payload) AS payload_bytes, encode(result, 'escape') AS result FROM dbq_task t;
INSERT INTO dbq_migration (version, title, compatible, applied) VALUES (1, 'tasks', 1, CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint));

-- 2: notes, history, archive
CREATE TABLE dbq_note (
  kind varchar(20) COLLATE "C" NOT NULL,
  name varchar(200) COLLATE "C" NOT NULL,
  version bigint NOT NULL,
  value text NOT NULL,
  updated bigint NOT NULL,
  expires bigint,
  PRIMARY KEY (kind, name));
CREATE TABLE dbq_attempt (
  task uuid NOT NULL,
  fence bigint NOT NULL,
  started bigint NOT NULL,
  ended bigint NOT NULL,
  attempt smallint NOT NULL,
  outcome varchar(20) NOT NULL,
  queue varchar(100) COLLATE "C" NOT NULL,
  worker varchar(200) NOT NULL,
  error bytea,
  PRIMARY KEY (task, fence));
CREATE INDEX dbq_attempt_ended ON dbq_attempt (queue, ended);
CREATE VIEW dbq_attempts AS SELECT task, attempt, outcome, to_timestamp(started / 1e6) AS started, to_timestamp(ended / 1e6) AS ended,
  worker, queue, fence, encode(error, 'escape') AS error FROM dbq_attempt;
CREATE TABLE dbq_archive (LIKE dbq_task INCLUDING CONSTRAINTS, archived bigint NOT NULL, PRIMARY KEY (id));
INSERT INTO dbq_migration (version, title, compatible, applied) VALUES (2, 'notes, history, archive', 2, CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint));

-- ======== The statements ========

-- Begin. Begins a write transaction.
BEGIN ISOLATION LEVEL READ COMMITTED;

-- Now. An expression, not a statement: the database's clock in microseconds since 1970.
CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint);

-- Version. Reads the newest migration that has been applied.
SELECT max(version) AS version, max(compatible) AS compatible FROM dbq_migration;

-- SetVersion. Notes a migration as applied.
INSERT INTO dbq_migration (version, title, compatible, applied) VALUES (:version, :title, :compatible, CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint));

-- MigrationLock. Waits for other migrations of the same tables.
SELECT pg_advisory_xact_lock(hashtextextended(
  'dbq migration ' || coalesce(current_schema(), '') || ' ' || CAST(:name AS text), 0));

-- MigrationTable. Makes the table of applied migrations.
CREATE TABLE IF NOT EXISTS dbq_migration (
  version integer PRIMARY KEY, title text NOT NULL, compatible integer NOT NULL, applied bigint NOT NULL);

-- Drop. Removes everything, for tests and for leaving.
DROP VIEW IF EXISTS dbq_tasks;
DROP VIEW IF EXISTS dbq_attempts;
DROP TABLE IF EXISTS dbq_task;
DROP TABLE IF EXISTS dbq_lease;
DROP TABLE IF EXISTS dbq_note;
DROP TABLE IF EXISTS dbq_attempt;
DROP TABLE IF EXISTS dbq_archive;
DROP TABLE IF EXISTS dbq_migration;

-- Insert. Adds tasks. What is there already, by id or by reference and queue, is left out and is no error.
-- At most 5000 rows.
WITH clock AS MATERIALIZED (SELECT CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint) AS now)
INSERT INTO dbq_task (id, fence, queue, reference, kind, state, priority, max_attempts, due, created, updated, headers, payload)
SELECT d.id, d.reused * clock.now, CAST(:queue AS text), d.reference, d.kind, 0, d.priority, d.max_attempts,
       coalesce(d.at, clock.now + d.delay), clock.now, clock.now, d.headers, d.payload
  FROM clock, unnest(CAST(:id AS uuid[]), CAST(:reused AS smallint[]), CAST(:reference AS text[]), CAST(:kind AS text[]),
       CAST(:priority AS smallint[]), CAST(:max_attempts AS smallint[]), CAST(:at AS bigint[]), CAST(:delay AS bigint[]),
       CAST(:headers AS text[]), CAST(:payload AS bytea[]))
       AS d (id, reused, reference, kind, priority, max_attempts, at, delay, headers, payload)
ON CONFLICT DO NOTHING
RETURNING id;

-- InsertAlike. Adds new tasks without a reference that share all but their ids and payloads.
-- At most 5000 rows.
WITH clock AS MATERIALIZED (SELECT CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint) AS now)
INSERT INTO dbq_task (id, queue, kind, state, priority, max_attempts, due, created, updated, headers, payload)
SELECT d.id, CAST(:queue AS text), CAST(:kind AS text), 0, CAST(:priority AS smallint), CAST(:max_attempts AS smallint),
       coalesce(CAST(:at AS bigint), clock.now + CAST(:delay AS bigint)), clock.now, clock.now, CAST(:headers AS text), d.payload
  FROM clock, (SELECT unnest(CAST(:id AS uuid[])) AS id, unnest(CAST(:payload AS bytea[])) AS payload) AS d;

-- Settle. Ends attempts (complete, fail, poison, release), if their fences are still valid.
-- At most 5000 rows.
WITH clock AS MATERIALIZED (SELECT CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint) AS now)
UPDATE dbq_task t SET
  state = CASE WHEN d.state = 3 AND coalesce(d.at, d.after) IS NOT NULL AND t.attempt >= t.max_attempts THEN 4 ELSE d.state END,
  due = CASE WHEN d.state = 3 AND t.attempt >= t.max_attempts THEN NULL ELSE coalesce(d.at, clock.now + d.after) END,
  attempt = t.attempt - d.uncount, lease_until = NULL, updated = clock.now,
  result = CASE WHEN d.state = 0 THEN coalesce(d.result, t.result) ELSE d.result END
  FROM clock, (SELECT CAST(:id AS uuid[]) AS id, CAST(:fence AS bigint[]) AS fence, CAST(:state AS smallint[]) AS state, CAST(:at AS bigint[]) AS at,
       CAST(:after AS bigint[]) AS after, CAST(:uncount AS smallint[]) AS uncount, CAST(:result AS bytea[]) AS result
         WHERE CASE WHEN CAST(:lock_wait AS bigint) IS NULL THEN true
       ELSE set_config('lock_timeout', CAST(CAST(:lock_wait AS bigint) AS text), true) IS NOT NULL END OFFSET 0) AS given,
       unnest(given.id, given.fence, given.state, given.at, given.after, given.uncount, given.result) AS d (id, fence, state, at, after, uncount, result)
 WHERE t.id = d.id AND t.fence = d.fence AND t.state + 0 = 1
RETURNING t.id, t.fence, t.state;

-- Unlocked. Locks the tasks of a batch that no other transaction has locked: these alone are settled then.
-- At most 5000 rows.
SELECT t.id FROM dbq_task t WHERE t.id = ANY (CAST((SELECT CAST(:id AS uuid[])) AS uuid[]))
   FOR UPDATE SKIP LOCKED;

-- Complete. Ends attempts that completed without a result, if their common fence is still valid.
-- At most 5000 rows.
UPDATE dbq_task t SET state = 2, due = NULL, lease_until = NULL, updated = (SELECT CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint)), result = NULL
 WHERE t.id = ANY (CAST((SELECT CAST(:id AS uuid[]) WHERE CASE WHEN CAST(:lock_wait AS bigint) IS NULL THEN true
       ELSE set_config('lock_timeout', CAST(CAST(:lock_wait AS bigint) AS text), true) IS NOT NULL END) AS uuid[]))
   AND t.fence = CAST(:fence AS bigint) AND t.state + 0 = 1
RETURNING t.id;

-- Remove. Ends attempts and removes the tasks (complete and delete), if their fences are still valid.
-- At most 5000 rows.
DELETE FROM dbq_task t USING (SELECT CAST(:id AS uuid[]) AS id, CAST(:fence AS bigint[]) AS fence
         WHERE CASE WHEN CAST(:lock_wait AS bigint) IS NULL THEN true
       ELSE set_config('lock_timeout', CAST(CAST(:lock_wait AS bigint) AS text), true) IS NOT NULL END OFFSET 0) AS given,
       unnest(given.id, given.fence) AS d (id, fence)
 WHERE t.id = d.id AND t.fence = d.fence AND t.state + 0 = 1
RETURNING t.id, t.fence;

-- RemoveAlike. Ends attempts and removes the tasks, if their common fence is still valid.
-- At most 5000 rows.
DELETE FROM dbq_task t 
 WHERE t.id = ANY (CAST((SELECT CAST(:id AS uuid[]) WHERE CASE WHEN CAST(:lock_wait AS bigint) IS NULL THEN true
       ELSE set_config('lock_timeout', CAST(CAST(:lock_wait AS bigint) AS text), true) IS NOT NULL END) AS uuid[]))
   AND t.fence = CAST(:fence AS bigint) AND t.state + 0 = 1
RETURNING t.id;

-- Extend. Renews leases. On servers a renewal is a row of its own, so that a heartbeat writes and locks no task.
-- At most 5000 rows.
WITH clock AS MATERIALIZED (SELECT CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint) AS now)
INSERT INTO dbq_lease AS l (id, fence, lease_until, keep_until)
SELECT t.id, t.fence, clock.now + CAST(:lease AS bigint), greatest(t.lease_until, clock.now + CAST(:lease AS bigint))
  FROM clock, (SELECT CAST(:id AS uuid[]) AS id, CAST(:fence AS bigint[]) AS fence OFFSET 0) AS given,
       unnest(given.id, given.fence) AS d (id, fence), dbq_task t
 WHERE t.id = d.id AND t.fence = d.fence AND t.state + 0 = 1 ORDER BY t.id
ON CONFLICT (id) DO UPDATE
SET fence = excluded.fence, lease_until = excluded.lease_until, keep_until = excluded.keep_until
WHERE l.fence <= excluded.fence
RETURNING l.id, l.fence;

-- Start. Marks attempts as started, where a lease that runs out must count as an attempt.
-- At most 5000 rows.
UPDATE dbq_task t SET started = 1 FROM (SELECT CAST(:id AS uuid[]) AS id, CAST(:fence AS bigint[]) AS fence OFFSET 0) AS given,
       unnest(given.id, given.fence) AS d (id, fence)
 WHERE t.id = d.id AND t.fence = d.fence AND t.state + 0 = 1
RETURNING t.id, t.fence;

-- DropLeases. Removes the renewals of leases that were settled.
-- At most 5000 rows.
DELETE FROM dbq_lease l USING (SELECT CAST(:id AS uuid[]) AS id, CAST(:fence AS bigint[]) AS fence OFFSET 0) AS given,
       unnest(given.id, given.fence) AS d (id, fence) WHERE l.id = d.id AND l.fence = d.fence;

-- ExpireLeases. Removes renewals that ended long ago, a few at a time.
DELETE FROM dbq_lease WHERE keep_until <= CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint) - CAST(:age AS bigint) AND id = ANY (ARRAY(
  SELECT id FROM dbq_lease WHERE keep_until <= CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint) - CAST(:age AS bigint) LIMIT :limit));

-- Move reject. A task is taken out before it runs, and parked.
-- At most 5000 rows.
SELECT t.id, t.queue, t.state, t.attempt, t.fence, t.holder, t.updated, t.result, CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint) AS now
  FROM dbq_task t WHERE t.id = ANY (CAST(:id AS uuid[])) AND (state = 0) ORDER BY t.id FOR UPDATE;
UPDATE dbq_task t SET state = 3, due = NULL, updated = CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint) WHERE t.id = ANY (CAST(:id AS uuid[])) AND (state = 0);

-- Move revoke. The lease is taken away and the task parked; its worker learns so at its next call.
-- At most 5000 rows.
SELECT t.id, t.queue, t.state, t.attempt, t.fence, t.holder, t.updated, t.result, CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint) AS now
  FROM dbq_task t WHERE t.id = ANY (CAST(:id AS uuid[])) AND (state = 1) ORDER BY t.id FOR UPDATE;
UPDATE dbq_task t SET state = 3, due = NULL, lease_until = NULL, fence = fence + 1, updated = CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint) WHERE t.id = ANY (CAST(:id AS uuid[])) AND (state = 1);

-- Move reenqueue. A failed task is due again, and its attempts start over.
-- At most 5000 rows.
SELECT t.id, t.queue, t.state, t.attempt, t.fence, t.holder, t.updated, t.result, CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint) AS now
  FROM dbq_task t WHERE t.id = ANY (CAST(:id AS uuid[])) AND (state = 3 OR state = 4) AND state >= 3 ORDER BY t.id FOR UPDATE;
UPDATE dbq_task t SET state = 0, due = CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint), attempt = 0, lapses = 0, updated = CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint) WHERE t.id = ANY (CAST(:id AS uuid[])) AND (state = 3 OR state = 4) AND state >= 3;

-- Move quarantine. A failed task is not to be retried.
-- At most 5000 rows.
SELECT t.id, t.queue, t.state, t.attempt, t.fence, t.holder, t.updated, t.result, CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint) AS now
  FROM dbq_task t WHERE t.id = ANY (CAST(:id AS uuid[])) AND (state = 3) AND state >= 3 ORDER BY t.id FOR UPDATE;
UPDATE dbq_task t SET state = 4, due = NULL, updated = CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint) WHERE t.id = ANY (CAST(:id AS uuid[])) AND (state = 3) AND state >= 3;

-- Move restore. A poisoned task is parked for inspection.
-- At most 5000 rows.
SELECT t.id, t.queue, t.state, t.attempt, t.fence, t.holder, t.updated, t.result, CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint) AS now
  FROM dbq_task t WHERE t.id = ANY (CAST(:id AS uuid[])) AND (state = 4) AND state >= 3 ORDER BY t.id FOR UPDATE;
UPDATE dbq_task t SET state = 3, due = NULL, updated = CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint) WHERE t.id = ANY (CAST(:id AS uuid[])) AND (state = 4) AND state >= 3;

-- Move purge. A finished or parked task is removed.
-- At most 5000 rows.
DELETE FROM dbq_task t WHERE t.id = ANY (CAST(:id AS uuid[])) AND (state = 2 OR state = 4 OR (state = 3 AND due IS NULL)) RETURNING t.id;

-- SetResult. Stores what an operator said, after Move in the same transaction.
-- At most 5000 rows.
UPDATE dbq_task t SET result = d.result
  FROM (SELECT CAST(:id AS uuid[]) AS id, CAST(:result AS bytea[]) AS result OFFSET 0) AS given, unnest(given.id, given.result) AS d (id, result)
 WHERE t.id = d.id;

-- Get. Reads one task.
SELECT t.id, t.queue, t.reference, t.kind, t.state, t.priority, t.attempt, t.max_attempts, t.lapses, t.fence, t.due, CASE WHEN t.state = 1 THEN coalesce((SELECT l.lease_until FROM dbq_lease l WHERE l.id = t.id AND l.fence = t.fence), t.lease_until) END AS lease_until, t.holder, t.created, t.updated, t.headers, t.result, t.payload, CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint) AS now FROM dbq_task t WHERE t.id = :id;

-- Held. Reads what one checkout holds, when its connection died before it had the answer.
SELECT t.id, t.queue, t.reference, t.kind, t.state, t.priority, t.attempt, t.max_attempts, t.lapses, t.fence, t.due, CASE WHEN t.state = 1 THEN coalesce((SELECT l.lease_until FROM dbq_lease l WHERE l.id = t.id AND l.fence = t.fence), t.lease_until) END AS lease_until, t.holder, t.created, t.updated, t.headers, t.result, t.payload, CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint) AS now FROM dbq_task t WHERE t.queue = :queue AND t.state = 1 AND t.holder = :holder;

-- Exhausted. Reads what one checkout moved to POISON, when its connection died before it had the answer.
SELECT t.id, t.queue, t.reference, t.kind, t.state, t.priority, t.attempt, t.max_attempts, t.lapses, t.fence, t.due, CASE WHEN t.state = 1 THEN coalesce((SELECT l.lease_until FROM dbq_lease l WHERE l.id = t.id AND l.fence = t.fence), t.lease_until) END AS lease_until, t.holder, t.created, t.updated, t.headers, t.result, t.payload, CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint) AS now FROM dbq_task t
 WHERE t.queue = :queue AND t.state = 4 AND t.state >= 3 AND t.result = convert_to('the lease of the last attempt ran out, held by ' || t.holder ||
      ', found by ' || CAST(:holder AS text), 'UTF8');

-- List. Lists tasks without their payloads. {where} is made of comparisons of plain columns, {order} is empty or DESC.
SELECT t.id, t.queue, t.reference, t.kind, t.state, t.priority, t.attempt, t.max_attempts, t.lapses, t.fence, t.due, CASE WHEN t.state = 1 THEN coalesce((SELECT l.lease_until FROM dbq_lease l WHERE l.id = t.id AND l.fence = t.fence), t.lease_until) END AS lease_until, t.holder, t.created, t.updated, t.headers, t.result, CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint) AS now FROM dbq_task t WHERE {where} ORDER BY t.id{order} LIMIT :limit;

-- FindIDs. Finds the tasks that an operator's bulk call changes.
SELECT t.id FROM dbq_task t WHERE {where} ORDER BY t.id LIMIT :limit;

-- IDBehind. Finds where the next part of the old tasks ends, for cleaning.
SELECT x.id FROM (SELECT t.id FROM dbq_task t WHERE t.id > :after ORDER BY t.id LIMIT 1 OFFSET :offset) AS x
 WHERE x.id < :before;

-- Peek. Reads where tasks are, to find out whether a call whose connection died had happened.
-- At most 5000 rows.
SELECT t.id, t.queue, t.state, t.fence, t.updated FROM dbq_task t WHERE t.id = ANY (CAST(:id AS uuid[]));

-- FindReference. Finds a task by its reference.
SELECT id FROM dbq_task WHERE reference = :reference AND queue = :queue;

-- Count. Counts the tasks of each queue by state, all of them.
WITH clock AS MATERIALIZED (SELECT CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint) AS now)
SELECT queue, state, count(*) AS tasks, CAST(0 AS bigint) AS parked, count(*) FILTER (WHERE due <= clock.now) AS due,
       max(clock.now - due) FILTER (WHERE due <= clock.now) AS oldest
  FROM dbq_task, clock WHERE due IS NOT NULL GROUP BY queue, state
UNION ALL SELECT queue, 1, count(*), 0, 0, NULL FROM dbq_task WHERE state = 1 GROUP BY queue
UNION ALL SELECT queue, state, count(*), count(*), 0, NULL FROM dbq_task WHERE state >= 3 AND due IS NULL GROUP BY queue, state
UNION ALL SELECT queue, 2, count(*), 0, 0, NULL FROM dbq_task WHERE state = 2 GROUP BY queue;

-- CountUpTo. Counts the tasks of a queue by state, up to a limit of each.
SELECT 0 AS state, count(*) FILTER (WHERE x.state = 0) AS tasks, CAST(0 AS bigint) AS parked, CAST(0 AS bigint) AS due,
       CAST(NULL AS bigint) AS oldest, CASE WHEN count(*) >= CAST(:limit AS bigint) THEN 1 ELSE 0 END AS cut
  FROM (SELECT x.state FROM generate_series(0, 9) AS p (priority) CROSS JOIN LATERAL (
    SELECT t.state FROM dbq_task t WHERE t.queue = :queue AND t.priority = p.priority AND t.due IS NOT NULL
     ORDER BY t.due, t.id LIMIT CAST(:limit AS bigint)) AS x LIMIT CAST(:limit AS bigint)) AS x
UNION ALL SELECT 0, 0, 0, count(*), CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint) - min(x.due), 0
  FROM generate_series(0, 9) AS p (priority) CROSS JOIN LATERAL (
    SELECT t.due FROM dbq_task t WHERE t.queue = :queue AND t.priority = p.priority AND t.due <= CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint)
     ORDER BY t.due, t.id LIMIT CAST(:limit AS bigint)) AS x
UNION ALL SELECT 1, count(*), 0, 0, NULL, CASE WHEN count(*) >= CAST(:limit AS bigint) THEN 1 ELSE 0 END
  FROM (SELECT 1 FROM dbq_task t WHERE t.queue = :queue AND t.state = 1
         ORDER BY t.updated LIMIT CAST(:limit AS bigint)) AS x
UNION ALL SELECT f.state, x.tasks, CASE f.state WHEN 3 THEN x.tasks - x.due ELSE 0 END, 0, NULL,
       CASE WHEN x.tasks >= CAST(:limit AS bigint) THEN 1 ELSE 0 END
  FROM (VALUES (3), (4)) AS f (state) CROSS JOIN LATERAL (
    SELECT count(*) AS tasks, count(x.due) AS due
      FROM (SELECT t.due FROM dbq_task t WHERE t.queue = :queue AND t.state = f.state AND t.state >= 3
             ORDER BY t.id LIMIT CAST(:limit AS bigint)) AS x) AS x;

-- CountNewest. Counts the newest tasks that have ended, which are in no index by their queue.
SELECT x.queue, 2 AS state, count(*) FILTER (WHERE x.state = 2) AS tasks,
       CASE WHEN sum(count(*)) OVER () >= CAST(:limit AS bigint) THEN 1 ELSE 0 END AS cut
  FROM (SELECT t.queue, t.state FROM dbq_task t ORDER BY t.id DESC LIMIT CAST(:limit AS bigint)) AS x GROUP BY x.queue;

-- NextQueue. Finds the next queue by name.
SELECT x.queue FROM (
  (SELECT t.queue FROM dbq_task t WHERE t.due IS NOT NULL AND t.queue > :queue ORDER BY t.queue LIMIT 1)
   UNION ALL (SELECT t.queue FROM dbq_task t WHERE t.state = 1 AND t.queue > :queue ORDER BY t.queue LIMIT 1)
   UNION ALL (SELECT t.queue FROM dbq_task t WHERE t.state >= 3 AND t.queue > :queue ORDER BY t.queue LIMIT 1)) AS x ORDER BY x.queue LIMIT 1;

-- Next. Tells when the next task of a queue is due: what an idle worker asks.
WITH busy AS MATERIALIZED (
  SELECT t.id, t.fence, t.lease_until FROM dbq_task t
   WHERE t.queue = :queue AND t.state = 1 AND t.updated >= CAST(:oldest AS bigint)),
renewed AS MATERIALIZED (SELECT l.id, l.fence, l.lease_until FROM dbq_lease l WHERE EXISTS (SELECT 1 FROM busy))
SELECT CASE WHEN NOT EXISTS (SELECT 1 FROM dbq_note n WHERE n.kind = 'pause' AND n.name = :queue) THEN least((SELECT min(x.due) FROM generate_series(0, 9) AS p (priority) CROSS JOIN LATERAL (
    SELECT t.due FROM dbq_task t WHERE t.queue = :queue AND t.priority = p.priority
       AND t.due >= (CAST(:since AS bigint[]))[p.priority + 1] ORDER BY t.due, t.id LIMIT 1) AS x),
  (SELECT min(CASE WHEN b.id IS NOT NULL THEN coalesce(r.lease_until, b.lease_until) END)
     FROM busy b FULL JOIN renewed r ON r.id = b.id AND r.fence = b.fence)) END AS due, CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint) AS now;

-- Notify. Wakes workers of other processes, outside of the transaction that enqueued.
SELECT pg_notify(CAST(:channel AS text), CAST(:payload AS text)), set_config('synchronous_commit', 'off', true);

-- Note. Reads a note: a small fact that all who work on these tables share, such as that a queue is paused.
SELECT kind, name, version, value, updated, expires, CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint) AS now FROM dbq_note WHERE kind = :kind AND name = :name;

-- Notes. Reads the notes of a kind.
SELECT kind, name, version, value, updated, expires, CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint) AS now FROM dbq_note WHERE kind = :kind ORDER BY name LIMIT :limit;

-- AddNote. Adds a note where there is none.
INSERT INTO dbq_note (kind, name, version, value, updated, expires)
VALUES (:kind, :name, 1, :value, CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint), CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint) + CAST(:ttl AS bigint)) ON CONFLICT DO NOTHING;

-- SetNote. Changes a note, if nobody else has since it was read.
UPDATE dbq_note SET version = version + 1, value = :value, updated = CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint), expires = CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint) + CAST(:ttl AS bigint)
 WHERE kind = :kind AND name = :name AND version = :version;

-- DropNote. Removes a note.
DELETE FROM dbq_note WHERE kind = :kind AND name = :name;

-- ExpireNotes. Removes notes whose time is over.
DELETE FROM dbq_note WHERE kind = :kind AND expires <= CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint) - CAST(:age AS bigint);

-- Record. Adds attempts to the history.
-- At most 5000 rows.
INSERT INTO dbq_attempt (task, fence, queue, attempt, outcome, started, ended, worker, error)
SELECT d.id, d.fence, CAST(:queue AS text), d.attempt, d.outcome, d.started, d.ended, d.worker, d.error
  FROM unnest(CAST(:id AS uuid[]), CAST(:fence AS bigint[]), CAST(:attempt AS smallint[]), CAST(:outcome AS text[]), CAST(:started AS bigint[]),
       CAST(:ended AS bigint[]), CAST(:worker AS text[]), CAST(:error AS bytea[])) AS d (id, fence, attempt, outcome, started, ended, worker, error)
ON CONFLICT DO NOTHING;

-- RecordAlike. Adds attempts to the history that ended alike, without an error, and are most likely new.
-- At most 5000 rows.
INSERT INTO dbq_attempt (task, fence, queue, attempt, outcome, started, ended, worker)
SELECT d.id, d.fence, CAST(:queue AS text), d.attempt, CAST(:outcome AS text), d.started, d.ended, CAST(:worker AS text)
  FROM (SELECT unnest(CAST(:id AS uuid[])) AS id, unnest(CAST(:fence AS bigint[])) AS fence, unnest(CAST(:attempt AS smallint[])) AS attempt,
               unnest(CAST(:started AS bigint[])) AS started, unnest(CAST(:ended AS bigint[])) AS ended) AS d;

-- Attempts. Reads the attempts of a task.
SELECT task, fence, queue, attempt, outcome, started, ended, worker, error FROM dbq_attempt WHERE task = :id ORDER BY fence LIMIT :limit;

-- ExpireAttempts. Removes old attempts, a few at a time.
DELETE FROM dbq_attempt WHERE ctid = ANY (ARRAY(
  SELECT ctid FROM dbq_attempt WHERE queue = :queue AND ended <= CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint) - CAST(:age AS bigint) ORDER BY ended LIMIT :limit));

-- Archive. Copies ended tasks into the archive, just before they are removed in the same transaction.
-- At most 5000 rows.
INSERT INTO dbq_archive (id, fence, due, was_due, lease_until, created, updated, state, priority, attempt, max_attempts, lapses, started, queue, reference, kind, holder, headers, payload, result, archived)
SELECT id, fence, due, was_due, lease_until, created, updated, state, priority, attempt, max_attempts, lapses, started, queue, reference, kind, holder, headers, payload, result, CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint) FROM dbq_task t
 WHERE t.id = ANY (CAST(:id AS uuid[])) AND (state = 2 OR state = 4 OR (state = 3 AND due IS NULL)) FOR UPDATE ON CONFLICT DO NOTHING;

-- ListArchive. Lists tasks of the archive.
SELECT t.id, t.queue, t.reference, t.kind, t.state, t.priority, t.attempt, t.max_attempts, t.lapses, t.fence, t.due, t.lease_until, t.holder, t.created, t.updated, t.headers, t.result, CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint) AS now FROM dbq_archive t WHERE {where} ORDER BY t.id LIMIT :limit;

-- Checkout dead. Tells whether the table has many dead rows, which a search that took long had to pass.
SELECT CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint) AS now WHERE pg_stat_get_dead_tuples(CAST('dbq_task' AS regclass)) >= CAST(:dead AS bigint);

-- Checkout expired. Takes over tasks whose lease ran out; those whose attempts are spent become POISON.
WITH clock AS MATERIALIZED (SELECT CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint) AS now), ended AS MATERIALIZED (
  SELECT t.id, t.fence, t.ctid AS place, coalesce(octet_length(t.payload), 0) AS size, t.holder AS was_holder,
       t.updated AS was_taken, t.attempt AS was_attempt, coalesce((SELECT l.lease_until FROM dbq_lease l WHERE l.id = t.id AND l.fence = t.fence), t.lease_until) AS was_until
  FROM dbq_task t
   WHERE t.queue = :queue AND t.state = 1 AND t.updated >= CAST(:oldest AS bigint) AND t.holder <> :holder
     AND (t.id, t.fence) NOT IN (SELECT l.id, l.fence FROM dbq_lease l WHERE l.lease_until > (SELECT now FROM clock))
     AND (t.lease_until <= (SELECT now FROM clock)
       OR (t.id, t.fence) IN (SELECT l.id, l.fence FROM dbq_lease l WHERE l.lease_until <= (SELECT now FROM clock)))
     AND NOT EXISTS (SELECT 1 FROM dbq_note n WHERE n.kind = 'pause' AND n.name = :queue) LIMIT :limit FOR UPDATE SKIP LOCKED),
pick AS MATERIALIZED (
  SELECT * FROM (SELECT e.*, sum(size) OVER (ROWS UNBOUNDED PRECEDING) AS total FROM ended AS e) AS e WHERE total + CAST(:used AS bigint) <= greatest(CAST(:bytes AS bigint), size)), free AS (
  INSERT INTO dbq_lease AS l (id, fence, lease_until, keep_until)
  SELECT pick.id, pick.fence + 1, clock.now + CAST(:lease AS bigint), clock.now + CAST(:lease AS bigint)
    FROM pick, clock ORDER BY pick.id
  ON CONFLICT (id) DO UPDATE
  SET fence = excluded.fence, lease_until = excluded.lease_until, keep_until = excluded.keep_until
   WHERE l.fence < excluded.fence - 1 OR l.lease_until <= (SELECT now FROM clock)
  RETURNING l.id),
won AS MATERIALIZED (SELECT pick.* FROM pick WHERE (pick.id IN (SELECT free.id FROM free)) IS TRUE)
UPDATE dbq_task t SET
  state = CASE WHEN t.attempt >= t.max_attempts AND (t.started = 1 OR t.lapses >= 99) THEN 4 ELSE 1 END,
  result = CASE WHEN t.attempt >= t.max_attempts AND (t.started = 1 OR t.lapses >= 99)
    THEN convert_to('the lease of the last attempt ran out, held by ' || t.holder ||
      ', found by ' || CAST(:holder AS text), 'UTF8') ELSE t.result END,
  lease_until = CASE WHEN t.attempt >= t.max_attempts AND (t.started = 1 OR t.lapses >= 99) THEN NULL ELSE clock.now + CAST(:lease AS bigint) END,
  holder = CASE WHEN t.attempt >= t.max_attempts AND (t.started = 1 OR t.lapses >= 99) THEN t.holder ELSE :holder END,
  attempt = CASE WHEN t.attempt >= t.max_attempts AND (t.started = 1 OR t.lapses >= 99) THEN t.attempt ELSE CASE WHEN (t.started = 1 OR t.lapses >= 99) THEN t.attempt + 1 ELSE t.attempt END END,
  lapses = CASE WHEN t.started = 1 THEN t.lapses WHEN t.lapses >= 99 THEN 0 ELSE t.lapses + 1 END, started = CAST(:begun AS smallint),
  fence = t.fence + 1, updated = clock.now
  FROM won, clock WHERE t.ctid = won.place AND t.state + 0 = 1
RETURNING t.id, t.queue, t.reference, t.kind, t.state, t.priority, t.attempt, t.max_attempts, t.lapses, t.fence, t.due, t.lease_until, t.holder, t.created, t.updated, t.headers, t.result, t.payload, clock.now, won.was_holder, won.was_taken, won.was_attempt, won.was_until,
  (SELECT count(*) FROM ended) > (SELECT count(*) FROM pick) AS cut;

-- Checkout oldest. Tells when the oldest task in work was taken: leases that ran out are looked for from there on.
WITH clock AS MATERIALIZED (SELECT CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint) AS now) SELECT least(clock.now - CAST(:late AS bigint), (SELECT t.updated FROM dbq_task t
  WHERE t.queue = :queue AND t.state = 1 AND t.updated >= CAST(:oldest AS bigint) ORDER BY t.updated LIMIT 1)) AS updated FROM clock;

-- Checkout queue lock. Strategy advisory: waits for the queue's lock, in a statement of its own.
SELECT pg_advisory_xact_lock(hashtextextended(
  'dbq checkout ' || CAST(CAST('dbq_task' AS regclass) AS oid) || ' ' || CAST(:queue AS text), 0));

-- Checkout ready. Finds due tasks: one ordered search for each priority. On a server it leases them as well.
WITH clock AS MATERIALIZED (SELECT CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint) AS now), pick AS MATERIALIZED (
  SELECT x.ctid AS place, x.size FROM generate_series(0, 9) AS p (priority) CROSS JOIN LATERAL (
    SELECT t.id, t.fence, t.due, t.ctid, coalesce(octet_length(t.payload), 0) AS size FROM dbq_task t
     WHERE t.queue = :queue AND t.priority = p.priority AND t.due <= (SELECT now FROM clock)
       AND t.due >= (CAST(:since AS bigint[]))[p.priority + 1]
       AND NOT EXISTS (SELECT 1 FROM dbq_note n WHERE n.kind = 'pause' AND n.name = :queue)
     ORDER BY t.due, t.id LIMIT :limit FOR UPDATE SKIP LOCKED) AS x LIMIT :limit)
UPDATE dbq_task t SET state = 1, due = NULL, was_due = t.due, attempt = t.attempt + 1, fence = t.fence + 1,
  lease_until = clock.now + CAST(:lease AS bigint), holder = :holder, started = CAST(:begun AS smallint),
  updated = clock.now
  FROM clock WHERE t.ctid = ANY (ARRAY(SELECT place FROM pick WHERE NOT EXISTS (SELECT 1 FROM pick AS p WHERE p.size > CAST(:share AS bigint)))) AND coalesce(t.due <= clock.now, false)
RETURNING t.id, t.reference, t.kind, t.priority, t.attempt, t.max_attempts, t.lapses, t.fence, t.created, t.headers, t.payload, t.result,
  t.was_due, clock.now;

-- Checkout ready within. Is ready for a queue whose payloads are not known to be small: it leases those that fit.
WITH clock AS MATERIALIZED (SELECT CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint) AS now), pick AS MATERIALIZED (
  SELECT x.ctid AS place, x.size, sum(size) OVER (ROWS UNBOUNDED PRECEDING) AS total FROM generate_series(0, 9) AS p (priority) CROSS JOIN LATERAL (
    SELECT t.id, t.fence, t.due, t.ctid, coalesce(octet_length(t.payload), 0) AS size FROM dbq_task t
     WHERE t.queue = :queue AND t.priority = p.priority AND t.due <= (SELECT now FROM clock)
       AND t.due >= (CAST(:since AS bigint[]))[p.priority + 1]
       AND NOT EXISTS (SELECT 1 FROM dbq_note n WHERE n.kind = 'pause' AND n.name = :queue)
     ORDER BY t.due, t.id LIMIT :limit FOR UPDATE SKIP LOCKED) AS x LIMIT :limit)
UPDATE dbq_task t SET state = 1, due = NULL, was_due = t.due, attempt = t.attempt + 1, fence = t.fence + 1,
  lease_until = clock.now + CAST(:lease AS bigint), holder = :holder, started = CAST(:begun AS smallint),
  updated = clock.now
  FROM clock WHERE t.ctid = ANY (ARRAY(SELECT place FROM pick WHERE total + CAST(:used AS bigint) <= greatest(CAST(:bytes AS bigint), size))) AND coalesce(t.due <= clock.now, false)
RETURNING t.id, t.reference, t.kind, t.priority, t.attempt, t.max_attempts, t.lapses, t.fence, t.created, t.headers, t.payload, t.result,
  t.was_due, clock.now, (SELECT NOT bool_and(total + CAST(:used AS bigint) <= greatest(CAST(:bytes AS bigint), size)) FROM pick) AS cut;

-- Checkout see expired. Strategy cas: reads candidates to take over, without locks.
WITH clock AS MATERIALIZED (SELECT CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint) AS now)
SELECT t.id, t.fence, coalesce(octet_length(t.payload), 0) AS payload_size, t.holder AS was_holder,
       t.updated AS was_taken, t.attempt AS was_attempt, coalesce((SELECT l.lease_until FROM dbq_lease l WHERE l.id = t.id AND l.fence = t.fence), t.lease_until) AS was_until
  FROM dbq_task t
   WHERE t.queue = :queue AND t.state = 1 AND t.updated >= CAST(:oldest AS bigint) AND t.holder <> :holder
     AND (t.id, t.fence) NOT IN (SELECT l.id, l.fence FROM dbq_lease l WHERE l.lease_until > (SELECT now FROM clock))
     AND (t.lease_until <= (SELECT now FROM clock)
       OR (t.id, t.fence) IN (SELECT l.id, l.fence FROM dbq_lease l WHERE l.lease_until <= (SELECT now FROM clock)))
     AND NOT EXISTS (SELECT 1 FROM dbq_note n WHERE n.kind = 'pause' AND n.name = :queue) LIMIT :limit ;

-- Checkout see ready. Strategy cas: reads candidates without locks.
WITH clock AS MATERIALIZED (SELECT CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint) AS now)
SELECT x.id, x.fence, x.size AS payload_size FROM generate_series(0, 9) AS p (priority) CROSS JOIN LATERAL (
    SELECT t.id, t.fence, t.due, t.ctid, coalesce(octet_length(t.payload), 0) AS size FROM dbq_task t
     WHERE t.queue = :queue AND t.priority = p.priority AND t.due <= (SELECT now FROM clock)
       AND t.due >= (CAST(:since AS bigint[]))[p.priority + 1]
       AND NOT EXISTS (SELECT 1 FROM dbq_note n WHERE n.kind = 'pause' AND n.name = :queue)
     ORDER BY t.due, t.id LIMIT :limit ) AS x LIMIT :limit;

-- CheckoutBatch take expired. Strategy cas: takes over those candidates whose fence is still the same; those whose attempts are spent become POISON.
-- At most 5000 rows.
WITH clock AS MATERIALIZED (SELECT CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint) AS now), pick AS MATERIALIZED (
  SELECT t.id, t.fence
    FROM (SELECT CAST(:id AS uuid[]) AS id, CAST(:fence AS bigint[]) AS fence OFFSET 0) AS given,
         unnest(given.id, given.fence) AS d (id, fence), dbq_task t
   WHERE t.id = d.id AND t.fence = d.fence AND t.state + 0 = 1 FOR UPDATE OF t SKIP LOCKED), free AS (
  INSERT INTO dbq_lease AS l (id, fence, lease_until, keep_until)
  SELECT pick.id, pick.fence + 1, clock.now + CAST(:lease AS bigint), clock.now + CAST(:lease AS bigint)
    FROM pick, clock ORDER BY pick.id
  ON CONFLICT (id) DO UPDATE
  SET fence = excluded.fence, lease_until = excluded.lease_until, keep_until = excluded.keep_until
   WHERE l.fence < excluded.fence - 1 OR l.lease_until <= (SELECT now FROM clock)
  RETURNING l.id),
won AS MATERIALIZED (SELECT pick.* FROM pick WHERE (pick.id IN (SELECT free.id FROM free)) IS TRUE)
UPDATE dbq_task t SET
  state = CASE WHEN t.attempt >= t.max_attempts AND (t.started = 1 OR t.lapses >= 99) THEN 4 ELSE 1 END,
  result = CASE WHEN t.attempt >= t.max_attempts AND (t.started = 1 OR t.lapses >= 99)
    THEN convert_to('the lease of the last attempt ran out, held by ' || t.holder ||
      ', found by ' || CAST(:holder AS text), 'UTF8') ELSE t.result END,
  lease_until = CASE WHEN t.attempt >= t.max_attempts AND (t.started = 1 OR t.lapses >= 99) THEN NULL ELSE clock.now + CAST(:lease AS bigint) END,
  holder = CASE WHEN t.attempt >= t.max_attempts AND (t.started = 1 OR t.lapses >= 99) THEN t.holder ELSE :holder END,
  attempt = CASE WHEN t.attempt >= t.max_attempts AND (t.started = 1 OR t.lapses >= 99) THEN t.attempt ELSE CASE WHEN (t.started = 1 OR t.lapses >= 99) THEN t.attempt + 1 ELSE t.attempt END END,
  lapses = CASE WHEN t.started = 1 THEN t.lapses WHEN t.lapses >= 99 THEN 0 ELSE t.lapses + 1 END, started = CAST(:begun AS smallint),
  fence = t.fence + 1, updated = clock.now
  FROM won, clock WHERE t.id = won.id AND t.fence = won.fence AND t.state + 0 = 1
RETURNING t.id, t.queue, t.reference, t.kind, t.state, t.priority, t.attempt, t.max_attempts, t.lapses, t.fence, t.due, t.lease_until, t.holder, t.created, t.updated, t.headers, t.result, t.payload, clock.now;

-- CheckoutBatch take ready. Strategy cas: leases those candidates whose fence is still the same.
-- At most 5000 rows.
WITH clock AS MATERIALIZED (SELECT CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint) AS now), pick AS MATERIALIZED (
  SELECT t.id, t.fence
    FROM (SELECT CAST(:id AS uuid[]) AS id, CAST(:fence AS bigint[]) AS fence OFFSET 0) AS given,
         unnest(given.id, given.fence) AS d (id, fence), dbq_task t
   WHERE t.id = d.id AND t.fence = d.fence AND coalesce(t.due <= (SELECT now FROM clock), false) FOR UPDATE OF t SKIP LOCKED)
UPDATE dbq_task t SET state = 1, due = NULL, was_due = t.due, attempt = t.attempt + 1, fence = t.fence + 1,
  lease_until = clock.now + CAST(:lease AS bigint), holder = :holder, started = CAST(:begun AS smallint),
  updated = clock.now
  FROM pick, clock WHERE t.id = pick.id AND t.fence = pick.fence AND coalesce(t.due <= clock.now, false)
RETURNING t.id, t.reference, t.kind, t.priority, t.attempt, t.max_attempts, t.lapses, t.fence, t.created, t.headers, t.payload, t.result,
  t.was_due, clock.now;

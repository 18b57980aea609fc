-- Every statement that dbq sends to this engine, for DBA review.
-- Generated from the dialect by "go generate ./..."; do not edit.
--
-- A :name stands for a value, which is sent apart from the text and never written into it. In a statement that takes
-- many rows, it is an array. Times are microseconds since 1970 in UTC. States are 0 CREATED, 1 PROCESSING, 2
-- COMPLETED, 3 ERROR, 4 POISON. Tables begin with "dbq_" unless a program says otherwise.
--
-- {now} stands for the database's clock:
--   CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint)

-- ======== The schema ========

-- dbq's tables for postgres

-- 0: migration

-- The table of applied migrations. dbq runs this step before every migration, so each statement can run again.
CREATE TABLE IF NOT EXISTS dbq_migration (
  version integer PRIMARY KEY, title text NOT NULL, compatible integer NOT NULL, applied bigint NOT NULL);

-- 1: tasks

-- One row for each task. Times are microseconds since 1970 in UTC, set by the database's clock. fence grows with
-- every change of owner; a statement of a lease whose fence is outdated changes nothing.
--
-- A task that may become due has a due time; every other row has none. One partial index (task_ready) serves checkout
-- in all states, and ended tasks are only in the indexes of their id, their reference and, unless completed,
-- task_failed. lease_until is in no index, so that no index is written for a lease. Leased tasks are found by
-- updated, the time at which they were taken (task_busy). was_due is the due time that a leased task had. Keys
-- compare byte by byte (COLLATE "C"). The columns are ordered by size, so that none is padded.
--
-- The defaults of id (a UUID of version 7), due, created, updated, state, priority and max_attempts are for rows that
-- are inserted through the view {enqueue}. dbq sets these columns itself.
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
  state smallint NOT NULL DEFAULT 0 CHECK (state IN (0, 1, 2, 3, 4)),
  priority smallint NOT NULL DEFAULT 0 CHECK (priority BETWEEN 0 AND 9),
  attempt smallint NOT NULL DEFAULT 0,
  max_attempts smallint NOT NULL DEFAULT 10,
  lapses smallint NOT NULL DEFAULT 0,
  known_started smallint NOT NULL DEFAULT 0,
  queue varchar(100) COLLATE "C" NOT NULL,
  reference varchar(200) COLLATE "C",
  kind varchar(100) COLLATE "C" NOT NULL,
  holder varchar(200),
  headers text,
  payload bytea,
  result bytea
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500,
  autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.05);

-- The renewed leases. The row of a task is not written by a heartbeat. lease_until is the end of the renewed lease.
-- The row is kept until keep_until: a renewal may end before the lease in the task's row, which would be valid again
-- without it. The table is narrow and has one index, so that a renewal is a small write in place.
CREATE TABLE dbq_lease (
  id uuid PRIMARY KEY,
  fence bigint NOT NULL,
  lease_until bigint NOT NULL,
  keep_until bigint NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500,
  autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.05);

-- A reference is unique within its queue.
CREATE UNIQUE INDEX dbq_task_reference ON dbq_task (reference, queue) WHERE reference IS NOT NULL;

-- For checkouts: one ordered search for each priority.
CREATE INDEX dbq_task_ready ON dbq_task (queue, priority, due, id) WHERE due IS NOT NULL;

-- For searches of expired leases: the leased tasks, by when they were taken.
CREATE INDEX dbq_task_busy ON dbq_task (queue, updated) WHERE state = 1;

-- For operators: the tasks in ERROR and POISON.
CREATE INDEX dbq_task_failed ON dbq_task (queue, state, id) WHERE state >= 3;

-- The tasks as a person reads them: names of states, and times as timestamps. result is text if it is
-- valid UTF-8, and escaped otherwise; the pattern is that of UTF-8 without NUL, which text cannot contain.
CREATE VIEW dbq_tasks AS
SELECT id, queue, reference, kind,
  CASE state WHEN 0 THEN 'CREATED' WHEN 1 THEN 'PROCESSING' WHEN 2 THEN 'COMPLETED' WHEN 3 THEN 'ERROR'
    WHEN 4 THEN 'POISON' END AS state,
  priority, attempt, max_attempts, lapses, fence, to_timestamp(due / 1e6) AS due,
  to_timestamp(CASE WHEN state = 1 THEN
    coalesce((SELECT l.lease_until FROM dbq_lease l WHERE l.id = t.id AND l.fence = t.fence), t.lease_until)
    END / 1e6) AS lease_until, holder, to_timestamp(taken / 1e6) AS taken,
  to_timestamp(created / 1e6) AS created, to_timestamp(updated / 1e6) AS updated,
  headers, octet_length(payload) AS payload_bytes, CASE
    WHEN encode(result, 'hex') ~ (
      '^(0[1-9a-f]|[1-7][0-9a-f]|(c[2-9a-f]|d[0-9a-f])[89ab][0-9a-f]|(e0[ab]|e[1-9abcef][89ab]|ed[89])[0-9a-f]'
      '[89ab][0-9a-f]|(f0[9ab]|f[1-3][89ab]|f48)[0-9a-f]([89ab][0-9a-f]){2})*$')
    THEN convert_from(result, 'UTF8')
    ELSE encode(result, 'escape') END AS result
  FROM dbq_task t;

-- For programs in other languages, which enqueue by SQL: the columns that they set, and the rows that dbq accepts. A
-- user needs no privilege but INSERT on it. dbq never uses it, so that its conditions cost dbq's statements nothing.
CREATE VIEW dbq_enqueue AS
SELECT queue, kind, reference, payload, headers, priority, max_attempts, due
  FROM dbq_task
 WHERE queue <> ''
   AND (reference IS NULL OR reference <> '')
   AND concat(queue, kind, reference) !~ '[\u0001-\u001F\u007F-\u009F]'
   AND (payload IS NULL OR octet_length(payload) <= 104857600)
   AND (headers IS NULL OR octet_length(headers) <= 4000 AND json_typeof(CAST(headers AS json)) = 'object')
   AND max_attempts > 0
   AND due BETWEEN 0 AND 253402300799999999
  WITH LOCAL CHECK OPTION;

INSERT INTO dbq_migration (version, title, compatible, applied)
SELECT 1, 'tasks', 1, CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint)
 WHERE NOT EXISTS (SELECT 1 FROM dbq_migration WHERE version = 1);

-- 2: kv history archive

-- Key/value records shared by all clients: pauses and settings of queues, the registry of workers, leaders, schedules.
-- Each write checks version. A record is void after expires; a schedule is due then.
CREATE TABLE dbq_kv (
  kind varchar(20) COLLATE "C" NOT NULL,
  name varchar(200) COLLATE "C" NOT NULL,
  version bigint NOT NULL,
  value text NOT NULL,
  updated bigint NOT NULL,
  expires bigint,
  PRIMARY KEY (kind, name));

CREATE INDEX dbq_kv_expires ON dbq_kv (kind, expires, name) WHERE expires IS NOT NULL;

-- The history of attempts. The last attempt of a task is in the task's row; this table has the earlier ones, and the
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

CREATE INDEX dbq_attempt_ended ON dbq_attempt (queue, ended);

-- All attempts that have ended, including the last one of each task, which is in the task's row.
-- error is text if it is valid UTF-8, and escaped otherwise.
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

-- Tasks that retention has moved out of the task table. dbq never removes a row of it.
CREATE TABLE dbq_archive (LIKE dbq_task INCLUDING CONSTRAINTS, archived bigint NOT NULL, PRIMARY KEY (id));

INSERT INTO dbq_migration (version, title, compatible, applied)
SELECT 2, 'kv history archive', 2, CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint)
 WHERE NOT EXISTS (SELECT 1 FROM dbq_migration WHERE version = 2);

-- ======== The statements ========

-- ==== Begin ====
-- Begins a write transaction.
BEGIN ISOLATION LEVEL READ COMMITTED;

-- ==== Now ====
-- An expression, not a statement: the database's clock in microseconds since 1970.
CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint);

-- ==== MigrationLock ====
-- Waits for other migrations of the same tables.
-- Runs first in the transaction of each migration, which frees it. The lock's name has the schema and the prefix of
-- the tables, so that clients that name the schema and clients whose search path does wait for each other.
SELECT pg_advisory_xact_lock(hashtextextended(
         'dbq migration ' || coalesce(current_schema(), '') || ' ' || CAST(:name AS text), 0));

-- ==== Insert ====
-- Adds tasks. A task whose id, or reference and queue, exists is left out without an error.
-- Runs for each enqueue. Arrays come through unnest, one row for each task. ON CONFLICT DO NOTHING leaves out a row
-- whose id (primary key) or reference (index task_reference) is taken. The fence of a reused id begins at the clock,
-- above every fence that the id had before.
-- At most 5000 rows.
WITH clock AS MATERIALIZED (SELECT {now} AS now)
INSERT INTO dbq_task (id, fence, queue, reference, kind, state, priority,
                    max_attempts, due, created, updated, headers, payload)
SELECT d.id, d.reused * clock.now, CAST(:queue AS text), d.reference, d.kind, 0 /* CREATED */, d.priority,
       d.max_attempts, coalesce(d.at, clock.now + d.delay), clock.now, clock.now, d.headers, d.payload
  FROM clock,
       unnest(CAST(:id AS uuid[]), CAST(:reused AS smallint[]), CAST(:reference AS text[]), CAST(:kind AS text[]),
              CAST(:priority AS smallint[]), CAST(:max_attempts AS smallint[]), CAST(:at AS bigint[]),
              CAST(:delay AS bigint[]), CAST(:headers AS text[]), CAST(:payload AS bytea[]))
         AS d (id, reused, reference, kind, priority, max_attempts, at, delay, headers, payload)
ON CONFLICT DO NOTHING
RETURNING id;

-- ==== Settle ====
-- Ends attempts (complete, fail, poison, release) whose fences are still valid.
-- Runs for attempts that ended in different ways, or under different fences. OFFSET 0 hides the length of the arrays
-- from the planner, which would rather scan a small table for a long array than look each row up. state + 0 keeps it
-- from driving the join from the index task_busy. Index: the primary key, once for each row.
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
       result = CASE WHEN d.state = 0 /* CREATED */ THEN coalesce(d.result, t.result) ELSE d.result END
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

-- ==== LockFree ====
-- Locks the tasks of a batch that no other transaction has locked; only these are settled then.
-- Runs when a batch had to wait too long for a locked row, to settle the others. Index: the primary key.
-- At most 5000 rows.
SELECT t.id
  FROM dbq_task t
 WHERE t.id = ANY (CAST((SELECT CAST(:id AS uuid[])) AS uuid[]))
   FOR UPDATE SKIP LOCKED;

-- ==== Remove ====
-- Ends attempts and removes the tasks (complete and delete), if their fences are still valid.
-- Runs where tasks that complete are not kept. Index: the primary key.
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

-- ==== Extend ====
-- Renews leases. On servers a renewal is a row of its own, so that a heartbeat neither writes nor locks a task.
-- Runs at each heartbeat of a worker, for all leases that it holds. It writes the table lease alone, and in the order
-- of ids, so that no two wait for each other. A row with a higher fence is a takeover's and stays. Index: the primary
-- keys of both tables.
-- At most 5000 rows.
WITH clock AS MATERIALIZED (SELECT {now} AS now)
INSERT INTO dbq_lease AS l (id, fence, lease_until, keep_until)
SELECT t.id, t.fence, clock.now + CAST(:lease AS bigint), greatest(t.lease_until, clock.now + CAST(:lease AS bigint))
  FROM clock,
       (SELECT CAST(:id AS uuid[]) AS id, CAST(:fence AS bigint[]) AS fence OFFSET 0) AS given,
       unnest(given.id, given.fence) AS d (id, fence),
       dbq_task t
 WHERE t.id = d.id
   AND t.fence = d.fence
   AND t.state + 0 = 1 /* PROCESSING */
 ORDER BY t.id
ON CONFLICT (id) DO UPDATE
   SET fence = excluded.fence,
       lease_until = excluded.lease_until,
       keep_until = excluded.keep_until
 WHERE l.fence <= excluded.fence
RETURNING l.id, l.fence;

-- ==== Start ====
-- Marks attempts as started, where a lease that expires must count as an attempt.
-- Runs when a worker begins tasks that it had checked out ahead. Index: the primary key.
-- At most 5000 rows.
UPDATE dbq_task t
   SET known_started = 1
  FROM (SELECT CAST(:id AS uuid[]) AS id, CAST(:fence AS bigint[]) AS fence OFFSET 0) AS given,
       unnest(given.id, given.fence) AS d (id, fence)
 WHERE t.id = d.id
   AND t.fence = d.fence
   AND t.state + 0 = 1 /* PROCESSING */
RETURNING t.id, t.fence;

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
-- Removes renewals that ended long ago, a few at a time.
-- Runs now and then, for renewals that DropLeases missed. It scans the table lease, which is as small as the number
-- of tasks in PROCESSING. Index: the primary key of lease, for the rows found.
DELETE FROM dbq_lease
 WHERE keep_until <= {now} - CAST(:age AS bigint)
   AND id = ANY (ARRAY(
         SELECT id
           FROM dbq_lease
          WHERE keep_until <= {now} - CAST(:age AS bigint)
          LIMIT :limit));

-- ==== SetResult ====
-- Stores an operator's reason, after Move in the same transaction.
-- Index: the primary key.
-- At most 5000 rows.
UPDATE dbq_task t
   SET result = d.result
  FROM (SELECT CAST(:id AS uuid[]) AS id, CAST(:result AS bytea[]) AS result OFFSET 0) AS given,
       unnest(given.id, given.result) AS d (id, result)
 WHERE t.id = d.id;

-- ==== Held ====
-- Reads what one checkout holds, if its connection died before the answer.
SELECT t.id, t.queue, t.reference, t.kind, t.state, t.priority, t.attempt, t.max_attempts, t.lapses, t.fence,
       t.due, t.holder, t.created, t.updated, t.headers, t.result,
       CASE WHEN t.state = 1 /* PROCESSING */
            THEN coalesce((SELECT l.lease_until FROM dbq_lease l WHERE l.id = t.id AND l.fence = t.fence),
                          t.lease_until) END AS lease_until,
       t.payload, {now} AS now
  FROM dbq_task t
 WHERE t.queue = :queue
   AND t.state = 1 /* PROCESSING */
   AND t.holder = :holder;

-- ==== Exhausted ====
-- Reads what one checkout moved to POISON, if its connection died before the answer.
-- Runs after Held. Index: task_failed.
SELECT t.id, t.queue, t.reference, t.kind, t.state, t.priority, t.attempt, t.max_attempts, t.lapses, t.fence,
       t.due, t.holder, t.created, t.updated, t.headers, t.result,
       CASE WHEN t.state = 1 /* PROCESSING */
            THEN coalesce((SELECT l.lease_until FROM dbq_lease l WHERE l.id = t.id AND l.fence = t.fence),
                          t.lease_until) END AS lease_until,
       t.payload, {now} AS now
  FROM dbq_task t
 WHERE t.queue = :queue
   AND t.state = 4 /* POISON */
   AND t.state >= 3 /* ERROR */
   AND t.result = convert_to('the lease of the last attempt expired, held by ' || t.holder ||
                               ', found by ' || CAST(:holder AS text), 'UTF8');

-- ==== IDBehind ====
-- Finds where the next part of the old tasks ends, for cleaning.
-- Runs for each part that a cleaning passes over. With both ends in one search, the planner would read all in between
-- and sort it, when it believes that this is little. Index: the primary key.
SELECT x.id
  FROM (SELECT t.id
          FROM dbq_task t
         WHERE t.id > :after
         ORDER BY t.id
         LIMIT 1 OFFSET :offset) AS x
 WHERE x.id < :before;

-- ==== Peek ====
-- Reads the states of tasks, to find out whether a call whose connection died took effect.
-- Index: the primary key.
-- At most 5000 rows.
SELECT t.id, t.queue, t.state, t.fence, t.updated
  FROM dbq_task t
 WHERE t.id = ANY (CAST(:id AS uuid[]));

-- ==== Count ====
-- Counts all tasks of each queue by state.
-- Runs for statistics that were asked to be exact. There is one search for each partial index; the rest is one walk
-- over the finished tasks, so it takes long when there are many.
WITH clock AS MATERIALIZED (SELECT {now} AS now)
SELECT queue, state, count(*) AS tasks, CAST(0 AS bigint) AS parked, count(*) FILTER (WHERE due <= clock.now) AS due,
       max(clock.now - due) FILTER (WHERE due <= clock.now) AS oldest
  FROM dbq_task, clock
 WHERE due IS NOT NULL
 GROUP BY queue, state
UNION ALL
SELECT queue, 1 /* PROCESSING */, count(*), 0, 0, NULL
  FROM dbq_task
 WHERE state = 1 /* PROCESSING */
 GROUP BY queue
UNION ALL
SELECT queue, state, count(*), count(*), 0, NULL
  FROM dbq_task
 WHERE state >= 3 /* ERROR */
   AND due IS NULL
 GROUP BY queue, state
UNION ALL
SELECT queue, 2 /* COMPLETED */, count(*), 0, 0, NULL
  FROM dbq_task
 WHERE state = 2 /* COMPLETED */
 GROUP BY queue;

-- ==== CountUpTo ====
-- Counts the tasks of a queue by state, up to a limit for each.
-- Runs for statistics, for one queue at a time. Each search is in the order of its index; else the planner may walk
-- the table for what it believes to be frequent, or all entries of an index at once. Index: task_ready for what waits
-- and what is due, task_busy, task_failed.
SELECT 0 /* CREATED */ AS state, count(*) FILTER (WHERE x.state = 0 /* CREATED */) AS tasks,
       CAST(0 AS bigint) AS parked, CAST(0 AS bigint) AS due, CAST(NULL AS bigint) AS oldest,
       CASE WHEN count(*) >= CAST(:limit AS bigint) THEN 1 ELSE 0 END AS cut
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
SELECT 0 /* CREATED */, 0, 0, count(*), {now} - min(x.due), 0
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
SELECT 1 /* PROCESSING */, count(*), 0, 0, NULL, CASE WHEN count(*) >= CAST(:limit AS bigint) THEN 1 ELSE 0 END
  FROM (SELECT 1
          FROM dbq_task t
         WHERE t.queue = :queue
           AND t.state = 1 /* PROCESSING */
         ORDER BY t.updated
         LIMIT CAST(:limit AS bigint)) AS x
UNION ALL
SELECT f.state, x.tasks, CASE f.state WHEN 3 /* ERROR */ THEN x.tasks - x.due ELSE 0 END, 0, NULL,
       CASE WHEN x.tasks >= CAST(:limit AS bigint) THEN 1 ELSE 0 END
  FROM (VALUES (3 /* ERROR */), (4 /* POISON */)) AS f (state)
 CROSS JOIN LATERAL (
   SELECT count(*) AS tasks, count(x.due) AS due
     FROM (SELECT t.due
             FROM dbq_task t
            WHERE t.queue = :queue
              AND t.state = f.state
              AND t.state >= 3 /* ERROR */
            ORDER BY t.id
            LIMIT CAST(:limit AS bigint)) AS x) AS x;

-- ==== CountNewest ====
-- Counts the newest finished tasks, which no index finds by their queue.
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
-- Runs for statistics, once for each queue. Index: task_ready, task_busy and task_failed, one entry of each.
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
          WHERE t.state >= 3 /* ERROR */
            AND t.queue > :queue
          ORDER BY t.queue
          LIMIT 1)) AS x
 ORDER BY x.queue
 LIMIT 1;

-- ==== Next ====
-- Reports when the next task of a queue is due. Idle workers poll with it.
-- Runs when a worker found nothing to do: the answer says how long it may sleep. Index: task_ready, one search for
-- each priority; task_busy for the tasks in PROCESSING.
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
SELECT CASE WHEN NOT EXISTS (SELECT 1 FROM dbq_kv n WHERE n.kind = 'pause' AND n.name = :queue) THEN least(
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

-- ==== Notify ====
-- Wakes workers in other processes, outside of the transaction that enqueued.
-- Runs after an enqueue, in a transaction of its own. A notification need not outlive a crash, so its commit does not
-- wait for the disk.
SELECT pg_notify(CAST(:channel AS text), CAST(:payload AS text)),
       set_config('synchronous_commit', 'off', true);

-- ==== Record ====
-- Adds attempts to the history.
-- Runs in the transaction of an operator's event, for attempts that the tasks' rows do not say any more. One that is
-- there is left out.
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
-- Runs after a Settle of the same transaction for attempts that others follow, and before tasks are removed. Index: the
-- primary key of task.
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

-- ==== ExpireAttempts ====
-- Removes old attempts, a few at a time.
-- Runs now and then where retention is set. Index: attempt_ended.
DELETE FROM dbq_attempt
 WHERE ctid = ANY (ARRAY(
         SELECT ctid
           FROM dbq_attempt
          WHERE queue = :queue
            AND ended <= {now} - CAST(:age AS bigint)
          ORDER BY ended
          LIMIT :limit));

-- ==== Archive ====
-- Copies finished tasks into the archive, just before the same transaction removes them.
-- Runs before the Move purge of the same transaction, where tasks are to be archived. Index: the primary key. The
-- columns are named, since a later version may add to them.
-- At most 5000 rows.
INSERT INTO dbq_archive (id, fence, due, was_due, lease_until, taken, created, updated, state, priority, attempt,
                       max_attempts, lapses, known_started, queue, reference, kind, holder, headers, payload, result,
                       archived)
SELECT id, fence, due, was_due, lease_until, taken, created, updated, state, priority, attempt,
       max_attempts, lapses, known_started, queue, reference, kind, holder, headers, payload, result,
       {now}
  FROM dbq_task t
 WHERE t.id = ANY (CAST(:id AS uuid[]))
   AND (state = 2 /* COMPLETED */ OR state = 4 /* POISON */ OR (state = 3 /* ERROR */ AND due IS NULL))
   FOR UPDATE
ON CONFLICT DO NOTHING;

-- ==== Own complete uniform ====
-- Settle for tasks under one fence that complete without a result.
-- Runs instead of Settle for attempts under one fence: most tasks complete in their first. Index: the primary key.
-- At most 5000 rows.
UPDATE dbq_task t
   SET state = 2 /* COMPLETED */,
       due = NULL,
       lease_until = NULL,
       updated = (SELECT {now}),
       result = NULL
 WHERE t.id = ANY (CAST((
         SELECT CAST(:id AS uuid[])
          WHERE CASE WHEN CAST(:lock_wait AS bigint) IS NULL THEN true
                     ELSE set_config('lock_timeout', CAST(CAST(:lock_wait AS bigint) AS text), true) IS NOT NULL
                END) AS uuid[]))
   AND t.fence = CAST(:fence AS bigint)
   AND t.state + 0 = 1 /* PROCESSING */
RETURNING t.id;

-- ==== Own dead ====
-- Reports whether the table has many dead rows, which a slow scan had to pass.
-- Runs after a slow scan. It reads the server's statistics.
SELECT {now} AS now
 WHERE pg_stat_get_dead_tuples(CAST('dbq_task' AS regclass)) >= CAST(:dead AS bigint);

-- ==== Own expired ====
-- Takes over tasks whose lease expired; those whose attempts are exhausted become POISON.
-- Strategies skip-locked and advisory: runs at polls that found nothing due, and now and then. Index: task_busy, from
-- :oldest on. A LIMIT bounds the rows that it locks, and pick those whose payloads fit.
WITH clock AS MATERIALIZED (SELECT {now} AS now),
ended AS MATERIALIZED (
  SELECT t.id, t.fence, t.ctid AS place, coalesce(octet_length(t.payload), 0) AS size,
         t.holder AS was_holder, t.updated AS was_taken, t.attempt AS was_attempt,
         coalesce((SELECT l.lease_until FROM dbq_lease l WHERE l.id = t.id AND l.fence = t.fence),
                  t.lease_until) AS was_until
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
     AND NOT EXISTS (SELECT 1 FROM dbq_kv n WHERE n.kind = 'pause' AND n.name = :queue)
   LIMIT :limit
   FOR UPDATE SKIP LOCKED),
pick AS MATERIALIZED (
  SELECT *
    FROM (SELECT e.*, sum(size) OVER (ROWS UNBOUNDED PRECEDING) AS total FROM ended AS e) AS e
   WHERE total + CAST(:used AS bigint) <= greatest(CAST(:bytes AS bigint), size)),
free AS (
  INSERT INTO dbq_lease AS l (id, fence, lease_until, keep_until)
  SELECT pick.id, pick.fence + 1, clock.now + CAST(:lease AS bigint), clock.now + CAST(:lease AS bigint)
    FROM pick, clock
   ORDER BY pick.id
  ON CONFLICT (id) DO UPDATE
     SET fence = excluded.fence,
         lease_until = excluded.lease_until,
         keep_until = excluded.keep_until
   WHERE l.fence < excluded.fence - 1
      OR l.lease_until <= (SELECT now FROM clock)
  RETURNING l.id),
won AS MATERIALIZED (
  SELECT pick.*
    FROM pick
   WHERE (pick.id IN (SELECT free.id FROM free)) IS TRUE),
done AS MATERIALIZED (
  UPDATE dbq_task t
     SET state = CASE WHEN attempt >= max_attempts AND (known_started = 1 OR lapses >= 99)
                      THEN 4 /* POISON */
                      ELSE 1 /* PROCESSING */ END,
         result = CASE WHEN attempt >= max_attempts AND (known_started = 1 OR lapses >= 99)
                       THEN convert_to('the lease of the last attempt expired, held by ' || t.holder ||
                                         ', found by ' || CAST(:holder AS text), 'UTF8')
                       ELSE t.result END,
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
    FROM won, clock
   WHERE t.ctid = won.place
     AND t.state + 0 = 1 /* PROCESSING */
  RETURNING t.id, t.queue, t.reference, t.kind, t.state, t.priority, t.attempt, t.max_attempts, t.lapses, t.fence,
            t.due, t.holder, t.created, t.updated, t.headers, t.result,
            t.lease_until, t.payload, clock.now,
            won.was_holder, won.was_taken, won.was_attempt, won.was_until),
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
SELECT done.*,
       (SELECT count(*) FROM ended) > (SELECT count(*) FROM pick) AS cut
  FROM done;

-- ==== Own insert uniform ====
-- Insert for new rows without a reference that share all but their ids and payloads.
-- Runs instead of Insert for such tasks. There is no ON CONFLICT: it would insert each row speculatively, and write
-- to the log that the row stays. SELECT unnest needs no tuplestore, FROM unnest would.
-- At most 5000 rows.
WITH clock AS MATERIALIZED (SELECT {now} AS now)
INSERT INTO dbq_task (id, queue, kind, state, priority, max_attempts, due, created, updated, headers, payload)
SELECT d.id, CAST(:queue AS text), CAST(:kind AS text), 0 /* CREATED */, CAST(:priority AS smallint),
       CAST(:max_attempts AS smallint), coalesce(CAST(:at AS bigint), clock.now + CAST(:delay AS bigint)),
       clock.now, clock.now, CAST(:headers AS text), d.payload
  FROM clock,
       (SELECT unnest(CAST(:id AS uuid[])) AS id, unnest(CAST(:payload AS bytea[])) AS payload) AS d;

-- ==== Own oldest ====
-- Reports when the oldest task in PROCESSING was taken: scans for expired leases begin there.
-- Runs after slow scans for expired leases, which begin there from then on. Index: task_busy.
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

-- ==== Own queue lock ====
-- Strategy advisory: waits for the queue's lock, in a statement of its own.
-- Runs first in the transaction of a checkout, which frees it. The lock's name has the table's
-- number, which is the same whether a client names its schema or the search path does.
SELECT pg_advisory_xact_lock(hashtextextended(
         'dbq checkout ' || CAST(CAST('dbq_task' AS regclass) AS oid) || ' ' || CAST(:queue AS text), 0));

-- ==== Own ready ====
-- Finds due tasks: one ordered search for each priority. On a server it leases them as well.
-- Strategies skip-locked and advisory: runs at each poll of a worker. There is one ordered descent of the index
-- task_ready for each priority, in order, until there are enough: ordering by priority and due time at once would
-- walk every future row of the better priorities before PostgreSQL 18. The search says where each row is (ctid), and
-- the update goes there, whatever PostgreSQL believes about the table. A row that was changed in between is
-- elsewhere, and is left out. A LIMIT in a joined sub-select may be run once for each outer row: pick is
-- materialized. The bytes of payload in a checkout are bounded. Here payloads are expected to be small: when one is
-- larger than an equal share of the bytes, nothing is taken, and "ready within" follows.
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
        AND NOT EXISTS (SELECT 1 FROM dbq_kv n WHERE n.kind = 'pause' AND n.name = :queue)
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
RETURNING t.id, t.reference, t.kind, t.priority, t.attempt, t.max_attempts, t.lapses, t.fence, t.created, t.headers,
          t.payload, t.result, t.was_due, clock.now;

-- ==== Own ready within ====
-- The same for a queue that may have large payloads: it leases the tasks that fit.
-- Strategies skip-locked and advisory: runs after "ready" or instead of it while payloads of the queue are large. A
-- running sum, which makes the statement cost a few percent more, ends the list where the bytes are used up; cut
-- reports that tasks were left. Index: task_ready.
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
        AND NOT EXISTS (SELECT 1 FROM dbq_kv n WHERE n.kind = 'pause' AND n.name = :queue)
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
RETURNING t.id, t.reference, t.kind, t.priority, t.attempt, t.max_attempts, t.lapses, t.fence, t.created, t.headers,
          t.payload, t.result, t.was_due, clock.now,
          (SELECT NOT bool_and(total + CAST(:used AS bigint) <= greatest(CAST(:bytes AS bigint), size))
             FROM pick) AS cut;

-- ==== Own remove uniform ====
-- Remove for tasks under one fence.
-- Runs instead of Remove for attempts under one fence. Index: the primary key.
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

-- ==== Own see expired ====
-- Reads candidates to take over, without locks.
-- Runs at polls that found nothing due; "take expired" follows. Index: task_busy.
WITH clock AS MATERIALIZED (SELECT {now} AS now)
SELECT t.id, t.fence, coalesce(octet_length(t.payload), 0) AS payload_size,
       t.holder AS was_holder, t.updated AS was_taken, t.attempt AS was_attempt,
       coalesce((SELECT l.lease_until FROM dbq_lease l WHERE l.id = t.id AND l.fence = t.fence),
                t.lease_until) AS was_until
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
   AND NOT EXISTS (SELECT 1 FROM dbq_kv n WHERE n.kind = 'pause' AND n.name = :queue)
 LIMIT :limit;

-- ==== Own see ready ====
-- Strategy cas: reads candidates without locks.
-- Runs at each poll; "take ready" follows. Index: task_ready.
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
      AND NOT EXISTS (SELECT 1 FROM dbq_kv n WHERE n.kind = 'pause' AND n.name = :queue)
    ORDER BY t.due, t.id
    LIMIT :limit
    ) AS x
 LIMIT :limit;

-- ==== Own take expired ====
-- Strategy cas: takes over the candidates whose fence is unchanged; those whose attempts are exhausted become POISON.
-- Runs after "see expired". Index: the primary key.
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
free AS (
  INSERT INTO dbq_lease AS l (id, fence, lease_until, keep_until)
  SELECT pick.id, pick.fence + 1, clock.now + CAST(:lease AS bigint), clock.now + CAST(:lease AS bigint)
    FROM pick, clock
   ORDER BY pick.id
  ON CONFLICT (id) DO UPDATE
     SET fence = excluded.fence,
         lease_until = excluded.lease_until,
         keep_until = excluded.keep_until
   WHERE l.fence < excluded.fence - 1
      OR l.lease_until <= (SELECT now FROM clock)
  RETURNING l.id),
won AS MATERIALIZED (
  SELECT pick.*
    FROM pick
   WHERE (pick.id IN (SELECT free.id FROM free)) IS TRUE),
done AS MATERIALIZED (
  UPDATE dbq_task t
     SET state = CASE WHEN attempt >= max_attempts AND (known_started = 1 OR lapses >= 99)
                      THEN 4 /* POISON */
                      ELSE 1 /* PROCESSING */ END,
         result = CASE WHEN attempt >= max_attempts AND (known_started = 1 OR lapses >= 99)
                       THEN convert_to('the lease of the last attempt expired, held by ' || t.holder ||
                                         ', found by ' || CAST(:holder AS text), 'UTF8')
                       ELSE t.result END,
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
    FROM won, clock
   WHERE t.id = won.id AND t.fence = won.fence
     AND t.state + 0 = 1 /* PROCESSING */
  RETURNING t.id, t.queue, t.reference, t.kind, t.state, t.priority, t.attempt, t.max_attempts, t.lapses, t.fence,
            t.due, t.holder, t.created, t.updated, t.headers, t.result,
            t.lease_until, t.payload, clock.now,
            won.was_holder, won.was_taken, won.was_attempt, won.was_until),
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

-- ==== Own take ready ====
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
RETURNING t.id, t.reference, t.kind, t.priority, t.attempt, t.max_attempts, t.lapses, t.fence, t.created, t.headers,
          t.payload, t.result, t.was_due, clock.now;

-- ==== Movable quarantine ====
-- Locks and returns the tasks that the Move of the same event will move.
-- Runs first in the transaction of an operator's call. It locks in the order of ids, so that two calls do not wait for
-- each other in a circle. Index: the primary key.
-- At most 5000 rows.
SELECT t.id, t.queue, t.state, t.attempt, t.fence, t.holder, t.taken, t.updated,
       t.result, {now} AS now
  FROM dbq_task t
 WHERE t.id = ANY (CAST(:id AS uuid[]))
   AND (state = 3 /* ERROR */) AND state >= 3 /* ERROR */
 ORDER BY t.id
   FOR UPDATE;

-- ==== Movable reenqueue ====
-- Locks and returns the tasks that the Move of the same event will move.
-- Runs first in the transaction of an operator's call. It locks in the order of ids, so that two calls do not wait for
-- each other in a circle. Index: the primary key.
-- At most 5000 rows.
SELECT t.id, t.queue, t.state, t.attempt, t.fence, t.holder, t.taken, t.updated,
       t.result, {now} AS now
  FROM dbq_task t
 WHERE t.id = ANY (CAST(:id AS uuid[]))
   AND (state = 3 /* ERROR */ OR state = 4 /* POISON */) AND state >= 3 /* ERROR */
 ORDER BY t.id
   FOR UPDATE;

-- ==== Movable reject ====
-- Locks and returns the tasks that the Move of the same event will move.
-- Runs first in the transaction of an operator's call. It locks in the order of ids, so that two calls do not wait for
-- each other in a circle. Index: the primary key.
-- At most 5000 rows.
SELECT t.id, t.queue, t.state, t.attempt, t.fence, t.holder, t.taken, t.updated,
       t.result, {now} AS now
  FROM dbq_task t
 WHERE t.id = ANY (CAST(:id AS uuid[]))
   AND (state = 0 /* CREATED */)
 ORDER BY t.id
   FOR UPDATE;

-- ==== Movable restore ====
-- Locks and returns the tasks that the Move of the same event will move.
-- Runs first in the transaction of an operator's call. It locks in the order of ids, so that two calls do not wait for
-- each other in a circle. Index: the primary key.
-- At most 5000 rows.
SELECT t.id, t.queue, t.state, t.attempt, t.fence, t.holder, t.taken, t.updated,
       t.result, {now} AS now
  FROM dbq_task t
 WHERE t.id = ANY (CAST(:id AS uuid[]))
   AND (state = 4 /* POISON */) AND state >= 3 /* ERROR */
 ORDER BY t.id
   FOR UPDATE;

-- ==== Movable revoke ====
-- Locks and returns the tasks that the Move of the same event will move.
-- Runs first in the transaction of an operator's call. It locks in the order of ids, so that two calls do not wait for
-- each other in a circle. Index: the primary key.
-- At most 5000 rows.
SELECT t.id, t.queue, t.state, t.attempt, t.fence, t.holder, t.taken, t.updated,
       t.result, {now} AS now
  FROM dbq_task t
 WHERE t.id = ANY (CAST(:id AS uuid[]))
   AND (state = 1 /* PROCESSING */)
 ORDER BY t.id
   FOR UPDATE;

-- ==== Move purge ====
-- A finished or parked task is removed.
-- Index: the primary key.
-- At most 5000 rows.
DELETE FROM dbq_task t
 WHERE t.id = ANY (CAST(:id AS uuid[]))
   AND (state = 2 /* COMPLETED */ OR state = 4 /* POISON */ OR (state = 3 /* ERROR */ AND due IS NULL))
RETURNING t.id;

-- ==== Move quarantine ====
-- A failed task will not be retried.
-- Runs after Movable. Index: the primary key.
-- At most 5000 rows.
UPDATE dbq_task t
   SET state = 4 /* POISON */,
       due = NULL,
       lease_until = NULL,
       taken = NULL,
       updated = {now}
 WHERE t.id = ANY (CAST(:id AS uuid[]))
   AND (state = 3 /* ERROR */) AND state >= 3 /* ERROR */;

-- ==== Move reenqueue ====
-- A failed task becomes due again, and its attempts start over.
-- Runs after Movable. Index: the primary key.
-- At most 5000 rows.
UPDATE dbq_task t
   SET state = 0 /* CREATED */,
       due = {now},
       attempt = 0,
       lapses = 0,
       lease_until = NULL,
       taken = NULL,
       updated = {now}
 WHERE t.id = ANY (CAST(:id AS uuid[]))
   AND (state = 3 /* ERROR */ OR state = 4 /* POISON */) AND state >= 3 /* ERROR */;

-- ==== Move reject ====
-- A task is parked before it runs.
-- Runs after Movable. Index: the primary key.
-- At most 5000 rows.
UPDATE dbq_task t
   SET state = 3 /* ERROR */,
       due = NULL,
       lease_until = NULL,
       taken = NULL,
       updated = {now}
 WHERE t.id = ANY (CAST(:id AS uuid[]))
   AND (state = 0 /* CREATED */);

-- ==== Move restore ====
-- A poisoned task is parked for inspection.
-- Runs after Movable. Index: the primary key.
-- At most 5000 rows.
UPDATE dbq_task t
   SET state = 3 /* ERROR */,
       due = NULL,
       lease_until = NULL,
       taken = NULL,
       updated = {now}
 WHERE t.id = ANY (CAST(:id AS uuid[]))
   AND (state = 4 /* POISON */) AND state >= 3 /* ERROR */;

-- ==== Move revoke ====
-- The lease is taken away, the handler's context ends, and the task is parked.
-- Runs after Movable. Index: the primary key.
-- At most 5000 rows.
UPDATE dbq_task t
   SET state = 3 /* ERROR */,
       due = NULL,
       fence = fence + 1,
       lease_until = NULL,
       taken = NULL,
       updated = {now}
 WHERE t.id = ANY (CAST(:id AS uuid[]))
   AND (state = 1 /* PROCESSING */);

-- ==== Version ====
-- Reads the newest migration that has been applied.
SELECT max(version) AS version, max(compatible) AS compatible
  FROM dbq_migration;

-- ==== SetVersion ====
-- Records a migration as applied.
INSERT INTO dbq_migration (version, title, compatible, applied)
SELECT :version, :title, :compatible, {now}
 WHERE NOT EXISTS (SELECT 1 FROM dbq_migration WHERE version = :version);

-- ==== Drop ====
-- Removes all tables and views.
DROP VIEW IF EXISTS dbq_tasks;
DROP VIEW IF EXISTS dbq_enqueue;
DROP VIEW IF EXISTS dbq_attempts;
DROP TABLE IF EXISTS dbq_archive;
DROP TABLE IF EXISTS dbq_attempt;
DROP TABLE IF EXISTS dbq_kv;
DROP TABLE IF EXISTS dbq_lease;
DROP TABLE IF EXISTS dbq_task;
DROP TABLE IF EXISTS dbq_migration;

-- ==== Get ====
-- Reads one task.
SELECT t.id, t.queue, t.reference, t.kind, t.state, t.priority, t.attempt, t.max_attempts, t.lapses, t.fence,
t.due, t.holder, t.created, t.updated, t.headers, t.result,
CASE WHEN t.state = 1 /* PROCESSING */
     THEN coalesce((SELECT l.lease_until FROM dbq_lease l WHERE l.id = t.id AND l.fence = t.fence),
                   t.lease_until) END AS lease_until,
       t.payload, {now} AS now
  FROM dbq_task t
 WHERE t.id = :id;

-- ==== FindReference ====
-- Finds a task by its reference.
SELECT id
  FROM dbq_task
 WHERE reference = :reference AND queue = :queue;

-- ==== List ====
-- Lists tasks without their payloads. {where} consists of comparisons of columns; {order} is empty or DESC.
SELECT t.id, t.queue, t.reference, t.kind, t.state, t.priority, t.attempt, t.max_attempts, t.lapses, t.fence,
t.due, t.holder, t.created, t.updated, t.headers, t.result,
CASE WHEN t.state = 1 /* PROCESSING */
     THEN coalesce((SELECT l.lease_until FROM dbq_lease l WHERE l.id = t.id AND l.fence = t.fence),
                   t.lease_until) END AS lease_until,
       {now} AS now
  FROM dbq_task t
 WHERE {where}
 ORDER BY t.id{order}
 LIMIT :limit;

-- ==== FindIDs ====
-- Finds the tasks that an operator's bulk call changes.
SELECT t.id
  FROM dbq_task t
 WHERE {where}
 ORDER BY t.id
 LIMIT :limit;

-- ==== ListArchive ====
-- Lists tasks of the archive.
SELECT t.id, t.queue, t.reference, t.kind, t.state, t.priority, t.attempt, t.max_attempts, t.lapses, t.fence,
t.due, t.holder, t.created, t.updated, t.headers, t.result,
CASE WHEN t.state = 1 /* PROCESSING */
     THEN coalesce((SELECT l.lease_until FROM dbq_lease l WHERE l.id = t.id AND l.fence = t.fence),
                   t.lease_until) END AS lease_until,
       {now} AS now
  FROM dbq_archive t
 WHERE {where}
 ORDER BY t.id
 LIMIT :limit;

-- ==== Attempts ====
-- Reads the attempts of a task that the history has.
SELECT task, fence, queue, attempt, outcome, taken, ended, worker, error
  FROM dbq_attempt
 WHERE task = :id
 ORDER BY fence
 LIMIT :limit;

-- ==== LastAttempt ====
-- Reads the last attempt of a task from its row.
SELECT id, queue, state, attempt, fence, holder, taken, updated, result
  FROM dbq_task WHERE id = :id
UNION ALL
SELECT id, queue, state, attempt, fence, holder, taken, updated, result
  FROM dbq_archive WHERE id = :id;

-- ==== GetKV ====
-- Reads a key/value record, which all clients of these tables share, such as a queue's pause.
SELECT kind, name, version, value, updated, expires, {now} AS now
  FROM dbq_kv
 WHERE kind = :kind AND name = :name;

-- ==== ListKV ====
-- Reads the key/value records of a kind.
SELECT kind, name, version, value, updated, expires, {now} AS now
  FROM dbq_kv
 WHERE kind = :kind
 ORDER BY name
 LIMIT :limit;

-- ==== EarliestKV ====
-- Reads the key/value records of a kind that expire first, such as the schedules that are due next.
SELECT kind, name, version, value, updated, expires, {now} AS now
  FROM dbq_kv
 WHERE kind = :kind
   AND expires IS NOT NULL
 ORDER BY expires, name
 LIMIT :limit;

-- ==== AddKV ====
-- Adds a key/value record if there is none.
INSERT INTO dbq_kv (kind, name, version, value, updated, expires)
SELECT :kind, :name, {now}, :value, {now}, {now} + :ttl
 WHERE NOT EXISTS (SELECT 1 FROM dbq_kv WHERE kind = :kind AND name = :name);

-- ==== SetKV ====
-- Changes a key/value record unless it was changed since it was read.
UPDATE dbq_kv
   SET version = version + 1,
       value = :value,
       updated = {now},
       expires = {now} + :ttl
 WHERE kind = :kind AND name = :name AND version = :version;

-- ==== DropKV ====
-- Removes a key/value record.
DELETE FROM dbq_kv
 WHERE kind = :kind AND name = :name;

-- ==== ExpireKV ====
-- Removes key/value records that have expired.
DELETE FROM dbq_kv
 WHERE kind = :kind AND expires <= {now} - :age;

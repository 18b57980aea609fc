-- The statements that workers run most, with values for their parameters, to see their plans.
-- Generated from the dialect by "go generate ./..."; do not edit. Tests run this page on each server.
--
-- Paste a statement into a client, or run all: psql -f docs/sql/postgres-explain.sql. EXPLAIN changes nothing.
-- Replace 'work' with the name of a queue, and dbq_ with your tables' prefix. Each plan reaches the tasks by the
-- index that is named above the statement. A statement that takes many rows has two here.

-- ==== ready ====
-- Leases due tasks in order.
-- Index: dbq_task_ready
EXPLAIN
WITH clock AS MATERIALIZED (SELECT CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint) AS now),
pick AS MATERIALIZED (
  SELECT x.ctid AS place, x.size
    FROM generate_series(0, 9) AS p (priority)
   CROSS JOIN LATERAL (
     SELECT t.id, t.fence, t.due, t.ctid, coalesce(octet_length(t.payload), 0) AS size
       FROM dbq_task t
      WHERE t.queue = 'work'
        AND t.priority = p.priority
        AND t.due <= (SELECT now FROM clock)
        AND t.due >= (CAST('{0,0,0,0,0,0,0,0,0,0}' AS bigint[]))[p.priority + 1]
        AND NOT EXISTS (SELECT 1 FROM dbq_kv n WHERE n.namespace IN ('limit', 'pause') AND n.name = 'work')
      ORDER BY t.due, t.id
      LIMIT 10
      FOR UPDATE SKIP LOCKED) AS x
   LIMIT 10)
UPDATE dbq_task t
   SET state = 1 /* PROCESSING */,
       due = NULL,
       was_due = t.due,
       attempt = t.attempt + 1,
       fence = t.fence + 1,
       lease_until = clock.now + CAST(60000000 AS bigint),
       holder = 'host#1',
       known_started = CAST(0 AS smallint),
       taken = clock.now,
       updated = clock.now
  FROM clock
 WHERE t.ctid = ANY (ARRAY(
         SELECT place
           FROM pick
          WHERE NOT EXISTS (SELECT 1 FROM pick AS p WHERE p.size > CAST(1048576 AS bigint))))
   AND coalesce(t.due <= clock.now, false)
RETURNING t.id, t.reference, t.kind, t.task_key, t.priority, t.attempt, t.max_attempts, t.lapses, t.fence, t.created,
          t.headers, t.payload, t.result, t.progress, t.was_due, clock.now;

-- ==== ready within ====
-- Like "ready", for a queue that may have large payloads: leases the first tasks whose payloads fit.
-- Index: dbq_task_ready
EXPLAIN
WITH clock AS MATERIALIZED (SELECT CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint) AS now),
pick AS MATERIALIZED (
  SELECT x.ctid AS place, x.size, sum(size) OVER (ROWS UNBOUNDED PRECEDING) AS total
    FROM generate_series(0, 9) AS p (priority)
   CROSS JOIN LATERAL (
     SELECT t.id, t.fence, t.due, t.ctid, coalesce(octet_length(t.payload), 0) AS size
       FROM dbq_task t
      WHERE t.queue = 'work'
        AND t.priority = p.priority
        AND t.due <= (SELECT now FROM clock)
        AND t.due >= (CAST('{0,0,0,0,0,0,0,0,0,0}' AS bigint[]))[p.priority + 1]
        AND NOT EXISTS (SELECT 1 FROM dbq_kv n WHERE n.namespace IN ('limit', 'pause') AND n.name = 'work')
      ORDER BY t.due, t.id
      LIMIT 10
      FOR UPDATE SKIP LOCKED) AS x
   LIMIT 10)
UPDATE dbq_task t
   SET state = 1 /* PROCESSING */,
       due = NULL,
       was_due = t.due,
       attempt = t.attempt + 1,
       fence = t.fence + 1,
       lease_until = clock.now + CAST(60000000 AS bigint),
       holder = 'host#1',
       known_started = CAST(0 AS smallint),
       taken = clock.now,
       updated = clock.now
  FROM clock
 WHERE t.ctid = ANY (ARRAY(
         SELECT place
           FROM pick
          WHERE total + CAST(0 AS bigint) <= greatest(CAST(67108864 AS bigint), size)))
   AND coalesce(t.due <= clock.now, false)
RETURNING t.id, t.reference, t.kind, t.task_key, t.priority, t.attempt, t.max_attempts, t.lapses, t.fence, t.created,
          t.headers, t.payload, t.result, t.progress, t.was_due, clock.now,
          (SELECT NOT bool_and(total + CAST(0 AS bigint) <= greatest(CAST(67108864 AS bigint), size))
             FROM pick) AS cut;

-- ==== see ready ====
-- Reads candidates in order, without locks.
-- Index: dbq_task_ready
EXPLAIN
WITH clock AS MATERIALIZED (SELECT CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint) AS now)
SELECT x.id, x.fence, x.size AS payload_size
  FROM generate_series(0, 9) AS p (priority)
 CROSS JOIN LATERAL (
   SELECT t.id, t.fence, t.due, t.ctid, coalesce(octet_length(t.payload), 0) AS size
     FROM dbq_task t
    WHERE t.queue = 'work'
      AND t.priority = p.priority
      AND t.due <= (SELECT now FROM clock)
      AND t.due >= (CAST('{0,0,0,0,0,0,0,0,0,0}' AS bigint[]))[p.priority + 1]
      AND NOT EXISTS (SELECT 1 FROM dbq_kv n WHERE n.namespace IN ('limit', 'pause') AND n.name = 'work')
    ORDER BY t.due, t.id
    LIMIT 10
    ) AS x
 LIMIT 10;

-- ==== take ready ====
-- Strategy cas: leases the candidates whose fence is unchanged.
-- Index: dbq_task_pkey
EXPLAIN
WITH clock AS MATERIALIZED (SELECT CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint) AS now),
pick AS MATERIALIZED (
  SELECT t.id, t.fence
    FROM (SELECT CAST('{019a0000-0000-7000-8000-000000000001,019a0000-0000-7000-8000-000000000002}' AS uuid[]) AS id,
      CAST('{1,1}' AS bigint[]) AS fence OFFSET 0) AS given,
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
       lease_until = clock.now + CAST(60000000 AS bigint),
       holder = 'host#1',
       known_started = CAST(0 AS smallint),
       taken = clock.now,
       updated = clock.now
  FROM pick, clock
 WHERE t.id = pick.id AND t.fence = pick.fence
   AND coalesce(t.due <= clock.now, false)
RETURNING t.id, t.reference, t.kind, t.task_key, t.priority, t.attempt, t.max_attempts, t.lapses, t.fence, t.created,
          t.headers, t.payload, t.result, t.progress, t.was_due, clock.now;

-- ==== see expired ====
-- Reads candidates whose lease expired, without locks.
-- Index: dbq_task_busy
EXPLAIN
WITH clock AS MATERIALIZED (SELECT CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint) AS now)
SELECT t.id, t.fence, coalesce(octet_length(t.payload), 0) AS payload_size
  FROM dbq_task t
 WHERE t.queue = 'work'
   AND t.state = 1 /* PROCESSING */
   AND t.updated >= CAST(0 AS bigint)
   AND t.holder <> 'host#1'
   AND (t.id, t.fence) NOT IN (
         SELECT l.id, l.fence
           FROM dbq_lease l
          WHERE l.lease_until > (SELECT now FROM clock))
   AND (t.lease_until <= (SELECT now FROM clock)
        OR (t.id, t.fence) IN (
             SELECT l.id, l.fence
               FROM dbq_lease l
              WHERE l.lease_until <= (SELECT now FROM clock)))
   AND NOT EXISTS (SELECT 1 FROM dbq_kv n WHERE n.namespace IN ('limit', 'pause') AND n.name = 'work')
 LIMIT 10;

-- ==== take expired ====
-- Strategy cas: takes over the candidates whose fence is unchanged: it leases them again, or moves them to POISON if
-- their attempts are exhausted.
-- Index: dbq_task_pkey
EXPLAIN
WITH clock AS MATERIALIZED (SELECT CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint) AS now),
pick AS MATERIALIZED (
  SELECT t.id, t.fence, t.holder AS was_holder, t.updated AS was_taken, t.attempt AS was_attempt,
                        coalesce((SELECT l.lease_until FROM dbq_lease l WHERE l.id = t.id AND l.fence = t.fence),
                                 t.lease_until) AS was_until
    FROM (SELECT CAST('{019a0000-0000-7000-8000-000000000001,019a0000-0000-7000-8000-000000000002}' AS uuid[]) AS id,
      CAST('{1,1}' AS bigint[]) AS fence OFFSET 0) AS given,
         unnest(given.id, given.fence) AS d (id, fence),
         dbq_task t
   WHERE t.id = d.id
     AND t.fence = d.fence
     AND t.state + 0 = 1 /* PROCESSING */
     FOR UPDATE OF t SKIP LOCKED),
claim AS (
  INSERT INTO dbq_lease AS l (id, fence, lease_until, keep_until)
  SELECT pick.id, pick.fence + 1, clock.now + CAST(60000000 AS bigint), clock.now + CAST(60000000 AS bigint)
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
                                         ', found by ' || CAST('host#1' AS text), 'UTF8')
                       ELSE t.result END,
         progress = coalesce((SELECT l.progress FROM dbq_lease l
                               WHERE l.id = t.id AND l.fence = t.fence), t.progress),
         lease_until = CASE WHEN attempt >= max_attempts AND (known_started = 1 OR lapses >= 99)
                            THEN NULL
                            ELSE clock.now + CAST(60000000 AS bigint) END,
         holder = CASE WHEN attempt >= max_attempts AND (known_started = 1 OR lapses >= 99)
                       THEN t.holder
                       ELSE 'host#1' END,
         attempt = CASE WHEN attempt >= max_attempts AND (known_started = 1 OR lapses >= 99)
                        THEN t.attempt
                        ELSE attempt + CASE WHEN (known_started = 1 OR lapses >= 99) THEN 1 ELSE 0 END END,
         lapses = CASE WHEN known_started = 1 THEN lapses WHEN lapses >= 99 THEN 0 ELSE lapses + 1 END,
         known_started = CAST(0 AS smallint),
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

-- ==== Extend ====
-- Renews leases.
-- Index: dbq_task_pkey
EXPLAIN
WITH clock AS MATERIALIZED (SELECT CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint) AS now)
INSERT INTO dbq_lease AS l (id, fence, lease_until, keep_until, progress)
SELECT t.id, t.fence, clock.now + CAST(60000000 AS bigint), greatest(t.lease_until,
  clock.now + CAST(60000000 AS bigint)),
       d.progress
  FROM clock,
       (SELECT CAST('{019a0000-0000-7000-8000-000000000001,019a0000-0000-7000-8000-000000000002}' AS uuid[]) AS id,
         CAST('{1,1}' AS bigint[]) AS fence, CAST('{NULL,NULL}' AS bytea[]) AS progress
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

-- ==== Settle ====
-- Ends attempts (complete, fail, poison, release) whose fences are unchanged.
-- Index: dbq_task_pkey
EXPLAIN
WITH clock AS MATERIALIZED (SELECT CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint) AS now)
UPDATE dbq_task t
   SET state = CASE WHEN d.state = 3 /* ERROR */ AND coalesce(d.at, d.after) IS NOT NULL
     AND t.attempt >= t.max_attempts
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
       (SELECT CAST('{019a0000-0000-7000-8000-000000000001,019a0000-0000-7000-8000-000000000002}' AS uuid[]) AS id,
         CAST('{1,1}' AS bigint[]) AS fence, CAST('{2,2}' AS smallint[]) AS state,
               CAST('{NULL,NULL}' AS bigint[]) AS at, CAST('{NULL,NULL}' AS bigint[]) AS after,
                 CAST('{0,0}' AS smallint[]) AS uncount,
               CAST('{NULL,NULL}' AS bytea[]) AS result
         WHERE CASE WHEN CAST(1000 AS bigint) IS NULL THEN true
                    ELSE set_config('lock_timeout', CAST(CAST(1000 AS bigint) AS text), true) IS NOT NULL
               END OFFSET 0) AS given,
       unnest(given.id, given.fence, given.state, given.at, given.after, given.uncount, given.result)
         AS d (id, fence, state, at, after, uncount, result)
 WHERE t.id = d.id
   AND t.fence = d.fence
   AND t.state + 0 = 1 /* PROCESSING */
RETURNING t.id, t.fence, t.state;

-- ==== complete uniform ====
-- Settle for tasks under one fence that complete without a result.
-- Index: dbq_task_pkey
EXPLAIN
UPDATE dbq_task t
   SET state = 2 /* COMPLETED */,
       due = NULL,
       lease_until = NULL,
       updated = (SELECT CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint)),
       result = NULL,
       progress = NULL
 WHERE t.id = ANY (CAST((
         SELECT CAST('{019a0000-0000-7000-8000-000000000001,019a0000-0000-7000-8000-000000000002}' AS uuid[])
          WHERE CASE WHEN CAST(1000 AS bigint) IS NULL THEN true
                     ELSE set_config('lock_timeout', CAST(CAST(1000 AS bigint) AS text), true) IS NOT NULL
                END) AS uuid[]))
   AND t.fence = CAST(1 AS bigint)
   AND t.state + 0 = 1 /* PROCESSING */
RETURNING t.id;

-- ==== Remove ====
-- Ends attempts and removes the tasks (complete and delete), if their fences are unchanged.
-- Index: dbq_task_pkey
EXPLAIN
DELETE FROM dbq_task t
 USING (SELECT CAST('{019a0000-0000-7000-8000-000000000001,019a0000-0000-7000-8000-000000000002}' AS uuid[]) AS id,
   CAST('{1,1}' AS bigint[]) AS fence
         WHERE CASE WHEN CAST(1000 AS bigint) IS NULL THEN true
                    ELSE set_config('lock_timeout', CAST(CAST(1000 AS bigint) AS text), true) IS NOT NULL
               END OFFSET 0) AS given,
       unnest(given.id, given.fence) AS d (id, fence)
 WHERE t.id = d.id
   AND t.fence = d.fence
   AND t.state + 0 = 1 /* PROCESSING */
RETURNING t.id, t.fence;

-- ==== Next ====
-- Reports when the next task of a queue is due. Idle workers sleep until then.
-- Index: dbq_task_ready, dbq_task_busy
EXPLAIN
WITH busy AS MATERIALIZED (
  SELECT t.id, t.fence, t.lease_until
    FROM dbq_task t
   WHERE t.queue = 'work'
     AND t.state = 1 /* PROCESSING */
     AND t.updated >= CAST(0 AS bigint)),
renewed AS MATERIALIZED (
  SELECT l.id, l.fence, l.lease_until
    FROM dbq_lease l
   WHERE EXISTS (SELECT 1 FROM busy))
SELECT CASE WHEN NOT EXISTS (SELECT 1 FROM dbq_kv n WHERE n.namespace = 'pause' AND n.name = 'work') THEN least(
         (SELECT min(x.due)
            FROM generate_series(0, 9) AS p (priority)
           CROSS JOIN LATERAL (
             SELECT t.due
               FROM dbq_task t
              WHERE t.queue = 'work'
                AND t.priority = p.priority
                AND t.due >= (CAST('{0,0,0,0,0,0,0,0,0,0}' AS bigint[]))[p.priority + 1]
              ORDER BY t.due, t.id
              LIMIT 1) AS x),
         (SELECT min(CASE WHEN b.id IS NOT NULL THEN coalesce(r.lease_until, b.lease_until) END)
            FROM busy b
            FULL JOIN renewed r ON r.id = b.id AND r.fence = b.fence)) END AS due,
       CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint) AS now;

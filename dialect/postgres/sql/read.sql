-- Limit
LIMIT :limit;

-- Columns
{columns},
CASE WHEN t.state = {PROCESSING}
     THEN {renewed} END AS lease_until;

-- columns
-- All but the payload and the end of the lease, which Columns has as renewed last.
t.id, t.queue, t.reference, t.kind, t.state, t.priority, t.attempt, t.max_attempts, t.lapses, t.fence,
t.due, t.holder, t.created, t.updated, t.headers, t.result;

-- Payload
t.payload;

-- Exhausted
-- Runs after Held. Index: task_failed.
SELECT {Columns},
       t.payload, {now} AS now
  FROM {task} t
 WHERE t.queue = :queue
   AND t.state = {POISON}
   AND t.state >= {ERROR}
   AND t.result = {exhausted_result};

-- IDBehind
-- Runs for each part that a cleaning passes over. With both ends in one search, the planner would read all in between
-- and sort it, when it believes that this is little. Index: the primary key.
SELECT x.id
  FROM (SELECT t.id
          FROM {task} t
         WHERE t.id > :after
         ORDER BY t.id
         LIMIT 1 OFFSET :offset) AS x
 WHERE x.id < :before;

-- Peek
-- Index: the primary key.
SELECT t.id, t.queue, t.state, t.fence, t.updated
  FROM {task} t
 WHERE t.id = ANY (CAST(:id AS uuid[]));

-- Count
-- Runs for statistics that were asked to be exact. There is one search for each partial index; the rest is one walk
-- over the finished tasks, so it takes long when there are many.
WITH {clock}
SELECT queue, state, count(*) AS tasks, CAST(0 AS bigint) AS parked, count(*) FILTER (WHERE due <= clock.now) AS due,
       max(clock.now - due) FILTER (WHERE due <= clock.now) AS oldest
  FROM {task}, clock
 WHERE due IS NOT NULL
 GROUP BY queue, state
UNION ALL
SELECT queue, {PROCESSING}, count(*), 0, 0, NULL
  FROM {task}
 WHERE state = {PROCESSING}
 GROUP BY queue
UNION ALL
SELECT queue, state, count(*), count(*), 0, NULL
  FROM {task}
 WHERE state >= {ERROR}
   AND due IS NULL
 GROUP BY queue, state
UNION ALL
SELECT queue, {COMPLETED}, count(*), 0, 0, NULL
  FROM {task}
 WHERE state = {COMPLETED}
 GROUP BY queue;

-- CountUpTo
-- Runs for statistics, for one queue at a time. Each search is in the order of its index; else the planner may walk
-- the table for what it believes to be frequent, or all entries of an index at once. Index: task_ready for what waits
-- and what is due, task_busy, task_failed.
SELECT {CREATED} AS state, count(*) FILTER (WHERE x.state = {CREATED}) AS tasks,
       CAST(0 AS bigint) AS parked, CAST(0 AS bigint) AS due, CAST(NULL AS bigint) AS oldest,
       CASE WHEN count(*) >= CAST(:limit AS bigint) THEN 1 ELSE 0 END AS cut
  FROM (SELECT x.state
          FROM generate_series(0, 9) AS p (priority)
         CROSS JOIN LATERAL (
           SELECT t.state
             FROM {task} t
            WHERE t.queue = :queue
              AND t.priority = p.priority
              AND t.due IS NOT NULL
            ORDER BY t.due, t.id
            LIMIT CAST(:limit AS bigint)) AS x
         LIMIT CAST(:limit AS bigint)) AS x
UNION ALL
SELECT {CREATED}, 0, 0, count(*), {now} - min(x.due), 0
  FROM generate_series(0, 9) AS p (priority)
 CROSS JOIN LATERAL (
   SELECT t.due
     FROM {task} t
    WHERE t.queue = :queue
      AND t.priority = p.priority
      AND t.due <= {now}
    ORDER BY t.due, t.id
    LIMIT CAST(:limit AS bigint)) AS x
UNION ALL
SELECT {PROCESSING}, count(*), 0, 0, NULL, CASE WHEN count(*) >= CAST(:limit AS bigint) THEN 1 ELSE 0 END
  FROM (SELECT 1
          FROM {task} t
         WHERE t.queue = :queue
           AND t.state = {PROCESSING}
         ORDER BY t.updated
         LIMIT CAST(:limit AS bigint)) AS x
UNION ALL
SELECT f.state, x.tasks, CASE f.state WHEN {ERROR} THEN x.tasks - x.due ELSE 0 END, 0, NULL,
       CASE WHEN x.tasks >= CAST(:limit AS bigint) THEN 1 ELSE 0 END
  FROM (VALUES ({ERROR}), ({POISON})) AS f (state)
 CROSS JOIN LATERAL (
   SELECT count(*) AS tasks, count(x.due) AS due
     FROM (SELECT t.due
             FROM {task} t
            WHERE t.queue = :queue
              AND t.state = f.state
              AND t.state >= {ERROR}
            ORDER BY t.id
            LIMIT CAST(:limit AS bigint)) AS x) AS x;

-- CountNewest
-- Runs for statistics, once for all queues. Index: the primary key, from its end.
SELECT x.queue, {COMPLETED} AS state, count(*) FILTER (WHERE x.state = {COMPLETED}) AS tasks,
       CASE WHEN sum(count(*)) OVER () >= CAST(:limit AS bigint) THEN 1 ELSE 0 END AS cut
  FROM (SELECT t.queue, t.state
          FROM {task} t
         ORDER BY t.id DESC
         LIMIT CAST(:limit AS bigint)) AS x
 GROUP BY x.queue;

-- NextQueue
-- Runs for statistics, once for each queue. Index: task_ready, task_busy and task_failed, one entry of each.
SELECT x.queue
  FROM ((SELECT t.queue
           FROM {task} t
          WHERE t.due IS NOT NULL
            AND t.queue > :queue
          ORDER BY t.queue
          LIMIT 1)
        UNION ALL
        (SELECT t.queue
           FROM {task} t
          WHERE t.state = {PROCESSING}
            AND t.queue > :queue
          ORDER BY t.queue
          LIMIT 1)
        UNION ALL
        (SELECT t.queue
           FROM {task} t
          WHERE t.state >= {ERROR}
            AND t.queue > :queue
          ORDER BY t.queue
          LIMIT 1)) AS x
 ORDER BY x.queue
 LIMIT 1;

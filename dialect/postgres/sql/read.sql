-- Exhausted
-- Runs after Held. Index: task_failed.
SELECT {Columns},
       t.payload, {now} AS now
  FROM {task} t
 WHERE t.queue = :queue
   AND t.state = {POISON}
   AND t.result = {exhausted_result};

-- IDBehind
-- Runs for each part of the old tasks that retention passes over. Index: the primary key. With both bounds in one
-- search, the planner would read all ids between them and sort them if it believes that they are few.
SELECT x.id
  FROM (SELECT t.id
          FROM {task} t
         WHERE t.id > :after
         ORDER BY t.id
         LIMIT 1 OFFSET :offset) AS x
 WHERE x.id < :before;

-- Peek
-- Runs after a lost connection. Index: the primary key.
SELECT t.id, t.queue, t.state, t.fence, t.updated
  FROM {task} t
 WHERE t.id = ANY (CAST(:id AS uuid[]));

-- Count
-- Runs if exact statistics are requested. Indexes: task_ready, task_busy and task_failed, one search in each. The
-- COMPLETED tasks take a scan of the table, which is slow if there are many.
WITH {clock}
SELECT queue, state, count(*) AS tasks, CAST(0 AS bigint) AS parked, count(*) FILTER (WHERE due <= clock.now) AS due,
       max(clock.now - due) FILTER (WHERE due <= clock.now) AS oldest, CAST(0 AS bigint) AS cancelled
  FROM {task}, clock
 WHERE due IS NOT NULL
 GROUP BY queue, state
UNION ALL
SELECT queue, {PROCESSING}, count(*), 0, 0, NULL, 0
  FROM {task}
 WHERE state = {PROCESSING}
 GROUP BY queue
UNION ALL
SELECT queue, state, count(*), count(*), 0, NULL, sum(cancelled)
  FROM {task}
 WHERE state IN ({ERROR}, {POISON})
   AND due IS NULL
 GROUP BY queue, state
UNION ALL
SELECT queue, {COMPLETED}, count(*), 0, 0, NULL, 0
  FROM {task}
 WHERE state = {COMPLETED}
 GROUP BY queue;

-- CountUpTo
-- Runs for statistics, once for each queue. Indexes: task_ready for waiting and due tasks, task_busy, and
-- task_failed. Each search is in the order of its index. Otherwise the planner may scan the table for a value that it
-- believes to be frequent, or read all entries of an index at once.
SELECT {CREATED} AS state, count(*) FILTER (WHERE x.state = {CREATED}) AS tasks,
       CAST(0 AS bigint) AS parked, CAST(0 AS bigint) AS due, CAST(NULL AS bigint) AS oldest,
       CASE WHEN count(*) >= CAST(:limit AS bigint) THEN 1 ELSE 0 END AS cut, CAST(0 AS bigint) AS cancelled
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
SELECT {CREATED}, 0, 0, count(*), {now} - min(x.due), 0, 0
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
SELECT {PROCESSING}, count(*), 0, 0, NULL, CASE WHEN count(*) >= CAST(:limit AS bigint) THEN 1 ELSE 0 END, 0
  FROM (SELECT 1
          FROM {task} t
         WHERE t.queue = :queue
           AND t.state = {PROCESSING}
         ORDER BY t.updated
         LIMIT CAST(:limit AS bigint)) AS x
UNION ALL
SELECT f.state, x.tasks, CASE f.state WHEN {ERROR} THEN x.tasks - x.due ELSE 0 END, 0, NULL,
       CASE WHEN x.tasks >= CAST(:limit AS bigint) THEN 1 ELSE 0 END, x.cancelled
  FROM (VALUES ({ERROR}), ({POISON})) AS f (state)
 CROSS JOIN LATERAL (
   SELECT count(*) AS tasks, count(x.due) AS due, coalesce(sum(x.cancelled), 0) AS cancelled
     FROM (SELECT t.due, t.cancelled
             FROM {task} t
            WHERE t.queue = :queue
              AND t.state = f.state
              AND t.state IN ({ERROR}, {POISON})
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
-- Runs for statistics, once for each queue. Indexes: task_ready, task_busy and task_failed, one entry of each.
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
          WHERE t.state IN ({ERROR}, {POISON})
            AND t.queue > :queue
          ORDER BY t.queue
          LIMIT 1)) AS x
 ORDER BY x.queue
 LIMIT 1;

-- Next
-- Runs when a worker finds nothing to do. Indexes: task_ready, one search for each priority, and task_busy for the
-- tasks in PROCESSING.
WITH busy AS MATERIALIZED (
  SELECT t.id, t.fence, t.lease_until
    FROM {task} t
   WHERE t.queue = :queue
     AND t.state = {PROCESSING}
     AND t.updated >= CAST(:oldest AS bigint)),
renewed AS MATERIALIZED (
  SELECT l.id, l.fence, l.lease_until
    FROM {lease} l
   WHERE EXISTS (SELECT 1 FROM busy))
SELECT CASE WHEN {unpaused} THEN least(
         (SELECT min(x.due)
            FROM generate_series(0, 9) AS p (priority)
           CROSS JOIN LATERAL (
             SELECT t.due
               FROM {task} t
              WHERE t.queue = :queue
                AND t.priority = p.priority
                AND t.due >= (CAST(:since AS bigint[]))[p.priority + 1]
              ORDER BY t.due, t.id
              LIMIT 1) AS x),
         {first_lease_over}) END AS due,
       {now} AS now;

-- first_lease_over
-- A full join is never a nested loop, which would read all of lease for each task in PROCESSING if the planner
-- believes that lease is empty.
(SELECT min(CASE WHEN b.id IS NOT NULL THEN coalesce(r.lease_until, b.lease_until) END)
   FROM busy b
   FULL JOIN renewed r ON r.id = b.id AND r.fence = b.fence);

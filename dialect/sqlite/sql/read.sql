-- Peek
-- Runs after a lost connection. Index: task_id.
SELECT t.id, t.queue, t.state, t.fence, t.updated
  FROM (VALUES {rows}) AS d
  JOIN {task} AS t ON t.id = +d.column1;

-- Peek row
(:id);

-- Exhausted
-- Runs after a lost connection. Index: task_failed.
SELECT {columns}
  FROM {task}
 WHERE queue = :queue
   AND state = {POISON}
   AND result = {exhausted_result};

-- Count
-- Runs if exact statistics are requested. Indexes: task_ready, task_busy and task_failed, each read once. The
-- COMPLETED tasks take a scan of the table.
SELECT queue, state, count(*) AS tasks, 0 AS parked, count(*) FILTER (WHERE due <= {now}) AS due,
       {now} - min(due) FILTER (WHERE due <= {now}) AS oldest, 0 AS cancelled
  FROM {task}
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
 WHERE (state = {ERROR} OR state = {POISON})
   AND due IS NULL
 GROUP BY queue, state
UNION ALL
SELECT queue, {COMPLETED}, count(*), 0, 0, NULL, 0
  FROM {task}
 WHERE state = {COMPLETED}
 GROUP BY queue;

-- CountUpTo
-- Runs for statistics and metrics, once for each queue. Indexes: task_ready, task_busy and task_failed; each part
-- stops at the limit.
SELECT {CREATED} AS state, count(*) FILTER (WHERE state = {CREATED}) AS tasks, 0 AS parked, 0 AS due,
       NULL AS oldest, {cut} AS cut, 0 AS cancelled
  FROM (
    SELECT state FROM {task} WHERE queue = :queue AND due IS NOT NULL LIMIT +:limit)
UNION ALL
SELECT {CREATED}, 0, 0, count(*), {now} - min(due), 0, 0
  FROM (
    {each: earliest_at_priority})
UNION ALL
SELECT {PROCESSING}, count(*), 0, 0, NULL, {cut}, 0
  FROM (
    SELECT 1 FROM {task} WHERE queue = :queue AND state = {PROCESSING} LIMIT +:limit)
UNION ALL
SELECT {ERROR}, count(*), count(*) - count(due), 0, NULL, {cut}, 0
  FROM (
    SELECT due FROM {task} WHERE queue = :queue AND state = {ERROR} LIMIT +:limit)
UNION ALL
SELECT {POISON}, count(*), 0, 0, NULL, {cut}, coalesce(sum(cancelled), 0)
  FROM (
    SELECT cancelled FROM {task} WHERE queue = :queue AND state = {POISON} LIMIT +:limit);

-- earliest_at_priority
SELECT * FROM (
  SELECT due FROM {task} WHERE queue = :queue AND priority = {p} AND due <= {now} ORDER BY due, id LIMIT +:limit);

-- cut
CASE WHEN count(*) >= :limit THEN 1 ELSE 0 END;

-- CountNewest
-- Runs for statistics and metrics, once for all queues. Index: task_id, from its end, up to the limit.
SELECT x.queue, {COMPLETED} AS state, count(*) FILTER (WHERE x.state = {COMPLETED}) AS tasks,
       CASE WHEN sum(count(*)) OVER () >= +:limit THEN 1 ELSE 0 END AS cut
  FROM (SELECT t.queue, t.state FROM {task} t ORDER BY t.id DESC LIMIT +:limit) AS x
 GROUP BY x.queue;

-- NextQueue
-- Runs for statistics, once for each queue. Indexes: task_ready, task_busy and task_failed, one search in each.
SELECT min(queue) AS queue
  FROM (
    SELECT * FROM (
      SELECT queue FROM {task} WHERE due IS NOT NULL AND queue > :queue ORDER BY queue LIMIT 1)
    UNION ALL
    SELECT * FROM (
      SELECT queue FROM {task} WHERE state = {PROCESSING} AND queue > :queue ORDER BY queue LIMIT 1)
    UNION ALL
    SELECT * FROM (
      SELECT queue
        FROM {task}
       WHERE (state = {ERROR} OR state = {POISON})
         AND queue > :queue
       ORDER BY queue
       LIMIT 1))
HAVING min(queue) IS NOT NULL;

-- Next
-- Runs when a worker is idle. Indexes: task_ready, once for each priority, and task_busy.
SELECT min(due) AS due, {now} AS now
  FROM (
    {each: next_at_priority}
    UNION ALL SELECT min(lease_until) FROM {task} WHERE queue = :queue AND state = {PROCESSING})
 WHERE {unpaused};

-- next_at_priority
SELECT * FROM (
  SELECT due FROM {task} WHERE queue = :queue AND priority = {p} AND due IS NOT NULL ORDER BY due, id LIMIT 1);

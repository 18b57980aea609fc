-- Held
-- Runs after a lost connection. Index: task_busy.
SELECT {Columns},
       t.payload, t.payload_size, {now} AS now
  FROM {task} t
 WHERE t.busy_queue = :queue
   AND t.holder = :holder;

-- IDBehind
-- Runs for each part of the old tasks that retention passes over. Index: the primary key alone.
SELECT t.id
  FROM {task} t
 WHERE t.id > :after
   AND t.id < :before
 ORDER BY t.id
 OFFSET :offset ROWS FETCH NEXT 1 ROWS ONLY;

-- IDBefore
-- Runs for each page of a list that no index leads to. Index: the primary key alone.
SELECT t.id
  FROM {task} t
 WHERE t.id < :before
 ORDER BY t.id DESC
 OFFSET :offset ROWS FETCH NEXT 1 ROWS ONLY;

-- Count
-- Runs if exact statistics are requested. Index: none; it scans the table.
SELECT queue, state, COUNT(*) AS tasks, COUNT(*) - COUNT(due) AS parked,
       COUNT(CASE WHEN due <= {now} THEN 1 END) AS due,
       {now} - MIN(CASE WHEN due <= {now} THEN due END) AS oldest,
       COUNT(CASE WHEN cancelled = 1 THEN 1 END) AS cancelled
  FROM {task}
 GROUP BY queue, state;

-- CountUpTo
-- Runs for statistics and metrics, once for each queue. Indexes: task_ready and task_busy; each part stops at the
-- limit.
SELECT {CREATED} AS state, 0 AS tasks, {now} - MIN(due) AS oldest, COUNT(*) AS due, 0 AS cut
  FROM (
    {each: due_at_priority})
UNION ALL
SELECT {CREATED}, COUNT(CASE WHEN state = {CREATED} THEN 1 END), NULL, 0,
       {cut}
  FROM (
    SELECT state FROM {task} WHERE ready_queue = :queue FETCH FIRST :limit ROWS ONLY)
UNION ALL
SELECT {ERROR}, COUNT(CASE WHEN state = {ERROR} THEN 1 END), NULL, 0,
       {cut}
  FROM (
    SELECT state FROM {task} WHERE ready_queue = :queue FETCH FIRST :limit ROWS ONLY)
UNION ALL
SELECT {PROCESSING}, COUNT(*), NULL, 0,
       {cut}
  FROM (
    SELECT state FROM {task} WHERE busy_queue = :queue FETCH FIRST :limit ROWS ONLY);

-- due_at_priority
SELECT due
  FROM (
    SELECT due FROM {task}
     WHERE ready_queue = :queue AND ready_priority = {p} AND due <= {now}
     ORDER BY due FETCH FIRST :limit ROWS ONLY);

-- cut
CASE WHEN COUNT(*) >= :limit THEN 1 ELSE 0 END;

-- CountNewest
-- Runs for statistics and metrics, once for all queues. Index: the primary key, from its end.
SELECT queue, state, COUNT(*) AS tasks, COUNT(CASE WHEN state = {ERROR} THEN 1 END) AS parked,
       COUNT(CASE WHEN cancelled = 1 THEN 1 END) AS cancelled,
       CASE
         WHEN (SELECT COUNT(*) FROM (SELECT id FROM {task} FETCH FIRST :limit ROWS ONLY)) >= :limit
         THEN 1
         ELSE 0
       END AS cut
  FROM (
    SELECT queue, state, due, cancelled FROM {task}
     ORDER BY id DESC FETCH FIRST :limit ROWS ONLY)
 WHERE due IS NULL
   AND state <> {PROCESSING}
 GROUP BY queue, state;

-- NextQueue
-- Runs for statistics, once for each queue. Indexes: task_ready and task_busy, one entry of each.
SELECT queue
  FROM (
    SELECT MIN(ready_queue) AS queue FROM {task} WHERE ready_queue > :queue
    UNION ALL
    SELECT MIN(busy_queue) AS queue FROM {task} WHERE busy_queue > :queue)
 WHERE queue IS NOT NULL
 ORDER BY queue;

-- Next
-- Runs when a worker is idle. Indexes: task_ready, once for each priority, and task_busy.
SELECT MIN(due) AS due, {now} AS now
  FROM (
    {each: next_due}
    UNION ALL
    SELECT MIN({renewed}) AS due
      FROM {task} t
     WHERE t.busy_queue = :queue)
 WHERE {unpaused};

-- next_due
SELECT MIN(due) AS due FROM {task} WHERE ready_queue = :queue AND ready_priority = {p};

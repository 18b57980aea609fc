-- Peek
-- Runs after a lost connection. Index: the primary key.
SELECT t.id, t.queue, t.state, t.fence, t.updated
  FROM {task} AS t FORCE INDEX (PRIMARY)
 WHERE t.id IN ({rows});

-- Peek row
:id;

-- Held
-- Runs after a lost connection. Index: task_lane.
SELECT {Columns},
       t.payload, {now} AS now
  FROM {task} AS t FORCE INDEX ({prefix}task_lane)
 WHERE t.queue = :queue
   AND t.lane = {working}
   AND t.holder = :holder;

-- Exhausted
-- Runs after a lost connection. Index: task_lane.
SELECT {Columns},
       t.payload, {now} AS now
  FROM {task} AS t FORCE INDEX ({prefix}task_lane)
 WHERE t.queue = :queue
   AND t.lane = {POISON}
   AND t.result = {exhausted_result};

-- IDBehind
-- Runs for each part of the old tasks that retention passes over. Index: the primary key alone.
SELECT t.id
  FROM {task} AS t FORCE INDEX (PRIMARY)
 WHERE t.id > :after
   AND t.id < :before
 ORDER BY t.id
 LIMIT 1 OFFSET :offset;

-- IDBefore
-- Runs for each page of a list that no index leads to. Index: the primary key alone.
SELECT t.id
  FROM {task} AS t FORCE INDEX (PRIMARY)
 WHERE t.id < :before
 ORDER BY t.id DESC
 LIMIT 1 OFFSET :offset;

-- CountUpTo
-- Runs for statistics and metrics, once for each queue. Index: task_lane; each part stops at the limit.
SELECT s.state, CASE s.state WHEN {CREATED} THEN w.tasks - w.failed ELSE w.failed END AS tasks, 0 AS parked,
       0 AS due, NULL AS oldest, w.cut, 0 AS cancelled
  FROM (SELECT count(*) AS tasks, count(CASE WHEN state = {ERROR} THEN 1 END) AS failed,
               {cut} AS cut
          FROM (
            SELECT state FROM {task} FORCE INDEX ({prefix}task_lane)
             WHERE queue = :queue AND lane = {waiting} LIMIT :limit) AS w) AS w
 CROSS JOIN (SELECT {CREATED} AS state UNION ALL SELECT {ERROR}) AS s
UNION ALL
SELECT {CREATED}, 0, 0, count(*), {now} - min(due_at), 0, 0
  FROM (
    {each: due_at_priority}) AS w
UNION ALL
SELECT {PROCESSING}, count(*), 0, 0, NULL, {cut}, 0
  FROM (
    SELECT 1 FROM {task} FORCE INDEX ({prefix}task_lane)
     WHERE queue = :queue AND lane = {working} LIMIT :limit) AS w
UNION ALL
SELECT {COMPLETED}, count(*), 0, 0, NULL, {cut}, 0
  FROM (
    SELECT 1 FROM {task} FORCE INDEX ({prefix}task_lane)
     WHERE queue = :queue AND lane = {COMPLETED} LIMIT :limit) AS w
UNION ALL
SELECT {ERROR}, count(*), count(*), 0, NULL, {cut}, 0
  FROM (
    SELECT 1 FROM {task} FORCE INDEX ({prefix}task_lane)
     WHERE queue = :queue AND lane = {ERROR} LIMIT :limit) AS w
UNION ALL
SELECT {POISON}, count(*), 0, 0, NULL, {cut}, coalesce(sum(cancelled), 0)
  FROM (
    SELECT cancelled FROM {task} FORCE INDEX ({prefix}task_lane)
     WHERE queue = :queue AND lane = {POISON} LIMIT :limit) AS w;

-- due_at_priority
(SELECT due_at FROM {task} FORCE INDEX ({prefix}task_lane)
  WHERE queue = :queue AND lane = {waiting} AND priority = {p} AND due_at <= {now}
  ORDER BY due_at LIMIT :limit);

-- cut
CASE WHEN count(*) >= :limit THEN 1 ELSE 0 END;

-- NextQueue
-- Runs for statistics, once for each queue. Index: task_lane, one entry.
SELECT queue
  FROM {task} FORCE INDEX ({prefix}task_lane)
 WHERE queue > :queue
 ORDER BY queue
 LIMIT 1;

-- Next
-- Runs when a worker is idle. Index: task_lane, once for each priority, and from the oldest lease on.
SELECT min(x.due) AS due, {now} AS now
  FROM (
    {each: next_due}
    UNION ALL (
      SELECT min({renewed})
        FROM {task} AS t FORCE INDEX ({prefix}task_lane)
       WHERE t.queue = :queue
         AND t.lane = {working}
         AND t.priority IN ({priorities})
         AND t.due_at >= :oldest - {ages})) AS x
 WHERE {unpaused};

-- next_due
SELECT {first_due} AS due;

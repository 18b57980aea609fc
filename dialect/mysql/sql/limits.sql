-- Busy
-- Runs in a checkout of a queue with limits. Index: task_lane, the tasks in PROCESSING.
SELECT count(*) AS tasks
{busy};

-- BusyKeys
-- Runs in a checkout of a queue with limits per key. Index: task_lane, the tasks in PROCESSING.
SELECT t.task_key, count(*) AS tasks
{busy}
 GROUP BY t.task_key;

-- busy
  FROM {task} AS t FORCE INDEX ({prefix}task_lane)
 WHERE t.queue = :queue
   AND t.lane = {working};

-- DueFirst
-- Runs in a checkout of a queue with limits per key. Index: task_lane, one ordered range for each priority.
SELECT x.*
  FROM (
    {each: due_at_priority_first}) AS x
 LIMIT :limit;

-- due_at_priority_first
(SELECT {candidate}
   FROM {task} AS t FORCE INDEX ({prefix}task_lane)
  WHERE t.queue = :queue AND t.lane = {waiting} AND t.priority = {p} AND t.due_at <= {now}
  ORDER BY t.due_at, t.id
  LIMIT :limit);

-- candidate
t.id, t.fence, t.task_key, t.priority, t.due_at AS was_due, t.payload_size;

-- DueKeys
-- Runs in a checkout of a queue with limits per key, while many tasks are due. Index: task_key, one entry for each key
-- (a loose index scan).
SELECT t.task_key
  FROM {task} AS t FORCE INDEX ({prefix}task_key)
 WHERE t.key_queue = :queue
   AND t.task_key > :after
 GROUP BY t.key_queue, t.task_key
 ORDER BY t.key_queue, t.task_key
 LIMIT :limit;

-- DueOfKeys
-- Runs in a checkout of a queue with limits per key, while many tasks are due. Index: task_key, one ordered range for
-- each key.
SELECT d.*
  FROM ({rows}) AS d;

-- DueOfKeys row
SELECT x.*
  FROM (
    SELECT {candidate}
      FROM {task} AS t FORCE INDEX ({prefix}task_key)
     WHERE t.key_queue = :queue AND t.task_key = :task_key AND t.key_due <= {now}
     ORDER BY t.key_due, t.id
     LIMIT :limit) AS x;

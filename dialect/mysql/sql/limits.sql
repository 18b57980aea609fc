-- LimitIdle
-- Runs before a checkout of a queue with limits. A client that stops while it holds the lock of the limits would keep
-- all other checkouts of the queue waiting, as long as its connection stays open: eight hours by default.
SET @dbqwait = @@SESSION.wait_timeout, SESSION wait_timeout = 10;

-- LimitIdle free
-- Runs after that checkout, so that other transactions of the session may pause for longer.
SET SESSION wait_timeout = @dbqwait;

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

-- DueTasks
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
-- Runs in a checkout of a queue with limits per key. Index: task_key, two entries for each key: one of a loose index
-- scan, and the first of the key. MySQL sorts all tasks of the key unless ORDER BY names task_key, and MariaDB 10.11
-- if it also names key_queue. With a hot key, both would read all of its tasks.
SELECT {candidate}, {now} AS now
  FROM (
    SELECT (
        SELECT h.id
          FROM {task} AS h FORCE INDEX ({prefix}task_key)
         WHERE h.key_queue = :queue AND h.task_key = k.task_key
         ORDER BY h.task_key, h.key_due, h.id
         LIMIT 1) AS id
      FROM (
        SELECT t.task_key
          FROM {task} AS t FORCE INDEX ({prefix}task_key)
         WHERE t.key_queue = :queue
           AND t.task_key > :after
         GROUP BY t.key_queue, t.task_key
         ORDER BY t.key_queue, t.task_key
         LIMIT :limit) AS k) AS f
  STRAIGHT_JOIN {task} AS t FORCE INDEX (PRIMARY) ON t.id = f.id;

-- DueOfKeys
-- Runs in a checkout of a queue with limits per key. Index: task_key, one ordered range for each key.
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

-- HeadsOfKeys
-- Runs in a checkout of a queue with an order. Index: task_order, which ends with the id: one or two entries for each
-- key.
SELECT d.*
  FROM ({rows}) AS d;

-- HeadsOfKeys row
SELECT x.*
  FROM (
    SELECT {candidate}
      FROM {task} AS t FORCE INDEX ({prefix}task_order)
     WHERE t.order_queue = :queue AND t.task_key = :task_key AND t.order_failed = 0
     ORDER BY t.id
     LIMIT 1) AS x
 WHERE x.was_due <= {now}
   AND (:block = 0 OR NOT EXISTS (
     SELECT 1
       FROM {task} AS f FORCE INDEX ({prefix}task_order)
      WHERE f.order_queue = :queue AND f.task_key = :task_key AND f.order_failed = 1 AND f.id < x.id));

-- SetKeyRates
-- Runs in a checkout of a queue with a rate per key, under the lock of the limits. Index: the primary key.
INSERT INTO {key_rate} (queue, task_key, full_at)
SELECT :queue, d.task_key, d.full_at
  FROM ({rows}) AS d
    ON DUPLICATE KEY UPDATE full_at = d.full_at;

-- SetKeyRates row
SELECT CAST(:name AS BINARY) AS task_key, :full_at AS full_at;

-- ExpireKeyRates
-- Runs for cleaning. Index: key_rate_full.
DELETE FROM {key_rate}
 WHERE full_at <= {now} - :age
 ORDER BY full_at
 LIMIT :limit;

-- Busy
-- Runs in a checkout of a queue with limits. Index: task_busy.
SELECT COUNT(*) AS tasks
{busy};

-- BusyKeys
-- Runs in a checkout of a queue with limits per key. Index: task_busy.
SELECT t.task_key, COUNT(*) AS tasks
{busy}
 GROUP BY t.task_key;

-- busy
  FROM {task} t
 WHERE t.busy_queue = :queue;

-- DueTasks
-- Runs in a checkout of a queue with limits per key. Index: task_ready, one ordered range for each priority.
SELECT *
  FROM (
    {each: due_at_priority_first})
 FETCH FIRST :limit ROWS ONLY;

-- due_at_priority_first
SELECT *
  FROM (
    SELECT /*+ INDEX(t {prefix}task_ready) */ {candidate}
      FROM {task} t
     WHERE t.ready_queue = :queue AND t.ready_priority = {p} AND t.due <= {now}
     ORDER BY t.due, t.ready_id
     FETCH FIRST :limit ROWS ONLY);

-- candidate
t.id, t.fence, t.task_key, t.priority, t.due AS was_due, t.payload_size;

-- DueKeys
-- Runs in a checkout of a queue with limits per key. Index: task_key. It reads all entries of the keys that it
-- returns.
SELECT x.*, {now} AS now
  FROM (
    SELECT t.key_name
      FROM {task} t
     WHERE t.key_queue = :queue AND t.key_name > :after
     GROUP BY t.key_name
     ORDER BY t.key_name
     FETCH FIRST :limit ROWS ONLY) k
 CROSS APPLY (
   SELECT {candidate}
     FROM {task} t
    WHERE t.key_queue = :queue AND t.key_name = k.key_name
    ORDER BY t.key_due, t.id
    FETCH FIRST 1 ROWS ONLY) x;

-- DueOfKeys
-- Runs in a checkout of a queue with limits per key. Index: task_key, one ordered range for each key.
SELECT *
  FROM ({rows});

-- DueOfKeys row
SELECT *
  FROM (
    SELECT {candidate}
      FROM {task} t
     WHERE t.key_queue = :queue AND t.key_name = :task_key AND t.key_due <= {now}
     ORDER BY t.key_due, t.id
     FETCH FIRST :limit ROWS ONLY);

-- HeadsOfKeys
-- Runs in a checkout of a queue with an order. Index: task_order, one or two entries for each key.
SELECT *
  FROM ({rows});

-- HeadsOfKeys row
SELECT {candidate}
  FROM {task} t
 WHERE t.id = (
     SELECT MIN(h.order_id)
       FROM {task} h
      WHERE h.order_queue = :queue AND h.order_key = :task_key AND h.order_failed = 0)
   AND t.due <= {now}
   AND (:block = 0 OR NOT EXISTS (
     SELECT 1
       FROM {task} f
      WHERE f.order_queue = :queue AND f.order_key = :task_key AND f.order_failed = 1 AND f.order_id < t.id));

-- SetKeyRates
-- Runs in a checkout of a queue with a rate per key, under the lock of the limits. Index: the primary key.
BEGIN
  {rows}
END;
/

-- SetKeyRates row
BEGIN
  UPDATE {key_rate} SET full_at = :full_at WHERE queue = :queue AND task_key = :name;
  IF SQL%ROWCOUNT = 0 THEN
    INSERT INTO {key_rate} (queue, task_key, full_at) VALUES (:queue, :name, :full_at);
  END IF;
END;
/

-- ExpireKeyRates
-- Runs for cleaning. Index: krate_full.
DELETE FROM {key_rate}
 WHERE full_at <= {now} - :age
   AND ROWNUM <= :limit;

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

-- DueFirst
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
-- Runs in a checkout of a queue with limits per key, while many tasks are due. Index: task_key. It reads all entries of
-- the keys that it returns.
SELECT t.key_name AS task_key
  FROM {task} t
 WHERE t.key_queue = :queue AND t.key_name > :after
 GROUP BY t.key_name
 ORDER BY t.key_name
 FETCH FIRST :limit ROWS ONLY;

-- DueOfKeys
-- Runs in a checkout of a queue with limits per key, while many tasks are due. Index: task_key, one ordered range for
-- each key.
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

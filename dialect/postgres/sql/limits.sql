-- DueOfKeys
-- Runs in a checkout of a queue with limits per key, while many tasks are due. Index: task_key, one ordered range for
-- each key.
SELECT x.*
  FROM unnest(CAST(:task_key AS text[])) AS d (task_key)
 CROSS JOIN LATERAL (
   SELECT t.id, t.fence, t.task_key, t.priority, t.due AS was_due, {size} AS payload_size
     FROM {task} t
    WHERE t.queue = :queue
      AND t.task_key = d.task_key
      AND t.due <= {now}
    ORDER BY t.due, t.id
    LIMIT :limit) AS x;

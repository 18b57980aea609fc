-- DueKeys
-- Runs in a checkout of a queue with limits per key. Index: task_key, one entry for each key: the first after all
-- entries of the key before. It gives the row id, by which the row is read: whole, but for a large payload, so that
-- the checkout need not read the tasks that it chooses from these again. Of a row with much else in it, it reads only
-- what every search does: max_attempts is 0.
WITH RECURSIVE k (place, n) AS (
  SELECT (SELECT t.rowid
            FROM {task} AS t
           WHERE t.queue = :queue
             AND t.task_key > :after
             AND t.due IS NOT NULL
           ORDER BY t.task_key, t.due, t.id
           LIMIT 1), 1
   UNION ALL
  SELECT (SELECT t.rowid
            FROM {task} AS t
           WHERE t.queue = :queue
             AND t.task_key > p.task_key
             AND t.due IS NOT NULL
           ORDER BY t.task_key, t.due, t.id
           LIMIT 1), k.n + 1
    FROM k
   CROSS JOIN {task} AS p
   WHERE p.rowid = k.place
     AND k.n < :limit)
SELECT t.id, t.reference, t.kind, t.task_key, t.priority, t.attempt, t.lapses, t.fence, t.created,
       CASE WHEN {small} THEN t.max_attempts ELSE 0 END AS max_attempts,
       CASE WHEN {small} THEN t.headers END AS headers,
       CASE WHEN {small} THEN t.progress END AS progress,
       CASE WHEN {small} THEN t.result END AS result,
       length(t.result) AS result_size,
       CASE WHEN length(t.payload) <= 1000 THEN t.payload END AS payload, length(t.payload) AS payload_size,
       t.due AS was_due, {now} AS now
  FROM k
 CROSS JOIN {task} AS t
 WHERE t.rowid = k.place;

-- small
coalesce(octet_length(t.result), 0) + coalesce(octet_length(t.headers), 0)
  + coalesce(octet_length(t.progress), 0) <= 1000;

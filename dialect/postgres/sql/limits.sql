-- LimitIdle
-- Runs before LockKV, for the transaction. A client that stops while it holds the lock would keep all other checkouts
-- of the queue waiting, as long as its connection stays open.
SET LOCAL idle_in_transaction_session_timeout = 10000;

-- DueKeys
-- Runs in a checkout of a queue with limits per key. Index: task_key, one entry for each key: the first after all
-- entries of the key before.
WITH RECURSIVE k AS (
  (SELECT {candidate},
          1 AS n
     FROM {task} t
    WHERE t.queue = :queue
      AND t.task_key > :after
      AND t.due IS NOT NULL
    ORDER BY t.task_key, t.due, t.id
    LIMIT 1)
   UNION ALL
  SELECT x.*
    FROM k
   CROSS JOIN LATERAL (
     SELECT t.id, t.fence, t.task_key, t.priority, t.due AS was_due,
            {size} AS payload_size, k.n + 1
       FROM {task} t
      WHERE t.queue = :queue
        AND t.task_key > k.task_key
        AND t.due IS NOT NULL
      ORDER BY t.task_key, t.due, t.id
      LIMIT 1) AS x
   WHERE k.n < CAST(:limit AS bigint))
SELECT k.id, k.fence, k.task_key, k.priority, k.was_due, k.payload_size, {now} AS now
  FROM k;

-- candidate
t.id, t.fence, t.task_key, t.priority, t.due AS was_due, {size} AS payload_size;

-- DueOfKeys
-- Runs in a checkout of a queue with limits per key. Index: task_key, one ordered range for each key.
SELECT x.*
  FROM unnest(CAST(:task_key AS text[])) AS d (task_key)
 CROSS JOIN LATERAL (
   SELECT {candidate}
     FROM {task} t
    WHERE t.queue = :queue
      AND t.task_key = d.task_key
      AND t.due <= {now}
    ORDER BY t.due, t.id
    LIMIT :limit) AS x;

-- HeadsOfKeys
-- Runs in a checkout of a queue with an order. Indexes: task_order, one entry for each key, and task_key_failed.
SELECT x.*
  FROM unnest(CAST(:task_key AS text[])) AS d (task_key)
 CROSS JOIN LATERAL (
   SELECT {candidate}
     FROM {task} t
    WHERE t.queue = :queue
      AND t.task_key = d.task_key
      AND t.due IS NOT NULL
    ORDER BY CASE WHEN t.due IS NOT NULL THEN t.id END
    LIMIT 1) AS x
 WHERE x.was_due <= {now}
   AND (CAST(:block AS smallint) = 0 OR NOT EXISTS (
     SELECT 1
       FROM {task} f
      WHERE f.queue = :queue
        AND f.task_key = x.task_key
        AND f.id < x.id
        AND f.due IS NULL
        AND f.cancelled = 0
        AND f.state IN ({ERROR}, {POISON})));

-- KeyRates
-- Runs in a checkout of a queue with a rate per key, for the keys of the tasks that it has found. Index: the primary
-- key.
SELECT k.task_key, k.full_at
  FROM {key_rate} k
 WHERE k.queue = :queue
   AND k.task_key = ANY (CAST(:name AS text[]));

-- SetKeyRates
-- Runs in a checkout of a queue with a rate per key, under the lock of the limits. Index: the primary key.
INSERT INTO {key_rate} (queue, task_key, full_at)
SELECT CAST(:queue AS text), d.task_key, d.full_at
  FROM unnest(CAST(:name AS text[]), CAST(:full_at AS bigint[])) AS d (task_key, full_at)
ON CONFLICT (queue, task_key) DO UPDATE
   SET full_at = excluded.full_at;

-- ExpireKeyRates
-- Runs for cleaning. Index: key_rate_full. The condition is checked again on the row as it is under its lock.
DELETE FROM {key_rate}
 WHERE full_at <= {now} - CAST(:age AS bigint)
   AND ctid = ANY (ARRAY(
         SELECT ctid
           FROM {key_rate}
          WHERE full_at <= {now} - CAST(:age AS bigint)
          ORDER BY full_at
          LIMIT :limit));

-- Movable
-- Runs first in the transaction of an operator's call. It locks in the order of ids, so that two calls do not wait for
-- each other in a circle. Index: the primary key.
SELECT t.id, t.queue, t.state, t.attempt, t.fence, t.holder, t.taken, t.updated,
       t.result, {now} AS now
  FROM {task} t
 WHERE t.id = ANY (CAST(:id AS uuid[]))
   AND {guard}
 ORDER BY t.id
   FOR UPDATE;

-- Move
-- Runs after Movable. Index: the primary key.
UPDATE {task} t
   SET {set}
 WHERE t.id = ANY (CAST(:id AS uuid[]))
   AND {guard};

-- Purge
-- Index: the primary key.
DELETE FROM {task} t
 WHERE t.id = ANY (CAST(:id AS uuid[]))
   AND {guard}
RETURNING t.id;

-- SetResult
-- Index: the primary key.
UPDATE {task} t
   SET result = d.result
  FROM (SELECT CAST(:id AS uuid[]) AS id, CAST(:result AS bytea[]) AS result OFFSET 0) AS given,
       unnest(given.id, given.result) AS d (id, result)
 WHERE t.id = d.id;

-- Archive
-- Runs before the Move purge of the same transaction, where tasks are to be archived. Index: the primary key. The
-- columns are named, since a later version may add to them.
INSERT INTO {archive} ({stored},
                       archived)
SELECT {stored},
       {now}
  FROM {task} t
 WHERE t.id = ANY (CAST(:id AS uuid[]))
   AND {purgeable}
   FOR UPDATE
ON CONFLICT DO NOTHING;

-- stored
id, fence, due, was_due, lease_until, taken, created, updated, state, priority, attempt,
max_attempts, lapses, known_started, queue, reference, kind, holder, headers, payload, result;

-- FindKeys
-- Runs first for an enqueue of unique tasks. Indexes: the primary keys of unique_key and task.
SELECT k.id, k.task, k.expires, t.state, t.due
  FROM {unique_key} k
  LEFT JOIN {task} t ON t.id = k.task AND t.queue = k.queue
 WHERE k.id = {given_ids};

-- LockWaiting
-- Runs after FindKeys, before LockKeys: a transaction that has completed a task and enqueues its successor locks in
-- this order, too. Index: the primary key. state + 0 keeps the planner from using a partial index.
SELECT t.id, t.queue, t.state, t.due, t.created
  FROM {task} t
 WHERE t.id = {given_ids}
   AND (t.due IS NOT NULL OR t.state + 0 = {PROCESSING} AND CAST(:running AS smallint) = 1)
 ORDER BY t.id
   FOR UPDATE;

-- AddKeys
-- Runs after FindKeys, for keys that it has not found. Index: the primary key.
INSERT INTO {unique_key} (id, task, expires, queue, scope, name)
SELECT d.id, d.task, d.expires, CAST(:queue AS text), d.scope, d.name
  FROM unnest(CAST(:id AS uuid[]), CAST(:task AS uuid[]), CAST(:expires AS bigint[]), CAST(:scope AS text[]),
              CAST(:name AS text[])) AS d (id, task, expires, scope, name)
ON CONFLICT DO NOTHING;

-- LockKeys
-- Runs after AddKeys. Index: the primary key. It locks in the order of ids, so that no two calls deadlock.
SELECT k.id, k.task, k.expires
  FROM {unique_key} k
 WHERE k.id = {given_ids}
 ORDER BY k.id
   FOR UPDATE;

-- SetKeys
-- Runs after Insert, for keys that name another task then. Index: the primary key.
UPDATE {unique_key} k
   SET task = d.task,
       expires = d.expires
  FROM (SELECT CAST(:id AS uuid[]) AS id, CAST(:task AS uuid[]) AS task, CAST(:expires AS bigint[]) AS expires
        OFFSET 0) AS given,
       unnest(given.id, given.task, given.expires) AS d (id, task, expires)
 WHERE k.id = d.id;

-- Postpone
-- Runs after LockKeys. Index: the primary key.
UPDATE {task} t
   SET due = d.at
  FROM (SELECT CAST(:id AS uuid[]) AS id, CAST(:at AS bigint[]) AS at OFFSET 0) AS given,
       unnest(given.id, given.at) AS d (id, at)
 WHERE t.id = d.id
   AND t.due IS NOT NULL;

-- DropKeys
-- Runs for cleaning, after LockKeys. Index: the primary key.
DELETE FROM {unique_key} k
 WHERE k.id = {given_ids};

-- given_ids
-- The list comes from a subquery, which hides its length: the planner uses the primary key, whatever it knows about
-- the table.
ANY (CAST((SELECT CAST(:id AS uuid[])) AS uuid[]));

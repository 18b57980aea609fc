-- FindKeys
-- Runs first for an enqueue of unique tasks, without locks. Indexes: the primary keys of unique_key and task.
SELECT k.id, k.task, k.expires, t.state, t.due
  FROM {unique_key} AS k FORCE INDEX (PRIMARY)
  LEFT JOIN {task} AS t FORCE INDEX (PRIMARY)
         ON t.id = k.task AND t.queue = k.queue
 WHERE k.id IN ({rows});

-- FindKeys row
:id;

-- LockWaiting
-- Runs after FindKeys, for tasks that it has found: for others, InnoDB would lock a gap at REPEATABLE READ. It runs
-- before LockKeys: a transaction that has completed a task and enqueues its successor locks in this order, too.
-- Index: the primary key.
SELECT id, queue, state, due, created
  FROM {task} FORCE INDEX (PRIMARY)
 WHERE id IN ({rows})
   AND (due_at >= 0 OR state = {PROCESSING} AND :running = 1)
 ORDER BY id
   FOR UPDATE;

-- LockWaiting row
:id;

-- AddKeys
-- Runs after FindKeys, for keys that it has not found. Index: the primary key. For a key that exists, IGNORE would take
-- a shared lock, and two transactions that go on to lock it exclusively would deadlock.
INSERT INTO {unique_key} (id, task, expires, queue, scope, name)
VALUES {rows}
    ON DUPLICATE KEY UPDATE task = task;

-- AddKeys row
(:id, :task, :expires, :queue, :scope, :name);

-- LockKeys
-- Runs after AddKeys. Index: the primary key. It locks in the order of ids, so that no two calls deadlock.
SELECT id, task, expires
  FROM {unique_key} FORCE INDEX (PRIMARY)
 WHERE id IN ({rows})
 ORDER BY id
   FOR UPDATE;

-- LockKeys row
:id;

-- SetKeys
-- Runs after Insert, for keys that name another task then. Index: the primary key.
UPDATE ({rows}) AS d
       STRAIGHT_JOIN {unique_key} AS k FORCE INDEX (PRIMARY)
       ON k.id = d.id
   SET k.task = d.task,
       k.expires = d.expires;

-- SetKeys row
SELECT CAST(:id AS BINARY(16)) AS id, CAST(:task AS BINARY(16)) AS task, :expires AS expires;

-- Replace
-- Runs after LockKeys, for one task at a time, since payloads may be large. Index: the primary key.
UPDATE {task} FORCE INDEX (PRIMARY)
   SET kind = :kind,
       task_key = :task_key,
       priority = :priority,
       due_at = :at,
       headers = :headers,
       payload_size = :payload_size,
       payload = :payload,
       progress = NULL,
       fence = fence + 1
 WHERE id = :id
   AND due_at >= 0;

-- Postpone
-- Runs after LockKeys. Index: the primary key.
UPDATE ({rows}) AS d
       STRAIGHT_JOIN {task} AS t FORCE INDEX (PRIMARY)
       ON t.id = d.id
   SET t.due_at = d.at
 WHERE t.due_at >= 0;

-- Postpone row
SELECT CAST(:id AS BINARY(16)) AS id, :at AS at;

-- DropKeys
-- Runs for cleaning, after LockKeys. Index: the primary key.
DELETE k
  FROM {unique_key} AS k FORCE INDEX (PRIMARY)
 WHERE k.id IN ({rows});

-- DropKeys row
:id;

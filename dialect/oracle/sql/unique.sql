-- LockWaiting
-- Runs after FindKeys, before LockKeys: a transaction that has completed a task and enqueues its successor locks in
-- this order, too. Index: the primary key.
SELECT id, state, due, created
  FROM {task}
 WHERE id IN ({rows})
   AND (due IS NOT NULL OR state = {PROCESSING} AND :running = 1)
 ORDER BY id
   FOR UPDATE;

-- LockWaiting row
:id;

-- AddKeys
-- Runs after FindKeys, for keys that it has not found. Index: the primary key.
BEGIN
  {rows}
END;
/

-- AddKeys row
BEGIN
  INSERT INTO {unique_key} (id, task, expires, queue, scope, name)
  VALUES (:id, :task, :expires, :queue, :scope, :name);
EXCEPTION WHEN DUP_VAL_ON_INDEX THEN NULL;
END;
/

-- LockKeys
-- Runs after AddKeys. Index: the primary key. It locks in the order of ids, so that no two calls deadlock.
SELECT id, task, expires
  FROM {unique_key}
 WHERE id IN ({rows})
 ORDER BY id
   FOR UPDATE;

-- LockKeys row
:id;

-- SetKeys
-- Runs after Insert, with arrays, for keys that name another task then. Index: the primary key.
UPDATE {unique_key}
   SET task = :task,
       expires = :expires
 WHERE id = :id;

-- Replace
-- Runs after LockKeys, for one task at a time, since payloads may be large. Index: the primary key.
UPDATE {task}
   SET kind = :kind,
       priority = :priority,
       due = :at,
       headers = :headers,
       payload_size = :payload_size,
       payload = :payload,
       progress = NULL
 WHERE id = :id
   AND due IS NOT NULL;

-- Postpone
-- Runs after LockKeys, with arrays. Index: the primary key.
UPDATE {task}
   SET due = :at
 WHERE id = :id
   AND due IS NOT NULL;

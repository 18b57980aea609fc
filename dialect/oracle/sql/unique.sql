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
       task_key = :task_key,
       priority = :priority,
       due = :at,
       headers = :headers,
       payload_size = :payload_size,
       payload = :payload,
       progress = NULL,
       fence = fence + 1
 WHERE id = :id
   AND due IS NOT NULL;

-- Postpone
-- Runs after LockKeys, with arrays. Index: the primary key.
UPDATE {task}
   SET due = :at
 WHERE id = :id
   AND due IS NOT NULL;

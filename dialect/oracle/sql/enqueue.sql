-- Insert
-- Runs for an enqueue, and for each part of a bulk enqueue, in blocks of a few sizes. Indexes: the primary key and
-- task_ref find duplicates. Only PL/SQL can leave out a row whose key exists, wait for another transaction that is
-- about to insert it, and keep the surrounding transaction usable.
{block_at_one_time};

-- Insert row
BEGIN
  INSERT INTO {task} (
    id, fence, queue, reference, kind, state, priority, max_attempts, due, created, updated,
    headers, payload_size, payload, task_key)
  VALUES (
    :id, :reused * l_now, :queue, :reference, :kind, {CREATED}, :priority, :max_attempts,
    COALESCE(:at, l_now + :delay), l_now, l_now,
    :headers, :payload_size, :payload, :task_key);
EXCEPTION WHEN DUP_VAL_ON_INDEX THEN NULL;
END;
/

-- Batch insert one
-- Runs instead of Insert for each task, if the caller gave the id of one. Indexes: the primary key and task_ref find a
-- duplicate: the statement fails with ORA-00001, and the transaction goes on. A block would not report whether it added
-- its row.
INSERT INTO {task} (
  id, fence, queue, reference, kind, state, priority, max_attempts, due, created, updated,
  headers, payload_size, payload, task_key)
VALUES (
  :id, :reused * {now}, :queue, :reference, :kind, {CREATED}, :priority, :max_attempts,
  COALESCE(:at, {now} + :delay), {now}, {now},
  :headers, :payload_size, :payload, :task_key);

-- Batch inserted
-- Runs after each block of an enqueue. Index: the primary key.
SELECT id
  FROM {task}
 WHERE 1 = 0
    {rows};

-- Batch inserted row
OR id = :id;

-- Insert
-- Runs for an enqueue, and for each part of a bulk enqueue. Indexes: the primary key and task_reference find
-- duplicates. IGNORE also truncates values that are too long, without an error, so the client checks their lengths
-- first. The server assigns from left to right: fence uses created.
INSERT IGNORE INTO {task} (
  id, queue, reference, kind, state, priority, max_attempts, due_at, created, updated, fence,
  payload_size, headers, payload, task_key)
VALUES {rows};

-- Insert row
(:id, :queue, :reference, :kind, {CREATED}, :priority, :max_attempts, coalesce(:at, {now} + :delay), {now}, {now},
:reused * created, :payload_size, :headers, :payload, :task_key);

-- Batch inserted
-- Runs after an insert that added some of its tasks but not all. Index: the primary key.
SELECT id
  FROM {task} FORCE INDEX (PRIMARY)
 WHERE id IN ({rows});

-- Batch inserted row
:id;

-- Batch insert uniform
-- Runs for a bulk enqueue of tasks that are alike, after a query for the time. Indexes: none is searched. :now saves
-- the server 8 microseconds for each row, the time to parse the text of the clock three times.
INSERT INTO {task} (
  id, queue, kind, state, priority, max_attempts, due_at, created, updated, payload_size, headers, payload)
VALUES {rows};

-- Batch insert uniform row
(:id, :queue, :kind, {CREATED}, :priority, :max_attempts, coalesce(:at, :now + :delay), :now, :now,
:payload_size, :headers, :payload);

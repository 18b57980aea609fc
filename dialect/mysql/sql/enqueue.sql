-- Insert
-- Runs for an enqueue, and for each part of a bulk one. Indexes: the primary key and task_reference find duplicates.
-- IGNORE also cuts what is too long, silently: the lengths were checked before. A value may use the columns before
-- it.
INSERT IGNORE INTO {task} (
  id, queue, reference, kind, state, priority, max_attempts, due_at, created, updated, fence,
  payload_size, headers, payload)
VALUES {rows};

-- Insert row
(:id, :queue, :reference, :kind, {CREATED}, :priority, :max_attempts, coalesce(:at, {now} + :delay), {now}, {now},
:reused * created, :payload_size, :headers, :payload);

-- Batch inserted
-- Runs after an insert that added some of its tasks and not all: it returns those that are there. Index: the primary
-- key.
SELECT id
  FROM {task} FORCE INDEX (PRIMARY)
 WHERE id IN ({rows});

-- Batch inserted row
:id;

-- Batch insert uniform
-- Runs for a bulk enqueue of new tasks that share most values, after a query for the time: it takes the server 8
-- microseconds to read three times the text of the clock, for each row of a list.
INSERT INTO {task} (
  id, queue, kind, state, priority, max_attempts, due_at, created, updated, payload_size, headers, payload)
VALUES {rows};

-- Batch insert uniform row
(:id, :queue, :kind, {CREATED}, :priority, :max_attempts, coalesce(:at, :now + :delay), :now, :now,
:payload_size, :headers, :payload);

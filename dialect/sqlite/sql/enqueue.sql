-- Insert
-- Runs for each part of a bulk enqueue. Indexes: task_id and task_reference find duplicates.
INSERT INTO {task} (
  {inserted}, fence, task_key)
SELECT d.column1, :queue, d.column2, d.column3, {CREATED}, d.column4, d.column5,
       coalesce(d.column6, {now} + d.column7), {now}, {now}, d.column8, d.column9, d.column10 * {first_fence},
       d.column11
  FROM (VALUES {rows}) AS d
 WHERE true
ON CONFLICT DO NOTHING
RETURNING id;

-- Insert row
(:id, :reference, :kind, :priority, :max_attempts, :at, :delay, :headers, :payload, :reused, :task_key);

-- Batch insert one
-- Runs for an enqueue of a single task. Indexes: task_id and task_reference find duplicates.
INSERT INTO {task} (
  {inserted}, fence, task_key)
VALUES (
  :id, :queue, :reference, :kind, {CREATED}, :priority, :max_attempts,
  coalesce(:at, {now} + :delay), {now}, {now}, :headers, :payload, :reused * {first_fence}, :task_key)
ON CONFLICT DO NOTHING;

-- Batch insert uniform
-- Runs for a bulk enqueue of tasks that are alike, whose common values are bound once. Indexes: none is searched.
INSERT INTO {task} (
  {inserted})
SELECT d.column1, :queue, NULL, :kind, {CREATED}, :priority, :max_attempts,
       coalesce(:at, {now} + :delay), {now}, {now}, :headers, d.column2
  FROM (VALUES {rows}) AS d;

-- Batch insert uniform row
(:id, :payload);

-- Batch insert one new
-- Runs for an enqueue of a single task without a reference and a key. Indexes: none is searched.
INSERT INTO {task} (
  {inserted})
VALUES (
  :id, :queue, NULL, :kind, {CREATED}, :priority, :max_attempts,
  coalesce(:at, {now} + :delay), {now}, {now}, :headers, :payload);

-- inserted
id, queue, reference, kind, state, priority, max_attempts, due, created, updated, headers, payload;

-- first_fence
-- SQLite's clock has milliseconds, within which a task may be removed and added again. So the fence of a reused id
-- starts at the caller's clock if that is later: it is the same machine's clock, and finer.
max({now}, :clock);

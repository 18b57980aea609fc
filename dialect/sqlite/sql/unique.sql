-- LockWaiting
-- Runs after FindKeys. There is no other writer, so it need not lock. Index: task_id.
SELECT t.id, t.queue, t.state, t.due, t.created
  FROM (VALUES {rows}) AS d
  JOIN {task} AS t ON t.id = +d.column1
 WHERE +t.due IS NOT NULL
    OR +t.state = {PROCESSING} AND :running = 1
 ORDER BY t.id;

-- LockWaiting row
(:id);

-- AddKeys
-- Runs after FindKeys, for keys that it has not found. Index: the primary key.
INSERT INTO {unique_key} (id, task, expires, queue, scope, name)
VALUES {rows}
ON CONFLICT DO NOTHING;

-- AddKeys row
(:id, :task, :expires, :queue, :scope, :name);

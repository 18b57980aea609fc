-- Extend
-- Runs at each heartbeat of a worker, for all of its leases. Index: task_id.
UPDATE {task}
   SET lease_until = {now} + :lease,
       progress = coalesce(d.column3, progress)
  FROM (VALUES {rows}) AS d
 {of_listed}
RETURNING id, fence;

-- Extend row
(:id, :fence, :progress);

-- Start
-- Runs before a handler, if the checkout has not marked the attempt. Index: task_id.
UPDATE {task}
   SET known_started = 1
  FROM (VALUES {rows}) AS d
 {of_listed}
RETURNING id, fence;

-- Start row
(:id, :fence);

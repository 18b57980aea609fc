-- Extend
-- Runs once for each heartbeat of a worker, for all of its tasks. Indexes: the primary keys of tasks and leases.
-- A lease is first in its task's row, where checkout writes it. A renewal is a row of its own, under the same fence: a
-- heartbeat that wrote the task's row would fail a caller's transaction at REPEATABLE READ that completes the task
-- (MariaDB), and would wait for one that has locked it. The assignments are written so that it does not matter whether
-- one sees what the one before it has set.
INSERT INTO {lease} (id, fence, lease_until, keep_until)
SELECT t.id, t.fence, {now} + :lease, GREATEST(t.lease_end, {now} + :lease)
  FROM {held}
    ON DUPLICATE KEY UPDATE
       lease_until = IF({lease}.fence <= t.fence, {now} + :lease, {lease}.lease_until),
       keep_until = IF({lease}.fence <= t.fence, GREATEST(t.lease_end, {now} + :lease), {lease}.keep_until),
       fence = GREATEST({lease}.fence, t.fence);

-- Extend row
{pair};

-- Batch extended
-- Runs after Extend. Indexes: the primary keys of tasks and leases.
SELECT t.id, t.fence
  FROM {held}
       STRAIGHT_JOIN {lease} AS l FORCE INDEX (PRIMARY)
       ON l.id = t.id AND l.fence = t.fence;

-- Batch extended row
{pair};

-- Start
-- Runs before a handler, where the checkout has not marked the attempt. Index: the primary key.
UPDATE {listed}
   SET t.known_started = 1
 WHERE t.state = {PROCESSING};

-- Start row
{pair};

-- Batch known_started
-- Runs after Start. Index: the primary key.
SELECT t.id, t.fence
  FROM {held} AND t.known_started = 1;

-- Batch known_started row
{pair};

-- DropLeases
-- Runs after settlements of tasks whose leases were renewed. Index: the primary key of leases.
DELETE l
  FROM {renewals};

-- DropLeases row
{pair};

-- renewals
({rows}) AS d
STRAIGHT_JOIN {lease} AS l FORCE INDEX (PRIMARY)
ON l.id = d.id AND l.fence = d.fence;

-- ExpireLeases
-- Runs in the cleaning. Index: none; only leases that were renewed are in the table.
DELETE FROM {lease}
 WHERE keep_until <= {now} - :age
 LIMIT :limit;

-- renewed
-- The end of the lease of a PROCESSING task, as renewed last.
COALESCE(
  (SELECT l.lease_until FROM {lease} AS l FORCE INDEX (PRIMARY)
    WHERE l.id = t.id AND l.fence = t.fence),
  t.lease_end);

-- Batch win
-- Runs for the locked tasks that are to be taken over. Index: the primary key of leases. A renewal and a takeover
-- both write the lease's row, and so find each other, also on different nodes of a cluster: a takeover puts the next
-- fence there, if no renewal under the task's fence is valid, and a renewal gives up when it meets a higher fence.
INSERT INTO {lease} (id, fence, lease_until, keep_until)
SELECT d.id, d.fence + 1, :now + :lease, :now + :lease
  FROM ({rows}) AS d
    ON DUPLICATE KEY UPDATE
       fence = IF({won}, d.fence + 1, {lease}.fence),
       lease_until = IF(
         {won} OR {lease}.fence = d.fence + 1,
         :now + :lease, {lease}.lease_until),
       keep_until = IF(
         {won} OR {lease}.fence = d.fence + 1,
         :now + :lease, {lease}.keep_until);

-- Batch win row
{pair};

-- won
{lease}.fence < d.fence OR {lease}.lease_until <= :now;

-- Batch won
-- Runs after "win". Index: the primary key of leases.
SELECT l.id
  FROM ({rows}) AS d
       STRAIGHT_JOIN {lease} AS l FORCE INDEX (PRIMARY)
       ON l.id = d.id AND l.fence = d.fence + 1;

-- Batch won row
{pair};

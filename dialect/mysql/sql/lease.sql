-- Extend
-- Runs at each heartbeat of a worker, for all of its leases. A renewal is a row of its own, so that a heartbeat neither
-- writes nor locks a task. Indexes: the primary keys of task and lease. The fence is assigned last: the server assigns
-- from left to right. A null :progress keeps the stored progress.
INSERT INTO {lease} (id, fence, lease_until, keep_until, progress)
SELECT t.id, t.fence, {now} + :lease, GREATEST(t.lease_end, {now} + :lease), d.progress
  FROM {held}
    ON DUPLICATE KEY UPDATE
       progress = CASE
         WHEN {lease}.fence < t.fence THEN d.progress
         WHEN {lease}.fence = t.fence THEN COALESCE(d.progress, {lease}.progress)
         ELSE {lease}.progress
       END,
       lease_until = IF({lease}.fence <= t.fence, {now} + :lease, {lease}.lease_until),
       keep_until = IF({lease}.fence <= t.fence, GREATEST(t.lease_end, {now} + :lease), {lease}.keep_until),
       fence = GREATEST({lease}.fence, t.fence);

-- Extend row
SELECT CAST(:id AS BINARY(16)) AS id, :fence AS fence, CAST(:progress AS BINARY) AS progress;

-- Batch extended
-- Runs after Extend. Indexes: the primary keys of task and lease.
SELECT t.id, t.fence
  FROM {held}
       STRAIGHT_JOIN {lease} AS l FORCE INDEX (PRIMARY)
       ON l.id = t.id AND l.fence = t.fence;

-- Batch extended row
{pair};

-- Start
-- Runs before a handler, if the checkout has not marked the attempt. Index: the primary key.
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
-- Runs after settlements of tasks whose leases were renewed. Index: the primary key of lease.
DELETE l
  FROM {renewals};

-- DropLeases row
{pair};

-- renewals
({rows}) AS d
STRAIGHT_JOIN {lease} AS l FORCE INDEX (PRIMARY)
ON l.id = d.id AND l.fence = d.fence;

-- ExpireLeases
-- Runs in clients that renew leases or take tasks over, every 10 seconds at most, for renewals that DropLeases has
-- not removed. Index: none for the search, since the table has few rows, one for each long-running task; the primary
-- key for the rows found. SKIP LOCKED keeps it from waiting for heartbeats and takeovers, whose rows a scan would
-- lock. The progress of a task that is still leased stays for the takeover.
DELETE l
  FROM (
    SELECT r.id
      FROM {lease} AS r
     WHERE r.keep_until <= {now} - :age
       AND (r.progress IS NULL
            OR NOT EXISTS (
                 SELECT 1
                   FROM {task} AS t FORCE INDEX (PRIMARY)
                  WHERE t.id = r.id AND t.fence = r.fence AND t.state = {PROCESSING}))
     LIMIT :limit
       FOR UPDATE SKIP LOCKED) AS d
  STRAIGHT_JOIN {lease} AS l FORCE INDEX (PRIMARY) ON l.id = d.id;

-- renewed
-- A lease ends when its renewal does, a row of the table lease under the task's fence, if there is one.
COALESCE(
  (SELECT l.lease_until FROM {lease} AS l FORCE INDEX (PRIMARY)
    WHERE l.id = t.id AND l.fence = t.fence),
  t.lease_end);

-- reported
-- The progress that heartbeats have stored is in the renewal.
(SELECT l.progress FROM {lease} AS l FORCE INDEX (PRIMARY)
  WHERE l.id = t.id AND l.fence = t.fence);

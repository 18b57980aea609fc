-- Extend
-- Runs once for each heartbeat of a worker, for all of its tasks. Indexes: the primary keys of tasks and leases.
-- A lease is first in its task's row, where checkout writes it. A renewal is a row of its own, under the same fence: a
-- heartbeat that wrote the task's row would fail a caller's SERIALIZABLE transaction that completes the task
-- (ORA-08177), and would wait for one that has locked it.
{block_at_one_time};

-- Extend row
BEGIN
  UPDATE {lease}
     SET fence = :fence,
         lease_until = l_now + :lease,
         keep_until = (SELECT GREATEST(t.lease_until, l_now + :lease) FROM {task} t WHERE t.id = :id)
   WHERE id = :id
     AND fence <= :fence
     AND EXISTS (SELECT 1 FROM {task} t WHERE t.id = :id AND t.fence = :fence AND t.state = {PROCESSING});
  IF SQL%ROWCOUNT = 0 THEN
    INSERT INTO {lease} (id, fence, lease_until, keep_until)
    SELECT t.id, t.fence, l_now + :lease, GREATEST(t.lease_until, l_now + :lease)
      FROM {task} t
     WHERE t.id = :id AND t.fence = :fence AND t.state = {PROCESSING};
  END IF;
EXCEPTION WHEN DUP_VAL_ON_INDEX THEN NULL;
END;
/

-- Batch extended
-- Runs after Extend. Indexes: the primary keys of tasks and leases.
SELECT t.id, t.fence
  FROM {task} t, {lease} l
 WHERE l.id = t.id
   AND l.fence = t.fence
   AND t.state = {PROCESSING}
   AND (1 = 0
        {rows});

-- Batch extended row
OR t.id = :id AND t.fence = :fence;

-- Start
-- Runs before a handler, where the checkout has not marked the attempt, as arrays, after "lock". Index: the
-- primary key.
UPDATE {task}
   SET known_started = 1
 {where_held};

-- DropLeases
-- Runs after settlements of tasks whose leases were renewed, as arrays. Index: the primary key of leases.
DELETE FROM {lease}
 WHERE id = :id
   AND fence = :fence;

-- ExpireLeases
-- Runs in the cleaning. Index: none; only leases that were renewed are in the table.
DELETE FROM {lease}
 WHERE keep_until <= {now} - :age
   AND ROWNUM <= :limit;

-- renewed
-- The end of the lease of a PROCESSING task, as renewed last.
COALESCE(
  (SELECT l.lease_until FROM {lease} l WHERE l.id = t.id AND l.fence = t.fence),
  t.lease_until);

-- Batch win
-- Runs for the locked tasks that are to be taken over. Index: the primary key of leases. A renewal and a takeover both
-- write the lease's row, and so find each other: a takeover puts the next fence there, if no renewal under the task's
-- fence is valid, and a renewal gives up when it meets a higher fence. Each writes the row that is there now, whatever
-- its queries have seen.
{block_at_one_time};

-- Batch win row
BEGIN
  UPDATE {lease}
     SET fence = :fence + 1,
         lease_until = l_now + :lease,
         keep_until = l_now + :lease
   WHERE id = :id
     AND (fence < :fence OR lease_until <= l_now);
  IF SQL%ROWCOUNT = 0 THEN
    INSERT INTO {lease} (id, fence, lease_until, keep_until)
    VALUES (:id, :fence + 1, l_now + :lease, l_now + :lease);
  END IF;
EXCEPTION WHEN DUP_VAL_ON_INDEX THEN NULL;
END;
/

-- Batch won
-- Runs after "win". Index: the primary key of leases.
SELECT l.id
  FROM {lease} l
 WHERE 1 = 0
    {rows};

-- Batch won row
OR l.id = :id AND l.fence = :fence + 1;

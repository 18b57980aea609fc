-- Extend
-- Runs at each heartbeat of a worker, for all of its leases. A renewal is a row of its own, so that a heartbeat neither
-- writes nor locks a task. Indexes: the primary keys of task and lease. A null :progress_size keeps the progress that
-- the lease has.
{block_at_one_time};

-- Extend row
BEGIN
  UPDATE {lease}
     SET progress = CASE WHEN :progress_size IS NULL AND fence = :fence THEN progress
                         ELSE :progress END,
         fence = :fence,
         lease_until = l_now + :lease,
         keep_until = (SELECT GREATEST(t.lease_until, l_now + :lease) FROM {task} t WHERE t.id = :id)
   WHERE id = :id
     AND fence <= :fence
     AND EXISTS (SELECT 1 FROM {task} t WHERE t.id = :id AND t.fence = :fence AND t.state = {PROCESSING});
  IF SQL%ROWCOUNT = 0 THEN
    INSERT INTO {lease} (id, fence, lease_until, keep_until, progress)
    SELECT t.id, t.fence, l_now + :lease, GREATEST(t.lease_until, l_now + :lease), :progress
      FROM {task} t
     WHERE t.id = :id AND t.fence = :fence AND t.state = {PROCESSING};
  END IF;
EXCEPTION WHEN DUP_VAL_ON_INDEX THEN NULL;
END;
/

-- Batch extended
-- Runs after Extend. Indexes: the primary keys of task and lease.
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
-- Runs before a handler, if the checkout has not marked the attempt, with arrays, after "lock". Index: the primary
-- key.
UPDATE {task}
   SET known_started = 1
 {where_held};

-- DropLeases
-- Runs after settlements of tasks whose leases were renewed, with arrays. Index: the primary key of lease.
DELETE FROM {lease}
 WHERE id = :id
   AND fence = :fence;

-- ExpireLeases
-- Runs in clients that renew leases or take tasks over, every 10 seconds at most, for renewals that DropLeases has
-- not removed. Index: none for the search, since the table has few rows, one for each long-running task; the primary
-- key for the rows found. A DELETE would wait for rows that heartbeats and takeovers have locked. The cursor skips
-- them, and locks no more rows than it fetches. The progress of a task that is still leased stays for the takeover.
DECLARE
  TYPE id_list IS TABLE OF RAW(16);
  l_ids id_list;
  l_before NUMBER(19);
  l_limit NUMBER(10) := :limit;
  l_age NUMBER(19) := :age;
  CURSOR c_ended IS
    SELECT l.id
      FROM {lease} l
     WHERE l.keep_until <= l_before
       AND (l.progress IS NULL
            OR NOT EXISTS (
                 SELECT 1 FROM {task} t WHERE t.id = l.id AND t.fence = l.fence AND t.state = {PROCESSING}))
       FOR UPDATE SKIP LOCKED;
BEGIN
  SELECT {now} - l_age INTO l_before FROM dual;
  OPEN c_ended;
  FETCH c_ended BULK COLLECT INTO l_ids LIMIT l_limit;
  CLOSE c_ended;
  FORALL i IN 1 .. l_ids.COUNT
    DELETE FROM {lease}
     WHERE id = l_ids(i);
END;
/

-- renewed
-- A lease ends when its renewal does, a row of the table lease under the task's fence, if there is one.
COALESCE(
  (SELECT l.lease_until FROM {lease} l WHERE l.id = t.id AND l.fence = t.fence),
  t.lease_until);

-- reported
-- The progress that heartbeats have stored is in the renewal.
(SELECT l.progress FROM {lease} l
  WHERE l.id = t.id AND l.fence = t.fence);

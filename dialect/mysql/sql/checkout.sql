-- Text due
-- Runs at each poll, outside of a transaction. Index: task_lane, once for each priority.
SELECT d.priority
  FROM (
    {each: due_priority}) AS d
 WHERE {unpaused};

-- due_priority
SELECT {p} AS priority
  FROM DUAL
 WHERE {first_due} <= {now};

-- first_due
-- The search of a priority starts at :since. With 0 it uses equalities alone: on MariaDB, InnoDB would read past
-- delete-marked entries to find the end of a range. fence >= 0 is always true. It makes MySQL read rows: for an index
-- alone it may scan all of an index that seems small.
CASE
  WHEN :since{p} = 0 THEN (
    SELECT due_at FROM {task} FORCE INDEX ({prefix}task_lane)
     WHERE queue = :queue AND lane = {waiting} AND priority = {p}
     ORDER BY due_at LIMIT 1)
  ELSE (
    SELECT due_at FROM {task} FORCE INDEX ({prefix}task_lane)
     WHERE queue = :queue AND lane = {waiting} AND priority = {p} AND due_at >= :since{p} AND fence >= 0
     ORDER BY due_at LIMIT 1)
END;

-- Text ready
-- Runs once for each priority that has a due task, while the queue's payloads are small (strategies skip-locked and
-- advisory). Index: task_lane, one ordered range. One search ordered by priority and due time would lock the rows
-- that it passes.
SELECT {columns},
       CASE WHEN t.payload_size > :share THEN NULL ELSE t.payload END AS payload, t.payload_size,
       t.due_at AS was_due, {now} AS now
{search_ready}
   FOR UPDATE SKIP LOCKED;

-- Text ready sizes
-- Runs instead of "ready" while the queue's payloads are large. Index: task_lane, one ordered range. The server reads
-- every column that a statement names, even one that CASE leaves out, so the payload is not named.
SELECT {columns},
       t.payload_size, t.due_at AS was_due, {now} AS now
{search_ready}
   FOR UPDATE SKIP LOCKED;

-- Text see ready
-- Runs instead of "ready" (strategy cas). Index: task_lane, one ordered range. "lock ready" follows.
SELECT t.id, t.fence, t.payload_size, t.due_at AS was_due
{search_ready};

-- search_ready
  FROM {task} AS t FORCE INDEX ({prefix}task_lane)
 WHERE t.queue = :queue
   AND t.lane = {waiting}
   AND t.priority = :priority
   AND t.due_at >= :since
   AND t.due_at <= {now}
 ORDER BY t.due_at, t.id
 LIMIT :limit;

-- Text see expired
-- Runs at polls that found nothing due, and at intervals otherwise. Index: task_lane, from the oldest lease on. "lock
-- expired" follows.
SELECT t.id, t.fence, t.priority, t.payload_size,
       {renewed} AS was_until
  FROM {task} AS t FORCE INDEX ({prefix}task_lane)
 WHERE t.queue = :queue
   AND t.lane = {working}
   AND t.priority IN ({priorities})
   AND t.due_at >= :oldest - {ages}
   AND {renewed} <= {now}
   AND t.holder <> :holder
   AND {unpaused}
 LIMIT :limit;

-- Text oldest
-- Runs at intervals before "see expired". Index: task_lane, once for each priority. It reads updated, which is not in
-- the index: for an index alone MySQL may scan all of an index that seems small.
SELECT LEAST({now} - :late, COALESCE(min(x.taken), {now})) AS updated
  FROM (
    {each: oldest_at_priority}) AS x;

-- oldest_at_priority
(SELECT updated AS taken FROM {task} FORCE INDEX ({prefix}task_lane)
  WHERE queue = :queue AND lane = {working} AND priority = {p} AND due_at >= :oldest - {ages}
  ORDER BY due_at LIMIT 1);

-- Text queue lock
-- Runs before the transaction of a checkout, and waits at most 30 seconds. The lock belongs to the session.
-- with seconds = 30
{take_lock};

-- Text queue free
-- Runs after the transaction of a checkout.
{free_lock};

-- Text turn lock
-- Runs before the transaction of a checkout of 100 tasks or more, if a task is due. Without it, such checkouts write
-- to the same few pages of the index and wait for each other's latches. It is an optimization: SKIP LOCKED keeps
-- checkouts apart, so a checkout that gets no turn within a second proceeds.
DO GET_LOCK({lock_name}, 1);

-- Text turn free
-- Runs before the commit of such a checkout, so that commits overlap.
{free_lock};

-- Batch payloads
-- Runs if tasks of a checkout have large payloads. Index: the primary key.
SELECT id, payload
  FROM {task} FORCE INDEX (PRIMARY)
 WHERE id IN ({rows});

-- Batch payloads row
:id;

-- Batch lock ready
-- Runs after "see ready". Index: the primary key. It reads the candidates again, under lock, and leaves out those
-- that are no longer due.
-- with lock = FOR UPDATE SKIP LOCKED
{lock_ready};

-- Batch lock ready row
{pair};

-- Batch try lock ready
-- Runs for all candidates and, if one is locked, for each of them. Index: the primary key.
-- with lock = FOR UPDATE NOWAIT
{lock_ready};

-- Batch try lock ready row
{pair};

-- lock_ready
SELECT {columns},
       t.payload, t.due_at AS was_due, {now} AS now
  FROM {listed} AND t.lane = {waiting} AND t.due_at <= {now}
   {lock};

-- Batch lock expired
-- Runs after "see expired". Index: the primary key.
-- with lock = FOR UPDATE SKIP LOCKED
{lock_expired};

-- Batch lock expired row
{pair};

-- Batch try lock expired
-- Runs for all candidates and, if one is locked, for each of them. Index: the primary key.
-- with lock = FOR UPDATE NOWAIT
{lock_expired};

-- Batch try lock expired row
{pair};

-- lock_expired
SELECT {columns},
       t.payload, t.known_started, {now} AS now
  FROM {held}
   {lock};

-- Batch take
-- Runs for locked tasks that were due. Index: the primary key.
UPDATE {task} FORCE INDEX (PRIMARY)
   SET state = {PROCESSING},
       due_at = :now - {ages},
       attempt = attempt + 1,
       fence = fence + 1,
       lease_end = :now + :lease,
       taken_by = {padded_holder},
       known_started = :known_started,
       taken_at = :now,
       updated = :now
 WHERE id IN ({rows});

-- Batch take row
:id;

-- Batch claim
-- Runs for locked tasks that are to be taken over. Index: the primary key of lease. A renewal and a takeover write
-- the same row, so one of them sees the other, even on different nodes of a cluster. The takeover writes the next
-- fence if no renewal under the task's fence is valid. A renewal gives up if it finds a higher fence.
INSERT INTO {lease} (id, fence, lease_until, keep_until)
SELECT d.id, d.fence + 1, :now + :lease, :now + :lease
  FROM ({rows}) AS d
    ON DUPLICATE KEY UPDATE
       progress = CASE WHEN {lease}.fence >= d.fence THEN {lease}.progress END,
       fence = IF({claimable}, d.fence + 1, {lease}.fence),
       lease_until = IF(
         {claimable} OR {lease}.fence = d.fence + 1,
         :now + :lease, {lease}.lease_until),
       keep_until = IF(
         {claimable} OR {lease}.fence = d.fence + 1,
         :now + :lease, {lease}.keep_until);

-- Batch claim row
{pair};

-- claimable
{lease}.fence < d.fence OR {lease}.lease_until <= :now;

-- Batch claimed
-- Runs after claim. Index: the primary key of lease.
SELECT l.id, l.progress
  FROM ({rows}) AS d
       STRAIGHT_JOIN {lease} AS l FORCE INDEX (PRIMARY)
       ON l.id = d.id AND l.fence = d.fence + 1;

-- Batch claimed row
{pair};

-- Batch take over
-- Runs for locked tasks whose lease expired and that have attempts left. Index: the primary key. The server assigns
-- from left to right, so each column is set after those that are computed from it. An attempt counts if it is known
-- to have started. Otherwise its end is a lapse, and every 100th lapse in a row counts as an attempt (lapses >= 99).
UPDATE {task} FORCE INDEX (PRIMARY)
   SET due_at = :now - {ages},
       attempt = {next_attempt},
       lapses = {next_lapses},
       known_started = :known_started,
       fence = fence + 1,
       lease_end = :now + :lease,
       taken_by = {padded_holder},
       taken_at = :now,
       updated = :now
 WHERE id IN ({rows});

-- Batch take over row
:id;

-- padded_holder
-- The holder's name is padded with spaces to 64 bytes, so that the row keeps its size.
CONCAT(:holder, SPACE(64 - LENGTH(:holder)));

-- Batch poison
-- Runs for locked tasks whose lease expired and whose attempts are exhausted. Index: the primary key.
UPDATE {task} FORCE INDEX (PRIMARY)
   SET state = {POISON},
       due_at = -1,
       fence = fence + 1,
       lease_end = -1,
       taken_at = -1,
       updated = :now,
       result = {exhausted_result}
 WHERE id IN ({rows});

-- Batch poison row
:id;

-- exhausted_result
-- The result of a task whose attempts are exhausted names its last holder and the checkout that found it.
CONCAT('the lease of the last attempt expired, held by ', holder, ', found by ', :holder);

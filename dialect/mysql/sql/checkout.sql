-- Text due
-- Runs in each poll, on the reading pool. Index: task_lane, once for each priority.
SELECT d.priority
  FROM (
    {each: due_priority}) AS d
 WHERE {unpaused};

-- due_priority
SELECT {p} AS priority
  FROM DUAL
 WHERE {first_due} <= {now};

-- first_due
-- The earliest due time of a priority, at or after :since. With :since = 0 only equalities are used: a range would
-- make InnoDB on MariaDB read past delete-marked entries to find its end. In a table that seems small, MySQL may scan
-- the whole index for an ordered range unless it must read rows; the condition on the fence makes it read them.
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
-- Strategies skip-locked and advisory, while the queue's payloads are small. Runs once for each priority that has a
-- due task. Index: task_lane, one ordered range: a search ordered by priority and due time would lock what it walks
-- over.
SELECT {columns},
       CASE WHEN t.payload_size > :share THEN NULL ELSE t.payload END AS payload, t.payload_size,
       t.due_at AS was_due, {now} AS now
{search_ready}
   FOR UPDATE SKIP LOCKED;

-- Text ready sizes
-- The same for a queue that may have large payloads: the server reads every column that a statement names, also where
-- CASE leaves it out.
SELECT {columns},
       t.payload_size, t.due_at AS was_due, {now} AS now
{search_ready}
   FOR UPDATE SKIP LOCKED;

-- Text see ready
-- Strategy cas, instead of "ready". Index: task_lane.
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
-- Every strategy: it locks afterwards, by the primary key. Index: task_lane, from the oldest lease on.
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
-- Runs before "see expired", now and then. Index: task_lane, once for each priority. It queries the row's
-- updated, so that MySQL does not walk the whole index of a table that seems small.
SELECT LEAST({now} - :late, COALESCE(min(x.taken), {now})) AS updated
  FROM (
    {each: oldest_at_priority}) AS x;

-- oldest_at_priority
(SELECT updated AS taken FROM {task} FORCE INDEX ({prefix}task_lane)
  WHERE queue = :queue AND lane = {working} AND priority = {p} AND due_at >= :oldest - {ages}
  ORDER BY due_at LIMIT 1);

-- Text queue lock
-- Strategy advisory. Runs before the transaction of a checkout, and waits 30 seconds at most.
-- with seconds = 30
{take_lock};

-- Text queue free
-- Strategy advisory. Runs after the transaction of a checkout.
{free_lock};

-- Text turn
-- Strategy skip-locked. Runs before the transaction of a checkout of 100 tasks or more that will find some.
DO GET_LOCK({lock_name}, 1);

-- Text turn over
-- Strategy skip-locked. Runs before the commit of such a checkout.
{free_lock};

-- Batch payloads
-- Runs when tasks of a checkout have large payloads. Index: the primary key.
SELECT id, payload
  FROM {task} FORCE INDEX (PRIMARY)
 WHERE id IN ({rows});

-- Batch payloads row
:id;

-- Batch lock ready
-- Runs after "see ready": reads again under lock what was seen without one, and only what is still the same.
-- Index: the primary key.
-- with lock = FOR UPDATE SKIP LOCKED
{lock_ready};

-- Batch lock ready row
{pair};

-- Batch try lock ready
-- On TiDB instead of "lock ready".
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
-- On TiDB instead of "lock expired".
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

-- Batch take over
-- Runs for locked tasks whose lease expired and that have attempts left. Index: the primary key. The servers assign
-- from left to right: each value comes after what is computed from it.
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
-- A row has room for the name of its holder from its start, so that it keeps its size.
CONCAT(:holder, SPACE(64 - LENGTH(:holder)));

-- Batch poison
-- Runs for locked tasks whose lease expired and that have no attempts left. Index: the primary key.
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
-- The result of a task whose attempts are exhausted: who held it, and the checkout that found it.
CONCAT('the lease of the last attempt expired, held by ', holder, ', found by ', :holder);

-- Text due
-- Runs at each poll, outside of a transaction. Index: task_ready, once for each priority. The searches of a checkout
-- name their index in a hint: by statistics that were gathered while a queue was empty or full, the optimizer would
-- choose another plan, which reads and locks more. See "INDEX Hint" in the SQL Language Reference.
{each: due_priority};

-- due_priority
SELECT {p} AS priority
  FROM dual
 WHERE EXISTS (
         SELECT /*+ INDEX(t {prefix}task_ready) */ 1
           FROM {task} t
          WHERE t.ready_queue = :queue
            AND t.ready_priority = {p}
            AND t.due <= {now})
   AND {unpaused};

-- Text ready
-- Runs for a checkout (strategies skip-locked and advisory). Index: task_ready, once for each priority. A cursor
-- locks rows as it fetches them, so one that fetches no more than it may take locks no more. FETCH FIRST cannot be
-- combined with FOR UPDATE (SQL Language Reference, "row_limiting_clause"), and ROWNUM would count rows that others
-- have locked. One FETCH may return fewer rows than there are, because SKIP LOCKED passes over rows after they were
-- found, and a row that was changed meanwhile is no longer due. So the block fetches until it gets no row or the
-- batch is full. See "FETCH Statement" and "SELECT FOR UPDATE and FOR UPDATE Cursors" in the PL/SQL Language
-- Reference.
DECLARE
  TYPE id_list IS TABLE OF RAW(16);
  l_ids id_list;
  l_now NUMBER(19);
  l_room NUMBER(10) := :limit;
  l_queue VARCHAR2(400 BYTE) := :queue;
  l_holder VARCHAR2(800 BYTE) := :holder;
  l_lease NUMBER(19) := :lease;
  l_known_started NUMBER(1) := :known_started;
  CURSOR c_ready (p_priority NUMBER) IS
    SELECT /*+ INDEX(t {prefix}task_ready) */ t.id
      FROM {task} t
     WHERE t.ready_queue = l_queue
       AND t.ready_priority = p_priority
       AND t.due <= l_now
     ORDER BY t.due, t.ready_id
       FOR UPDATE SKIP LOCKED;
BEGIN
  SELECT {now} INTO l_now FROM dual;
  FOR l_priority IN 0 .. 9 LOOP
    EXIT WHEN l_room < 1;
    OPEN c_ready(l_priority);
    LOOP
      FETCH c_ready BULK COLLECT INTO l_ids LIMIT l_room;
      EXIT WHEN l_ids.COUNT = 0;
      FORALL i IN 1 .. l_ids.COUNT
        UPDATE {task}
           SET {leased},
               lease_until = l_now + l_lease,
               holder = l_holder,
               known_started = l_known_started,
               taken = l_now,
               updated = l_now
         WHERE id = l_ids(i)
           AND due <= l_now;
      l_room := l_room - SQL%ROWCOUNT;
      EXIT WHEN l_room < 1;
    END LOOP;
    CLOSE c_ready;
  END LOOP;
END;
/

-- leased
-- Each expression of a SET clause sees the row as it was.
state = {PROCESSING},
was_due = due,
due = NULL,
attempt = attempt + 1,
fence = fence + 1;

-- leased_now
{leased},
lease_until = {now} + :lease,
holder = :holder,
known_started = :known_started,
taken = {now},
updated = {now};

-- Text see ready
-- Runs once for each priority that has a due task: with strategy cas, and with the others after they met a large
-- payload. Index: task_ready, one ordered range. "lock ready" follows.
SELECT /*+ INDEX(t {prefix}task_ready) */ t.id, t.fence, t.payload_size
{search_ready};

-- Text update
-- Runs once for each priority that has a due task (strategy update). Index: task_ready, one ordered range. It may
-- wait for rows of another checkout, and then finds that they are no longer due.
UPDATE {task}
   SET {leased_now}
 WHERE (id, fence) IN (
         SELECT /*+ INDEX(t {prefix}task_ready) */ t.id, t.fence
         {search_ready})
   AND due <= {now};

-- search_ready
  FROM {task} t
 WHERE t.ready_queue = :queue
   AND t.ready_priority = :priority
   AND t.due <= {now}
 ORDER BY t.due, t.ready_id
 FETCH FIRST :limit ROWS ONLY;

-- Text see expired
-- Runs at polls that found nothing due, and at intervals otherwise. Index: task_busy. "lock expired" follows.
SELECT /*+ INDEX(t {prefix}task_busy) */ t.id, t.fence, t.payload_size,
       {renewed} AS was_until
  FROM {task} t
 WHERE t.busy_queue = :queue
   AND {renewed} <= {now}
   AND t.holder <> :holder
   AND {unpaused}
 FETCH FIRST :limit ROWS ONLY;

-- Text taken
-- Runs at the end of the transaction of a checkout. Index: task_busy. Each statement that leases tasks marks
-- them with the checkout's own token, so a block need not return them.
SELECT {columns},
       CASE WHEN t.payload_size > :share THEN NULL ELSE t.payload END AS payload, t.payload_size,
       t.was_due, {now} AS now
  FROM {task} t
 WHERE t.busy_queue = :queue
   AND t.holder = :holder;

-- Text queue lock
-- Runs before the transaction of a checkout, and waits at most 30 seconds. The lock belongs to the session and
-- outlives a commit. REQUEST returns 0 for success and 4 if the session has the lock already.
-- with what = 'checkout ' || :queue
DECLARE
  l_id NUMBER(10);
BEGIN
  {lock_id};
  IF DBMS_LOCK.REQUEST(l_id, 6, 30, FALSE) NOT IN (0, 4) THEN
    RAISE_APPLICATION_ERROR(-20001, 'dbq: the lock could not be acquired in time');
  END IF;
END;
/

-- Text queue free
-- Runs after the transaction of a checkout.
-- with what = 'checkout ' || :queue
DECLARE
  l_id NUMBER(10);
BEGIN
  {lock_id};
  IF DBMS_LOCK.RELEASE(l_id) <> 0 THEN
    RAISE_APPLICATION_ERROR(-20001, 'dbq: the lock could not be released');
  END IF;
END;
/

-- Batch lock ready
-- Runs after "see ready". Index: the primary key. It reads the candidates again, under lock, and leaves out those
-- that are no longer due.
SELECT /*+ INDEX(t {prefix}task_pk) */ t.id, t.fence, t.payload_size
  FROM {task} t
 WHERE (t.id, t.fence) IN ({rows})
   AND t.due <= {now}
   FOR UPDATE SKIP LOCKED;

-- Batch lock ready row
{pair};

-- Batch take
-- Runs for locked tasks that were due, with arrays. Index: the primary key.
UPDATE {task}
   SET {leased_now}
 WHERE id = :id
   AND fence = :fence
   AND due <= {now};

-- Batch lock expired
-- Runs after "see expired". Index: the primary key.
SELECT /*+ INDEX(t {prefix}task_pk) */
       {columns},
       t.known_started, t.payload_size, {now} AS now
  FROM {task} t
 WHERE (t.id, t.fence) IN ({rows})
   AND t.state = {PROCESSING}
   FOR UPDATE SKIP LOCKED;

-- Batch lock expired row
{pair};

-- Batch claim
-- Runs for locked tasks that are to be taken over. Index: the primary key of lease. A renewal and a takeover write
-- the same row, so one of them sees the other. The takeover writes the next fence if no renewal under the task's
-- fence is valid. A renewal gives up if it finds a higher fence. Each writes the row as it is now, whatever its
-- queries have seen.
{block_at_one_time};

-- Batch claim row
BEGIN
  UPDATE {lease}
     SET progress = CASE WHEN fence >= :fence THEN progress END,
         fence = :fence + 1,
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

-- Batch claimed
-- Runs after claim. Index: the primary key of lease.
SELECT l.id, l.progress
  FROM {lease} l
 WHERE 1 = 0
    {rows};

-- Batch claimed row
OR l.id = :id AND l.fence = :fence + 1;

-- Batch take over
-- Runs for locked tasks whose lease expired and that have attempts left, with arrays. Index: the primary key. was_due
-- marks a task that was taken over: it has no due time by which it could be sorted. An attempt counts if it is known
-- to have started. Otherwise its end is a lapse, and every 100th lapse in a row counts as an attempt (lapses >= 99).
UPDATE {task}
   SET was_due = {taken_over},
       attempt = {next_attempt},
       lapses = {next_lapses},
       known_started = :known_started,
       fence = fence + 1,
       lease_until = {now} + :lease,
       holder = :holder,
       taken = {now},
       updated = {now}
 {where_held};

-- Batch poison
-- Runs for locked tasks whose lease expired and whose attempts are exhausted, with arrays. Index: the primary key.
UPDATE {task}
   SET state = {POISON},
       fence = fence + 1,
       lease_until = NULL,
       taken = NULL,
       updated = {now},
       result_size = :result_size,
       result = :result
 {where_held};

-- Text any
-- Runs at each poll, before the transaction of a checkout. Indexes: task_ready, once for each priority, and
-- task_busy.
SELECT {now} AS now
 WHERE (EXISTS (
         {each: due_at_priority})
     OR EXISTS (
         SELECT 1 FROM {task} WHERE queue = :queue AND state = {PROCESSING} AND lease_until <= {now}))
   AND {unpaused};

-- due_at_priority
SELECT 1 FROM {task} WHERE queue = :queue AND priority = {p} AND due <= {now};

-- Text ready
-- Runs in the transaction of a checkout. Index: task_ready, one ordered search for each priority, until there are
-- enough tasks. One search ordered by priority and due time would read all future tasks of the better priorities. The
-- plus before :limit keeps one plan for all limits: SQLite would prepare the statement again for each value of a bare
-- variable. The rows are returned as "take" will leave them.
SELECT {as_taken}
  FROM (
    {each: ready_at_priority}
    LIMIT +:limit) AS d
 CROSS JOIN {task} AS t ON t.rowid = d.rowid;

-- as_taken
t.id, t.reference, t.kind, t.task_key, t.priority, t.attempt + 1 AS attempt, t.max_attempts, t.lapses,
t.fence + 1 AS fence, t.created, t.headers,
CASE WHEN length(t.payload) <= :share THEN t.payload END AS payload, length(t.payload) AS payload_size,
t.result, length(t.result) AS result_size, t.progress, t.due AS was_due, {now} AS now;

-- ready_at_priority
SELECT * FROM (
  SELECT rowid FROM {task} WHERE queue = :queue AND priority = {p} AND due <= {now} ORDER BY due, id LIMIT +:limit);

-- Text take
-- Runs once for each priority of which "ready" returned tasks, in the same transaction. Index: task_ready, up to the
-- last of these tasks. No others come in between, because there is no other writer. RETURNING would copy each row
-- once more, and a list of ids would be bound and looked up. OR FAIL needs no journal for the statement alone: if it
-- fails, the whole transaction is rolled back.
UPDATE OR FAIL {task}
   SET {taking}
 WHERE queue = :queue
   AND priority = :priority
   AND due IS NOT NULL
   AND (due, id) <= (:was_due, :id);

-- Batch given
-- Runs in a queue with limits per key, for the chosen tasks. Index: task_id. The rows are returned as "take given" will
-- leave them. coalesce keeps SQLite from reading all of task_ready.
SELECT {as_taken}
  FROM (VALUES {rows}) AS d
 CROSS JOIN {task} AS t ON t.id = d.column1
 WHERE t.fence = d.column2
   AND coalesce(t.due, {now} + 1) <= {now};

-- Batch given row
(:id, :fence);

-- Batch take given
-- Runs after "given", in the same transaction. Index: task_id. The comment of "take" on RETURNING and OR FAIL applies
-- here, too.
UPDATE OR FAIL {task}
   SET {taking}
 WHERE id IN ({rows});

-- Batch take given row
:id;

-- taking
state = {PROCESSING},
due = NULL,
attempt = attempt + 1,
fence = fence + 1,
lease_until = :now + :lease,
taken_by = {padded_holder},
known_started = :known_started,
taken_at = :now,
updated = :now;

-- padded_holder
-- The holder's name is padded with spaces to 48 bytes, so that the row keeps its size. With the seven bytes that a
-- completion adds, it stays below 58, from where on SQLite stores a text's length in two bytes.
printf('%-48s', :holder);

-- Text expired
-- Runs in the transaction of a checkout, if nothing is due, and at intervals otherwise. Index: task_busy. "take over"
-- follows.
SELECT id, fence, length(payload) AS payload_size, holder AS was_holder, updated AS was_taken,
       attempt AS was_attempt, lease_until AS was_until
  FROM {task}
 WHERE queue = :queue
   AND state = {PROCESSING}
   AND lease_until <= {now}
   AND holder <> :holder
 LIMIT :limit;

-- Batch payloads
-- Runs if tasks of a checkout have payloads larger than their share of its bytes. Index: task_id.
SELECT t.id, t.payload
  FROM (VALUES {rows}) AS d
  JOIN {task} AS t ON t.id = +d.column1;

-- Batch payloads row
(:id);

-- Batch take over
-- Runs for the tasks that "expired" returned, and moves those to POISON whose attempts are exhausted. Index: task_id.
-- An attempt counts if it is known to have started.
-- Otherwise its end is a lapse, and every 100th lapse in a row counts as an attempt (lapses >= 99).
UPDATE {task}
   SET state = CASE
         WHEN {exhausted} THEN {POISON}
         ELSE {PROCESSING}
       END,
       result = CASE
         WHEN {exhausted}
         THEN {exhausted_result}
         ELSE result
       END,
       lease_until = CASE
         WHEN {exhausted} THEN NULL
         ELSE {now} + :lease
       END,
       taken_by = CASE
         WHEN {exhausted} THEN taken_by
         ELSE {padded_holder}
       END,
       attempt = CASE
         WHEN {exhausted} THEN attempt
         ELSE {next_attempt}
       END,
       lapses = {next_lapses},
       known_started = :known_started,
       fence = fence + 1,
       taken_at = CASE
         WHEN {exhausted} THEN -1
         ELSE {now}
       END,
       updated = {now}
  FROM (VALUES {rows}) AS d
 {of_listed}
   AND lease_until <= {now}
RETURNING {columns};

-- Batch take over row
(:id, :fence);

-- exhausted_result
-- The result of a task whose attempts are exhausted names its last holder and the checkout that found it.
CAST('the lease of the last attempt expired, held by ' || holder || ', found by ' || :holder AS BLOB);

-- Text any
-- Runs in each poll, before the transaction. Indexes: task_ready once for each priority, and task_busy.
SELECT {now} AS now
 WHERE (EXISTS (
         {each: due_at_priority})
     OR EXISTS (
         SELECT 1 FROM {task} WHERE queue = :queue AND state = {PROCESSING} AND lease_until <= {now}))
   AND {unpaused};

-- due_at_priority
SELECT 1 FROM {task} WHERE queue = :queue AND priority = {p} AND due <= {now};

-- Text ready
-- Runs in the transaction of a checkout. Index: task_ready, one ordered search for each priority, the first one first,
-- which stops at the limit. One search ordered by priority and due time would walk every future row of the better
-- priorities. The plus before the limit keeps one plan for all of its values: for a bare variable, SQLite would prepare
-- the statement anew for each. The rows are returned as "take" will leave them.
SELECT t.id, t.reference, t.kind, t.priority, t.attempt + 1 AS attempt, t.max_attempts, t.lapses,
       t.fence + 1 AS fence, t.created, t.headers,
       CASE WHEN length(t.payload) <= :share THEN t.payload END AS payload, length(t.payload) AS payload_size,
       t.result, length(t.result) AS result_size, t.due AS was_due, {now} AS now
  FROM (
    {each: ready_at_priority}
    LIMIT +:limit) AS d
 CROSS JOIN {task} AS t ON t.rowid = d.rowid;

-- ready_at_priority
SELECT * FROM (
  SELECT rowid FROM {task} WHERE queue = :queue AND priority = {p} AND due <= {now} ORDER BY due, id LIMIT +:limit);

-- Text take
-- Runs once for each priority that "ready" returned rows of, in the same transaction. Index: task_ready, up to
-- the last of these rows. No others come in between, because this is the only writer, at the same moment. If this
-- statement returned the rows, each would be copied once more, and a list of their ids would be bound and looked up. OR
-- FAIL needs no journal for the statement alone: when it fails, the whole transaction is rolled back.
UPDATE OR FAIL {task}
   SET state = {PROCESSING},
       due = NULL,
       attempt = attempt + 1,
       fence = fence + 1,
       lease_until = :now + :lease,
       taken_by = {padded_holder},
       known_started = :known_started,
       taken_at = :now,
       updated = :now
 WHERE queue = :queue
   AND priority = :priority
   AND due IS NOT NULL
   AND (due, id) <= (:was_due, :id);

-- padded_holder
-- A row has room for the name of its holder from its start. With the seven bytes that a completion adds, it stays
-- below 58, from where on SQLite writes a text's length in two bytes.
printf('%-48s', :holder);

-- Text expired
-- Runs in the transaction of a checkout, before "take over". Index: task_busy.
SELECT id, fence, length(payload) AS payload_size, holder AS was_holder, updated AS was_taken,
       attempt AS was_attempt, lease_until AS was_until
  FROM {task}
 WHERE queue = :queue
   AND state = {PROCESSING}
   AND lease_until <= {now}
   AND holder <> :holder
 LIMIT :limit;

-- Batch payloads
-- Runs when tasks of a checkout have payloads larger than their share of its budget. Index: task_id.
SELECT t.id, t.payload
  FROM (VALUES {rows}) AS d
  JOIN {task} AS t ON t.id = +d.column1;

-- Batch payloads row
(:id);

-- Batch take over
-- Runs for the tasks that "expired" returned. Index: task_id.
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
-- The result of a task whose attempts are exhausted: who held it, and the checkout that found it.
CAST('the lease of the last attempt expired, held by ' || holder || ', found by ' || :holder AS BLOB);

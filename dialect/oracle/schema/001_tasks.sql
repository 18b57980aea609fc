-- One row for each task. Times are microseconds since 1970 in UTC, by the database's clock. fence grows with every
-- change of owner: a statement under an outdated fence changes nothing.
--
-- Oracle has no partial indexes, but an index has no entry for a key whose columns are all null. The ready_ columns
-- are null if due is null, the key_ columns also if the task has no key, and busy_queue is null unless the task is
-- leased. payload_size and result_size are null for no payload and no result, since Oracle stores an empty BLOB and
-- null alike. was_due is the due time that a leased task had. INITRANS 16 lets 16 transactions write to one block at a
-- time.
CREATE TABLE {task} (
  id RAW(16) NOT NULL,
  queue VARCHAR2(400 BYTE) NOT NULL,
  reference VARCHAR2(800 BYTE),
  kind VARCHAR2(400 BYTE),
  task_key VARCHAR2(800 BYTE),
  state NUMBER(1) NOT NULL,
  priority NUMBER(1) NOT NULL,
  attempt NUMBER(5) DEFAULT 0 NOT NULL,
  max_attempts NUMBER(5) NOT NULL,
  lapses NUMBER(3) DEFAULT 0 NOT NULL,
  known_started NUMBER(1) DEFAULT 0 NOT NULL,
  cancelled NUMBER(1) DEFAULT 0 NOT NULL,
  fence NUMBER(19) DEFAULT 0 NOT NULL,
  due NUMBER(19),
  was_due NUMBER(19),
  lease_until NUMBER(19),
  taken NUMBER(19),
  holder VARCHAR2(800 BYTE),
  created NUMBER(19) NOT NULL,
  updated NUMBER(19) NOT NULL,
  headers VARCHAR2(4000 BYTE),
  payload_size NUMBER(10),
  result_size NUMBER(10),
  payload BLOB,
  result BLOB,
  progress BLOB,
  ready_queue VARCHAR2(400 BYTE) GENERATED ALWAYS AS (CASE WHEN due IS NOT NULL THEN queue END) VIRTUAL,
  ready_priority NUMBER(1) GENERATED ALWAYS AS (CASE WHEN due IS NOT NULL THEN priority END) VIRTUAL,
  ready_id RAW(16) GENERATED ALWAYS AS (CASE WHEN due IS NOT NULL THEN id END) VIRTUAL,
  key_queue VARCHAR2(400 BYTE) GENERATED ALWAYS AS
    (CASE WHEN task_key IS NOT NULL AND due IS NOT NULL THEN queue END) VIRTUAL,
  key_due NUMBER(19) GENERATED ALWAYS AS (CASE WHEN task_key IS NOT NULL THEN due END) VIRTUAL,
  key_name VARCHAR2(800 BYTE) GENERATED ALWAYS AS (CASE WHEN due IS NOT NULL THEN task_key END) VIRTUAL,
  order_queue VARCHAR2(400 BYTE) GENERATED ALWAYS AS (CASE WHEN task_key IS NOT NULL
    AND (due IS NOT NULL OR state IN (3, 4) AND cancelled = 0) THEN queue END) VIRTUAL,
  order_key VARCHAR2(800 BYTE) GENERATED ALWAYS AS
    (CASE WHEN due IS NOT NULL OR state IN (3, 4) AND cancelled = 0 THEN task_key END) VIRTUAL,
  order_failed NUMBER(1) GENERATED ALWAYS AS (CASE WHEN task_key IS NULL THEN NULL WHEN due IS NOT NULL THEN 0
    WHEN state IN (3, 4) AND cancelled = 0 THEN 1 END) VIRTUAL,
  order_id RAW(16) GENERATED ALWAYS AS (CASE WHEN task_key IS NOT NULL
    AND (due IS NOT NULL OR state IN (3, 4) AND cancelled = 0) THEN id END) VIRTUAL,
  busy_queue VARCHAR2(400 BYTE) GENERATED ALWAYS AS (CASE WHEN state = 1 THEN queue END) VIRTUAL,
  CONSTRAINT {prefix}task_pk PRIMARY KEY (id),
  CONSTRAINT {prefix}task_state CHECK (state IN (0, 1, 2, 3, 4)),
  CONSTRAINT {prefix}task_prio CHECK (priority BETWEEN 0 AND 9)
) INITRANS 16;

COMMENT ON TABLE {task} IS 'One row for each task. Only dbq may change it. To read tasks, use the view {tasks}.';
COMMENT ON COLUMN {task}.fence IS 'grows with each change of owner; a change under an older fence is refused';
COMMENT ON COLUMN {task}.due IS 'when it may be leased, in microseconds since 1970 in UTC; null if it may not';
COMMENT ON COLUMN {task}.was_due IS 'the due time that it had when it was leased';
COMMENT ON COLUMN {task}.lease_until IS 'the end of its lease, unless the table of leases has a renewal';
COMMENT ON COLUMN {task}.taken IS 'when its last attempt began';
COMMENT ON COLUMN {task}.updated IS 'when its state or its owner last changed';
COMMENT ON COLUMN {task}.state IS '0 CREATED, 1 PROCESSING, 2 COMPLETED, 3 ERROR, 4 POISON';
COMMENT ON COLUMN {task}.priority IS '0 (first) to 9';
COMMENT ON COLUMN {task}.attempt IS 'the number of its last attempt';
COMMENT ON COLUMN {task}.max_attempts IS 'the number of attempts after which the task goes to POISON';
COMMENT ON COLUMN {task}.lapses IS 'leases in a row that expired without counting as an attempt';
COMMENT ON COLUMN {task}.known_started IS '1 if the attempt counts when its lease expires';
COMMENT ON COLUMN {task}.cancelled IS '1 if an operator has cancelled it';
COMMENT ON COLUMN {task}.reference IS 'unique within the queue while the row exists';
COMMENT ON COLUMN {task}.task_key IS 'the key to which limits per key apply';
COMMENT ON COLUMN {task}.holder IS 'the worker that leased it last, and the token of the checkout';
COMMENT ON COLUMN {task}.headers IS 'a JSON object';
COMMENT ON COLUMN {task}.result IS 'the result of a COMPLETED task, otherwise the last error or reason';
COMMENT ON COLUMN {task}.progress IS 'the progress that earlier attempts reported';

-- The renewals of leases. The first end of a lease is in the task's row. A heartbeat writes a row here, under the
-- task's fence, and not the task's row: that would fail a caller's SERIALIZABLE transaction that completes the task
-- (ORA-08177), and would wait for a transaction that has locked it. A takeover writes the next fence here before it
-- takes the task, so a concurrent renewal and takeover conflict on this row, and only one of them succeeds.
--
-- lease_until is the end of the renewed lease. The row is kept until keep_until: a renewal may end before the lease
-- in the task's row, which would be valid again without it.
--
-- progress is the holder's report under this fence or, after a takeover, under the one before. The row of a leased task
-- that has progress is kept.
CREATE TABLE {lease} (
  id RAW(16) NOT NULL, fence NUMBER(19) NOT NULL, lease_until NUMBER(19) NOT NULL, keep_until NUMBER(19) NOT NULL,
  progress BLOB,
  CONSTRAINT {prefix}lease_pk PRIMARY KEY (id)
) INITRANS 16;

COMMENT ON TABLE {lease} IS 'Renewals of leases, and the progress that holders report.';
COMMENT ON COLUMN {lease}.id IS 'the task';
COMMENT ON COLUMN {lease}.lease_until IS 'the end of the renewed lease';
COMMENT ON COLUMN {lease}.keep_until IS 'when cleaning may remove the row';

-- The keys of unique tasks. A key belongs to a queue and a scope: the states in which its task excludes others, or a
-- period. task is the last task that was enqueued with it. Nothing changes the row when that task ends: whether the
-- key is free follows from the task's state. id is a hash of queue, scope and name, so that the key is narrow. From
-- expires on, cleaning checks whether the row can be removed.
CREATE TABLE {unique_key} (
  id RAW(16) NOT NULL,
  task RAW(16) NOT NULL,
  expires NUMBER(19) NOT NULL,
  queue VARCHAR2(400 BYTE) NOT NULL,
  scope VARCHAR2(60 BYTE) NOT NULL,
  name VARCHAR2(800 BYTE) NOT NULL,
  CONSTRAINT {prefix}uniq_pk PRIMARY KEY (id)
) INITRANS 16;

COMMENT ON TABLE {unique_key} IS 'The keys of unique tasks.';
COMMENT ON COLUMN {unique_key}.id IS 'a hash of queue, scope and name';
COMMENT ON COLUMN {unique_key}.task IS 'the last task that was enqueued with the key';
COMMENT ON COLUMN {unique_key}.expires IS 'when cleaning checks whether the row can be removed';
COMMENT ON COLUMN {unique_key}.scope IS 'the states or the period in which the task excludes others';

CREATE INDEX {owner}uniq_exp ON {unique_key} (expires);

-- A reference is unique within its queue. The queue in the key is null without a reference: a key of a null reference
-- and a queue would allow one such task in each queue.
CREATE UNIQUE INDEX {owner}task_ref
  ON {task} (reference, CASE WHEN reference IS NOT NULL THEN queue END) INITRANS 16;

-- For checkouts: one ordered search for each priority.
CREATE INDEX {owner}task_ready
  ON {task} (ready_queue, ready_priority, due, ready_id) INITRANS 16;

-- For searches for expired leases: the leased tasks.
CREATE INDEX {owner}task_busy ON {task} (busy_queue) INITRANS 16;

-- For queues with limits per key: the due tasks of each key. Tasks without a key are not in it.
CREATE INDEX {owner}task_key ON {task} (key_queue, key_name, key_due) INITRANS 16;

-- For queues with an order: the waiting tasks of each key by id, and its tasks that wait for an operator.
CREATE INDEX {owner}task_order ON {task} (order_queue, order_key, order_failed, order_id)
  INITRANS 16;

-- The tasks as a person reads them, with the names of states and with times as timestamps.
CREATE OR REPLACE VIEW {tasks} AS
SELECT LOWER(RAWTOHEX(id)) AS id, queue, reference, kind, task_key,
  CASE state WHEN 0 THEN 'CREATED' WHEN 1 THEN 'PROCESSING' WHEN 2 THEN 'COMPLETED' WHEN 3 THEN 'ERROR'
    WHEN 4 THEN 'POISON' END AS state,
  cancelled, priority, attempt, max_attempts, lapses, fence,
  CAST(DATE '1970-01-01' AS TIMESTAMP) + NUMTODSINTERVAL(due / 1000000, 'SECOND') AS due,
  CAST(DATE '1970-01-01' AS TIMESTAMP) + NUMTODSINTERVAL(CASE WHEN t.state = 1 THEN
    COALESCE((SELECT l.lease_until FROM {lease} l WHERE l.id = t.id AND l.fence = t.fence), t.lease_until) END
    / 1000000, 'SECOND') AS lease_until,
  holder,
  CAST(DATE '1970-01-01' AS TIMESTAMP) + NUMTODSINTERVAL(taken / 1000000, 'SECOND') AS taken,
  CAST(DATE '1970-01-01' AS TIMESTAMP) + NUMTODSINTERVAL(created / 1000000, 'SECOND') AS created,
  CAST(DATE '1970-01-01' AS TIMESTAMP) + NUMTODSINTERVAL(updated / 1000000, 'SECOND') AS updated,
  headers, payload_size AS payload_bytes, result,
  COALESCE((SELECT l.progress FROM {lease} l WHERE t.state = 1 AND l.id = t.id AND l.fence = t.fence), t.progress)
    AS progress
  FROM {task} t;

COMMENT ON TABLE {tasks} IS 'The tasks, with the names of states, and with times as timestamps.';

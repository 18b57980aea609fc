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
  busy_queue VARCHAR2(400 BYTE) GENERATED ALWAYS AS (CASE WHEN state = 1 THEN queue END) VIRTUAL,
  CONSTRAINT {prefix}task_pk PRIMARY KEY (id),
  CONSTRAINT {prefix}task_state CHECK (state IN (0, 1, 2, 3, 4)),
  CONSTRAINT {prefix}task_prio CHECK (priority BETWEEN 0 AND 9)
) INITRANS 16;

-- The renewals of leases. The first end of a lease is in the task's row. A heartbeat writes a row here, under the
-- task's fence, and not the task's row: that would fail a caller's SERIALIZABLE transaction that completes the task
-- (ORA-08177), and would wait for a transaction that has locked it. A takeover writes the next fence here before it
-- takes the task, so a concurrent renewal and takeover conflict on this row, and only one of them succeeds.
--
-- lease_until is the end of the renewed lease. The row is kept until keep_until: a renewal may end before the lease
-- in the task's row, which would be valid again without it.
--
-- progress is what the holder has reported under this fence or, after a takeover, under the one before. The row of a
-- leased task that has progress is kept.
CREATE TABLE {lease} (
  id RAW(16) NOT NULL, fence NUMBER(19) NOT NULL, lease_until NUMBER(19) NOT NULL, keep_until NUMBER(19) NOT NULL,
  progress BLOB,
  CONSTRAINT {prefix}lease_pk PRIMARY KEY (id)
) INITRANS 16;

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

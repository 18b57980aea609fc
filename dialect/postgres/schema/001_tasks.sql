-- Tasks, their renewed leases, and a view for people.

CREATE TABLE {task} (
  id uuid PRIMARY KEY,
  fence bigint NOT NULL DEFAULT 0,
  due bigint,
  was_due bigint,
  lease_until bigint,
  taken bigint,
  created bigint NOT NULL,
  updated bigint NOT NULL,
  state smallint NOT NULL CHECK (state IN (0, 1, 2, 3, 4)),
  priority smallint NOT NULL CHECK (priority BETWEEN 0 AND 9),
  attempt smallint NOT NULL DEFAULT 0,
  max_attempts smallint NOT NULL,
  lapses smallint NOT NULL DEFAULT 0,
  started smallint NOT NULL DEFAULT 0,
  queue varchar(100) COLLATE "C" NOT NULL,
  reference varchar(200) COLLATE "C",
  kind varchar(100) COLLATE "C" NOT NULL,
  holder varchar(200),
  headers text,
  payload bytea,
  result bytea
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500,
  autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.05);

-- Narrow and with one index, so that a renewal is a small write in place.
-- A row counts until keep_until: a renewal may end before the lease in the task's row,
-- which would be valid again without it.
CREATE TABLE {lease} (
  id uuid PRIMARY KEY,
  fence bigint NOT NULL,
  lease_until bigint NOT NULL,
  keep_until bigint NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500,
  autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.05);

CREATE UNIQUE INDEX {prefix}task_reference ON {task} (reference, queue) WHERE reference IS NOT NULL;

CREATE INDEX {prefix}task_ready ON {task} (queue, priority, due, id) WHERE due IS NOT NULL;

CREATE INDEX {prefix}task_busy ON {task} (queue, updated) WHERE state = 1;

CREATE INDEX {prefix}task_failed ON {task} (queue, state, id) WHERE state >= 3;

CREATE VIEW {tasks} AS
SELECT id, queue, reference, kind,
  CASE state WHEN 0 THEN 'CREATED' WHEN 1 THEN 'PROCESSING' WHEN 2 THEN 'COMPLETED' WHEN 3 THEN 'ERROR'
    WHEN 4 THEN 'POISON' END AS state,
  priority, attempt, max_attempts, lapses, fence, to_timestamp(due / 1e6) AS due,
  to_timestamp(CASE WHEN state = 1 THEN
    coalesce((SELECT l.lease_until FROM {lease} l WHERE l.id = t.id AND l.fence = t.fence), t.lease_until)
    END / 1e6) AS lease_until, holder, to_timestamp(taken / 1e6) AS taken,
  to_timestamp(created / 1e6) AS created, to_timestamp(updated / 1e6) AS updated,
  headers, octet_length(payload) AS payload_bytes, encode(result, 'escape') AS result
  FROM {task} t;

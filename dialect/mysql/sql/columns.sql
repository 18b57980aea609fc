-- row
t.id, t.queue, t.reference, t.kind, t.task_key, t.state, t.priority, t.attempt, t.max_attempts, t.lapses,
t.cancelled, t.fence, t.due, t.holder, t.created, t.updated, t.headers, t.result;

-- Columns
{row},
CASE
  WHEN t.state = {PROCESSING}
  THEN {renewed}
END AS lease_until,
CASE
  WHEN t.state = {PROCESSING}
  THEN COALESCE({reported}, t.progress)
  ELSE t.progress
END AS progress;

-- columns
-- The row is locked, so only the row itself is read, no renewal.
{row},
t.lease_until, t.progress;

-- Payload
t.payload;

-- stored
-- The columns are those that the server does not compute.
id, queue, reference, kind, task_key, state, priority, attempt, max_attempts, lapses, known_started,
cancelled, fence, due_at, lease_end, taken_by, taken_at, created, updated, payload_size, headers, payload,
result, progress;

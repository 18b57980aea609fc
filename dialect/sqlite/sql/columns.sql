-- Columns
id, queue, reference, kind, task_key, state, priority, attempt, max_attempts, lapses, cancelled, fence, due,
lease_until, holder, created, updated, headers, result, length(result) AS result_size, progress;

-- columns
{Columns},
{Payload}, {now} AS now;

-- Payload
payload, length(payload) AS payload_size;

-- stored
-- The columns are those that SQLite does not compute.
id, queue, reference, kind, task_key, state, priority, attempt, max_attempts, lapses, known_started, cancelled,
fence, due, lease_until, taken_by, taken_at, created, updated, headers, payload, result, progress;

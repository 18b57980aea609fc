-- columns
t.id, t.queue, t.reference, t.kind, t.task_key, t.state, t.priority, t.attempt, t.max_attempts, t.lapses,
t.cancelled, t.fence, t.due, t.holder, t.created, t.updated, t.headers, t.result;

-- Columns
{columns},
CASE WHEN t.state = {PROCESSING}
     THEN {renewed} END AS lease_until,
CASE WHEN t.state = {PROCESSING}
     THEN coalesce({reported}, t.progress)
     ELSE t.progress END AS progress;

-- Payload
t.payload;

-- stored
id, fence, due, was_due, lease_until, taken, created, updated, state, priority, attempt,
max_attempts, lapses, known_started, cancelled, queue, reference, kind, task_key,
holder, headers, payload, result, progress;

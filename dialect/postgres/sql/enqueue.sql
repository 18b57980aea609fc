-- Insert
-- Runs for each enqueue. Indexes: the primary key and task_reference find duplicates, which ON CONFLICT DO NOTHING
-- leaves out. The arrays have one element for each task. The fence of a reused id starts at the clock, above every
-- fence that the id has had.
WITH {clock}
INSERT INTO {task} (
  id, fence, queue, reference, kind, state, priority, max_attempts, due, created, updated, headers, payload, task_key)
SELECT d.id, d.reused * clock.now, CAST(:queue AS text), d.reference, d.kind, {CREATED}, d.priority,
       d.max_attempts, coalesce(d.at, clock.now + d.delay), clock.now, clock.now, d.headers, d.payload, d.task_key
  FROM clock,
       unnest(CAST(:id AS uuid[]), CAST(:reused AS smallint[]), CAST(:reference AS text[]), CAST(:kind AS text[]),
              CAST(:priority AS smallint[]), CAST(:max_attempts AS smallint[]), CAST(:at AS bigint[]),
              CAST(:delay AS bigint[]), CAST(:headers AS text[]), CAST(:payload AS bytea[]),
              CAST(:task_key AS text[]))
         AS d (id, reused, reference, kind, priority, max_attempts, at, delay, headers, payload, task_key)
ON CONFLICT DO NOTHING
RETURNING id;

-- Batch insert uniform
-- Runs instead of Insert if the tasks are alike. Indexes: none is searched. ON CONFLICT is left out because it would
-- insert each row speculatively and confirm it in the log. SELECT unnest(...) needs no tuplestore, unlike FROM
-- unnest(...).
WITH {clock}
INSERT INTO {task} (id, queue, kind, state, priority, max_attempts, due, created, updated, headers, payload)
SELECT d.id, CAST(:queue AS text), CAST(:kind AS text), {CREATED}, CAST(:priority AS smallint),
       CAST(:max_attempts AS smallint), coalesce(CAST(:at AS bigint), clock.now + CAST(:delay AS bigint)),
       clock.now, clock.now, CAST(:headers AS text), d.payload
  FROM clock,
       (SELECT unnest(CAST(:id AS uuid[])) AS id, unnest(CAST(:payload AS bytea[])) AS payload) AS d;

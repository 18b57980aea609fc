-- Now
{now};

-- now
CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint);

-- clock
clock AS MATERIALIZED (SELECT {now} AS now);

-- Limit
LIMIT :limit;

-- Columns
{columns},
CASE WHEN t.state = {PROCESSING}
     THEN {renewed} END AS lease_until,
CASE WHEN t.state = {PROCESSING}
     THEN coalesce({reported}, t.progress)
     ELSE t.progress END AS progress;

-- columns
t.id, t.queue, t.reference, t.kind, t.task_key, t.state, t.priority, t.attempt, t.max_attempts, t.lapses,
t.cancelled, t.fence, t.due, t.holder, t.created, t.updated, t.headers, t.result;

-- Payload
t.payload;

-- MigrationLock
-- Runs first in the transaction of each migration, whose end releases the lock. The lock's name contains the schema
-- and the prefix of the tables, so clients that name the schema and clients that use the search path take the same
-- lock.
SELECT pg_advisory_xact_lock(hashtextextended(
         'dbq migration ' || {home} || ' ' || CAST(:name AS text), 0));

-- Notify
-- Runs after the transaction that enqueued, in a transaction of its own. A notification need not survive a crash, so
-- its commit does not wait for the disk.
SELECT pg_notify(CAST(:channel AS text), CAST(:payload AS text)),
       set_config('synchronous_commit', 'off', true);

-- Now
{now};

-- now
CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint);

-- clock
clock AS MATERIALIZED (SELECT {now} AS now);

-- Limit
LIMIT :limit;

-- MigrationLock
-- Runs first in the transaction of each migration, whose end releases the lock. The lock's name contains the schema
-- and the prefix of the tables, so clients that name the schema and clients that use the search path take the same
-- lock.
SELECT pg_advisory_xact_lock(hashtextextended(
         'dbq migration ' || {home} || ' ' || CAST(:name AS text), 0));

-- BoundWaits
-- Runs with the first statement of a transaction of dbq. A statement that waited longer for a lock would look like one
-- on a dead connection; one that fails is repeated. Migrations and transactions of the caller keep their own setting.
SET LOCAL lock_timeout = 1000;

-- Notify
-- Runs after the transaction that enqueued, in a transaction of its own. A notification need not survive a crash, so
-- its commit does not wait for the disk.
SELECT pg_notify(CAST(:channel AS text), CAST(:payload AS text)),
       set_config('synchronous_commit', 'off', true);

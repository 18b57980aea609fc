-- Now
{now};

-- now
CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint);

-- clock
clock AS MATERIALIZED (SELECT {now} AS now);

-- MigrationLock
-- Runs first in the transaction of each migration, which frees it. The lock's name has the schema and the prefix of
-- the tables, so that clients that name the schema and clients whose search path does wait for each other.
SELECT pg_advisory_xact_lock(hashtextextended(
         'dbq migration ' || {home} || ' ' || CAST(:name AS text), 0));

-- Notify
-- Runs after an enqueue, in a transaction of its own. A notification need not outlive a crash, so its commit does not
-- wait for the disk.
SELECT pg_notify(CAST(:channel AS text), CAST(:payload AS text)),
       set_config('synchronous_commit', 'off', true);

-- Now
{now};

-- now
-- It is one value for a statement, whatever the session's time zone.
TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));

-- Dual
FROM DUAL;

-- Limit
LIMIT :limit;

-- Columns
t.id, t.queue, t.reference, t.kind, t.state, t.priority, t.attempt, t.max_attempts, t.lapses, t.fence, t.due,
CASE
  WHEN t.state = {PROCESSING}
  THEN {renewed}
END AS lease_until,
t.holder, t.created, t.updated, t.headers, t.result;

-- Payload
t.payload;

-- columns
-- The columns of a row that is locked: nothing but the row itself is read.
t.id, t.queue, t.reference, t.kind, t.state, t.priority, t.attempt, t.max_attempts, t.lapses, t.fence, t.due,
t.lease_until, t.holder, t.created, t.updated, t.headers, t.result;

-- waiting
-- The lane of the tasks that are due some time, whatever their state. The lane of others is their state's number.
0 /* waiting */;

-- working
-- The lane of PROCESSING tasks: the last of all.
9 /* PROCESSING */;

-- ages
-- What due_at of a PROCESSING task is less than the time when it was taken: a negative number, in the order of these
-- times.
4611686018427387904;

-- priorities
0, 1, 2, 3, 4, 5, 6, 7, 8, 9;

-- listed
({rows}) AS d
STRAIGHT_JOIN {task} AS t FORCE INDEX (PRIMARY)
ON t.id = d.id AND t.fence = d.fence;

-- held
{listed} AND t.state = {PROCESSING};

-- pair
SELECT CAST(:id AS BINARY(16)) AS id, :fence AS fence;

-- MigrationLock
-- Runs before a migration, and waits 300 seconds at most.
-- with seconds = 300
{take_lock};

-- MigrationUnlock
-- Runs after a migration.
{free_lock};

-- take_lock
-- GET_LOCK returns 0 when it could not take the lock; a sub-select of two rows makes that the error 1242.
SELECT CASE GET_LOCK({lock_name}, {seconds})
         WHEN 1 THEN 1
         ELSE (SELECT 1 UNION SELECT 2)
       END;

-- free_lock
DO RELEASE_LOCK({lock_name});

-- Now
{now};

-- now
-- The clock has one value for a whole statement, whatever the session's time zone.
TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));

-- Dual
FROM DUAL;

-- Limit
LIMIT :limit;

-- waiting
0 /* waiting */;

-- working
9 /* PROCESSING */;

-- ages
-- In PROCESSING, due_at is the time at which the task was taken minus 2^62: negative, and in the order of these
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
-- Runs before a migration, and waits at most 300 seconds. The lock belongs to the session.
-- with seconds = 300
{take_lock};

-- MigrationLock free
-- Runs after a migration.
{free_lock};

-- take_lock
-- GET_LOCK returns 0 if it cannot take the lock. The subquery of two rows makes that an error, 1242.
SELECT CASE GET_LOCK({lock_name}, {seconds})
         WHEN 1 THEN 1
         ELSE (SELECT 1 UNION SELECT 2)
       END;

-- free_lock
DO RELEASE_LOCK({lock_name});

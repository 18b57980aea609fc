-- Now
{now};

-- now
-- The whole days since 1970, whose first day is the Julian day 2440588, and the seconds and microseconds of today. It
-- has one value for a whole SQL statement. PL/SQL would read it again at each mention, so blocks SELECT it once.
((TO_NUMBER(TO_CHAR({utc}, 'J')) - 2440588) * 86400000000
 + TO_NUMBER(TO_CHAR({utc}, 'SSSSSFF6')));

-- utc
-- It does not depend on the session's time zone.
SYS_EXTRACT_UTC(SYSTIMESTAMP);

-- Dual
FROM dual;

-- Limit
FETCH FIRST :limit ROWS ONLY;

-- pair
(:id, :fence);

-- where_held
WHERE id = :id
  AND fence = :fence
  AND state = {PROCESSING};

-- block_at_one_time
-- A block runs its statements one by one, all at the one time that it reads first.
DECLARE
  l_now NUMBER(19);
BEGIN
  SELECT {now} INTO l_now FROM dual;
  {rows}
END;
/

-- MigrationLock
-- Runs before a migration, and waits at most 300 seconds. Without a grant on DBMS_LOCK the inner block does not
-- compile, which is the error 6550. The migration then runs without the lock: if another process runs the same one,
-- each statement can be run again.
-- with what = 'migration'
DECLARE
  l_id NUMBER(10);
BEGIN
  {lock_id};
  EXECUTE IMMEDIATE 'BEGIN
    IF DBMS_LOCK.REQUEST(' || l_id || ', 6, 300, FALSE) NOT IN (0, 4) THEN
      RAISE_APPLICATION_ERROR(-20001, ''dbq: the lock could not be acquired in time'');
    END IF;
  END;';
EXCEPTION WHEN OTHERS THEN
  IF SQLCODE <> -6550 THEN RAISE; END IF;
END;
/

-- MigrationLock free
-- Runs after a migration.
-- with what = 'migration'
DECLARE
  l_id NUMBER(10);
BEGIN
  {lock_id};
  EXECUTE IMMEDIATE 'BEGIN
    IF DBMS_LOCK.RELEASE(' || l_id || ') <> 0 THEN
      RAISE_APPLICATION_ERROR(-20001, ''dbq: the lock could not be released'');
    END IF;
  END;';
EXCEPTION WHEN OTHERS THEN
  IF SQLCODE <> -6550 THEN RAISE; END IF;
END;
/

-- lock_id
-- The lock's number is a hash of its purpose, the schema of the tables and their prefix. The schema is the
-- configured one or else the session's, so all clients of the same tables take the same lock. ALLOCATE_UNIQUE would
-- commit. See "DBMS_LOCK" in the PL/SQL Packages and Types Reference.
SELECT ORA_HASH({home} || ' {prefix} ' || {what}, 1073741823)
  INTO l_id
  FROM dual;

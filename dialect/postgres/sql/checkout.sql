-- Text ready
-- Runs at each poll of a worker (strategies skip-locked and advisory). Index: task_ready, one ordered descent for
-- each priority, until there are enough tasks. pick finds and locks the tasks and keeps their addresses (ctid). The
-- update goes to these addresses: no join is left to plan, so wrong statistics cannot slow it down. pick is
-- MATERIALIZED because a LIMIT in a joined subquery may run once for each outer row. The statement expects small
-- payloads: if one is larger than an equal share of the bytes that a checkout may return, it takes nothing, and
-- "ready within" follows.
-- with found = x.ctid AS place, x.size
-- with lock = FOR UPDATE SKIP LOCKED
-- with source = clock
-- with match = {at_place}
-- with keep = {all_small}
WITH {clock},
pick AS MATERIALIZED (
  {search_ready})
{take};

-- Text ready within
-- Runs after "ready", or instead of it while the queue's payloads are large. Index: task_ready. A running total of
-- the sizes ends the list where the bytes of the checkout are used up, which makes the statement a few percent
-- slower. cut reports that tasks were left.
-- with found = x.ctid AS place, x.size, {total} AS total
-- with lock = FOR UPDATE SKIP LOCKED
-- with source = clock
-- with match = {at_place}
-- with keep = {fits}
WITH {clock},
pick AS MATERIALIZED (
  {search_ready})
{take},
          (SELECT NOT bool_and({fits})
             FROM pick) AS cut;

-- Text queue lock
-- Runs first in the transaction of a checkout, whose end releases the lock. The lock's name contains the table's oid,
-- so clients that name the schema and clients that use the search path take the same lock.
SELECT pg_advisory_xact_lock(hashtextextended(
         'dbq checkout ' || CAST(CAST('{task}' AS regclass) AS oid) || ' ' || CAST(:queue AS text), 0));

-- Text see ready
-- Runs at each poll (strategy cas). Index: task_ready. "take ready" follows.
-- with found = x.id, x.fence, x.size AS payload_size
-- with lock =
WITH {clock}
{search_ready};

-- Text see expired
-- Runs at polls that found nothing due, and at intervals otherwise. Index: task_busy, from :oldest on. If it finds a
-- task, "take expired" follows in a transaction. It reads the few tasks in PROCESSING that were taken since :oldest,
-- but not those under this checkout's own token, which it may have taken a moment ago for a very short lease.
WITH {clock}
SELECT t.id, t.fence, {size} AS payload_size
  FROM {task} t
 WHERE t.queue = :queue
   AND t.state = {PROCESSING}
   AND t.updated >= CAST(:oldest AS bigint)
   AND t.holder <> :holder
   AND {not_renewed}
   AND {over}
   AND {unpaused}
 LIMIT :limit;

-- Batch take ready
-- Runs after "see ready". Index: the primary key.
-- with still = coalesce(t.due <= (SELECT now FROM clock), false)
-- with source = pick, clock
-- with match = t.id = pick.id AND t.fence = pick.fence
-- with more =
WITH {clock},
{pick_given}
{take};

-- Batch take expired
-- Runs after "see expired". Index: the primary key. pick locks the candidates whose fence is unchanged, claimed keeps
-- those that no renewal holds, done leases them again or moves them to POISON, and recorded adds their lost attempts
-- to the history. The lock gives pick the rows as they are now, and done reads its snapshot. The fence
-- connects the two: it is the same in all versions of a row that one lease has. So claim writes no fence that no lease
-- will have.
-- state + 0 hides the condition from the planner, which would otherwise start the join from the index task_busy.
-- with still = t.state + 0 = {PROCESSING}
-- with source = claimed, clock
-- with match = t.id = claimed.id AND t.fence = claimed.fence
-- with more = , {was}
WITH {clock},
{pick_given},
{claimed},
done AS MATERIALIZED (
  {take_over}),
{recorded}
SELECT done.*
  FROM done;

-- Text dead tuples
-- Runs after a slow search. It reads the server's statistics, no table.
SELECT {now} AS now
 WHERE pg_stat_get_dead_tuples(CAST('{task}' AS regclass)) >= CAST(:many AS bigint);

-- Text oldest
-- Runs after slow searches for expired leases, which start at its result from then on. Index: task_busy.
WITH {clock}
SELECT least(clock.now - CAST(:late AS bigint),
             (SELECT t.updated
                FROM {task} t
               WHERE t.queue = :queue
                 AND t.state = {PROCESSING}
                 AND t.updated >= CAST(:oldest AS bigint)
               ORDER BY t.updated
               LIMIT 1)) AS updated
  FROM clock;

-- search_ready
-- Each priority has a search of its own. One search ordered by priority and due time would read all future tasks of
-- the better priorities on PostgreSQL before 18.
SELECT {found}
  FROM generate_series(0, 9) AS p (priority)
 CROSS JOIN LATERAL (
   SELECT t.id, t.fence, t.due, t.ctid, {size} AS size
     FROM {task} t
    WHERE t.queue = :queue
      AND t.priority = p.priority
      AND t.due <= (SELECT now FROM clock)
      AND t.due >= (CAST(:since AS bigint[]))[p.priority + 1]
      AND {unpaused}
    ORDER BY t.due, t.id
    LIMIT :limit
    {lock}) AS x
 LIMIT :limit;

-- pick_given
pick AS MATERIALIZED (
  SELECT t.id, t.fence{more}
    FROM {given_leases},
         {task} t
   WHERE t.id = d.id
     AND t.fence = d.fence
     AND {still}
     FOR UPDATE OF t SKIP LOCKED);

-- take
-- The update takes only rows that are still due. coalesce hides that condition from the planner, which might
-- otherwise read all of task_ready to find the rows. was_due keeps when the task became due, because RETURNING cannot
-- read old values before PostgreSQL 18. What the call itself has set is not returned.
UPDATE {task} t
   SET state = {PROCESSING},
       due = NULL,
       was_due = t.due,
       attempt = t.attempt + 1,
       fence = t.fence + 1,
       lease_until = clock.now + CAST(:lease AS bigint),
       holder = :holder,
       known_started = CAST(:known_started AS smallint),
       taken = clock.now,
       updated = clock.now
  FROM {source}
 WHERE {match}
   AND coalesce(t.due <= clock.now, false)
RETURNING t.id, t.reference, t.kind, t.task_key, t.priority, t.attempt, t.max_attempts, t.lapses, t.fence, t.created,
          t.headers, t.payload, t.result, t.progress, t.was_due, clock.now;

-- at_place
t.ctid = ANY (ARRAY(
  SELECT place
    FROM pick
   WHERE {keep}));

-- claimed
-- claim writes the next fence into the table lease, unless a valid renewal holds the row: a renewal and a takeover
-- write the same row, so one of them sees the other. IS TRUE makes the planner hash that list instead of joining it
-- by a nested loop.
claim AS (
  INSERT INTO {lease} AS l (id, fence, lease_until, keep_until)
  SELECT pick.id, pick.fence + 1, clock.now + CAST(:lease AS bigint), clock.now + CAST(:lease AS bigint)
    FROM pick, clock
   ORDER BY pick.id
  ON CONFLICT (id) DO UPDATE
     SET fence = excluded.fence,
         lease_until = excluded.lease_until,
         keep_until = excluded.keep_until,
         progress = CASE WHEN l.fence >= excluded.fence - 1 THEN l.progress END
   WHERE l.fence < excluded.fence - 1
      OR l.lease_until <= (SELECT now FROM clock)
  RETURNING l.id),
claimed AS MATERIALIZED (
  SELECT pick.*
    FROM pick
   WHERE (pick.id IN (SELECT claim.id FROM claim)) IS TRUE);

-- take_over
-- An attempt counts if it is known to have started. Otherwise its end is a lapse, and every 100th lapse in a row
-- counts as an attempt (lapses >= 99).
UPDATE {task} t
   SET state = CASE WHEN {exhausted}
                    THEN {POISON}
                    ELSE {PROCESSING} END,
       result = CASE WHEN {exhausted}
                     THEN {exhausted_result}
                     ELSE t.result END,
       progress = coalesce({reported}, t.progress),
       lease_until = CASE WHEN {exhausted}
                          THEN NULL
                          ELSE clock.now + CAST(:lease AS bigint) END,
       holder = CASE WHEN {exhausted}
                     THEN t.holder
                     ELSE :holder END,
       attempt = CASE WHEN {exhausted}
                      THEN t.attempt
                      ELSE {next_attempt} END,
       lapses = {next_lapses},
       known_started = CAST(:known_started AS smallint),
       taken = CASE WHEN {exhausted}
                    THEN NULL
                    ELSE clock.now END,
       fence = t.fence + 1,
       updated = clock.now
  FROM {source}
 WHERE {match}
   AND t.state + 0 = {PROCESSING}
RETURNING {columns},
          t.progress, t.lease_until, t.payload, clock.now,
          claimed.was_holder, claimed.was_taken, claimed.was_attempt, claimed.was_until;

-- was
t.holder AS was_holder, t.updated AS was_taken, t.attempt AS was_attempt,
{renewed} AS was_until;

-- recorded
-- The outcome is crashed if the attempt counts, and lapsed otherwise.
recorded AS (
  INSERT INTO {attempt} (task, fence, queue, attempt, outcome, taken, ended, worker, error)
  SELECT d.id, d.fence - 1, d.queue, d.was_attempt,
         CASE WHEN d.counts THEN 'crashed' ELSE 'lapsed' END,
         d.was_taken, d.was_until, regexp_replace(d.was_holder, '#[^#]*$', ''),
         convert_to(CASE WHEN d.counts
                         THEN 'the lease expired'
                         ELSE 'the lease expired before the attempt was known to have started' END, 'UTF8')
    FROM (SELECT done.*,
                 done.state <> {PROCESSING} OR done.attempt <> done.was_attempt AS counts
            FROM done) AS d
  ON CONFLICT DO NOTHING);

-- exhausted_result
-- The result of a task whose attempts are exhausted names its last holder and the checkout that found it.
convert_to('the lease of the last attempt expired, held by ' || t.holder ||
             ', found by ' || CAST(:holder AS text), 'UTF8');

-- size
-- octet_length reads the size of a payload from the task's row, even if the payload is compressed or stored outside
-- of the row.
coalesce(octet_length(t.payload), 0);

-- total
sum(size) OVER (ROWS UNBOUNDED PRECEDING);

-- fits
total + CAST(:used AS bigint) <= greatest(CAST(:bytes AS bigint), size);

-- all_small
NOT EXISTS (SELECT 1 FROM pick AS p WHERE p.size > CAST(:share AS bigint));

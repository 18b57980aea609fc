package postgres

import (
	"strings"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/state"
)

// now is frozen for a statement. now() would stand still in a caller's transaction, and clock_timestamp() could not be compared
// through an index.
const now = "CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint)"

// clock reads the time once for a statement instead of once for each row.
const clock = "clock AS MATERIALIZED (SELECT " + now + " AS now)"

// columns are a row without its payload.
const columns = "t.id, t.queue, t.reference, t.kind, t.state, t.priority, t.attempt, t.max_attempts, t.lapses, t.fence, t.due, t.lease_until, " +
	"t.holder, t.created, t.updated, t.headers, t.result"

// stored are the columns of a row. They are named where a row is copied, since a later version may add to them.
const stored = "id, fence, due, was_due, lease_until, created, updated, state, priority, attempt, max_attempts, lapses, started, queue, reference, kind, " +
	"holder, headers, payload, result"

// shown are a row without its payload, with its lease as renewed last.
var shown = strings.Replace(columns, "t.lease_until", "CASE WHEN t.state = 1 THEN "+renewed+" END AS lease_until", 1)

// alike are the rows of a batch that is settled under one fence. The list comes out of a sub-select, which hides its length like OFFSET 0:
// the primary key is used whatever the planner knows about the table.
const alike = `
 WHERE t.id = ANY (CAST((SELECT CAST(:id AS uuid[]) WHERE ` + boundWait + `) AS uuid[]))
   AND t.fence = CAST(:fence AS bigint) AND t.state + 0 = 1
RETURNING t.id`

// boundWait is true, and bounds the wait of its transaction for a locked row. It is evaluated once, before any row is
// locked.
const boundWait = `CASE WHEN CAST(:lock_wait AS bigint) IS NULL THEN true
       ELSE set_config('lock_timeout', CAST(CAST(:lock_wait AS bigint) AS text), true) IS NOT NULL END`

// maxRows in one statement; more would hold its locks for long.
const maxRows = 5000

func text(n dialect.Names, s string) string {
	return strings.NewReplacer("{task}", n.Table("task"), "{migration}", n.Table("migration"), "{tasks}", n.Table("tasks"),
		"{note}", n.Table("note"), "{attempt}", n.Table("attempt"), "{attempts}", n.Table("attempts"), "{archive}", n.Table("archive"),
		"{lease}", n.Table("lease"), "{now}", now, "{clock}", clock, "{columns}", columns, "{prefix}", n.Prefix).Replace(s)
}

// home is the schema of tables that are yet to be made, so that clients that name it and clients whose search path does have the same lock.
func home(n dialect.Names) string {
	if n.Schema != "" {
		return "'" + n.Schema + "'"
	}
	return "coalesce(current_schema(), '')"
}

// Statements are PostgreSQL's texts. Batches come as arrays through unnest; OFFSET 0 hides their length from the planner, which would
// rather scan a small table for a long array than look each row up. t.state + 0 keeps the planner from driving a join from the
// index on tasks in work: the primary key must drive it.
func (Dialect) Statements(n dialect.Names) dialect.Statements {
	t := func(s string) string { return text(n, s) }
	batch := func(s string) dialect.Batch { return dialect.Batch{SQL: t(s), Max: maxRows} }
	var schema []string
	if n.Schema != "" {
		schema = []string{"CREATE SCHEMA IF NOT EXISTS " + n.Schema}
	}
	st := dialect.Statements{
		Style: dialect.Dollar,
		Begin: []string{"BEGIN ISOLATION LEVEL READ COMMITTED"},
		Now:   now,

		Version:    t(`SELECT max(version) AS version, max(compatible) AS compatible FROM {migration}`),
		SetVersion: t(`INSERT INTO {migration} (version, title, compatible, applied) VALUES (:version, :title, :compatible, {now})`),
		MigrationTable: append(schema, t(`CREATE TABLE IF NOT EXISTS {migration} (
  version integer PRIMARY KEY, title text NOT NULL, compatible integer NOT NULL, applied bigint NOT NULL)`)),
		MigrationLock: `SELECT pg_advisory_xact_lock(hashtextextended(
  'dbq migration ' || ` + home(n) + ` || ' ' || CAST(:name AS text), 0))`,
		Drop: []string{t(`DROP VIEW IF EXISTS {tasks}`), t(`DROP VIEW IF EXISTS {attempts}`), t(`DROP TABLE IF EXISTS {task}`),
			t(`DROP TABLE IF EXISTS {lease}`), t(`DROP TABLE IF EXISTS {note}`),
			t(`DROP TABLE IF EXISTS {attempt}`), t(`DROP TABLE IF EXISTS {archive}`), t(`DROP TABLE IF EXISTS {migration}`)},

		Insert: batch(`WITH {clock}
INSERT INTO {task} (id, fence, queue, reference, kind, state, priority, max_attempts, due, created, updated, headers, payload)
SELECT d.id, d.reused * clock.now, CAST(:queue AS text), d.reference, d.kind, 0, d.priority, d.max_attempts,
       coalesce(d.at, clock.now + d.delay), clock.now, clock.now, d.headers, d.payload
  FROM clock, unnest(CAST(:id AS uuid[]), CAST(:reused AS smallint[]), CAST(:reference AS text[]), CAST(:kind AS text[]),
       CAST(:priority AS smallint[]), CAST(:max_attempts AS smallint[]), CAST(:at AS bigint[]), CAST(:delay AS bigint[]),
       CAST(:headers AS text[]), CAST(:payload AS bytea[]))
       AS d (id, reused, reference, kind, priority, max_attempts, at, delay, headers, payload)
ON CONFLICT DO NOTHING
RETURNING id`),
		// No ON CONFLICT: it would insert each row speculatively, and log that it stays. SELECT unnest does without a tuplestore.
		InsertAlike: batch(`WITH {clock}
INSERT INTO {task} (id, queue, kind, state, priority, max_attempts, due, created, updated, headers, payload)
SELECT d.id, CAST(:queue AS text), CAST(:kind AS text), 0, CAST(:priority AS smallint), CAST(:max_attempts AS smallint),
       coalesce(CAST(:at AS bigint), clock.now + CAST(:delay AS bigint)), clock.now, clock.now, CAST(:headers AS text), d.payload
  FROM clock, (SELECT unnest(CAST(:id AS uuid[])) AS id, unnest(CAST(:payload AS bytea[])) AS payload) AS d`),
		Settle: batch(`WITH {clock}
UPDATE {task} t SET
  state = CASE WHEN d.state = 3 AND coalesce(d.at, d.after) IS NOT NULL AND t.attempt >= t.max_attempts THEN 4 ELSE d.state END,
  due = CASE WHEN d.state = 3 AND t.attempt >= t.max_attempts THEN NULL ELSE coalesce(d.at, clock.now + d.after) END,
  attempt = t.attempt - d.uncount, lease_until = NULL, updated = clock.now,
  result = CASE WHEN d.state = 0 THEN coalesce(d.result, t.result) ELSE d.result END
  FROM clock, (SELECT CAST(:id AS uuid[]) AS id, CAST(:fence AS bigint[]) AS fence, CAST(:state AS smallint[]) AS state, CAST(:at AS bigint[]) AS at,
       CAST(:after AS bigint[]) AS after, CAST(:uncount AS smallint[]) AS uncount, CAST(:result AS bytea[]) AS result
         WHERE ` + boundWait + ` OFFSET 0) AS given,
       unnest(given.id, given.fence, given.state, given.at, given.after, given.uncount, given.result) AS d (id, fence, state, at, after, uncount, result)
 WHERE t.id = d.id AND t.fence = d.fence AND t.state + 0 = 1
RETURNING t.id, t.fence, t.state`),
		Complete: batch(`UPDATE {task} t SET state = 2, due = NULL, lease_until = NULL, updated = (SELECT {now}), result = NULL` + alike),
		Remove: batch(`DELETE FROM {task} t USING (SELECT CAST(:id AS uuid[]) AS id, CAST(:fence AS bigint[]) AS fence
         WHERE ` + boundWait + ` OFFSET 0) AS given,
       unnest(given.id, given.fence) AS d (id, fence)
 WHERE t.id = d.id AND t.fence = d.fence AND t.state + 0 = 1
RETURNING t.id, t.fence`),
		RemoveAlike: batch(`DELETE FROM {task} t ` + alike),
		Unlocked: batch(`SELECT t.id FROM {task} t WHERE t.id = ANY (CAST((SELECT CAST(:id AS uuid[])) AS uuid[]))
   FOR UPDATE SKIP LOCKED`),
		Move: moves(batch),
		SetResult: batch(`UPDATE {task} t SET result = d.result
  FROM (SELECT CAST(:id AS uuid[]) AS id, CAST(:result AS bytea[]) AS result OFFSET 0) AS given, unnest(given.id, given.result) AS d (id, result)
 WHERE t.id = d.id`),

		Get:  t(`SELECT ` + shown + `, t.payload, {now} AS now FROM {task} t WHERE t.id = :id`),
		Held: t(`SELECT ` + shown + `, t.payload, {now} AS now FROM {task} t WHERE t.queue = :queue AND t.state = 1 AND t.holder = :holder`),
		Exhausted: t(`SELECT ` + shown + `, t.payload, {now} AS now FROM {task} t
 WHERE t.queue = :queue AND t.state = 4 AND t.state >= 3 AND t.result = ` + exhausted),
		List:    t(`SELECT ` + shown + `, {now} AS now FROM {task} t WHERE {where} ORDER BY t.id{order} LIMIT :limit`),
		FindIDs: t(`SELECT t.id FROM {task} t WHERE {where} ORDER BY t.id LIMIT :limit`),
		// With both ends in one search, the planner would read all in between and sort it, when it believes that this is little.
		IDBehind: t(`SELECT x.id FROM (SELECT t.id FROM {task} t WHERE t.id > :after ORDER BY t.id LIMIT 1 OFFSET :offset) AS x
 WHERE x.id < :before`),
		Peek:          batch(`SELECT t.id, t.queue, t.state, t.fence, t.updated FROM {task} t WHERE t.id = ANY (CAST(:id AS uuid[]))`),
		FindReference: t(`SELECT id FROM {task} WHERE reference = :reference AND queue = :queue`),
		// One search for each partial index; the rest is one walk over the finished.
		Count: t(`WITH {clock}
SELECT queue, state, count(*) AS tasks, CAST(0 AS bigint) AS parked, count(*) FILTER (WHERE due <= clock.now) AS due,
       max(clock.now - due) FILTER (WHERE due <= clock.now) AS oldest
  FROM {task}, clock WHERE due IS NOT NULL GROUP BY queue, state
UNION ALL SELECT queue, 1, count(*), 0, 0, NULL FROM {task} WHERE state = 1 GROUP BY queue
UNION ALL SELECT queue, state, count(*), count(*), 0, NULL FROM {task} WHERE state >= 3 AND due IS NULL GROUP BY queue, state
UNION ALL SELECT queue, 2, count(*), 0, 0, NULL FROM {task} WHERE state = 2 GROUP BY queue`),
		// Each search is in the order of its index. Else the planner may walk the table for what it believes to be frequent, or
		// all entries of an index at once.
		CountUpTo: t(`SELECT 0 AS state, count(*) FILTER (WHERE x.state = 0) AS tasks, CAST(0 AS bigint) AS parked, CAST(0 AS bigint) AS due,
       CAST(NULL AS bigint) AS oldest, CASE WHEN count(*) >= CAST(:limit AS bigint) THEN 1 ELSE 0 END AS cut
  FROM (SELECT x.state FROM generate_series(0, 9) AS p (priority) CROSS JOIN LATERAL (
    SELECT t.state FROM {task} t WHERE t.queue = :queue AND t.priority = p.priority AND t.due IS NOT NULL
     ORDER BY t.due, t.id LIMIT CAST(:limit AS bigint)) AS x LIMIT CAST(:limit AS bigint)) AS x
UNION ALL SELECT 0, 0, 0, count(*), {now} - min(x.due), 0
  FROM generate_series(0, 9) AS p (priority) CROSS JOIN LATERAL (
    SELECT t.due FROM {task} t WHERE t.queue = :queue AND t.priority = p.priority AND t.due <= {now}
     ORDER BY t.due, t.id LIMIT CAST(:limit AS bigint)) AS x
UNION ALL SELECT 1, count(*), 0, 0, NULL, CASE WHEN count(*) >= CAST(:limit AS bigint) THEN 1 ELSE 0 END
  FROM (SELECT 1 FROM {task} t WHERE t.queue = :queue AND t.state = 1
         ORDER BY t.updated LIMIT CAST(:limit AS bigint)) AS x
UNION ALL SELECT f.state, x.tasks, CASE f.state WHEN 3 THEN x.tasks - x.due ELSE 0 END, 0, NULL,
       CASE WHEN x.tasks >= CAST(:limit AS bigint) THEN 1 ELSE 0 END
  FROM (VALUES (3), (4)) AS f (state) CROSS JOIN LATERAL (
    SELECT count(*) AS tasks, count(x.due) AS due
      FROM (SELECT t.due FROM {task} t WHERE t.queue = :queue AND t.state = f.state AND t.state >= 3
             ORDER BY t.id LIMIT CAST(:limit AS bigint)) AS x) AS x`),
		CountNewest: t(`SELECT x.queue, 2 AS state, count(*) FILTER (WHERE x.state = 2) AS tasks,
       CASE WHEN sum(count(*)) OVER () >= CAST(:limit AS bigint) THEN 1 ELSE 0 END AS cut
  FROM (SELECT t.queue, t.state FROM {task} t ORDER BY t.id DESC LIMIT CAST(:limit AS bigint)) AS x GROUP BY x.queue`),
		Newest: []state.State{state.Completed},
		NextQueue: t(`SELECT x.queue FROM (
  (SELECT t.queue FROM {task} t WHERE t.due IS NOT NULL AND t.queue > :queue ORDER BY t.queue LIMIT 1)
   UNION ALL (SELECT t.queue FROM {task} t WHERE t.state = 1 AND t.queue > :queue ORDER BY t.queue LIMIT 1)
   UNION ALL (SELECT t.queue FROM {task} t WHERE t.state >= 3 AND t.queue > :queue ORDER BY t.queue LIMIT 1)) AS x ORDER BY x.queue LIMIT 1`),
		Next: t(`WITH ` + nextLists + `
SELECT CASE WHEN ` + unpaused + ` THEN least((SELECT min(x.due) FROM generate_series(0, 9) AS p (priority) CROSS JOIN LATERAL (
    SELECT t.due FROM {task} t WHERE t.queue = :queue AND t.priority = p.priority
       AND t.due >= (CAST(:since AS bigint[]))[p.priority + 1] ORDER BY t.due, t.id LIMIT 1) AS x),
  ` + nextOver + `) END AS due, {now} AS now`),
		// A notification need not outlive a crash, so its commit does not wait for the disk.
		Notify: `SELECT pg_notify(CAST(:channel AS text), CAST(:payload AS text)), set_config('synchronous_commit', 'off', true)`,
	}
	addCheckout(&st, t, batch)
	addLeases(&st, t, batch)
	addNotes(&st, t)
	addHistory(&st, t, batch)
	return st
}

// moves are the operator's events. Their guards are the state table's.
func moves(batch func(string) dialect.Batch) map[state.Event]dialect.Batch {
	set := dialect.MoveSets()
	out := map[state.Event]dialect.Batch{}
	for _, t := range state.ByOperator() {
		pick := ` WHERE t.id = ANY (CAST(:id AS uuid[])) AND ` + state.Guard(t, "due")
		if t.To == state.None {
			out[t.Event] = batch(`DELETE FROM {task} t` + pick + ` RETURNING t.id`)
			continue
		}
		b := batch(`UPDATE {task} t SET ` + set[t.Event] + pick)
		b.First = batch(`SELECT t.id, t.queue, t.state, t.attempt, t.fence, t.holder, t.updated, t.result, {now} AS now
  FROM {task} t` + pick + ` ORDER BY t.id FOR UPDATE`).SQL
		out[t.Event] = b
	}
	return out
}

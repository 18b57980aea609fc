package sqlite

import (
	"fmt"
	"strings"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/state"
)

// now is the clock of the machine that the database file is on. SQLite tells milliseconds, the same for a whole statement.
const now = "CAST(unixepoch('subsec') * 1000000 AS INTEGER)"

// columns are a whole row. The sizes tell an empty payload from none, which the driver reads alike.
const columns = "id, queue, reference, kind, state, priority, attempt, max_attempts, lapses, fence, due, lease_until, holder, " +
	"created, updated, headers, payload, length(payload) AS payload_size, result, length(result) AS result_size, " + now + " AS now"

// listed are a row without its payload.
var listed = strings.Replace(columns, "payload, length(payload) AS payload_size", "NULL AS payload", 1)

// leased are a row t that is due, as it is when it has been taken, without what all who are taken have in common.
const leased = "t.id, t.reference, t.kind, t.priority, t.attempt + 1 AS attempt, t.max_attempts, t.lapses, t.fence + 1 AS fence, t.created, " +
	"t.headers, CASE WHEN length(t.payload) <= :share THEN t.payload END AS payload, length(t.payload) AS payload_size, " +
	"t.result, length(t.result) AS result_size, t.due AS was_due, {now} AS now"

// ready are the row ids of the tasks to take next, in order. A bare variable as a limit would have the statement prepared anew for each
// value that it is given.
var ready = eachPriority(`SELECT * FROM (SELECT rowid FROM {task}
  WHERE queue = :queue AND priority = {p} AND due <= {now} ORDER BY due, id LIMIT +:limit)`) + "\nLIMIT +:limit"

// room is what a row has in it from its start for the name of its holder. With the seven bytes that a completion frees it stays below 58, from
// where on SQLite writes a text's length in two bytes.
const room = 48

// padded is the name of a new holder with the room that it leaves.
var padded = fmt.Sprintf("printf('%%-%ds', :holder)", room)

// stored are the columns of a task that a row has.
const stored = "id, queue, reference, kind, state, priority, attempt, max_attempts, lapses, started, fence, due, lease_until, taken_by, " +
	"created, updated, headers, payload, result"

// maxRows keeps a batch far below SQLite's limit of 32766 values in a statement.
const maxRows = 500

// text fills the names into a statement's text.
// exhausted is the result of a task whose attempts are spent: who held it, and the checkout that found it.
const exhausted = `CAST('the lease of the last attempt ran out, held by ' || holder || ', found by ' || :holder AS BLOB)`

func text(n dialect.Names, s string) string {
	return strings.NewReplacer("{task}", n.Table("task"), "{migration}", n.Table("migration"), "{tasks}", n.Table("tasks"),
		"{note}", n.Table("note"), "{attempt}", n.Table("attempt"), "{attempts}", n.Table("attempts"), "{archive}", n.Table("archive"),
		"{now}", now, "{columns}", columns, "{prefix}", n.Prefix).Replace(s)
}

// Statements are SQLite's texts. A VALUES list joined by row drives each batch; (id, fence) IN (VALUES ...) would scan instead. A plus
// before a column keeps the planner from using it for a search: without them it walks the tasks in work, or all of them, and looks each
// one up in the list.
func (Dialect) Statements(n dialect.Names) dialect.Statements {
	t := func(s string) string { return text(n, s) }
	batch := func(s, row string) dialect.Batch {
		return dialect.Batch{SQL: t(s), Row: row, Sep: ", ", Max: maxRows}
	}
	alone := func(one, s, row string) dialect.Batch {
		b := batch(s, row)
		b.One = t(one)
		return b
	}
	const into = `INSERT INTO {task} (id, queue, reference, kind, state, priority, max_attempts, due, created, updated, headers, payload`
	// SQLite's clock has milliseconds, in which a task may come, go and come again. The caller's is the same machine's, and finer.
	const begins = `max({now}, :clock)`
	spent := dialect.Spent("")
	const completed = `UPDATE {task} SET state = 2, due = NULL, lease_until = NULL, updated = {now}, result = NULL,
  taken_by = taken_by || '       ' WHERE id `
	const underOne = `+fence = :fence AND +state = 1`
	counted := func(b dialect.Batch) dialect.Batch {
		b.First, b.Counts = t(`SELECT id FROM {task} WHERE id IN ({rows}) AND `+underOne), true
		return b
	}
	st := dialect.Statements{
		Style: dialect.Question,
		Begin: []string{"BEGIN IMMEDIATE"},
		Now:   now,

		Version:    t(`SELECT max(version) AS version, max(compatible) AS compatible FROM {migration}`),
		SetVersion: t(`INSERT INTO {migration} (version, title, compatible, applied) VALUES (:version, :title, :compatible, {now})`),
		MigrationTable: []string{t(`CREATE TABLE IF NOT EXISTS {migration} (
  version INTEGER PRIMARY KEY, title TEXT NOT NULL, compatible INTEGER NOT NULL, applied INTEGER NOT NULL) STRICT`)},
		Drop: []string{t(`DROP VIEW IF EXISTS {tasks}`), t(`DROP VIEW IF EXISTS {attempts}`), t(`DROP TABLE IF EXISTS {task}`), t(`DROP TABLE IF EXISTS {note}`),
			t(`DROP TABLE IF EXISTS {attempt}`), t(`DROP TABLE IF EXISTS {archive}`), t(`DROP TABLE IF EXISTS {migration}`)},

		Insert: alone(into+`, fence)
VALUES (:id, :queue, :reference, :kind, 0, :priority, :max_attempts, coalesce(:at, {now} + :delay), {now}, {now}, :headers, :payload,
  :reused * `+begins+`)
ON CONFLICT DO NOTHING`, into+`, fence)
SELECT d.column1, :queue, d.column2, d.column3, 0, d.column4, d.column5, coalesce(d.column6, {now} + d.column7), {now}, {now}, d.column8,
       d.column9, d.column10 * `+begins+`
  FROM (VALUES {rows}) AS d WHERE true
ON CONFLICT DO NOTHING
RETURNING id`, `(:id, :reference, :kind, :priority, :max_attempts, :at, :delay, :headers, :payload, :reused)`),
		InsertAlike: alone(into+`)
VALUES (:id, :queue, NULL, :kind, 0, :priority, :max_attempts, coalesce(:at, {now} + :delay), {now}, {now}, :headers, :payload)`,
			into+`)
SELECT d.column1, :queue, NULL, :kind, 0, :priority, :max_attempts, coalesce(:at, {now} + :delay), {now}, {now}, :headers, d.column2
  FROM (VALUES {rows}) AS d`, `(:id, :payload)`),
		Settle: batch(`UPDATE {task} SET
  state = CASE WHEN d.column3 = 3 AND coalesce(d.column4, d.column5) IS NOT NULL AND attempt >= max_attempts THEN 4 ELSE d.column3 END,
  due = CASE WHEN d.column3 = 3 AND attempt >= max_attempts THEN NULL ELSE coalesce(d.column4, {now} + d.column5) END,
  attempt = attempt - d.column6, lease_until = NULL, updated = {now},
  result = CASE WHEN d.column3 = 0 THEN coalesce(d.column7, result) ELSE d.column7 END
  FROM (VALUES {rows}) AS d
 WHERE {task}.id = +d.column1 AND {task}.fence = +d.column2 AND +{task}.state = 1
RETURNING id, fence, state`, `(:id, :fence, :state, :at, :after, :uncount, :result)`),
		// A list of ids is half as long to read for SQLite as a list of rows. What returns nothing changes each row as it finds it; else all are
		// found first.
		Complete:    counted(alone(completed+`= :id AND `+underOne, completed+`IN ({rows}) AND `+underOne, `:id`)),
		RemoveAlike: counted(batch(`DELETE FROM {task} WHERE id IN ({rows}) AND `+underOne, `:id`)),
		Remove: alone(`DELETE FROM {task} WHERE id = :id AND `+underOne, `DELETE FROM {task} WHERE rowid IN (
  SELECT t.rowid FROM (VALUES {rows}) AS d JOIN {task} AS t ON t.id = +d.column1 AND t.fence = +d.column2 AND +t.state = 1)
RETURNING id, fence`, `(:id, :fence)`),
		Extend: batch(`UPDATE {task} SET lease_until = {now} + :lease
  FROM (VALUES {rows}) AS d
 WHERE {task}.id = +d.column1 AND {task}.fence = +d.column2 AND +{task}.state = 1
RETURNING id, fence`, `(:id, :fence)`),
		Start: batch(`UPDATE {task} SET started = 1
  FROM (VALUES {rows}) AS d
 WHERE {task}.id = +d.column1 AND {task}.fence = +d.column2 AND +{task}.state = 1
RETURNING id, fence`, `(:id, :fence)`),
		Move:      moves(batch),
		SetResult: batch(`UPDATE {task} SET result = d.column2 FROM (VALUES {rows}) AS d WHERE {task}.id = +d.column1`, `(:id, :result)`),

		IDBehind: t(`SELECT t.id FROM {task} AS t WHERE t.id > :after AND t.id < :before ORDER BY t.id LIMIT 1 OFFSET :offset`),
		Get:      t(`SELECT {columns} FROM {task} WHERE id = :id`),
		Held:     t(`SELECT {columns} FROM {task} WHERE queue = :queue AND state = 1 AND holder = :holder`),
		Exhausted: t(`SELECT {columns} FROM {task}
 WHERE queue = :queue AND state = 4 AND state >= 3 AND result = ` + exhausted),
		List:    t(`SELECT ` + listed + ` FROM {task} WHERE {where} ORDER BY id{order} LIMIT :limit`),
		FindIDs: t(`SELECT id FROM {task} WHERE {where} ORDER BY id LIMIT :limit`),
		Peek: batch(`SELECT t.id, t.queue, t.state, t.fence, t.updated FROM (VALUES {rows}) AS d JOIN {task} AS t ON t.id = +d.column1`,
			`(:id)`),
		FindReference: t(`SELECT id FROM {task} WHERE reference = :reference AND queue = :queue`),
		// One search for each partial index; the rest is one walk over the finished.
		Count: t(`SELECT queue, state, count(*) AS tasks, 0 AS parked, count(*) FILTER (WHERE due <= {now}) AS due, {now} - min(due) FILTER (WHERE due <= {now}) AS oldest
  FROM {task} WHERE due IS NOT NULL GROUP BY queue, state
UNION ALL SELECT queue, 1, count(*), 0, 0, NULL FROM {task} WHERE state = 1 GROUP BY queue
UNION ALL SELECT queue, state, count(*), count(*), 0, NULL FROM {task} WHERE state >= 3 AND due IS NULL GROUP BY queue, state
UNION ALL SELECT queue, 2, count(*), 0, 0, NULL FROM {task} WHERE state = 2 GROUP BY queue`),
		CountUpTo: t(`SELECT 0 AS state, count(*) FILTER (WHERE state = 0) AS tasks, 0 AS parked, 0 AS due, NULL AS oldest, CASE WHEN count(*) >= :limit THEN 1 ELSE 0 END AS cut
  FROM (SELECT state FROM {task} WHERE queue = :queue AND due IS NOT NULL LIMIT +:limit)
UNION ALL SELECT 0, 0, 0, count(*), {now} - min(due), 0 FROM (` + eachPriority(
			`SELECT * FROM (SELECT due FROM {task} WHERE queue = :queue AND priority = {p} AND due <= {now} ORDER BY due, id LIMIT +:limit)`) + `)
UNION ALL SELECT 1, count(*), 0, 0, NULL, CASE WHEN count(*) >= :limit THEN 1 ELSE 0 END
  FROM (SELECT 1 FROM {task} WHERE queue = :queue AND state = 1 LIMIT +:limit)
UNION ALL SELECT 3, count(*), count(*) - count(due), 0, NULL, CASE WHEN count(*) >= :limit THEN 1 ELSE 0 END
  FROM (SELECT due FROM {task} WHERE queue = :queue AND state = 3 AND state >= 3 LIMIT +:limit)
UNION ALL SELECT 4, count(*), 0, 0, NULL, CASE WHEN count(*) >= :limit THEN 1 ELSE 0 END
  FROM (SELECT 1 FROM {task} WHERE queue = :queue AND state = 4 AND state >= 3 LIMIT +:limit)`),
		CountNewest: t(`SELECT x.queue, 2 AS state, count(*) FILTER (WHERE x.state = 2) AS tasks,
       CASE WHEN sum(count(*)) OVER () >= +:limit THEN 1 ELSE 0 END AS cut
  FROM (SELECT t.queue, t.state FROM {task} t ORDER BY t.id DESC LIMIT +:limit) AS x GROUP BY x.queue`),
		Newest: []state.State{state.Completed},
		NextQueue: t(`SELECT min(queue) AS queue FROM (
  SELECT * FROM (SELECT queue FROM {task} WHERE due IS NOT NULL AND queue > :queue ORDER BY queue LIMIT 1)
  UNION ALL SELECT * FROM (SELECT queue FROM {task} WHERE state = 1 AND queue > :queue ORDER BY queue LIMIT 1)
  UNION ALL SELECT * FROM (SELECT queue FROM {task} WHERE state >= 3 AND queue > :queue ORDER BY queue LIMIT 1))
 HAVING min(queue) IS NOT NULL`),
		Next: t(`SELECT min(due) AS due, {now} AS now FROM (` +
			eachPriority(`SELECT * FROM (SELECT due FROM {task} WHERE queue = :queue AND priority = {p} AND due IS NOT NULL ORDER BY due, id LIMIT 1)`) + `
UNION ALL SELECT min(lease_until) FROM {task} WHERE queue = :queue AND state = 1)
 WHERE ` + unpaused),

		Checkout: map[string]string{
			"any": t(`SELECT {now} AS now
 WHERE (EXISTS (` + eachPriority(`SELECT 1 FROM {task} WHERE queue = :queue AND priority = {p} AND due <= {now}`) + `)
    OR EXISTS (SELECT 1 FROM {task} WHERE queue = :queue AND state = 1 AND lease_until <= {now}))
   AND ` + unpaused),
			// The rows as they will be. Take then changes the same rows, of each priority up to the last that was read: it is in the same transaction,
			// of the only writer, and at the same moment. Returned by the update, each row would be copied once more, and a list of their ids would
			// be bound and looked up. OR FAIL needs no journal of the statement, to undo it alone: when it fails, the transaction is rolled back.
			"ready": t(`SELECT ` + leased + ` FROM (` + ready + `) AS d CROSS JOIN {task} AS t ON t.rowid = d.rowid`),
			"take": t(`UPDATE OR FAIL {task} SET state = 1, due = NULL, attempt = attempt + 1, fence = fence + 1,
  lease_until = :now + :lease, taken_by = ` + padded + `, started = :begun, updated = :now
 WHERE queue = :queue AND priority = :priority AND due IS NOT NULL AND (due, id) <= (:was_due, :id)`),
			"expired": t(`SELECT id, fence, length(payload) AS payload_size, holder AS was_holder, updated AS was_taken, attempt AS was_attempt,
  lease_until AS was_until FROM {task}
 WHERE queue = :queue AND state = 1 AND lease_until <= {now} AND holder <> :holder LIMIT :limit`),
		},
		CheckoutBatch: map[string]dialect.Batch{
			"payloads": batch(`SELECT t.id, t.payload FROM (VALUES {rows}) AS d JOIN {task} AS t ON t.id = +d.column1`, `(:id)`),
			"take over": batch(`UPDATE {task} SET state = CASE WHEN `+spent+` THEN 4 ELSE 1 END,
  result = CASE WHEN `+spent+` THEN `+exhausted+` ELSE result END,
  lease_until = CASE WHEN `+spent+` THEN NULL ELSE {now} + :lease END,
  taken_by = CASE WHEN `+spent+` THEN taken_by ELSE `+padded+` END,
  attempt = CASE WHEN `+spent+` THEN attempt ELSE `+dialect.NextAttempt("")+` END,
  lapses = `+dialect.NextLapses("")+`, started = :begun, fence = fence + 1, updated = {now}
  FROM (VALUES {rows}) AS d
 WHERE {task}.id = +d.column1 AND {task}.fence = +d.column2 AND +{task}.state = 1 AND lease_until <= {now}
RETURNING {columns}`, `(:id, :fence)`),
		},
	}
	addNotes(&st, t)
	addHistory(&st, t, batch)
	return st
}

// eachPriority is one ordered search for each priority, the first one first, in a statement that stops at its limit. One search
// ordered by priority and due time would walk every future row of the better priorities.
func eachPriority(search string) string {
	var parts []string
	for p := '0'; p <= '9'; p++ {
		parts = append(parts, strings.Replace(search, "{p}", string(p), 1))
	}
	return strings.Join(parts, "\nUNION ALL ")
}

// moves are the operator's events. Their guards are the state table's.
func moves(batch func(s, row string) dialect.Batch) map[state.Event]dialect.Batch {
	set := dialect.MoveSets()
	out := map[state.Event]dialect.Batch{}
	for _, t := range state.ByOperator() {
		pick := ` WHERE {task}.rowid IN (SELECT t.rowid FROM (VALUES {rows}) AS d JOIN {task} AS t ON t.id = +d.column1) AND ` + state.Guard(t, "due")
		if t.To == state.None {
			out[t.Event] = batch(`DELETE FROM {task}`+pick+` RETURNING id`, `(:id)`)
			continue
		}
		b := batch(`UPDATE {task} SET `+set[t.Event]+pick, `(:id)`)
		b.First = batch(`SELECT id, queue, state, attempt, fence, holder, updated, result, length(result) AS result_size, {now} AS now
  FROM {task}`+pick+` ORDER BY id`, `(:id)`).SQL
		out[t.Event] = b
	}
	return out
}

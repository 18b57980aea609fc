package acme

import (
	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/state"
)

// unpaused holds for a queue that no operator has paused.
const unpaused = `NOT EXISTS (SELECT 1 FROM {note} WHERE kind = '` + dialect.NotePause + `' AND name = :queue)`

// Statements are the texts that the core runs. A batch of rows is a list of values with names, d.
func (Dialect) Statements(n dialect.Names) dialect.Statements {
	t := filler(n)
	batch := func(text, row string) dialect.Batch {
		return dialect.Batch{SQL: t(text), Row: row, Sep: ", ", Max: 500}
	}
	st := dialect.Statements{
		Style: dialect.Question,
		Begin: []string{"BEGIN IMMEDIATE"},
		Now:   now,

		MigrationTable: []string{t(`CREATE TABLE IF NOT EXISTS {migration} (
  version INTEGER PRIMARY KEY, title TEXT, compatible INTEGER, applied INTEGER)`)},
		Version:    t(`SELECT max(version) AS version, max(compatible) AS compatible FROM {migration}`),
		SetVersion: t(`INSERT INTO {migration} VALUES (:version, :title, :compatible, {now})`),
		Drop: []string{t(`DROP VIEW IF EXISTS {tasks}`), t(`DROP TABLE IF EXISTS {task}`), t(`DROP TABLE IF EXISTS {note}`), t(`DROP TABLE IF EXISTS {attempt}`),
			t(`DROP TABLE IF EXISTS {archive}`), t(`DROP TABLE IF EXISTS {migration}`)},

		Insert: batch(`WITH d (id, reused, reference, kind, priority, max_attempts, at, delay, headers, payload) AS (VALUES {rows})
INSERT INTO {task} (id, fence, queue, reference, kind, state, priority, max_attempts, due, created, updated, headers, payload)
SELECT id, reused * max({now}, :clock), :queue, reference, kind, 0, priority, max_attempts, coalesce(at, {now} + delay), {now}, {now},
       headers, payload FROM d WHERE true
ON CONFLICT DO NOTHING RETURNING id`,
			`(:id, :reused, :reference, :kind, :priority, :max_attempts, :at, :delay, :headers, :payload)`),
		// A failure with a time to try again is ERROR (3) as long as attempts are left, and POISON (4) without a time when none is.
		Settle: batch(`WITH d (id, fence, state, due, uncount, result) AS (
  SELECT column1, column2, column3, coalesce(column4, {now} + column5), column6, column7 FROM (VALUES {rows}))
UPDATE {task} AS t SET
  state = CASE WHEN d.state = 3 AND d.due IS NOT NULL AND t.attempt >= t.max_attempts THEN 4 ELSE d.state END,
  due = CASE WHEN d.state = 3 AND t.attempt >= t.max_attempts THEN NULL ELSE d.due END,
  result = CASE WHEN d.state = 0 THEN coalesce(d.result, t.result) ELSE d.result END,
  attempt = t.attempt - d.uncount, lease_until = NULL, updated = {now}
FROM d WHERE t.id = d.id AND t.fence = d.fence AND t.state = 1 RETURNING id, fence, state`,
			`(:id, :fence, :state, :at, :after, :uncount, :result)`),
		Remove: batch(`DELETE FROM {task} WHERE state = 1 AND (id, fence) IN (VALUES {rows}) RETURNING id, fence`, `(:id, :fence)`),
		Extend: batch(`UPDATE {task} SET lease_until = {now} + :lease WHERE state = 1 AND (id, fence) IN (VALUES {rows}) RETURNING id, fence`,
			`(:id, :fence)`),
		Start: batch(`UPDATE {task} SET started = 1 WHERE state = 1 AND (id, fence) IN (VALUES {rows}) RETURNING id, fence`, `(:id, :fence)`),
		Move:  moves(batch),
		SetResult: batch(`WITH d (id, result) AS (VALUES {rows}) UPDATE {task} AS t SET result = d.result FROM d WHERE t.id = d.id`,
			`(:id, :result)`),

		Get:           t(`SELECT {columns} FROM {task} WHERE id = :id`),
		Held:          t(`SELECT {columns} FROM {task} WHERE queue = :queue AND state = 1 AND holder = :holder`),
		List:          t(`SELECT {listed} FROM {task} WHERE {where} ORDER BY id{order} LIMIT :limit`),
		FindIDs:       t(`SELECT id FROM {task} WHERE {where} ORDER BY id LIMIT :limit`),
		IDBehind:      t(`SELECT id FROM {task} WHERE id > :after AND id < :before ORDER BY id LIMIT 1 OFFSET :offset`),
		Peek:          batch(`SELECT id, queue, state, fence, updated FROM {task} WHERE id IN (VALUES {rows})`, `(:id)`),
		FindReference: t(`SELECT id FROM {task} WHERE reference = :reference AND queue = :queue`),
		Next: t(`SELECT min(due) AS due, {now} AS now FROM (
  SELECT min(due) AS due FROM {task} WHERE queue = :queue AND due IS NOT NULL UNION ALL SELECT min(lease_until) FROM {task} WHERE queue = :queue AND state = 1)
WHERE ` + unpaused),
		Count: t(`SELECT queue, state, count(*) AS tasks, count(*) - count(due) AS parked,
  count(*) FILTER (WHERE due <= {now}) AS due, {now} - min(due) FILTER (WHERE due <= {now}) AS oldest FROM {task} GROUP BY queue, state`),

		// It counts all of them: that is right, and slow where there are many.
		CountUpTo: t(`SELECT state, min(count(*), :limit) AS tasks, min(count(*) - count(due), :limit) AS parked,
  min(count(*) FILTER (WHERE due <= {now}), :limit) AS due, {now} - min(due) FILTER (WHERE due <= {now}) AS oldest,
  count(*) >= :limit AS cut FROM {task} WHERE queue = :queue GROUP BY state`),
		NextQueue: t(`SELECT queue FROM {task} WHERE queue > :queue ORDER BY queue LIMIT 1`),

		Checkout: map[string]string{
			"find ready": t(`SELECT id, due AS was_due, length(payload) AS payload_size FROM {task} WHERE queue = :queue AND due <= {now} AND ` + unpaused + `
ORDER BY priority, due, id LIMIT :limit`),
			// What this very checkout took and lost sight of is not up for a second time.
			"find expired": t(`SELECT id, lease_until AS was_due, length(payload) AS payload_size, holder AS was_holder, updated AS was_taken,
  attempt AS was_attempt, lease_until AS was_until FROM {task}
 WHERE queue = :queue AND state = 1 AND lease_until <= {now} AND holder <> :holder AND ` + unpaused + ` ORDER BY lease_until, id LIMIT :limit`),
		},
		CheckoutBatch: map[string]dialect.Batch{
			"take ready": batch(`UPDATE {task} SET state = 1, due = NULL, lease_until = {now} + :lease, holder = :holder, started = :begun,
  attempt = attempt + 1, fence = fence + 1, updated = {now}
WHERE id IN (VALUES {rows}) AND due IS NOT NULL RETURNING {columns}`, `(:id)`),
			// A task whose attempts are spent goes to POISON, whoever crashed, and says why.
			"take expired": batch(`UPDATE {task} SET fence = fence + 1, updated = {now}, lapses = `+dialect.NextLapses("")+`, started = :begun,
  (state, lease_until, holder, attempt, result) = (SELECT
    iif(spent, 4, 1), iif(spent, NULL, {now} + :lease), iif(spent, holder, :holder), iif(spent, attempt, `+dialect.NextAttempt("")+`),
    iif(spent, CAST('the lease of the last attempt ran out, held by ' || holder AS BLOB), result)
    FROM (SELECT `+dialect.Spent("")+` AS spent))
WHERE id IN (VALUES {rows}) AND state = 1 RETURNING {columns}`, `(:id)`),
		},
	}
	addKeeping(&st, t, batch)
	return st
}

// moves are the operator's events. From which states they may lead is for the state table to say: state.Guard.
func moves(batch func(text, row string) dialect.Batch) map[state.Event]dialect.Batch {
	set := map[state.Event]string{
		state.Reject:     "state = 3, due = NULL",
		state.Revoke:     "state = 3, due = NULL, lease_until = NULL, fence = fence + 1",
		state.Reenqueue:  "state = 0, due = {now}, attempt = 0, lapses = 0",
		state.Quarantine: "state = 4, due = NULL",
		state.Restore:    "state = 3, due = NULL",
	}
	out := map[state.Event]dialect.Batch{}
	for _, tr := range state.ByOperator() {
		where := ` WHERE id IN (VALUES {rows}) AND ` + state.Guard(tr, "due")
		if tr.To == state.None {
			out[tr.Event] = batch(`DELETE FROM {task}`+where+` RETURNING id`, `(:id)`)
			continue
		}
		b := batch(`UPDATE {task} SET updated = {now}, `+set[tr.Event]+where, `(:id)`)
		b.First = batch(`SELECT id, queue, state, attempt, fence, holder, updated, result, {now} AS now FROM {task}`+where+`
  ORDER BY id`, `(:id)`).SQL
		out[tr.Event] = b
	}
	return out
}

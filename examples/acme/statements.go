package acme

import (
	"embed"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/kit"
)

//go:embed schema/*.sql
var schema embed.FS

// Migrations make the tables. A released step never changes; what comes later is a step of its own.
func (Dialect) Migrations(n dialect.Names) []dialect.Migration {
	return kit.ReadSchema(schema, n, n.Filler())
}

const (
	// now is the database's clock in microseconds since 1970, the same for a whole statement.
	now = "CAST(unixepoch('subsec') * 1000000 AS INTEGER)"
	// listed and payload are a row as it is read. The sizes tell an empty value from none, which the driver reads alike.
	listed = "id, queue, reference, kind, task_key, state, priority, attempt, max_attempts, lapses, cancelled, " +
		"fence, due, lease_until, holder, created, updated, headers, result, length(result) AS result_size, progress"
	payload = "payload, length(payload) AS payload_size"
)

// Statements are the texts that dbq runs.
func (Dialect) Statements(n dialect.Names) dialect.Statements {
	t := n.Filler("{now}", now, "{columns}", listed+", "+payload+", "+now+" AS now")
	batch := func(text, row string) dialect.Batch {
		return dialect.Batch{SQL: t(text), Row: row, Max: 500}
	}
	return dialect.Statements{
		Style: dialect.Question, Begin: []string{"BEGIN IMMEDIATE"}, Now: now,
		Limit: "LIMIT :limit", Returning: true, Columns: listed, Payload: payload,

		Insert: batch(`WITH
d (id, reused, reference, kind, priority, max_attempts, at, delay, headers, payload, task_key) AS (
  VALUES {rows})
INSERT INTO {task} (id, fence, queue, reference, kind, state, priority, max_attempts,
                    due, created, updated, headers, payload, task_key)
SELECT id, reused * max({now}, :clock), :queue, reference, kind, 0, priority, max_attempts,
       coalesce(at, {now} + delay), {now}, {now}, headers, payload, task_key FROM d WHERE true
ON CONFLICT DO NOTHING RETURNING id`,
			`(:id, :reused, :reference, :kind, :priority, :max_attempts, :at, :delay, :headers, :payload,
				:task_key)`),
		AddKeys: batch(`INSERT INTO {unique_key} (id, task, expires, queue, scope, name)
VALUES {rows} ON CONFLICT DO NOTHING`, `(:id, :task, :expires, :queue, :scope, :name)`),
		// A failure with a time to retry is ERROR (3) while attempts are left, and POISON (4) when none is.
		Settle: batch(`WITH d (id, fence, state, due, uncount, result) AS (
  SELECT column1, column2, column3, coalesce(column4, {now} + column5), column6, column7 FROM (VALUES {rows}))
UPDATE {task} AS t SET
  state = CASE WHEN d.state = 3 AND d.due IS NOT NULL AND t.attempt >= t.max_attempts THEN 4 ELSE d.state END,
  due = CASE WHEN d.state = 3 AND t.attempt >= t.max_attempts THEN NULL ELSE d.due END,
  result = CASE WHEN d.state = 0 THEN coalesce(d.result, t.result) ELSE d.result END,
  progress = CASE WHEN d.state <> 2 THEN t.progress END,
  attempt = t.attempt - d.uncount, lease_until = NULL, updated = {now}
FROM d WHERE t.id = d.id AND t.fence = d.fence AND t.state = 1 RETURNING id, fence, state`,
			`(:id, :fence, :state, :at, :after, :uncount, :result)`),
		Extend: batch(`UPDATE {task} AS t SET lease_until = {now} + :lease, progress = coalesce(d.column3, t.progress)
FROM (VALUES {rows}) AS d WHERE t.id = d.column1 AND t.fence = d.column2 AND t.state = 1 RETURNING id, fence`,
			`(:id, :fence, :progress)`),
		Record: batch(`INSERT INTO {attempt} (task, fence, queue, attempt, outcome, taken, ended, worker, error)
VALUES {rows} ON CONFLICT DO NOTHING`,
			`(:id, :fence, :queue, :attempt, :outcome, :taken, :ended, :worker, :error)`),
		// The rtrim leaves what is up to the last #: it cuts off at the end all characters but that one.
		RecordLast: batch(`INSERT INTO {attempt} (task, fence, queue, attempt, outcome, taken, ended, worker, error)
SELECT id, fence, queue, attempt + (state = 0), CASE state WHEN 0 THEN 'released' WHEN 2 THEN 'completed'
  WHEN 3 THEN 'failed' ELSE 'poisoned' END, taken, updated,
  substr(held, 1, length(held) - 1), coalesce(d.column2, CASE WHEN state IN (3, 4) THEN result END)
  FROM (VALUES {rows}) AS d JOIN (SELECT *, rtrim(holder, replace(holder, '#', '')) AS held FROM {task}) AS t
    ON t.id = d.column1 WHERE taken IS NOT NULL AND state <> 1
ON CONFLICT DO NOTHING`, `(:id, :error)`),

		Private: map[string]dialect.Batch{
			"find ready": {SQL: t(`SELECT id, fence, due AS was_due, length(payload) AS payload_size FROM {task}
 WHERE queue = :queue AND due <= {now} AND {unpaused} ORDER BY priority, due, id LIMIT :limit`)},
			// It skips rows that an earlier try of this call leased.
			"find expired": {SQL: t(`SELECT id, fence, lease_until AS was_due, length(payload) AS payload_size,
  holder AS was_holder, updated AS was_taken, attempt AS was_attempt, lease_until AS was_until FROM {task}
 WHERE queue = :queue AND state = 1
  AND lease_until <= {now} AND holder <> :holder AND {unpaused} ORDER BY lease_until, id LIMIT :limit`)},
			"take ready": batch(`UPDATE {task} SET state = 1, due = NULL, lease_until = {now} + :lease, holder = :holder,
  known_started = :known_started, attempt = attempt + 1, fence = fence + 1, taken = {now}, updated = {now}
 WHERE (id, fence) IN (VALUES {rows}) AND due <= {now} RETURNING {columns}`, `(:id, :fence)`),
			// A task without an attempt left goes to POISON, even if its workers crashed, with the reason.
			"take expired": batch(`UPDATE {task} SET fence = fence + 1, updated = {now}, known_started = :known_started,
  lapses = {next_lapses}, (state, lease_until, taken, holder, attempt, result) = (SELECT iif(over, 4, 1),
    iif(over, NULL, {now} + :lease), iif(over, NULL, {now}), iif(over, holder, :holder),
    iif(over, attempt, {next_attempt}),
    iif(over, CAST('the lease of the last attempt expired, held by ' || holder AS BLOB), result)
    FROM (SELECT {exhausted} AS over))
 WHERE (id, fence) IN (VALUES {rows}) AND state = 1 RETURNING {columns}`, `(:id, :fence)`),
		},
	}
}

package mysql

import (
	"strconv"
	"strings"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/state"
)

// now is frozen for a statement, and independent of the session's time zone.
const now = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"

// What begins a transaction. Sessions of Open's pool have the isolation level already.
const (
	isolation = "TRANSACTION ISOLATION LEVEL READ COMMITTED"
	begin     = "START TRANSACTION"
)

// columns are a row without its payload.
const columns = "t.id, t.queue, t.reference, t.kind, t.state, t.priority, t.attempt, t.max_attempts, t.lapses, t.fence, t.due, t.lease_until, " +
	"t.holder, t.created, t.updated, t.headers, t.result"

// stored are the columns of a row that are no function of others.
const stored = "id, queue, reference, kind, state, priority, attempt, max_attempts, lapses, started, fence, due_at, lease_end, " +
	"taken_by, created, updated, payload_size, headers, payload, result"

// room is what a row has in it from its start for the name of a holder, and what the name is filled up to.
const room = 64

// ages is what due_at of a task in work is less than the time when it was taken: a negative number, in the order of these times.
const ages = "4611686018427387904"

// working is the lane of tasks in work.
const working = "9"

const priorities = "0, 1, 2, 3, 4, 5, 6, 7, 8, 9"

// maxRows in one statement; a list of this many rows is still read fast.
const maxRows = 500

// listed are the rows of a list of ids and fences.
const listed = `({rows}) AS d STRAIGHT_JOIN {task} AS t FORCE INDEX (PRIMARY) ON t.id = d.id AND t.fence = d.fence`

func text(n dialect.Names, s string) string {
	home := "DATABASE()"
	if n.Schema != "" {
		home = "'" + n.Schema + "'"
	}
	return strings.NewReplacer("{home}", home, "{task}", n.Table("task"), "{migration}", n.Table("migration"), "{tasks}", n.Table("tasks"),
		"{note}", n.Table("note"), "{attempt}", n.Table("attempt"), "{attempts}", n.Table("attempts"), "{archive}", n.Table("archive"),
		"{lease}", n.Table("lease"), "{now}", now, "{room}", strconv.Itoa(room), "{ages}", ages, "{working}", working, "{priorities}", priorities, "{stored}", stored, "{columns}", columns, "{prefix}", n.Prefix).Replace(s)
}

// Statements are MySQL's and MariaDB's texts. What a batch changes is found by primary key alone, so that nothing
// else is locked: by a list of ids, or, where more than ids matters, by a list of SELECTs that drives a join (STRAIGHT_JOIN). The index is
// forced, since both products scan a table that seems small. A list of pairs, (id, fence) IN (...), is no way: MariaDB scans the whole
// table for a single one, and makes a join of its own choice of many.
// A column of such a list that may be null in every row is cast, or it would be reckoned as a floating-point number; bytes are cast, or
// they would be text of the connection's character set where the driver prepares statements (a caller's transaction, without interpolateParams).
func (Dialect) Statements(n dialect.Names) dialect.Statements {
	t := func(s string) string { return text(n, s) }
	const (
		held   = listed + ` AND t.state = 1`
		lease  = `SELECT CAST(:id AS BINARY(16)) AS id, :fence AS fence`
		settle = `SELECT CAST(:id AS BINARY(16)) AS id, :fence AS fence, :state AS state, CAST(:at AS SIGNED) AS run_at, CAST(:after AS SIGNED) AS run_after, :uncount AS uncount,
  CAST(:result AS BINARY) AS result`
		spent = `d.state = 3 AND t.attempt >= t.max_attempts`
	)
	// change writes rows by their primary key; when some are not as they should be, it locks and reads the others first.
	change := func(row, first, then string) dialect.Batch {
		return dialect.Batch{First: t(first), SQL: t(then), Row: row, Sep: " UNION ALL ", Max: maxRows, Counts: true}
	}
	var schema []string
	if n.Schema != "" {
		schema = []string{"CREATE DATABASE IF NOT EXISTS " + n.Schema}
	}
	st := dialect.Statements{
		Style: dialect.Question,
		Begin: []string{"SET " + isolation, begin},
		Now:   now,

		Version:    t(`SELECT max(version) AS version, max(compatible) AS compatible FROM {migration}`),
		SetVersion: t(`INSERT IGNORE INTO {migration} (version, title, compatible, applied) VALUES (:version, :title, :compatible, {now})`),
		MigrationTable: append(schema, t(`CREATE TABLE IF NOT EXISTS {migration} (
  version INT PRIMARY KEY, title VARCHAR(200) NOT NULL, compatible INT NOT NULL, applied BIGINT NOT NULL) ENGINE = InnoDB`)),
		MigrationLock:   t(lockText("300")),
		MigrationUnlock: t(unlockText),
		Drop: []string{t(`DROP VIEW IF EXISTS {tasks}`), t(`DROP VIEW IF EXISTS {attempts}`), t(`DROP TABLE IF EXISTS {task}`),
			t(`DROP TABLE IF EXISTS {lease}`), t(`DROP TABLE IF EXISTS {note}`),
			t(`DROP TABLE IF EXISTS {attempt}`), t(`DROP TABLE IF EXISTS {archive}`), t(`DROP TABLE IF EXISTS {migration}`)},

		// IGNORE also cuts what is too long, silently: the core has checked all lengths. A value may use the columns before it.
		Insert: dialect.Batch{
			SQL: t(`INSERT IGNORE INTO {task}
  (id, queue, reference, kind, state, priority, max_attempts, due_at, created, updated, fence, payload_size, headers, payload)
VALUES {rows}`),
			After: t(`SELECT id FROM {task} FORCE INDEX (PRIMARY) WHERE id IN ({rows})`),
			Row: t(`(:id, :queue, :reference, :kind, 0, :priority, :max_attempts, coalesce(:at, {now} + :delay), {now}, {now},
 :reused * created, :payload_size, :headers, :payload)`),
			ReadRow: `:id`, Sep: ", ", Max: maxRows, Counts: true,
		},
		// Three times the text of the clock takes the server 8 microseconds to read, for each row of a list.
		InsertAlike: dialect.Batch{
			SQL: t(`INSERT INTO {task} (id, queue, kind, state, priority, max_attempts, due_at, created, updated, payload_size, headers, payload) VALUES {rows}`),
			Row: `(:id, :queue, :kind, 0, :priority, :max_attempts, coalesce(:at, :now + :delay), :now, :now, :payload_size, :headers, :payload)`, Sep: ", ", Max: maxRows, Timed: true,
		},
		Settle: dialect.Batch{
			First: t(`SELECT t.id, t.fence, CASE WHEN ` + spent + ` AND d.again IS NOT NULL THEN 4 ELSE d.state END AS state FROM ` + held + ` FOR UPDATE`),
			// MySQL assigns from left to right and later expressions see the new values: state comes after what is computed from it.
			SQL: t(`UPDATE ` + held + ` SET
  t.due_at = CASE WHEN ` + spent + ` THEN -1 ELSE coalesce(d.run_at, {now} + d.run_after, -1) END,
  t.state = CASE WHEN ` + spent + ` AND coalesce(d.run_at, d.run_after) IS NOT NULL THEN 4 ELSE d.state END,
  t.attempt = t.attempt - d.uncount, t.lease_end = -1, t.updated = {now},
  t.result = CASE WHEN d.state = 0 THEN coalesce(d.result, t.result) ELSE d.result END`),
			Row: settle, ReadRow: `SELECT CAST(:id AS BINARY(16)) AS id, :fence AS fence, :state AS state, coalesce(:at, :after) AS again`, Sep: " UNION ALL ", Max: maxRows,
		},
		// A list of ids takes half the time of a list of SELECTs.
		Complete: dialect.Batch{
			First: t(`SELECT id FROM {task} FORCE INDEX (PRIMARY) WHERE id IN ({rows}) AND fence = :fence AND state = 1 ORDER BY id FOR UPDATE`),
			SQL: t(`UPDATE {task} FORCE INDEX (PRIMARY) SET state = 2, due_at = -1, lease_end = -1, updated = {now}, result = NULL
 WHERE id IN ({rows}) AND fence = :fence AND state = 1`),
			Row: `:id`, Sep: ", ", Max: maxRows, Counts: true,
		},
		Remove: change(lease, `SELECT t.id, t.fence FROM `+held+` FOR UPDATE`, `DELETE t FROM `+held),
		// It asks for the fence, too: MySQL would walk all of a small table's primary key where it need not read rows.
		Unlocked: dialect.Batch{SQL: t(`SELECT id FROM {task} FORCE INDEX (PRIMARY)
 WHERE id IN ({rows}) AND fence >= 0 ORDER BY id FOR UPDATE SKIP LOCKED`),
			Row: `:id`, Sep: ", ", Max: maxRows},
		Move: moves(t),
		SetResult: dialect.Batch{
			SQL: t(`UPDATE ({rows}) AS d STRAIGHT_JOIN {task} AS t FORCE INDEX (PRIMARY) ON t.id = d.id SET t.result = d.result`),
			Row: `SELECT CAST(:id AS BINARY(16)) AS id, CAST(:result AS BINARY) AS result`, Sep: " UNION ALL ", Max: maxRows,
		},

		IDBehind: t(`SELECT t.id FROM {task} AS t FORCE INDEX (PRIMARY) WHERE t.id > :after AND t.id < :before ORDER BY t.id LIMIT 1 OFFSET :offset`),
		Get:      t(`SELECT ` + shown + `, t.payload, {now} AS now FROM {task} AS t WHERE t.id = :id`),
		Held:     t(`SELECT ` + shown + `, t.payload, {now} AS now FROM {task} AS t FORCE INDEX ({prefix}task_lane) WHERE t.queue = :queue AND t.lane = {working} AND t.holder = :holder`),
		Exhausted: t(`SELECT ` + shown + `, t.payload, {now} AS now FROM {task} AS t FORCE INDEX ({prefix}task_lane)
 WHERE t.queue = :queue AND t.lane = 4 AND t.result = ` + exhausted),
		List:    t(`SELECT ` + shown + `, {now} AS now FROM {task} AS t WHERE {where} ORDER BY t.id{order} LIMIT :limit`),
		FindIDs: t(`SELECT t.id FROM {task} AS t WHERE {where} ORDER BY t.id LIMIT :limit`),
		InState: map[state.State]string{state.Processing: "lane = " + working, state.Poison: "lane = 4"},
		Peek: dialect.Batch{SQL: t(`SELECT t.id, t.queue, t.state, t.fence, t.updated FROM {task} AS t FORCE INDEX (PRIMARY)
 WHERE t.id IN ({rows})`), Row: `:id`, Sep: ", ", Max: maxRows},
		FindReference: t(`SELECT id FROM {task} WHERE reference = :reference AND queue = :queue`),
		Count: t(`SELECT queue, state, count(*) AS tasks, count(*) - count(due) AS parked, count(CASE WHEN due <= {now} THEN 1 END) AS due,
       {now} - min(CASE WHEN due <= {now} THEN due END) AS oldest
  FROM {task} GROUP BY queue, state`),
		CountUpTo: t(`SELECT 0 AS state, count(CASE WHEN state = 0 THEN 1 END) AS tasks, 0 AS parked, 0 AS due, NULL AS oldest, CASE WHEN count(*) >= :limit THEN 1 ELSE 0 END AS cut
  FROM (SELECT state FROM {task} FORCE INDEX ({prefix}task_lane) WHERE queue = :queue AND lane = 0 LIMIT :limit) AS w
UNION ALL SELECT 3, count(CASE WHEN state = 3 THEN 1 END), 0, 0, NULL, CASE WHEN count(*) >= :limit THEN 1 ELSE 0 END
  FROM (SELECT state FROM {task} FORCE INDEX ({prefix}task_lane) WHERE queue = :queue AND lane = 0 LIMIT :limit) AS w
UNION ALL SELECT 0, 0, 0, count(*), {now} - min(due_at), 0 FROM (` + eachPriority(
			`(SELECT due_at FROM {task} FORCE INDEX ({prefix}task_lane) WHERE queue = :queue AND lane = 0 AND priority = {p} AND due_at <= {now} ORDER BY due_at LIMIT :limit)`) + `) AS w
UNION ALL SELECT 1, count(*), 0, 0, NULL, CASE WHEN count(*) >= :limit THEN 1 ELSE 0 END
  FROM (SELECT 1 FROM {task} FORCE INDEX ({prefix}task_lane) WHERE queue = :queue AND lane = {working} LIMIT :limit) AS w
UNION ALL SELECT 2, count(*), 0, 0, NULL, CASE WHEN count(*) >= :limit THEN 1 ELSE 0 END
  FROM (SELECT 1 FROM {task} FORCE INDEX ({prefix}task_lane) WHERE queue = :queue AND lane = 2 LIMIT :limit) AS w
UNION ALL SELECT 3, count(*), count(*), 0, NULL, CASE WHEN count(*) >= :limit THEN 1 ELSE 0 END
  FROM (SELECT 1 FROM {task} FORCE INDEX ({prefix}task_lane) WHERE queue = :queue AND lane = 3 LIMIT :limit) AS w
UNION ALL SELECT 4, count(*), 0, 0, NULL, CASE WHEN count(*) >= :limit THEN 1 ELSE 0 END
  FROM (SELECT 1 FROM {task} FORCE INDEX ({prefix}task_lane) WHERE queue = :queue AND lane = 4 LIMIT :limit) AS w`),
		NextQueue: t(`SELECT queue FROM {task} FORCE INDEX ({prefix}task_lane) WHERE queue > :queue ORDER BY queue LIMIT 1`),
		Next: t(`SELECT min(x.due) AS due, {now} AS now FROM (` + eachPriority(
			`SELECT CASE WHEN :since{p} = 0 THEN (SELECT due_at `+first+`) ELSE (SELECT due_at `+firstSince+`) END AS due`) + `
UNION ALL (SELECT min(` + renewed + `) FROM {task} AS t FORCE INDEX ({prefix}task_lane)
  WHERE t.queue = :queue AND t.lane = {working} AND t.priority IN ({priorities}) AND t.due_at >= :oldest - {ages})) AS x WHERE ` + unpaused),
	}
	addCheckout(&st, t)
	addLeases(&st, t)
	addNotes(&st, t)
	addHistory(&st, t)
	return st
}

// moves are the operator's events. Their guards are the state table's.
func moves(t func(string) string) map[state.Event]dialect.Batch {
	set := dialect.MoveSets()
	fixed := strings.NewReplacer("due = NULL", "due_at = -1", "due = ", "due_at = ", "lease_until = NULL", "lease_end = -1")
	out := map[state.Event]dialect.Batch{}
	for _, tr := range state.ByOperator() {
		pick := ` WHERE id IN ({rows}) AND ` + state.Guard(tr, "due")
		read := `id, queue, state, attempt, fence, holder, updated, result, {now} AS now`
		if tr.To == state.None {
			read = `id`
		}
		b := dialect.Batch{
			First: t(`SELECT ` + read + ` FROM {task} FORCE INDEX (PRIMARY)` + pick + ` ORDER BY id FOR UPDATE`),
			Row:   `:id`, Sep: ", ", Max: maxRows,
		}
		if b.SQL = t(`UPDATE {task} FORCE INDEX (PRIMARY) SET ` + fixed.Replace(set[tr.Event]) + pick); tr.To == state.None {
			b.SQL = t(`DELETE t FROM {task} AS t FORCE INDEX (PRIMARY)` + pick)
		}
		out[tr.Event] = b
	}
	return out
}

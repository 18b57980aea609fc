package sqlrun

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/dbq-go/dbq/dialect"
)

// stored lists the columns of a task that the archive also has.
const stored = `id, queue, reference, kind, task_key, state, priority, attempt, max_attempts, lapses, known_started,
       cancelled, fence, due, lease_until, holder, taken, created, updated, headers, payload, result,
       progress`

// withDefaults sets the texts that a dialect leaves empty. They are plain SQL with the column names of dialect.Row. A
// dialect supplies its own text if its engine would run the default badly.
func withDefaults(st dialect.Statements, n dialect.Names) dialect.Statements {
	lock, returning := "", func(string) string { return "" }
	if st.ForUpdate != "" {
		lock = "\n   " + st.ForUpdate
	}
	if st.Returning {
		returning = func(columns string) string { return "\nRETURNING " + columns }
	}
	t := n.Filler("{now}", st.Now, "{columns}", st.Columns, "{payload}", st.Payload, "{limit}", st.Limit,
		"{stored}", stored, "{lock}", lock)
	text := func(field *string, text string) { *field = cmp.Or(*field, t(fillHole(text, "{columns}", st.Columns))) }
	list := func(field *dialect.Batch, row, text string) {
		if field.SQL == "" {
			*field = dialect.Batch{SQL: t(fillHole(text, "{columns}", st.Columns)), Row: row, Max: st.Settle.Max}
		}
	}
	byID := func(field *dialect.Batch, text string) { list(field, ":id", text) }
	const held = `
 WHERE (id, fence) IN (VALUES {rows})
   AND state = 1`
	text(&st.Held, `SELECT {columns},
       {payload}, {now} AS now
  FROM {task} t
 WHERE t.queue = :queue
   AND t.state = 1
   AND t.holder = :holder`)
	text(&st.IDBehind, `SELECT t.id
  FROM {task} t
 WHERE t.id > :after
   AND t.id < :before
 ORDER BY t.id
 LIMIT 1 OFFSET :offset`)
	text(&st.IDBefore, `SELECT t.id
  FROM {task} t
 WHERE t.id < :before
 ORDER BY t.id DESC
 LIMIT 1 OFFSET :offset`)
	text(&st.NextQueue, `SELECT queue
  FROM {task}
 WHERE queue > :queue
 ORDER BY queue
 LIMIT 1`)
	text(&st.Count, `SELECT queue, state, count(*) AS tasks, count(*) - count(due) AS parked,
       count(CASE WHEN due <= {now} THEN 1 END) AS due,
       {now} - min(CASE WHEN due <= {now} THEN due END) AS oldest, sum(cancelled) AS cancelled
  FROM {task}
 GROUP BY queue, state`)
	atMost := func(n string) string { return "CASE WHEN " + n + " < :limit THEN " + n + " ELSE :limit END AS " + n }
	text(&st.CountUpTo, `SELECT state, oldest, CASE WHEN tasks < :limit THEN 0 ELSE 1 END AS cut,
       `+atMost("tasks")+`,
       `+atMost("parked")+`,
       `+atMost("due")+`,
       `+atMost("cancelled")+`
  FROM (
    SELECT state, count(*) AS tasks, count(*) - count(due) AS parked,
           count(CASE WHEN due <= {now} THEN 1 END) AS due,
           {now} - min(CASE WHEN due <= {now} THEN due END) AS oldest, sum(cancelled) AS cancelled
      FROM {task}
     WHERE queue = :queue
     GROUP BY state) c`)
	text(&st.Next, `SELECT min(due) AS due, {now} AS now
  FROM (
    SELECT min(due) AS due FROM {task} WHERE queue = :queue
    UNION ALL
    SELECT min(lease_until) AS due FROM {task} WHERE queue = :queue AND state = 1) d
 WHERE {unpaused}`)
	text(&st.ExpireAttempts, `DELETE FROM {attempt}
 WHERE (task, fence) IN (
   SELECT task, fence
     FROM {attempt}
    WHERE queue = :queue
      AND ended <= {now} - :age
    {limit})`)
	byID(&st.FindKeys, `SELECT k.id, k.task, k.expires,
       (SELECT t.state FROM {task} t WHERE t.id = k.task AND t.queue = k.queue) AS state,
       (SELECT t.due FROM {task} t WHERE t.id = k.task AND t.queue = k.queue) AS due
  FROM {unique_key} k
 WHERE k.id IN ({rows})`)
	byID(&st.LockKeys, `SELECT id, task, expires
  FROM {unique_key}
 WHERE id IN ({rows})
 ORDER BY id{lock}`)
	byID(&st.DropKeys, `DELETE FROM {unique_key}
 WHERE id IN ({rows})`)
	const busy = `
  FROM {task} t
 WHERE t.queue = :queue
   AND t.state = 1`
	text(&st.Busy, "SELECT count(*) AS tasks"+busy)
	text(&st.BusyKeys, "SELECT t.task_key, count(*) AS tasks"+busy+"\n GROUP BY t.task_key")
	candidates := func(where string) string {
		return `SELECT * FROM (
  SELECT t.id, t.fence, t.task_key, t.priority, t.due AS was_due, length(t.payload) AS payload_size
    FROM {task} t
   WHERE t.queue = :queue AND ` + where + ` AND t.due <= {now}
   ORDER BY t.due, t.id
   {limit}) x`
	}
	var first []string
	for p := range 10 {
		first = append(first, candidates(fmt.Sprintf("t.priority = %d", p)))
	}
	text(&st.DueTasks, "SELECT * FROM (\n"+strings.Join(first, "\nUNION ALL\n")+") y\n {limit}")
	next := func(after string) string {
		return `(SELECT t.id
            FROM {task} t
           WHERE t.queue = :queue AND t.task_key > ` + after + ` AND t.due IS NOT NULL
           ORDER BY t.task_key, t.due, t.id
           LIMIT 1)`
	}
	text(&st.DueKeys, `WITH RECURSIVE k (id, n) AS (
  SELECT `+next(":after")+`, 1
   UNION ALL
  SELECT `+next("p.task_key")+`, k.n + 1
    FROM k
   CROSS JOIN {task} p
   WHERE p.id = k.id AND k.n < :limit)
SELECT t.id, t.fence, t.task_key, t.priority, t.due AS was_due, length(t.payload) AS payload_size, {now} AS now
  FROM k
 CROSS JOIN {task} t
 WHERE t.id = k.id`)
	if st.DueOfKeys.SQL == "" {
		row := t(candidates("t.task_key = :task_key"))
		st.DueOfKeys = dialect.Batch{SQL: "{rows}", Row: row, Max: 100}
	}
	if st.HeadsOfKeys.SQL == "" {
		row := t(`SELECT * FROM (
  SELECT t.id, t.fence, t.task_key, t.priority, t.due AS was_due, length(t.payload) AS payload_size
    FROM {task} t
   WHERE t.queue = :queue AND t.task_key = :task_key AND t.due IS NOT NULL
   ORDER BY t.id
   LIMIT 1) x
 WHERE x.was_due <= {now}
   AND (:block = 0 OR NOT EXISTS (
     SELECT 1
       FROM {task} f
      WHERE f.queue = :queue AND f.task_key = :task_key AND f.id < x.id
        AND f.due IS NULL AND f.cancelled = 0 AND (f.state = 3 OR f.state = 4)))`)
		st.HeadsOfKeys = dialect.Batch{SQL: "{rows}", Row: row, Max: 100}
	}
	list(&st.KeyRates, ":name", `SELECT task_key, full_at
  FROM {key_rate}
 WHERE queue = :queue
   AND task_key IN ({rows})`)
	text(&st.ExpireKeyRates, `DELETE FROM {key_rate}
 WHERE (queue, task_key) IN (
   SELECT queue, task_key
     FROM {key_rate}
    WHERE full_at <= {now} - :age
    ORDER BY full_at
    {limit})
   AND full_at <= {now} - :age`)
	byID(&st.LockWaiting, `SELECT id, queue, state, due, created
  FROM {task}
 WHERE id IN ({rows})
   AND (due IS NOT NULL OR state = 1 AND :running = 1)
 ORDER BY id{lock}`)
	list(&st.Remove, "(:id, :fence)", `DELETE FROM {task}`+held+returning("id, fence"))
	list(&st.Start, "(:id, :fence)", `UPDATE {task}
   SET known_started = 1`+held+returning("id, fence"))
	byID(&st.Peek, `SELECT t.id, t.queue, t.state, t.fence, t.updated
  FROM {task} t
 WHERE t.id IN ({rows})`)
	byID(&st.Movable, `SELECT {columns},
       taken, {now} AS now
  FROM {task} t
 WHERE t.id IN ({rows})
   AND {guard}
 ORDER BY t.id{lock}`)
	byID(&st.Move, `UPDATE {task}
   SET {set}
 WHERE id IN ({rows})
   AND {guard}`)
	byID(&st.Purgeable, `SELECT id, queue, task_key, state
  FROM {task}
 WHERE id IN ({rows})
   AND {guard}
 ORDER BY id{lock}`)
	byID(&st.Purge, `DELETE FROM {task}
 WHERE id IN ({rows})
   AND {guard}`+returning("id, queue, task_key, state"))
	byID(&st.Archive, `INSERT INTO {archive} (
       {stored}, archived)
SELECT {stored}, {now}
  FROM {task} t
 WHERE id IN ({rows})
   AND {purgeable}
   AND NOT EXISTS (SELECT 1 FROM {archive} a WHERE a.id = t.id AND a.fence = t.fence)`)
	rows := func(field *dialect.Batch, text, row string) {
		if field.SQL == "" {
			*field = dialect.Batch{SQL: t(text), Row: row, Max: min(st.Settle.Max, 500)}
		}
	}
	rows(&st.AddWorkflowTasks, `INSERT INTO {step} (task, workflow, name, queue, needs, dependents, run_at, delay)
VALUES {rows}`, "(:id, :workflow_id, :name, :queue_name, :needs, :dependents, :at, :delay)")
	rows(&st.AddWorkflowNeeds, `INSERT INTO {need} (parent, child, on_failure, met)
VALUES {rows}`, "(:parent, :child, :on_failure, 0)")
	rows(&st.AddStatistics, addStatistics, addStatisticsRow)
	rows(&st.SetKeyRates, `INSERT INTO {key_rate} (queue, task_key, full_at)
VALUES {rows}
ON CONFLICT (queue, task_key) DO UPDATE
   SET full_at = excluded.full_at`, "(:queue, :name, :full_at)")
	byRow := func(field *dialect.Batch, text string) {
		if field.SQL == "" {
			*field = dialect.Batch{SQL: t(text), Max: 1}
		}
	}
	byRow(&st.SetProgress, `UPDATE {task}
   SET progress = :progress
 WHERE id = :id`)
	byRow(&st.SetResult, `UPDATE {task}
   SET result = :result
 WHERE id = :id`)
	byRow(&st.SetKeys, `UPDATE {unique_key}
   SET task = :task,
       expires = :expires
 WHERE id = :id`)
	byRow(&st.Replace, `-- Runs after LockKeys, for one task at a time. Index: the primary key of task.
UPDATE {task}
   SET kind = :kind,
       task_key = :task_key,
       priority = :priority,
       due = :at,
       headers = :headers,
       payload = :payload,
       progress = NULL,
       fence = fence + 1
 WHERE id = :id
   AND due IS NOT NULL`)
	byRow(&st.Postpone, `UPDATE {task}
   SET due = :at
 WHERE id = :id
   AND due IS NOT NULL`)
	return st
}

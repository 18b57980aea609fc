package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"
)

// consoleQueues is the number of queues. The first one has half of all tasks, and the second a tenth, many of
// them in each state.
const (
	consoleQueues = 100
	consoleStep   = 100_000 // rows in one statement
	consoleSpan   = 30 * 24 * time.Hour
)

// The kinds of filled tasks, as the CASE of consoleRows numbers them.
//
//	0 CREATED, due            4 ERROR, retried later
//	1 CREATED, due tomorrow   5 ERROR, parked
//	2 PROCESSING              6 POISON
//	3 COMPLETED               7 POISON, cancelled
//
// consoleRows are numbered rows that an engine's INSERT turns into tasks: i, the number of the queue, what it is, and
// when it was enqueued. {numbers} are the rows i; {at} is the end of the time that the ids span, {n} the number of
// tasks, and {step} the milliseconds between two of them. {div} is the division of integers.
const consoleRows = `
SELECT i, q, what, at,
       CASE WHEN what < 2 THEN 0 WHEN what = 2 THEN 1 WHEN what = 3 THEN 2 WHEN what < 6 THEN 3 ELSE 4 END AS state,
       CASE WHEN what = 0 THEN {at} - i % 3600 * 1000000
            WHEN what = 1 THEN {at} + 86400000000 + i % 86400 * 1000000
            WHEN what = 4 THEN {at} + 36000000000 + i % 3600 * 1000000 END AS due,
       CASE WHEN what < 2 THEN NULL WHEN what = 2 THEN {at} - i % 60 * 1000000 ELSE at + 1000000 END AS taken,
       CASE WHEN what < 2 THEN at WHEN what = 2 THEN {at} - i % 60 * 1000000 ELSE at + 2000000 END AS updated
  FROM (SELECT i, {at} - ({n} - i) * {step} * 1000 AS at,
       CASE WHEN i % 20 < 10 THEN 0
            WHEN i % 20 < 12 THEN 1
            ELSE 2 + (i {div} 20 * 8 + i % 20 - 12) % 98 END AS q,
       CASE WHEN i % 20 IN (10, 11) THEN
         CASE i {div} 20 % 10 WHEN 0 THEN 0 WHEN 1 THEN 1 WHEN 2 THEN 2 WHEN 3 THEN 2 WHEN 4 THEN 4 WHEN 5 THEN 5
              WHEN 6 THEN 6 WHEN 7 THEN 7 ELSE 3 END
       ELSE
         CASE WHEN i {div} 20 % 1000 < 3 THEN 0 WHEN i {div} 20 % 1000 < 13 THEN 1 WHEN i {div} 20 % 1000 < 14 THEN 2
              WHEN i {div} 20 % 1000 < 15 THEN 4 WHEN i {div} 20 % 1000 < 16 THEN 5 WHEN i {div} 20 % 1000 < 18 THEN 6
              WHEN i {div} 20 % 1000 < 19 THEN 7 ELSE 3 END
       END AS what
  FROM {numbers}) numbered`

// consoleSQL are an engine's statements that fill a table. Their arguments are as those of floorSQL.insert.
type consoleSQL struct {
	schema  string // before the names of tables
	numbers func(n int) string
	insert  string
	audit   string
	tidy    []string
	div     string
}

// The archive has a row for each archiveShare tasks, and the audit one for each auditShare.
const archiveShare, auditShare = 10, 100

// consoleFill are tables to fill with n tasks that were enqueued until a time, in microseconds.
type consoleFill struct {
	place consolePlace
	n     int
	at    int64
}

// A consolePlace has dbq's tables, and fills them without dbq.
type consolePlace interface {
	floorPlace
	consoleSQL() consoleSQL
}

// fill adds n tasks, and an archive and an audit with shares of that.
func (f consoleFill) fill(ctx context.Context, group string) error {
	db, err := f.place.connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	engine := f.place.consoleSQL()
	begin := time.Now()
	insert := func(what, text string, rows int) error {
		return ranges(0, rows, consoleStep, func(from, to int) error {
			if from%(10*consoleStep) == 0 {
				fmt.Fprintf(os.Stderr, "console, %s: %s, %d rows of %d, after %v\n", group, what, from, rows, since(begin))
			}
			return phase(ctx, func(ctx context.Context) error {
				done, err := db.ExecContext(ctx, f.text(engine, text, to-from), from, to)
				if err != nil {
					return err
				}
				if got, err := done.RowsAffected(); err != nil || int(got) != to-from {
					return fmt.Errorf("%d rows instead of %d (%v)", got, to-from, err)
				}
				return nil
			})
		})
	}
	tasks := strings.NewReplacer("{table}", "task", "{more}", "", "{value}", "", "{past}", "0")
	archive := strings.NewReplacer("{table}", "archive", "{more}", ", archived", "{value}", ", {at}",
		"{past}", fmt.Sprint(2*consoleSpan.Microseconds()))
	if err := insert("tasks", tasks.Replace(engine.insert), f.n); err != nil {
		return err
	}
	if err := insert("archive", archive.Replace(engine.insert), max(f.n/archiveShare, 1)); err != nil {
		return err
	}
	if err := insert("audit", engine.audit, max(f.n/auditShare, 1)); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "console, %s: filled after %v\n", group, since(begin))
	return nil
}

// tidy does what the server does by itself some time after a large change.
func (f consoleFill) tidy(ctx context.Context) error {
	db, err := f.place.connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	engine := f.place.consoleSQL()
	for _, text := range engine.tidy {
		if _, err := db.ExecContext(ctx, f.text(engine, text, 1)); err != nil {
			return err
		}
	}
	return nil
}

// text fills in the parts of a statement over n rows.
func (f consoleFill) text(engine consoleSQL, text string, n int) string {
	text = strings.ReplaceAll(text, "{rows}", "("+strings.ReplaceAll(consoleRows, "{numbers}", engine.numbers(n))+") r")
	return strings.NewReplacer("{schema}", engine.schema, "{div}", engine.div, "{numbers}", engine.numbers(n),
		"{at}", fmt.Sprint(f.at), "{n}", fmt.Sprint(f.n),
		"{step}", fmt.Sprint(max(consoleSpan.Milliseconds()/int64(f.n), 1))).Replace(text)
}

func (p *pgPlace) consoleSQL() consoleSQL {
	return consoleSQL{
		schema: p.schema + ".dbq_", div: "/",
		numbers: func(int) string { return "generate_series(CAST($1 AS bigint), CAST($2 AS bigint) - 1) AS i" },
		tidy:    []string{"VACUUM ANALYZE {schema}task", "ANALYZE {schema}archive", "ANALYZE {schema}audit"},
		audit: `
INSERT INTO {schema}audit (id, part, happened, who, program, address, request, action, queue, subject, task,
       task_filter, reason, old_value, new_value, changed)
SELECT CAST(lpad(to_hex(({at} - ({n} - i) * {step} * 1000) / 1000), 12, '0') || '70008000' || lpad(to_hex(i), 12, '0')
       AS uuid), 0, {at} - ({n} - i) * {step} * 1000, 'ann', 'console', '192.0.2.1', 'r' || i, 'pause',
       'q' || 1000 + i % 100, '', NULL, '', 'maintenance', '', '{"paused":true}', 1
  FROM {numbers}`,
		insert: `
INSERT INTO {schema}{table} (id, queue, kind, task_key, reference, state, cancelled, attempt, max_attempts, fence, due,
       lease_until, holder, taken, created, updated, result, payload, priority, lapses,
       known_started{more})
SELECT CAST(lpad(to_hex((at - {past}) / 1000), 12, '0') || '70008000' || lpad(to_hex(i), 12, '0') AS uuid),
       'q' || 1000 + q, CASE WHEN i % 100000 = 50000 THEN 'rare' ELSE 'kind-' || i % 7 END,
       CASE WHEN i % 3 = 0 THEN 'key-' || 1000 + i / 3 % 1000 END,
       CASE WHEN i % 11 = 1 THEN 'ref-' || 1000000000 + i END, state, CASE WHEN what = 7 THEN 1 ELSE 0 END,
       CASE WHEN what < 2 THEN 0 WHEN what < 4 THEN 1 WHEN what < 6 THEN 3 ELSE 10 END, 10,
       CASE WHEN what < 2 THEN 0 ELSE 1 END, due, CASE WHEN what = 2 THEN {at} + 864000000000 END,
       CASE WHEN what >= 2 THEN 'worker-' || 100 + i % 50 || '#a1b2c3d4e5' END, taken, at, updated,
       CASE WHEN what > 3 THEN convert_to('dial tcp 192.0.2.7:443: connection refused, call ' || i, 'UTF8') END,
       convert_to(rpad('{"number":' || i || ',"text":"', 198, 'x') || '"}', 'UTF8'), 0, 0, 0{value}
  FROM {rows}
 ORDER BY i`,
	}
}

func (p *sqlitePlace) consoleSQL() consoleSQL {
	return consoleSQL{
		schema: "dbq_", div: "/", tidy: []string{"ANALYZE"},
		numbers: func(int) string {
			return "(WITH RECURSIVE g (i) AS (SELECT ? UNION ALL SELECT i + 1 FROM g WHERE i + 1 < ?) SELECT i FROM g)"
		},
		audit: `
INSERT INTO {schema}audit (id, part, happened, who, program, address, request, action, queue, subject, task,
       task_filter, reason, old_value, new_value, changed)
SELECT unhex(printf('%012x70008000%012x', ({at} - ({n} - i) * {step} * 1000) / 1000, i)), 0,
       {at} - ({n} - i) * {step} * 1000, 'ann', 'console', '192.0.2.1', 'r' || i, 'pause',
       'q' || (1000 + i % 100), '', NULL, '', 'maintenance', '', '{"paused":true}', 1
  FROM {numbers}`,
		insert: `
INSERT INTO {schema}{table} (id, queue, kind, task_key, reference, state, cancelled, attempt, max_attempts, fence, due,
       lease_until, taken_by, taken_at, created, updated, result, payload, priority{more})
SELECT unhex(printf('%012x70008000%012x', (at - {past}) / 1000, i)),
       'q' || (1000 + q), CASE WHEN i % 100000 = 50000 THEN 'rare' ELSE 'kind-' || (i % 7) END,
       CASE WHEN i % 3 = 0 THEN 'key-' || (1000 + i / 3 % 1000) END,
       CASE WHEN i % 11 = 1 THEN 'ref-' || (1000000000 + i) END, state, CASE WHEN what = 7 THEN 1 ELSE 0 END,
       CASE WHEN what < 2 THEN 0 WHEN what < 4 THEN 1 WHEN what < 6 THEN 3 ELSE 10 END, 10,
       CASE WHEN what < 2 THEN 0 ELSE 1 END, due, CASE WHEN what = 2 THEN {at} + 864000000000 END,
       printf('%-48s', CASE WHEN what >= 2 THEN 'worker-' || (100 + i % 50) || '#a1b2c3d4e5' ELSE '' END),
       coalesce(taken, -1000000000000000), at, updated,
       CASE WHEN what > 3 THEN CAST('dial tcp 192.0.2.7:443: connection refused, call ' || i AS BLOB) END,
       CAST('{"number":' || i || ',"text":"' || printf('%.*c', 179 - length(i), 'x') || '"}' AS BLOB), 0{value}
  FROM {rows}`,
	}
}

func (p *mysqlPlace) consoleSQL() consoleSQL {
	return consoleSQL{
		schema: p.schema + ".dbq_", div: "DIV",
		tidy: []string{"ANALYZE TABLE {schema}task", "ANALYZE TABLE {schema}archive", "ANALYZE TABLE {schema}audit"},
		numbers: func(n int) string {
			number, digits := mysqlNumbers(n)
			return "(SELECT g.i FROM (SELECT ? + " + number + " AS i FROM " + digits + ") AS g WHERE g.i < ?) AS n"
		},
		audit: `
INSERT INTO {schema}audit (id, part, happened, who, program, address, request, action, queue, subject, task,
       task_filter, reason, old_value, new_value, changed)
SELECT UNHEX(CONCAT(LPAD(HEX(({at} - ({n} - i) * {step} * 1000) DIV 1000), 12, '0'), '70008000',
                    LPAD(HEX(i), 12, '0'))), 0, {at} - ({n} - i) * {step} * 1000, 'ann',
       'console', '192.0.2.1', CONCAT('r', i), 'pause',
       CONCAT('q', 1000 + i % 100), '', NULL, '', 'maintenance', '', '{"paused":true}', 1
  FROM {numbers}
 ORDER BY i`,
		insert: `
INSERT INTO {schema}{table} (id, queue, kind, task_key, reference, state, cancelled, attempt, max_attempts, fence,
       due_at, lease_end, taken_by, taken_at, created, updated, result, payload, payload_size, priority{more})
SELECT UNHEX(CONCAT(LPAD(HEX((at - {past}) DIV 1000), 12, '0'), '70008000', LPAD(HEX(i), 12, '0'))),
       CONCAT('q', 1000 + q), CASE WHEN i % 100000 = 50000 THEN 'rare' ELSE CONCAT('kind-', i % 7) END,
       CASE WHEN i % 3 = 0 THEN CONCAT('key-', 1000 + i DIV 3 % 1000) END,
       CASE WHEN i % 11 = 1 THEN CONCAT('ref-', 1000000000 + i) END, state, CASE WHEN what = 7 THEN 1 ELSE 0 END,
       CASE WHEN what < 2 THEN 0 WHEN what < 4 THEN 1 WHEN what < 6 THEN 3 ELSE 10 END, 10,
       CASE WHEN what < 2 THEN 0 ELSE 1 END,
       CASE WHEN what = 2 THEN taken - 4611686018427387904 ELSE coalesce(due, -1) END,
       CASE WHEN what = 2 THEN {at} + 864000000000 ELSE -1 END,
       RPAD(CASE WHEN what >= 2 THEN CONCAT('worker-', 100 + i % 50, '#a1b2c3d4e5') ELSE '' END, 64, ' '),
       coalesce(taken, -1), at, updated,
       CASE WHEN what > 3 THEN CONCAT('dial tcp 192.0.2.7:443: connection refused, call ', i) END,
       CONCAT(RPAD(CONCAT('{"number":', i, ',"text":"'), 198, 'x'), '"}'), 200, 0{value}
  FROM {rows}
 ORDER BY i`,
	}
}

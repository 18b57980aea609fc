package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
)

// mysqlFloor moves rows of dbq's own table, with its indexes, by three statements: insert all, mark all, finish all.
type mysqlFloor struct {
	place   *mysqlPlace
	deletes bool
}

const (
	// The numbers come from a product of digits: both products bound how deep a recursive query goes, by variables of
	// different names.
	mysqlInsert = `INSERT INTO {task} (id, queue, kind, state, priority, max_attempts, due_at, created, updated, payload)
SELECT UNHEX(CONCAT(LPAD(HEX({now} DIV 1000), 12, '0'), '70008000', LPAD(HEX(i), 12, '0'))), 'bench', '', {state}, 0, 10, coalesce({due}, -1), {now}, {now},
       CONCAT(RPAD(CONCAT('{"number":', i, ',"text":"'), 198, 'x'), '"}')
  FROM (SELECT ? + {number} AS i FROM {digits}) AS g WHERE i < ? ORDER BY i`
	mysqlMark = `UPDATE {task} SET state = 1, due_at = {now} - 4611686018427387904, attempt = attempt + 1, fence = fence + 1, lease_end = {now} + 300000000,
  taken_by = RPAD('floor', 64, ' '), updated = {now} WHERE queue = 'bench' AND lane = 0 AND due_at <= {now}`
	mysqlFinish = `UPDATE {task} SET state = 2, due_at = -1, lease_end = -1, updated = {now}, result = NULL WHERE queue = 'bench' AND lane = 9`
	mysqlRemove = `DELETE FROM {task} WHERE queue = 'bench' AND lane = 9`
	mysqlNow    = `TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))`
)

// mysqlNumbers are the parts of a statement that has n numbers, from 0 on, and up to ten times as many.
func mysqlNumbers(n int) (number, digits string) {
	const one = "(SELECT 0 AS d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5" +
		" UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9) AS d"
	var sums, tables []string
	for i, factor := 0, 1; i < len(strconv.Itoa(n-1)); i, factor = i+1, factor*10 {
		sums = append(sums, fmt.Sprintf("d%d.d * %d", i, factor))
		tables = append(tables, one+strconv.Itoa(i))
	}
	return strings.Join(sums, " + "), strings.Join(tables, " CROSS JOIN ")
}

func (f *mysqlFloor) text(s string) string {
	return strings.NewReplacer("{task}", f.place.schema+".dbq_task", "{now}", mysqlNow).Replace(s)
}

func (f *mysqlFloor) Prepare(ctx context.Context) error { return migrated(ctx, f.place) }

func (f *mysqlFloor) Enqueue(ctx context.Context, from, to, _ int) error {
	return f.insert(ctx, from, to, "0", "{now}")
}

func (f *mysqlFloor) insert(ctx context.Context, from, to int, state, due string) error {
	number, digits := mysqlNumbers(to - from)
	text := strings.NewReplacer("{number}", number, "{digits}", digits, "{state}", state, "{due}", due).Replace(mysqlInsert)
	return f.all(ctx, text, to-from, from, to)
}

func (f *mysqlFloor) tidy(ctx context.Context) error {
	_, err := f.place.db.ExecContext(ctx, f.text("ANALYZE TABLE {task}"))
	return err
}

func (f *mysqlFloor) Drain(ctx context.Context, n int, done *ledger) (time.Duration, error) {
	start := time.Now()
	err := f.all(ctx, mysqlMark, n)
	if err == nil && f.deletes {
		err = f.all(ctx, mysqlRemove, n)
	} else if err == nil {
		err = f.all(ctx, mysqlFinish, n)
	}
	done.enterAll()
	return time.Since(start), err
}

// all runs a statement that must touch n rows.
func (f *mysqlFloor) all(ctx context.Context, text string, n int, args ...any) error {
	result, err := f.place.db.ExecContext(ctx, f.text(text), args...)
	if err != nil {
		return err
	}
	if rows, err := result.RowsAffected(); err != nil || int(rows) != n {
		return fmt.Errorf("%d rows instead of %d: %s (%v)", rows, n, text, err)
	}
	return nil
}

func (f *mysqlFloor) Stored(ctx context.Context) (completed, others int, err error) {
	err = f.place.db.QueryRowContext(ctx, f.text(`SELECT coalesce(sum(state = 2), 0), coalesce(sum(state <> 2), 0) FROM {task}`)).Scan(&completed, &others)
	return completed, others, err
}

func (f *mysqlFloor) Close(ctx context.Context) error { return f.place.Clear(ctx) }

// migrated leaves dbq's empty tables at a place.
func migrated(ctx context.Context, p place) error {
	if err := p.Clear(ctx); err != nil {
		return err
	}
	c, err := p.Open(ctx, dbq.WithMigrate())
	if err != nil {
		return err
	}
	return c.Close()
}

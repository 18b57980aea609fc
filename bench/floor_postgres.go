package main

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// pgFloor moves rows of dbq's own table, with its indexes, by three statements: insert all, mark all, finish all.
type pgFloor struct {
	place   *pgPlace
	deletes bool
}

const (
	// The ids are made as a client's: ordered by time, with version and variant.
	pgInsert = `INSERT INTO {task} (id, queue, kind, state, priority, max_attempts, due, created, updated, payload)
SELECT CAST(lpad(to_hex({now} / 1000), 12, '0') || '70008000' || lpad(to_hex(i), 12, '0') AS uuid), 'bench', '', {state}, 0, 10, {due}, {now}, {now},
       convert_to(rpad('{"number":' || i || ',"text":"', 198, 'x') || '"}', 'UTF8')
  FROM generate_series(CAST($1 AS integer), CAST($2 AS integer)) AS i ORDER BY i`
	pgMark = `UPDATE {task} SET state = 1, due = NULL, attempt = attempt + 1, fence = fence + 1, lease_until = {now} + 300000000,
  holder = 'floor', updated = {now} WHERE queue = 'bench' AND due <= {now}`
	pgFinish = `UPDATE {task} SET state = 2, lease_until = NULL, updated = {now}, result = NULL WHERE queue = 'bench' AND state = 1`
	pgRemove = `DELETE FROM {task} WHERE queue = 'bench' AND state = 1`
	pgNow    = `CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint)`
)

func (f *pgFloor) text(s string) string {
	return strings.NewReplacer("{task}", f.place.schema+".dbq_task", "{now}", pgNow).Replace(s)
}

func (f *pgFloor) Prepare(ctx context.Context) error { return migrated(ctx, f.place) }

func (f *pgFloor) Enqueue(ctx context.Context, from, to, _ int) error {
	return f.insert(ctx, from, to, "0", "{now}")
}

func (f *pgFloor) insert(ctx context.Context, from, to int, state, due string) error {
	return f.all(ctx, strings.NewReplacer("{state}", state, "{due}", due).Replace(pgInsert), to-from, from, to-1)
}

func (f *pgFloor) tidy(ctx context.Context) error {
	_, err := f.place.pool.Exec(ctx, f.text("VACUUM ANALYZE {task}"))
	return err
}

func (f *pgFloor) Drain(ctx context.Context, n int, done *ledger) (time.Duration, error) {
	start := time.Now()
	err := f.all(ctx, pgMark, n)
	if err == nil && f.deletes {
		err = f.all(ctx, pgRemove, n)
	} else if err == nil {
		err = f.all(ctx, pgFinish, n)
	}
	done.enterAll()
	return time.Since(start), err
}

// all runs a statement that must touch n rows.
func (f *pgFloor) all(ctx context.Context, text string, n int, args ...any) error {
	tag, err := f.place.pool.Exec(ctx, f.text(text), args...)
	if err == nil && int(tag.RowsAffected()) != n {
		err = fmt.Errorf("%d rows instead of %d: %s", tag.RowsAffected(), n, text)
	}
	return err
}

func (f *pgFloor) Stored(ctx context.Context) (completed, others int, err error) {
	err = f.place.pool.QueryRow(ctx, f.text(`SELECT count(*) FILTER (WHERE state = 2), count(*) FILTER (WHERE state <> 2) FROM {task}`)).
		Scan(&completed, &others)
	return completed, others, err
}

func (f *pgFloor) Close(ctx context.Context) error { return f.place.Clear(ctx) }

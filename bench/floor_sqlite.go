package main

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"
)

// sqliteFloor moves rows of dbq's own table, with its indexes, by three statements: insert all, mark all, finish all.
type sqliteFloor struct {
	place   *sqlitePlace
	deletes bool
	db      *sql.DB
}

const (
	sqliteInsert = `INSERT INTO dbq_task (id, queue, kind, state, priority, max_attempts, due, created, updated, payload)
WITH RECURSIVE g (i) AS (SELECT ? UNION ALL SELECT i + 1 FROM g WHERE i < ?)
SELECT unhex(printf('%012x70008000%012x', {now} / 1000, i)), 'bench', '', {state}, 0, 10, {due}, {now}, {now},
       CAST('{"number":' || i || ',"text":"' || printf('%.*c', 179 - length(i), 'x') || '"}' AS BLOB) FROM g`
	sqliteMark = `UPDATE dbq_task SET state = 1, due = NULL, attempt = attempt + 1, fence = fence + 1, lease_until = {now} + 300000000,
  taken_by = printf('%-48s', 'floor'), updated = {now} WHERE queue = 'bench' AND due <= {now}`
	sqliteFinish = `UPDATE dbq_task SET state = 2, lease_until = NULL, updated = {now}, result = NULL, taken_by = taken_by || '       ' WHERE queue = 'bench' AND state = 1`
	sqliteRemove = `DELETE FROM dbq_task WHERE queue = 'bench' AND state = 1`
	sqliteNow    = `CAST(unixepoch('subsec') * 1000000 AS INTEGER)`
)

func (f *sqliteFloor) Prepare(ctx context.Context) error {
	err := f.Close(ctx)
	if err == nil {
		err = migrated(ctx, f.place)
	}
	if err == nil {
		f.db, err = f.place.db(1)
	}
	return err
}

func (f *sqliteFloor) Enqueue(ctx context.Context, from, to, _ int) error {
	return f.insert(ctx, from, to, "0", "{now}")
}

func (f *sqliteFloor) insert(ctx context.Context, from, to int, state, due string) error {
	return f.all(ctx, strings.NewReplacer("{state}", state, "{due}", due).Replace(sqliteInsert), to-from, from, to-1)
}

func (f *sqliteFloor) tidy(context.Context) error {
	return nil
}

func (f *sqliteFloor) Drain(ctx context.Context, n int, done *ledger) (time.Duration, error) {
	start := time.Now()
	err := f.all(ctx, sqliteMark, n)
	if err == nil && f.deletes {
		err = f.all(ctx, sqliteRemove, n)
	} else if err == nil {
		err = f.all(ctx, sqliteFinish, n)
	}
	done.enterAll()
	return time.Since(start), err
}

// all runs a statement that must touch n rows.
func (f *sqliteFloor) all(ctx context.Context, text string, n int, args ...any) error {
	result, err := f.db.ExecContext(ctx, strings.ReplaceAll(text, "{now}", sqliteNow), args...)
	if err != nil {
		return err
	}
	if rows, err := result.RowsAffected(); err != nil || int(rows) != n {
		return fmt.Errorf("%d rows instead of %d: %s (%v)", rows, n, text, err)
	}
	return nil
}

func (f *sqliteFloor) Stored(ctx context.Context) (completed, others int, err error) {
	err = f.db.QueryRowContext(ctx, `SELECT count(*) FILTER (WHERE state = 2), count(*) FILTER (WHERE state <> 2) FROM dbq_task`).
		Scan(&completed, &others)
	return completed, others, err
}

func (f *sqliteFloor) Close(ctx context.Context) error {
	if f.db != nil {
		if err := f.db.Close(); err != nil {
			return err
		}
		f.db = nil
	}
	return f.place.Clear(ctx)
}

package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	driver "github.com/go-sql-driver/mysql"
)

// solidQueue is Solid Queue's technique as a plain loop. Each job is a row in jobs, a row in ready while it waits,
// and a row in claimed while it is worked on. A claim selects rows of ready by SKIP LOCKED, adds them to claimed,
// deletes them from ready and reads their jobs. Each job is finished in a transaction of its own, which marks it and
// deletes its row in claimed. The tables have Solid Queue's columns and indexes. This loop claims solidClaim jobs at
// once; the original claims only as many as it has idle threads.
type solidQueue struct{ place *mysqlPlace }

const (
	solidClaim   = 20
	solidThreads = 16 // loops, each of which claims and finishes by itself
	solidTries   = 20 // of a transaction that meets deadlocks
	deadlock     = 1213
)

// In all statements {s} is the database.
var solidTables = []string{
	`CREATE DATABASE {s}`, `
CREATE TABLE {s}.jobs (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  queue_name VARCHAR(255) NOT NULL,
  class_name VARCHAR(255) NOT NULL,
  arguments TEXT,
  priority INT NOT NULL DEFAULT 0,
  active_job_id VARCHAR(255),
  scheduled_at DATETIME(6),
  finished_at DATETIME(6),
  concurrency_key VARCHAR(255),
  created_at DATETIME(6) NOT NULL,
  updated_at DATETIME(6) NOT NULL,
  KEY (active_job_id),
  KEY (class_name),
  KEY (finished_at),
  KEY (queue_name, finished_at),
  KEY (scheduled_at, finished_at)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4`, `
CREATE TABLE {s}.ready (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  job_id BIGINT NOT NULL,
  queue_name VARCHAR(255) NOT NULL,
  priority INT NOT NULL DEFAULT 0,
  created_at DATETIME(6) NOT NULL,
  UNIQUE KEY (job_id),
  KEY (priority, job_id),
  KEY (queue_name, priority, job_id),
  FOREIGN KEY (job_id) REFERENCES jobs (id) ON DELETE CASCADE
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4`, `
CREATE TABLE {s}.claimed (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  job_id BIGINT NOT NULL,
  process_id BIGINT,
  created_at DATETIME(6) NOT NULL,
  UNIQUE KEY (job_id),
  KEY (process_id, job_id),
  FOREIGN KEY (job_id) REFERENCES jobs (id) ON DELETE CASCADE
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4`,
}

// Statements that end in VALUES or IN are completed by rows, or by ids in parentheses.
const (
	solidAddJobs = `
INSERT INTO {s}.jobs
       (queue_name, class_name, arguments, active_job_id, scheduled_at, created_at, updated_at)
VALUES `
	solidAddReady = `
INSERT INTO {s}.ready (job_id, queue_name, priority, created_at)
VALUES `
	solidLockReady = `
SELECT job_id
  FROM {s}.ready
 WHERE queue_name = 'bench'
 ORDER BY priority, job_id
 LIMIT ?
   FOR UPDATE SKIP LOCKED`
	solidAddClaimed = `
INSERT INTO {s}.claimed (job_id, process_id, created_at)
VALUES `
	solidClaimed = `
SELECT job_id
  FROM {s}.claimed
 WHERE process_id = ? AND job_id IN `
	solidRemoveReady = `
DELETE FROM {s}.ready
 WHERE job_id IN `
	solidArguments = `
SELECT arguments
  FROM {s}.jobs
 WHERE id IN `
	solidFinish = `
UPDATE {s}.jobs
   SET finished_at = UTC_TIMESTAMP(6), updated_at = UTC_TIMESTAMP(6)
 WHERE id = ?`
	solidRemoveClaimed = `
DELETE FROM {s}.claimed
 WHERE job_id = ?`
	solidCount = `
SELECT count(finished_at),
       count(*) - count(finished_at)
         + (SELECT count(*) FROM {s}.claimed)
         + (SELECT count(*)
              FROM {s}.ready AS r
              JOIN {s}.jobs AS d ON d.id = r.job_id
             WHERE d.finished_at IS NOT NULL)
  FROM {s}.jobs`
)

func (s *solidQueue) text(t string) string { return strings.ReplaceAll(t, "{s}", s.place.schema) }

func (s *solidQueue) Prepare(ctx context.Context) error {
	if err := s.place.Clear(ctx); err != nil {
		return err
	}
	for _, t := range solidTables {
		if _, err := s.place.db.ExecContext(ctx, s.text(t)); err != nil {
			return err
		}
	}
	return nil
}

// Enqueue adds jobs and their rows in ready in one transaction.
func (s *solidQueue) Enqueue(ctx context.Context, from, to, batch int) error {
	return ranges(from, to, min(batch, ourBatch), func(from, to int) error {
		return s.tx(ctx, func(tx *sql.Tx) error {
			rows := make([]string, to-from)
			args := make([]any, 0, 2*(to-from))
			for i := range rows {
				rows[i] = "('bench', 'Bench', ?, ?, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), UTC_TIMESTAMP(6))"
				args = append(args, newPayload(from+i).encode(), fmt.Sprintf("%036d", from+i))
			}
			result, err := tx.ExecContext(ctx, s.text(solidAddJobs)+strings.Join(rows, ", "), args...)
			if err != nil {
				return err
			}
			first, err := result.LastInsertId() // of one statement the ids follow each other
			if err != nil {
				return err
			}
			for i := range rows {
				rows[i] = fmt.Sprintf("(%d, 'bench', 0, UTC_TIMESTAMP(6))", first+int64(i))
			}
			_, err = tx.ExecContext(ctx, s.text(solidAddReady)+strings.Join(rows, ", "))
			return err
		})
	})
}

// tx runs a transaction, and repeats it after a deadlock: claims and finishes cause some.
func (s *solidQueue) tx(ctx context.Context, f func(tx *sql.Tx) error) error {
	for try := 1; ; try++ {
		err := s.once(ctx, f)
		var conflict *driver.MySQLError
		if !errors.As(err, &conflict) || conflict.Number != deadlock || try == solidTries {
			return err
		}
	}
}

func (s *solidQueue) once(ctx context.Context, f func(tx *sql.Tx) error) error {
	tx, err := s.place.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		_ = tx.Rollback() // the first error is the one to report
		return err
	}
	return tx.Commit()
}

func (s *solidQueue) Drain(ctx context.Context, n int, done *ledger) (time.Duration, error) {
	return drainAll(ctx, s, n, done)
}

func (s *solidQueue) Work(ctx context.Context, stop <-chan struct{}, handled func(int)) (time.Time, error) {
	return loops(ctx, solidThreads, stop, func(ctx context.Context, thread int) (bool, error) {
		ids, arguments, err := s.claim(ctx, thread)
		if err != nil {
			return false, err
		}
		for i, id := range ids {
			number, err := numberOf([]byte(arguments[i]))
			if err != nil {
				return false, err
			}
			handled(number)
			if err := s.finish(ctx, id); err != nil {
				return false, err
			}
		}
		return len(ids) > 0, nil
	})
}

// claim claims waiting jobs.
func (s *solidQueue) claim(ctx context.Context, process int) (ids []int64, arguments []string, err error) {
	err = s.tx(ctx, func(tx *sql.Tx) error {
		ids = nil // of a try before
		jobs, err := numbers(ctx, tx, s.text(solidLockReady), solidClaim)
		if err != nil || len(jobs) == 0 {
			return err
		}
		rows := make([]string, len(jobs))
		for i, id := range jobs {
			rows[i] = fmt.Sprintf("(%d, %d, UTC_TIMESTAMP(6))", id, process)
		}
		if _, err := tx.ExecContext(ctx, s.text(solidAddClaimed)+strings.Join(rows, ", ")); err != nil {
			return err
		}
		ids, err = numbers(ctx, tx, s.text(solidClaimed)+list(jobs)+" ORDER BY job_id", process)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, s.text(solidRemoveReady)+list(ids))
		return err
	})
	if err != nil || len(ids) == 0 {
		return nil, nil, err
	}
	rows, err := s.place.db.QueryContext(ctx, s.text(solidArguments)+list(ids)+" ORDER BY id")
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var a string
		if err := rows.Scan(&a); err != nil {
			return nil, nil, err
		}
		arguments = append(arguments, a)
	}
	if err := rows.Err(); err != nil || len(arguments) != len(ids) {
		return nil, nil, fmt.Errorf("%d jobs instead of %d (%v)", len(arguments), len(ids), err)
	}
	return ids, arguments, nil
}

func (s *solidQueue) finish(ctx context.Context, id int64) error {
	return s.tx(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, s.text(solidFinish), id); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, s.text(solidRemoveClaimed), id)
		return err
	})
}

func numbers(ctx context.Context, tx *sql.Tx, text string, args ...any) (out []int64, err error) {
	rows, err := tx.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		out = append(out, id)
	}
	return out, rows.Err()
}

// list returns the ids in parentheses.
func list(ids []int64) string {
	return "(" + strings.Trim(strings.ReplaceAll(fmt.Sprint(ids), " ", ","), "[]") + ")"
}

func (s *solidQueue) Stored(ctx context.Context) (completed, others int, err error) {
	err = s.place.db.QueryRowContext(ctx, s.text(solidCount)).Scan(&completed, &others)
	return completed, others, err
}

func (s *solidQueue) Close(ctx context.Context) error { return s.place.Clear(ctx) }

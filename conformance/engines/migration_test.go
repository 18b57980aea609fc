//go:build unix

package engines

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/internal/check"
)

// oldQueue is a queue that docs/coming-from.md migrates from: its tables, as far as the page's statement concerns them,
// and jobs of which only those with the given references are moved.
type oldQueue struct {
	create []string
	take   string // a worker takes the job "taken"
	moved  map[string]dbq.Task
	due    string // the reference of the task that is due in an hour
}

var oldQueues = map[string]oldQueue{
	"river": {
		create: []string{
			`CREATE TYPE river_job_state AS ENUM ('available', 'cancelled', 'completed', 'discarded', 'pending',
			'retryable', 'running', 'scheduled')`,
			`CREATE TABLE river_job (id bigserial PRIMARY KEY, state river_job_state NOT NULL DEFAULT 'available',
			attempt smallint NOT NULL DEFAULT 0, max_attempts smallint NOT NULL, attempted_at timestamptz,
			created_at timestamptz NOT NULL DEFAULT now(), finalized_at timestamptz,
			scheduled_at timestamptz NOT NULL DEFAULT now(), priority smallint NOT NULL DEFAULT 1, args jsonb NOT NULL,
			attempted_by text[], errors jsonb[], kind text NOT NULL, metadata jsonb NOT NULL DEFAULT '{}',
			queue text NOT NULL DEFAULT 'default', tags varchar(255)[] NOT NULL DEFAULT '{}', unique_key bytea,
			unique_states bit(8))`,
			`INSERT INTO river_job (id, state, attempt, max_attempts, scheduled_at, priority, args, kind) VALUES
			(1, 'available', 0, 25, now(), 1, '{"To": "ann"}', 'mail'),
			(2, 'scheduled', 0, 25, now() + interval '1 hour', 4, '{"To": "bob"}', 'mail'),
			(3, 'retryable', 3, 4, now(), 2, '{"To": "cat"}', 'mail'),
			(4, 'running', 1, 25, now(), 1, '{}', 'mail'),
			(5, 'completed', 1, 25, now(), 1, '{}', 'mail'),
			(6, 'discarded', 25, 25, now(), 1, '{}', 'mail'),
			(7, 'available', 0, 25, now(), 1, '{}', 'mail')`,
		},
		take: `UPDATE river_job SET state = 'running', attempt = attempt + 1 WHERE id = 7`,
		moved: map[string]dbq.Task{
			"river 1": {Queue: "default", Kind: "mail", Payload: []byte(`{"To": "ann"}`), MaxAttempts: 25},
			"river 2": {Queue: "default", Kind: "mail", Payload: []byte(`{"To": "bob"}`), MaxAttempts: 25, Priority: 3},
			"river 3": {Queue: "default", Kind: "mail", Payload: []byte(`{"To": "cat"}`), MaxAttempts: 1, Priority: 1},
		},
		due: "river 2",
	},
	"pg-boss": {
		create: []string{
			`CREATE SCHEMA pgboss`,
			`CREATE TYPE pgboss.job_state AS ENUM ('created', 'retry', 'active', 'completed', 'cancelled', 'failed')`,
			`CREATE TABLE pgboss.job (id uuid NOT NULL DEFAULT gen_random_uuid(), name text NOT NULL,
			priority integer NOT NULL DEFAULT 0, data jsonb, state pgboss.job_state NOT NULL DEFAULT 'created',
			retry_limit integer NOT NULL DEFAULT 2, retry_count integer NOT NULL DEFAULT 0, singleton_key text,
			start_after timestamptz NOT NULL DEFAULT now(), blocked boolean NOT NULL DEFAULT false)
			PARTITION BY LIST (name)`,
			`CREATE TABLE pgboss.job_common PARTITION OF pgboss.job DEFAULT`,
			`INSERT INTO pgboss.job (id, name, priority, data, state, retry_count, start_after, blocked)
			SELECT ('00000000-0000-4000-8000-00000000000' || n)::uuid, 'mail', priority, data::jsonb,
			state::pgboss.job_state, retries, now() + make_interval(hours => hours), blocked
			FROM (VALUES (1, 0, '{"to": "ann"}', 'created', 0, 0, false), (2, -9, NULL, 'created', 0, 1, false),
			(3, 100, '[1]', 'retry', 2, 0, false), (4, 0, '1', 'active', 0, 0, false),
			(5, 0, '1', 'failed', 2, 0, false), (6, 0, '1', 'created', 0, 0, true), (7, 0, '1', 'created', 0, 0, false))
			AS old (n, priority, data, state, retries, hours, blocked)`,
		},
		take: `UPDATE pgboss.job SET state = 'active' WHERE id::text LIKE '%7'`,
		moved: map[string]dbq.Task{
			"pg-boss 00000000-0000-4000-8000-000000000001": {
				Queue: "mail", Kind: "mail", Payload: []byte(`{"to": "ann"}`), MaxAttempts: 3, Priority: 5},
			"pg-boss 00000000-0000-4000-8000-000000000002": {Queue: "mail", Kind: "mail", MaxAttempts: 3, Priority: 9},
			"pg-boss 00000000-0000-4000-8000-000000000003": {
				Queue: "mail", Kind: "mail", Payload: []byte(`[1]`), MaxAttempts: 1},
		},
		due: "pg-boss 00000000-0000-4000-8000-000000000002",
	},
	"solid-queue": {
		create: []string{
			`CREATE TABLE solid_queue_jobs (id bigserial PRIMARY KEY, queue_name varchar NOT NULL,
			class_name varchar NOT NULL, arguments text, priority integer NOT NULL DEFAULT 0, active_job_id varchar,
			scheduled_at timestamp(6), finished_at timestamp(6), concurrency_key varchar,
			created_at timestamp(6) NOT NULL DEFAULT (now() AT TIME ZONE 'UTC'),
			updated_at timestamp(6) NOT NULL DEFAULT (now() AT TIME ZONE 'UTC'))`,
			`CREATE TABLE solid_queue_ready_executions (id bigserial PRIMARY KEY, job_id bigint NOT NULL UNIQUE
			REFERENCES solid_queue_jobs ON DELETE CASCADE, queue_name varchar NOT NULL, priority integer NOT NULL DEFAULT 0)`,
			`CREATE TABLE solid_queue_scheduled_executions (id bigserial PRIMARY KEY, job_id bigint NOT NULL UNIQUE
			REFERENCES solid_queue_jobs ON DELETE CASCADE, queue_name varchar NOT NULL, priority integer NOT NULL DEFAULT 0,
			scheduled_at timestamp(6) NOT NULL)`,
			`CREATE TABLE solid_queue_claimed_executions (id bigserial PRIMARY KEY, job_id bigint NOT NULL UNIQUE
			REFERENCES solid_queue_jobs ON DELETE CASCADE, process_id bigint)`,
			`INSERT INTO solid_queue_jobs (id, queue_name, class_name, arguments, priority, scheduled_at) VALUES
			(1, 'default', 'MailJob', '{"arguments":["ann"]}', 0, now() AT TIME ZONE 'UTC'),
			(2, 'default', 'MailJob', '{"arguments":["bob"]}', 20, (now() + interval '1 hour') AT TIME ZONE 'UTC'),
			(3, 'default', 'MailJob', '{}', 0, NULL), (4, 'default', 'MailJob', '{}', 0, NULL),
			(7, 'default', 'MailJob', '{}', 0, NULL)`,
			`INSERT INTO solid_queue_ready_executions (job_id, queue_name) VALUES (1, 'default'), (7, 'default')`,
			`INSERT INTO solid_queue_scheduled_executions (job_id, queue_name, scheduled_at)
			SELECT id, queue_name, scheduled_at FROM solid_queue_jobs WHERE id = 2`,
			`INSERT INTO solid_queue_claimed_executions (job_id) VALUES (3)`,
		},
		take: `WITH taken AS (DELETE FROM solid_queue_ready_executions WHERE job_id = 7 RETURNING job_id)
			INSERT INTO solid_queue_claimed_executions (job_id) SELECT job_id FROM taken`,
		moved: map[string]dbq.Task{
			"solid-queue 1": {
				Queue: "default", Kind: "MailJob", Payload: []byte(`{"arguments":["ann"]}`), MaxAttempts: 20},
			"solid-queue 2": {
				Queue: "default", Kind: "MailJob", Payload: []byte(`{"arguments":["bob"]}`), MaxAttempts: 20, Priority: 9},
		},
		due: "solid-queue 2",
	},
}

// The statements of docs/coming-from.md move the waiting jobs of another queue, and none that its workers have or are
// taking. A second run moves nothing.
func TestMigrationFromOtherQueues(t *testing.T) {
	page, err := os.ReadFile("../../docs/coming-from.md")
	check.OK(t, err)
	blocks := regexp.MustCompile("(?s)<!-- sql: (\\S+) -->\n```sql\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(blocks) != len(oldQueues) {
		t.Fatalf("the page has %d statements, want %d", len(blocks), len(oldQueues))
	}
	onFamiliesFromSQL(t, func(f *fromSQL) {
		if f.c.Info().Dialect != "postgres" {
			f.t.Skip("the page's statements are for PostgreSQL")
		}
		for _, block := range blocks {
			f.migrate(oldQueues[block[1]], block[2])
		}
	})
}

func (f *fromSQL) migrate(old oldQueue, statement string) {
	f.t.Helper()
	ctx := f.t.Context()
	own := strings.NewReplacer("dbq_", f.tables, "river_job", f.tables+"river_job", "pgboss", f.tables+"pgboss",
		"solid_queue_", f.tables+"solid_queue_").Replace
	exec := func(text string) {
		f.t.Helper()
		if _, err := f.c.DB().ExecContext(ctx, own(text)); err != nil {
			f.t.Fatalf("%v: %s", err, own(text))
		}
	}
	f.t.Cleanup(func() { f.dropOld(own) })
	for _, text := range old.create {
		exec(text)
	}

	taking, err := f.c.DB().BeginTx(ctx, nil)
	f.must(err)
	defer taking.Rollback()
	_, err = taking.ExecContext(ctx, own(old.take))
	f.must(err)
	ended := make(chan error, 1)
	go func() {
		_, err := f.c.DB().ExecContext(ctx, own(statement))
		ended <- err
	}()
	select {
	case err := <-ended:
		f.t.Fatalf("the statement has not waited for the worker: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	f.must(taking.Commit())
	f.must(<-ended)
	exec(statement)

	tasks := f.list(admin.Filter{States: []dbq.State{dbq.StateCreated}})
	if len(tasks) != len(old.moved) {
		f.t.Errorf("%d tasks were moved, want %d: %+v", len(tasks), len(old.moved), tasks)
	}
	for _, listed := range tasks {
		task, err := f.c.Get(ctx, listed.ID)
		f.must(err)
		want, known := old.moved[task.Reference]
		if !known || task.Queue != want.Queue || task.Kind != want.Kind || string(task.Payload) != string(want.Payload) ||
			task.Priority != want.Priority || task.MaxAttempts != want.MaxAttempts {
			f.t.Errorf("moved %+v, want %+v", task, want)
		}
		wait := time.Duration(0)
		if task.Reference == old.due {
			wait = time.Hour
		}
		if task.Due.Sub(task.Created.Add(wait)).Abs() > time.Minute {
			f.t.Errorf("%s is due at %v, want %v after %v", task.Reference, task.Due, wait, task.Created)
		}
		f.must(admin.New(f.c).Operate(ctx, admin.Cancel, task.ID))
	}
}

// dropOld removes the tables of all old queues.
func (f *fromSQL) dropOld(own func(string) string) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(f.t.Context()), time.Minute)
	defer stop()
	for _, text := range []string{
		"DROP TABLE IF EXISTS river_job", "DROP TYPE IF EXISTS river_job_state",
		"DROP SCHEMA IF EXISTS pgboss CASCADE",
		"DROP TABLE IF EXISTS solid_queue_ready_executions, solid_queue_scheduled_executions, " +
			"solid_queue_claimed_executions, solid_queue_jobs",
	} {
		if _, err := f.c.DB().ExecContext(ctx, own(text)); err != nil && !errors.Is(err, sql.ErrConnDone) {
			f.t.Error(err)
		}
	}
}

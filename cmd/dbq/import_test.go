//go:build unix

package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/google/uuid"
)

// execSQL runs statements on a SQLite file of the user.
func (u *user) execSQL(file string, statements ...string) {
	u.t.Helper()
	db, err := sql.Open("sqlite", u.file(file))
	check.OK(u.t, err)
	defer db.Close()
	for _, text := range statements {
		if _, err := db.ExecContext(u.t.Context(), text); err != nil {
			u.t.Fatalf("%s: %v", text, err)
		}
	}
}

// jobs is a table of 2,500 jobs, written by hand.
const jobs = `CREATE TABLE jobs AS WITH RECURSIVE n (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n WHERE id < 2500)
	SELECT id, 'job ' || id AS body FROM n`

func TestImport(t *testing.T) {
	u := newUser(t)
	u.run("migrate").ok()
	u.execSQL("dbq.db", jobs)
	query := "SELECT 'old ' || id AS reference, body AS payload FROM jobs ORDER BY id"
	all := []string{"import", "-q", "q", "--from-sql", query}
	dry := append(all, "--dry-run")
	u.run(dry...).has("2500 tasks would be enqueued in ")
	u.run("list", "-q", "q").fails(exitNotFound)
	u.run(all...).has("2500 tasks enqueued in ")
	u.run(all...).has("0 tasks enqueued, 2500 already there")
	u.execSQL("dbq.db", "INSERT INTO jobs VALUES (2501, 'late')")
	got := u.run(append(dry, "--json")...).one()
	if got["added"] != 1.0 || got["duplicates"] != 2500.0 || got["dry_run"] != true {
		t.Errorf("a dry run after the import: got %v", got)
	}
	if got := u.run(append(all, "--json")...).one(); got["added"] != 1.0 || got["duplicates"] != 2500.0 {
		t.Errorf("a second import: got %v", got)
	}
	first := u.run("list", "-q", "q", "--oldest-first", "--limit", "1", "--json").one()
	if got := u.task(first["id"].(string)); got["reference"] != "old 1" || got["payload"] != "job 1" {
		t.Errorf("the first task: got %v", got)
	}
}

func TestImportSetsEveryField(t *testing.T) {
	u := newUser(t)
	u.run("migrate").ok()
	imported := func(query string) map[string]any {
		t.Helper()
		u.run("import", "-q", "q", "--kind", "k", "--from-sql", query).has("1 task enqueued")
		return u.task(u.run("list", "--limit", "1", "--json").one()["id"].(string))
	}
	got := imported(`SELECT 7 AS REFERENCE, 'mail' AS queue, 'welcome' AS kind, x'00ff' AS payload, 3 AS priority,
		'2999-01-31 08:00:00.5+00' AS due, 'acme' AS "key", '{"a": "<b>"}' AS headers, '4' AS max_attempts`)
	for name, want := range map[string]any{"reference": "7", "queue": "mail", "kind": "welcome", "payload_base64": "AP8=",
		"priority": 3.0, "due": "2999-01-31T08:00:00.5Z", "key": "acme", "max_attempts": 4.0} {
		if got[name] != want {
			t.Errorf("%s: got %v, want %v", name, got[name], want)
		}
	}
	if fmt.Sprint(got["headers"]) != "map[a:<b>]" {
		t.Errorf("headers: got %v", got["headers"])
	}
	got = imported(`SELECT 'r' AS reference, NULL AS queue, NULL AS kind, NULL AS payload, NULL AS headers, NULL AS due,
		NULL AS task_key, NULL AS priority`)
	if got["queue"] != "q" || got["kind"] != "k" || got["payload"] != nil || got["priority"] != 0.0 {
		t.Errorf("a row of NULLs: got %v", got)
	}
	if got := imported("SELECT 'number' AS reference, 32503680000000000 AS run_at"); got["due"] != "3000-01-01T00:00:00Z" {
		t.Errorf("due from a number: got %v", got["due"])
	}
}

func TestImportFromAnotherFile(t *testing.T) {
	u := newUser(t)
	u.run("migrate").ok()
	u.execSQL("old.db", jobs)
	u.write("dsn", "sqlite:"+u.file("old.db")+"\n")
	query := "SELECT id AS reference FROM jobs WHERE id <= 3"
	u.run("import", "-q", "q", "--source", "old.db", "--from-sql", query).has("3 tasks enqueued")
	u.run("import", "-q", "q", "--source-file", "dsn", "--from-sql", query).has("3 already there")
	db, err := sql.Open("sqlite", u.file("old.db"))
	check.OK(t, err)
	defer db.Close()
	var mode string
	check.OK(t, db.QueryRowContext(t.Context(), "PRAGMA journal_mode").Scan(&mode))
	if mode != "delete" {
		t.Errorf("the source's journal mode: got %s, want it unchanged", mode)
	}
	u.run("import", "-q", "q", "--source", "old.db", "--source-file", "dsn", "--from-sql", query).
		fails(exitUsage, "exclude each other")
	u.run("import", "-q", "q", "--source", "none.db", "--from-sql", query).fails(exitUsage, "cannot read the SQLite file")
	o := u.run("import", "-q", "q", "--source", "postgres://app:"+secret+"@127.0.0.1:1/app", "--from-sql", query)
	if o.fails(exitUnavailable, "cannot be reached"); strings.Contains(o.err, secret) {
		t.Errorf("the source's password is shown: %s", o.err)
	}
}

func TestImportNamesTheInvalidRow(t *testing.T) {
	u := newUser(t)
	u.run("migrate").ok()
	n := 0
	for bad, says := range map[string]string{
		"'high' AS priority": "priority must be a number", "77 AS priority": "77", "1.5 AS priority": "priority cannot be",
		"'[]' AS headers": "headers cannot be", "'x' AS headers": "headers must be a JSON object",
		"'then' AS due": "2030-01-31 08:00:00", "1893456000 AS due": "microseconds",
		"x'ff' AS kind": "kind must be UTF-8 text", "char(7) AS \"key\"": "key",
	} {
		n++
		_, column, _ := strings.Cut(bad, " AS ")
		query := fmt.Sprintf("SELECT '%d a' AS reference, NULL AS %s UNION ALL SELECT '%d b', %s", n, column, n, bad)
		u.run("import", "-q", "q", "--from-sql", query).fails(exitUsage, "row 2", says, "until then: 1 task enqueued")
	}
	for query, says := range map[string]string{
		"":                                   "SELECT or WITH",
		"DELETE FROM dbq_task":               "SELECT or WITH",
		"SELECT 1 AS id":                     `"id" is no field`,
		"SELECT 'x' AS payload":              "column reference is missing",
		"SELECT NULL AS reference":           "row 1: the reference is empty",
		"SELECT 1 AS reference FROM nowhere": "nowhere",
		"SELECT 1 AS due, 2 AS run_at":       "two columns set run_at",
	} {
		u.run("import", "-q", "q", "--from-sql", query).fails(exitUsage, says)
	}
	u.run("import", "--from-sql", "SELECT 1 AS reference").fails(exitUsage, "row 1", "no queue")
}

// The queries of docs/coming-from.md import the waiting jobs of these tables, and no others.
func TestImportQueriesOfThePage(t *testing.T) {
	u := newUser(t)
	u.run("migrate").ok()
	u.execSQL("dbq.db", `CREATE TABLE jobs (id INTEGER, body TEXT, run_at TIMESTAMP, done_at TIMESTAMP)`,
		`INSERT INTO jobs VALUES (1, 'a', '2030-01-31 08:00:00', NULL),
		(2, 'b', '2026-01-31 08:00:00', '2026-01-31 08:00:01')`,
		`CREATE TABLE oban_jobs (id INTEGER, state TEXT, queue TEXT, worker TEXT, args TEXT, attempt INTEGER,
		max_attempts INTEGER, priority INTEGER, scheduled_at TIMESTAMP)`,
		`INSERT INTO oban_jobs VALUES (1, 'retryable', 'mail', 'Shop.Mail', '{}', 3, 20, 2, '2030-01-31 08:00:00'),
		(2, 'executing', 'mail', 'Shop.Mail', '{}', 1, 20, 0, '2026-01-31 08:00:00')`)
	page, err := os.ReadFile("../../docs/coming-from.md")
	check.OK(t, err)
	queries := regexp.MustCompile(`(?s)--from-sql "(.+?)"`).FindAllSubmatch(page, -1)
	if len(queries) != 2 {
		t.Fatalf("the page has %d queries, want 2", len(queries))
	}
	for _, q := range queries {
		u.run("import", "-q", "jobs", "--from-sql", string(q[1])).has("1 task enqueued")
	}
	got := u.task(u.run("list", "-q", "mail", "--json").one()["id"].(string))
	if got["reference"] != "oban 1" || got["max_attempts"] != 17.0 || got["due"] != "2030-01-31T08:00:00Z" {
		t.Errorf("the job of Oban: got %v", got)
	}
}

// The values and times of each server's driver become the same task, and the query cannot remove the rows.
func TestImportFromServers(t *testing.T) {
	t.Parallel()
	for _, variable := range []string{"DBQ_TEST_POSTGRES18_DSN", "DBQ_TEST_MYSQL97_DSN", "DBQ_TEST_MARIADB118_DSN"} {
		t.Run(variable, func(t *testing.T) {
			dsn := os.Getenv(variable)
			if dsn == "" {
				t.Skip(variable + " is not set")
			}
			u := newUser(t)
			u.run("migrate").ok()
			_, pool, err := sqlrun.Open(t.Context(), dsn, nil)
			check.OK(t, err)
			defer pool.Close()
			table := "import_" + strings.ReplaceAll(uuid.NewString(), "-", "")
			exec := func(ctx context.Context, text string) {
				if _, err := pool.Write.ExecContext(ctx, text); err != nil {
					t.Fatalf("%.80s: %v", text, err)
				}
			}
			exec(t.Context(), "CREATE TABLE "+table+" (id BIGINT PRIMARY KEY, args JSON, "+
				"run_at TIMESTAMP(6) NULL, priority SMALLINT)")
			defer func() {
				ctx, stop := context.WithTimeout(context.Background(), patience)
				defer stop()
				exec(ctx, "DROP TABLE "+table)
			}()
			var rows strings.Builder
			for id := range 2500 {
				fmt.Fprintf(&rows, `, (%d, '{"to": %d}', '2031-01-31 08:00:00.25', %d)`, id, id, id%10)
			}
			exec(t.Context(), "INSERT INTO "+table+" VALUES "+rows.String()[2:])
			query := "SELECT id AS reference, args AS payload, run_at, priority FROM " + table
			if strings.Contains(variable, "POSTGRES") {
				query = "WITH gone AS (DELETE FROM " + table + " RETURNING *) " + strings.ReplaceAll(query, table, "gone")
			}
			u.write("dsn", dsn)
			args := []string{"import", "-q", "q", "--source-file", "dsn", "--from-sql", query}
			u.run(args...).has("2500 tasks enqueued")
			u.run(args...).has("2500 already there")
			id := u.run("list", "-q", "q", "--reference", "1234", "--json").one()["id"].(string)
			got := u.task(id)
			if got["payload"] != `{"to": 1234}` || got["priority"] != 4.0 || got["due"] != "2031-01-31T08:00:00.25Z" {
				t.Errorf("got %v", got)
			}
			u.run("import", "-q", "q", "--source-file", "dsn", "--from-sql", "SELECT nothing AS reference").
				fails(exitUsage, "nothing")
		})
	}
}

func TestTimesOfRows(t *testing.T) {
	t.Parallel()
	want := time.Date(2030, 1, 31, 8, 0, 0, 250_000_000, time.UTC)
	for _, v := range []any{
		want, want.UnixMicro(), "2030-01-31 08:00:00.25", []byte("2030-01-31 08:00:00.250000"), "2030-01-31T08:00:00.25",
		"2030-01-31T08:00:00.25Z", "2030-01-31 10:00:00.25+02", "2030-01-31T03:00:00.25-05:00",
	} {
		if got, err := timeOf(v); err != nil || !got.Equal(want) {
			t.Errorf("%v: got %v, %v; want %v", v, got, err, want)
		}
	}
	for _, v := range []any{"", "tomorrow", "2030-01-31", want.Unix(), want.UnixMilli(), 0.5, true} {
		if got, err := timeOf(v); err == nil {
			t.Errorf("%v: got %v, want an error", v, got)
		}
	}
}

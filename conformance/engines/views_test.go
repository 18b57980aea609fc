package engines

import (
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/internal/store"
)

// TestViewsShowEveryTask reads the views of people as a user who has no other right: every task and attempt is there,
// whatever bytes and times it has.
func TestViewsShowEveryTask(t *testing.T) {
	onEngines(t, func(t *testing.T, _ target, dsn string) {
		prefix := ownPrefix(t, dsn)
		c, err := dbq.Open(t.Context(), dsn, dbq.WithPrefix(prefix), dbq.WithMigrate())
		check.OK(t, err)
		t.Cleanup(func() { c.Close() })
		ended := endStrangely(t, c.Queue("ä 😀 'q'"))

		db := c.DB()
		if dialect := c.Info().Dialect; dialect != "sqlite" {
			u := &roleUser{t: t, admin: c, name: strings.TrimSuffix(prefix, "_"), tables: prefix}
			u.exec(map[string]string{"postgres": "CREATE USER " + u.name + " PASSWORD 'p'",
				"mysql": "CREATE USER " + u.name + " IDENTIFIED BY 'p'"}[dialect])
			t.Cleanup(func() { u.exec("DROP USER " + u.name) })
			for _, view := range []string{"dbq_tasks", "dbq_attempts", "dbq_archived", "dbq_migration"} {
				u.grant("GRANT SELECT ON " + view)
				t.Cleanup(func() { u.revoke("GRANT SELECT ON " + view) })
			}
			reader, err := dbq.Open(t.Context(), as(t, dsn, u.name), dbq.WithPrefix(prefix))
			check.OK(t, err)
			defer reader.Close()
			db = reader.DB()
			if _, err := db.ExecContext(t.Context(), "SELECT id FROM "+prefix+"task"); err == nil {
				t.Error("the reader of the views can read the table")
			}
		}
		tasks := rowsOf(t, db, prefix, "SELECT queue, state, due, result, progress, payload_bytes FROM {prefix}tasks")
		attempts := rowsOf(t, db, prefix, "SELECT queue, outcome, error FROM {prefix}attempts")
		for name, want := range map[string]int{"CREATED": 1, "COMPLETED": ended, "9999-12-31": 1, "ä 😀 'q'": ended + 1} {
			if got := strings.Count(tasks, name); got != want {
				t.Errorf("%q is %d times in the view of tasks, want %d:\n%s", name, got, want, tasks)
			}
		}
		if got := strings.Count(attempts, "completed"); got != ended {
			t.Errorf("%d attempts are in the view, want %d:\n%s", got, ended, attempts)
		}
		time.Sleep(2 * time.Millisecond) // SQLite has milliseconds: what ended in this one is not older than a microsecond
		keep := store.Retention{Completed: time.Microsecond, Archive: true}
		if _, err := access.Of(c).Store.Clean(t.Context(), "ä 😀 'q'", keep, ""); err != nil {
			t.Fatal(err)
		}
		archived := rowsOf(t, db, prefix,
			"SELECT queue, state, due, result, progress, payload_bytes, archived FROM {prefix}archived")
		year := time.Now().UTC().Format("2006-")
		for name, want := range map[string]int{"COMPLETED": ended, "ä 😀 'q'": ended, year: ended} {
			if got := strings.Count(archived, name); got != want {
				t.Errorf("%q is %d times in the view of the archive, want %d:\n%s", name, got, want, archived)
			}
		}
	})
}

// endStrangely completes tasks with results that are no text, and leaves one that is due in the last year.
func endStrangely(t *testing.T, q *dbq.Queue) (ended int) {
	t.Helper()
	ctx := t.Context()
	results := []string{"", "ok", "\x00", "a\x00b", "\xff\xfe", "\xed\xa0\x80", "\xf4\x90\x80\x80", "ä 😀", "\\",
		strings.Repeat("😀", 1000)}
	for _, result := range results {
		if _, err := q.Enqueue(ctx, dbq.NewTask{Payload: []byte("\x00\xff")}); err != nil {
			t.Fatal(err)
		}
		tasks, err := q.Checkout(ctx, 1, time.Minute)
		if err != nil || len(tasks) != 1 {
			t.Fatalf("got %d tasks, %v", len(tasks), err)
		}
		l := tasks[0].Lease
		l.Progress = []byte(result)
		check.OK(t, q.Complete(ctx, l, []byte(result)))
	}
	last := time.Date(9999, 12, 31, 12, 0, 0, 0, time.UTC)
	if _, err := q.Enqueue(ctx, dbq.NewTask{RunAt: last}); err != nil {
		t.Fatal(err)
	}
	return len(results)
}

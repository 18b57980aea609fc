//go:build unix

package engines

import (
	"context"
	"database/sql"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/check"
)

// TestSchemaPage pastes the schema of docs/sql into the engine's client. The tables are the same as after a migration,
// comments included, and dbq works with them.
func TestSchemaPage(t *testing.T) {
	onEngines(t, func(t *testing.T, target target, dsn string) {
		pasted, migrated := ownPrefix(t, dsn), ownPrefix(t, dsn)
		c, err := dbq.Open(t.Context(), dsn, dbq.WithPrefix(migrated), dbq.WithMigrate())
		check.OK(t, err)
		defer c.Close()
		catalog, known := catalogs[c.Info().Dialect]
		if !known || programFor(t, dsn) == nil {
			t.Skip("no program of the engine that could run the page")
		}
		page, err := os.ReadFile("../../docs/sql/" + c.Info().Dialect + ".sql")
		check.OK(t, err)
		_, schema, _ := strings.Cut(string(page), "\n-- ======== The schema ========\n")
		schema, _, _ = strings.Cut(schema, "\n-- ======== ")
		f := &fromSQL{t: t, c: c, dsn: dsn}
		f.must(f.runSQL(dsn, strings.ReplaceAll(schema, "dbq_", pasted)))

		got, want := catalog(t, c.DB(), pasted), catalog(t, c.DB(), migrated)
		if len(want) < 1000 || got != want {
			t.Errorf("the page makes other tables than the migrations: it has\n%s\nthey have\n%s",
				linesMissing(got, want), linesMissing(want, got))
		}
		if !strings.Contains(want, "grows with each change of owner") && target.file == nil {
			t.Error("the tables have no comments")
		}
		if from, to, err := dbq.Migrate(t.Context(), dsn, dbq.WithPrefix(pasted)); err != nil || from != to {
			t.Errorf("Migrate goes from %d to %d, %v; want nothing to do", from, to, err)
		}
		enqueueAndComplete(t, dsn, pasted)
	})
}

// linesMissing returns the lines of a text that another one does not have.
func linesMissing(text, other string) string {
	lines := strings.Split(other, "\n")
	out := slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool { return slices.Contains(lines, line) })
	return strings.Join(out, "\n")
}

// enqueueAndComplete uses tables as a program does.
func enqueueAndComplete(t *testing.T, dsn, prefix string) {
	t.Helper()
	ctx := t.Context()
	c, err := dbq.Open(ctx, dsn, dbq.WithPrefix(prefix))
	check.OK(t, err)
	defer c.Close()
	q := c.Queue("q")
	if _, err := q.Enqueue(ctx, dbq.NewTask{Payload: []byte("{}"), Reference: "r"}); err != nil {
		t.Fatal(err)
	}
	tasks, err := q.Checkout(ctx, 1, time.Minute)
	if err != nil || len(tasks) != 1 {
		t.Fatalf("got %d tasks, %v", len(tasks), err)
	}
	check.OK(t, q.Complete(ctx, tasks[0].Lease, nil))
}

// catalogs read a database's description of the tables and views of a prefix, with the prefix dbq_ for any.
var catalogs = map[string]func(t *testing.T, db *sql.DB, prefix string) string{
	"sqlite": func(t *testing.T, db *sql.DB, prefix string) string {
		return rowsOf(t, db, prefix, `SELECT type, sql FROM sqlite_schema WHERE name LIKE '{prefix}%' ORDER BY name`)
	},
	"postgres": func(t *testing.T, db *sql.DB, prefix string) string {
		const ofPrefix = ` c.relname LIKE '{prefix}%' AND c.relnamespace = current_schema()::regnamespace `
		return rowsOf(t, db, prefix, `
			SELECT c.relname, c.relkind, array_to_string(c.reloptions, ','), obj_description(c.oid, 'pg_class'),
			       CASE c.relkind WHEN 'v' THEN pg_get_viewdef(c.oid) WHEN 'i' THEN pg_get_indexdef(c.oid) END
			  FROM pg_class c WHERE`+ofPrefix+`ORDER BY c.relname`) +
			rowsOf(t, db, prefix, `
			SELECT c.relname, a.attnum, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, l.collname,
			       pg_get_expr(d.adbin, d.adrelid), col_description(c.oid, a.attnum)
			  FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
			  LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
			  LEFT JOIN pg_collation l ON l.oid = a.attcollation
			 WHERE`+ofPrefix+`ORDER BY c.relname, a.attnum`) +
			rowsOf(t, db, prefix, `
			SELECT c.relname, o.conname, pg_get_constraintdef(o.oid)
			  FROM pg_class c JOIN pg_constraint o ON o.conrelid = c.oid WHERE`+ofPrefix+`ORDER BY c.relname, o.conname`)
	},
	"mysql": func(t *testing.T, db *sql.DB, prefix string) string {
		all := ""
		for name := range strings.FieldsSeq(rowsOf(t, db, prefix, `SELECT table_name FROM information_schema.tables
			WHERE table_schema = DATABASE() AND table_name LIKE '{prefix}%' ORDER BY table_name`)) {
			create := rowsOf(t, db, prefix, "SHOW CREATE TABLE {prefix}"+strings.TrimPrefix(name, "dbq_"))
			create, _, _ = strings.Cut(create, "\tutf8mb4\t") // of a view: the session's collation
			all += create + "\n"
		}
		return all
	},
}

// rowsOf returns the rows of a query as lines.
func rowsOf(t *testing.T, db *sql.DB, prefix, query string) string {
	t.Helper()
	rows, err := db.QueryContext(context.WithoutCancel(t.Context()), strings.ReplaceAll(query, "{prefix}", prefix))
	check.OK(t, err)
	defer rows.Close()
	names, err := rows.Columns()
	check.OK(t, err)
	var b strings.Builder
	for rows.Next() {
		values, to := make([]sql.NullString, len(names)), make([]any, len(names))
		for i := range values {
			to[i] = &values[i]
		}
		check.OK(t, rows.Scan(to...))
		for _, value := range values {
			b.WriteString(value.String + "\t")
		}
		b.WriteString("\n")
	}
	check.OK(t, rows.Err())
	return strings.ReplaceAll(b.String(), prefix, "dbq_")
}

package postgres_test

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/internal/dialecttest"
	"github.com/dbq-go/dbq/dialect/kit/search"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/internal/sqlrun"
)

// TestPlansDoNotDependOnWhenSessionBegan runs each statement on empty tables until the server keeps a plan for it. A
// sequential scan is the cheapest plan there, and the server would keep it when the table has grown.
func TestPlansDoNotDependOnWhenSessionBegan(t *testing.T) {
	t.Parallel()
	dialecttest.OnEachServer(t, "PostgreSQL", planServers, func(t *testing.T, dsn string) {
		s := emptySession(t, dsn)
		task := s.Names.Table("task")
		conn, err := s.Pool.Write.Conn(t.Context())
		check.OK(t, err)
		defer conn.Close()
		names := runAged(t, s, conn)
		exec(t.Context(), t, s.Pool.Write, `INSERT INTO `+task+` (id, queue, kind, state, priority, max_attempts, due,
  created, updated) SELECT gen_random_uuid(), 'q', 'k', 0, 5, 9, 1, 1, 1 FROM generate_series(1, 100000)`)
		rows, err := conn.QueryContext(t.Context(),
			"SELECT name, statement, cardinality(parameter_types) FROM pg_prepared_statements WHERE generic_plans > 0")
		check.OK(t, err)
		explain := map[string]string{} // by the name of a statement of dbq
		for rows.Next() {
			var prepared, text string
			var values int
			check.OK(t, rows.Scan(&prepared, &text, &values))
			if name := names[text]; name != "" {
				nulls := strings.TrimSuffix(strings.Repeat("NULL, ", values), ", ")
				explain[name] = strings.TrimSuffix(fmt.Sprintf("EXPLAIN EXECUTE %s (%s)", prepared, nulls), " ()")
			}
		}
		if err := rows.Err(); err != nil || len(explain) < len(names)/2 {
			t.Fatalf("the server keeps plans of %d of %d statements: %v", len(explain), len(names), err)
		}
		for name, text := range explain {
			if plan := planText(t, conn, text); strings.Contains(plan, "Seq Scan on "+task+" ") {
				t.Errorf("%s scans the table:\n%s", name, plan)
			}
		}
	})
}

// runAged runs the statements of a session on conn, and returns their names by their texts as sent.
func runAged(t *testing.T, s *sqlrun.Session, conn *sql.Conn) map[string]string {
	t.Helper()
	one, two := dialecttest.One(), dialecttest.Two()
	one["since"], one["oldest"], one["late"] = search.FromStart(), int64(0), int64(0)
	st, task := s.Texts, s.Names.Table("task")+" "
	a := &agedConn{conn: conn, names: map[string]string{}, none: "SELECT id FROM " + task + " WHERE false"}
	texts, batches := dialecttest.Private(s.Statements)
	texts["next"], texts["next queue"], texts["count up to"] = st.Next, st.NextQueue, st.CountUpTo
	texts["held"], texts["exhausted"] = st.Held, st.Exhausted
	texts["get"], texts["find reference"] = st.Get, st.FindReference
	for in, index := range st.Indexes {
		if index.Where != "" {
			texts["some "+in.String()] = sqlrun.IndexText(st.SomeIDs, index)
		}
	}
	for event := range st.Move {
		batches["move "+string(event)], batches["movable "+string(event)] = st.Move[event], st.Movable[event]
	}
	fields := reflect.ValueOf(st)
	for _, field := range reflect.VisibleFields(fields.Type()) {
		if b, ok := fields.FieldByIndex(field.Index).Interface().(dialect.Batch); ok {
			batches[field.Name] = b
		}
	}
	run := func(name, text string, f func() error) {
		of := strings.ReplaceAll(text, "INSERT INTO "+task, "")
		if !strings.Contains(of, task) || strings.Contains(of, "{") { // or it is part of others
			return
		}
		a.name = name
		if err := f(); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, text)
		}
	}
	for name, text := range texts {
		run(name, text, func() error { _, err := s.Query(t.Context(), a, text, one); return err })
	}
	for name, b := range batches {
		args := maps.Clone(two)
		maps.Copy(args, dialect.Args{"since": one["since"]})
		if strings.HasSuffix(name, " uniform") {
			args["fence"] = int64(1)
		}
		run(name, b.SQL, func() error { _, err := s.QueryBatch(t.Context(), a, b, args, 2); return err })
	}
	return a.names
}

// agedConn runs each statement until the server keeps a plan for it, which takes five executions, and notes its text.
type agedConn struct {
	conn  *sql.Conn
	none  string // a query without rows
	name  string
	names map[string]string
}

func (a *agedConn) Query(ctx context.Context, query string, args []any, read func(dialect.Rows) error) error {
	a.names[query] = a.name
	for range 20 {
		if _, err := a.conn.ExecContext(ctx, query, args...); err != nil {
			return err
		}
	}
	return sqlrun.ConnOf(a.conn).Query(ctx, a.none, nil, read)
}

func (a *agedConn) Exec(context.Context, string, ...any) (int64, error) {
	return 0, fmt.Errorf("%s returns no rows", a.name)
}

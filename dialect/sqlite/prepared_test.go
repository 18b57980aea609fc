package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/internal/check"
)

// onConn opens a file and gives f its writing connection, as database/sql and as the driver see it.
func onConn(t *testing.T, f func(ctx context.Context, c *sql.Conn, inner *conn)) {
	t.Helper()
	t.Parallel()
	pool, err := Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "prepared.db"), nil)
	check.OK(t, err)
	t.Cleanup(func() { pool.Close() })
	c, err := pool.Write.Conn(t.Context())
	check.OK(t, err)
	defer c.Close()
	var inner *conn
	check.OK(t, c.Raw(func(driverConn any) error { inner = driverConn.(*conn); return nil }))
	f(t.Context(), c, inner)
}

func must(t *testing.T, c *sql.Conn, text string, args ...any) {
	t.Helper()
	if _, err := c.ExecContext(t.Context(), text, args...); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
}

func TestStatementIsPreparedOnce(t *testing.T) {
	onConn(t, func(ctx context.Context, c *sql.Conn, inner *conn) {
		must(t, c, "CREATE TABLE t (i INTEGER, s TEXT) STRICT")
		const insert, ask = "INSERT INTO t VALUES (?, ?)", "SELECT s FROM t WHERE i = ?"
		var first *prepared
		for i := range 3 {
			must(t, c, "BEGIN IMMEDIATE")
			must(t, c, insert, i, fmt.Sprint("text ", i))
			must(t, c, "COMMIT")
			var got string
			if err := c.QueryRowContext(ctx, ask, i).Scan(&got); err != nil || got != fmt.Sprint("text ", i) {
				t.Errorf("%d: got %q, %v", i, got, err)
			}
			if p := inner.idle[insert]; p == nil || i > 0 && p != first {
				t.Errorf("%d: the insert was prepared again: %p, not %p", i, p, first)
			}
			first = inner.idle[insert]
		}
		if len(inner.idle) != 4 || inner.bytes != len(insert)+len(ask)+len("BEGIN IMMEDIATE")+len("COMMIT") {
			t.Errorf("%d statements of %d bytes are kept", len(inner.idle), inner.bytes)
		}
		must(t, c, "ALTER TABLE t ADD COLUMN more TEXT DEFAULT 'x'")
		const all = "SELECT * FROM t"
		for range 2 { // a statement follows its tables, with its columns
			columns := read(t, c, all)
			must(t, c, "ALTER TABLE t ADD COLUMN "+fmt.Sprint("c", columns)+" TEXT")
			if now := read(t, c, all); now != columns+1 {
				t.Errorf("%d columns after one was added to %d", now, columns)
			}
		}
	})
}

// read reads all rows of a query, and says how many columns they have.
func read(t *testing.T, c *sql.Conn, text string) int {
	t.Helper()
	rows, err := c.QueryContext(t.Context(), text)
	check.OK(t, err)
	defer rows.Close()
	types, err := rows.ColumnTypes()
	if err != nil || types[0].DatabaseTypeName() != "INTEGER" {
		t.Errorf("the driver's types do not come through: %v, %v", types, err)
	}
	for rows.Next() {
	}
	if err := rows.Err(); err != nil {
		t.Error(err)
	}
	return len(types)
}

func TestStatementThatFailedRunsAgain(t *testing.T) {
	onConn(t, func(ctx context.Context, c *sql.Conn, inner *conn) {
		must(t, c, "CREATE TABLE t (i INTEGER PRIMARY KEY) STRICT")
		for _, text := range []string{"INSERT INTO t VALUES (?)", "INSERT INTO t VALUES (?) RETURNING i"} {
			must(t, c, text, 1)
			if _, err := c.ExecContext(ctx, text, 1); err == nil {
				t.Error("a duplicate is no error")
			}
			var got int
			if err := c.QueryRowContext(ctx, text, 1).Scan(&got); err == nil || err == sql.ErrNoRows {
				t.Errorf("a duplicate is no error when asked: %v", err)
			}
			ended, cancel := context.WithCancel(ctx)
			cancel()
			if _, err := c.ExecContext(ended, text, 2); err == nil {
				t.Error("it ran after its context's end")
			}
			must(t, c, text, 3)
			must(t, c, "DELETE FROM t")
			if inner.idle[text] == nil {
				t.Errorf("%s is not kept any more", text)
			}
		}
	})
}

func TestOneStatementRunsTwiceAtOnce(t *testing.T) {
	onConn(t, func(ctx context.Context, c *sql.Conn, inner *conn) {
		const text = "SELECT value FROM json_each('[1,2,3]')"
		outer, err := c.QueryContext(ctx, text)
		check.OK(t, err)
		defer outer.Close()
		sum := 0
		for outer.Next() {
			var a int
			check.OK(t, outer.Scan(&a))
			within, err := c.QueryContext(ctx, text)
			check.OK(t, err)
			for within.Next() {
				var b int
				check.OK(t, within.Scan(&b))
				sum += a * b
			}
			if err := within.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := outer.Close(); err != nil || sum != 36 || len(inner.idle) != 1 {
			t.Errorf("got %d, %v, and %d statements", sum, err, len(inner.idle))
		}
	})
}

func TestPreparedStatementsAreBounded(t *testing.T) {
	onConn(t, func(_ context.Context, c *sql.Conn, inner *conn) {
		const used = "SELECT 'used'"
		for i := range 200 {
			must(t, c, used)
			must(t, c, "SELECT '"+strings.Repeat("x", 1000+i)+"'")
		}
		must(t, c, "SELECT '"+strings.Repeat("x", preparedText)+"'") // longer than all that is kept
		kept := 0
		for text, p := range inner.idle {
			kept += len(text)
			if p.text != text {
				t.Errorf("kept under another's text: %.40s", text)
			}
		}
		if kept != inner.bytes || kept > preparedText || kept < preparedText-2000 {
			t.Errorf("%d bytes are kept, %d noted", kept, inner.bytes)
		}
		if inner.idle[used] == nil {
			t.Error("what is used all the time is not kept")
		}
	})
}

func TestPragmasAreNotCached(t *testing.T) {
	onConn(t, func(ctx context.Context, c *sql.Conn, inner *conn) {
		for _, pages := range []int{100, 200, 100} {
			must(t, c, fmt.Sprint("PRAGMA cache_size = ", pages))
			var got int
			if err := c.QueryRowContext(ctx, "PRAGMA cache_size").Scan(&got); err != nil || got != pages {
				t.Errorf("got %d pages, %v, want %d", got, err, pages)
			}
		}
		if len(inner.idle) != 0 {
			t.Errorf("%d statements are kept", len(inner.idle))
		}
	})
}

func TestPreparedStatementsEndWithTheirConnection(t *testing.T) {
	onConn(t, func(_ context.Context, c *sql.Conn, inner *conn) {
		must(t, c, "SELECT 1")
		if err := inner.Close(); err != nil || len(inner.idle) != 0 {
			t.Errorf("%d statements are left, %v", len(inner.idle), err)
		}
	})
}

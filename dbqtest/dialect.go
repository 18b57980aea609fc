package dbqtest

import (
	"context"
	"reflect"
	"strings"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/sqlite"
	"github.com/dbq-go/dbq/state"
)

// scheme is the DSN scheme of databases whose clock can be moved.
const scheme = "dbqtest"

func init() {
	dialect.Register(dialect.Driver{Schemes: []string{scheme}, File: true, Dialect: movable{}, Open: openMovable})
}

// movable is SQLite's dialect with a clock that can be moved: each statement adds a table's value to the database's
// time.
type movable struct{ sqlite.Dialect }

// offset is the SQL of how far the clock is ahead, in microseconds.
const offset = "(SELECT micros FROM dbqtest_clock)"

func openMovable(ctx context.Context, dsn string, _ dialect.Password) (dialect.Pool, error) {
	pool, err := sqlite.Open(ctx, "sqlite"+strings.TrimPrefix(dsn, scheme), nil)
	if err != nil {
		return pool, err
	}
	for _, text := range []string{
		"CREATE TABLE IF NOT EXISTS dbqtest_clock (id INTEGER PRIMARY KEY CHECK (id = 1), micros INTEGER NOT NULL) STRICT",
		"INSERT OR IGNORE INTO dbqtest_clock VALUES (1, 0)",
	} {
		if _, err := pool.Write.ExecContext(ctx, text); err != nil {
			pool.Close()
			return pool, err
		}
	}
	return pool, nil
}

// Statements returns SQLite's statements with the moved clock instead of the database's.
func (d movable) Statements(n dialect.Names) dialect.Statements {
	st := d.Dialect.Statements(n)
	now := st.Now
	move := func(text string) string { return strings.ReplaceAll(text, now, "("+now+" + "+offset+")") }
	moveBatch := func(b dialect.Batch) dialect.Batch {
		b.SQL, b.Row = move(b.SQL), move(b.Row)
		return b
	}
	v := reflect.ValueOf(&st).Elem()
	for _, field := range reflect.VisibleFields(v.Type()) {
		switch f := v.FieldByIndex(field.Index).Addr().Interface().(type) {
		case *string:
			*f = move(*f)
		case *dialect.Batch:
			*f = moveBatch(*f)
		case *map[string]dialect.Batch:
			for k, b := range *f {
				(*f)[k] = moveBatch(b)
			}
		case *map[state.Event]dialect.Batch:
			for k, b := range *f {
				(*f)[k] = moveBatch(b)
			}
		}
	}
	return st
}

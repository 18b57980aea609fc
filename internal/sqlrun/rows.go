package sqlrun

import (
	"context"
	"database/sql"
	"fmt"
	"reflect"
	"strings"

	"github.com/dbq-go/dbq/dialect"
	"github.com/jmoiron/sqlx/reflectx"
)

// mapper finds the fields of rows by their db tags. It caches the result for each type.
var mapper = reflectx.NewMapper("db")

// Scan reads all rows into structs by their db tags, and closes the rows. The fields are looked up once, not for each
// row.
func Scan[T any](rows dialect.Rows) ([]T, error) { return scan[T](context.Background(), rows, 0) }

// leastRoom and mostRoom bound the capacity that is allocated before rows are read.
const leastRoom, mostRoom = 8, 1000

// scan is Scan for rows that are likely to be no more than atMost, of a statement that runs with ctx.
func scan[T any](ctx context.Context, rows dialect.Rows, atMost int) ([]T, error) {
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	_, std := rows.(*sql.Rows) // other implementations read null as the empty text; see dialect.Rows
	var row, empty T
	fields := make([]any, len(columns))
	for i, name := range columns { // an engine may show plain names in capitals
		columns[i] = strings.ToLower(name)
	}
	for i, path := range mapper.TraversalsByName(reflect.TypeFor[T](), columns) {
		if len(path) == 0 {
			return nil, fmt.Errorf("dialect: a statement returns the column %q, which %T does not have", columns[i], row)
		}
		fields[i] = reflect.ValueOf(&row).Elem().FieldByIndex(path).Addr().Interface()
		if text, ok := fields[i].(*string); ok && std {
			fields[i] = textOrNull{text}
		}
	}
	var out []T
	try := tryOf(ctx)
	for rows.Next() {
		try.answered() // many rows may take a while
		row = empty
		if err := rows.Scan(fields...); err != nil {
			return nil, err
		}
		if len(out) == leastRoom && atMost > leastRoom { // not just a query that finds little
			out = append(make([]T, 0, min(atMost, mostRoom)), out...)
		}
		out = append(out, row)
	}
	if err = rows.Err(); err == nil {
		try.answered()
	}
	return out, err
}

// restoreAllEmpty restores the empty values that a driver read as null.
func restoreAllEmpty(rows []dialect.Row) {
	restore := func(b []byte, size *int64) []byte {
		if b == nil && size != nil && *size == 0 {
			return []byte{}
		}
		return b
	}
	for i := range rows {
		r := &rows[i]
		r.Payload, r.Result = restore(r.Payload, r.PayloadSize), restore(r.Result, r.ResultSize)
	}
}

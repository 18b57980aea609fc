package sqlrun

import (
	"context"
	"database/sql"
	"fmt"
	"reflect"
	"strings"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
	"github.com/jmoiron/sqlx/reflectx"
)

// mapper finds the fields of rows by their db tags. It caches the result for each type.
var mapper = reflectx.NewMapper("db")

// leastRoom and mostRoom bound the capacity that is allocated before rows are read.
const leastRoom, mostRoom = 8, 1000

// scan reads all rows of a statement that runs with ctx into structs by their db tags. They are likely to be no
// more than atMost. The fields are looked up once, not for each row.
func scan[T any](ctx context.Context, rows dialect.Rows, atMost int) ([]T, error) {
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

// restoreEmpty restores the empty values of tasks that a driver read as null.
func restoreEmpty[T any](rows []T) {
	tasks, _ := any(rows).([]dialect.Row)
	restore := func(b []byte, size *int64) []byte {
		if b == nil && size != nil && *size == 0 {
			return []byte{}
		}
		return b
	}
	for i := range tasks {
		r := &tasks[i]
		r.Payload, r.Result = restore(r.Payload, r.PayloadSize), restore(r.Result, r.ResultSize)
	}
}

// CountRow is one line of dialect.Statements.Count, CountNewest and CountUpTo.
type CountRow struct {
	Queue  string      `db:"queue"`
	State  state.State `db:"state"`
	Tasks  int64       `db:"tasks"`
	Parked int64       `db:"parked"` // of Tasks, those without a due time
	Due    int64       `db:"due"`    // of Tasks, those whose due time has come
	Oldest *int64      `db:"oldest"` // how long, in microseconds, the oldest of these has been due
	Cut    int64       `db:"cut"`    // 1 when the count stopped at its limit
	// Cancelled counts the cancelled ones among Tasks.
	Cancelled int64 `db:"cancelled"`
}

// SomeRow counts the rows that MatchSome visited, and the matching ones among them.
type SomeRow struct {
	Looked   int64 `db:"looked"`
	Matching int64 `db:"matching"`
}

// KeyCount is one line of dialect.Statements.Busy and BusyKeys.
type KeyCount struct {
	Key   *string `db:"task_key"` // null is none
	Tasks int64   `db:"tasks"`
}

// KeyRateRow is one line of dialect.Statements.KeyRates.
type KeyRateRow struct {
	Key  string `db:"task_key"`
	Full int64  `db:"full_at"` // when all starts of the key are free again, in microseconds
}

// KVRow is a key/value record, which all clients of the same tables share.
type KVRow struct {
	Namespace string `db:"namespace"`
	Name      string `db:"name"`
	Version   int64  `db:"version"`
	Value     string `db:"value"`
	Updated   int64  `db:"updated"`
	Expires   *int64 `db:"expires"` // null is never
	Now       int64  `db:"now"`
}

// KeyRow is a unique key: the task that it names, when it expires, and the state and the due time of that task.
type KeyRow struct {
	ID      uuid.UUID `db:"id"`
	Task    uuid.UUID `db:"task"`
	Expires int64     `db:"expires"`
	State   *int64    `db:"state"` // null if the task does not exist
	Due     *int64    `db:"due"`
}

// textOrNull reads null as the empty text, for an engine on which they are the same. A text that may be missing is a
// *string.
type textOrNull struct{ to *string }

// Scan is called by database/sql.
func (t textOrNull) Scan(v any) error {
	var s sql.NullString
	err := s.Scan(v)
	*t.to = s.String
	return err
}

// Terminated returns a statement as a command-line client of the engine reads it: with a semicolon or, after a block
// that ends in one, with a slash on a line of its own.
func Terminated(text string) string {
	if strings.HasSuffix(text, ";") {
		return text + "\n/\n"
	}
	return text + ";\n"
}

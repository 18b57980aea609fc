package dialect

import (
	"bytes"
	"cmp"
	"database/sql"
	"fmt"
	"reflect"
	"strings"

	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
	"github.com/jmoiron/sqlx/reflectx"
)

// Row is a task as the table holds it. A statement may leave columns out; the fields are found by the columns' names.
// Times are microseconds since 1970 in UTC by the database's clock, so that no session time zone, daylight saving change
// or driver can bend them.
type Row struct {
	ID          uuid.UUID   `db:"id"`
	Queue       string      `db:"queue"`
	Reference   *string     `db:"reference"`
	Kind        string      `db:"kind"`
	State       state.State `db:"state"`
	Priority    int         `db:"priority"`
	Attempt     int         `db:"attempt"`
	MaxAttempts int         `db:"max_attempts"`
	Lapses      int         `db:"lapses"`  // leases that ended before their attempt is known to have started; see LapsesPerAttempt
	Started     int         `db:"started"` // a takeover: 1 when the attempt is known to have started
	Fence       int64       `db:"fence"`
	Due         *int64      `db:"due"`
	LeaseUntil  *int64      `db:"lease_until"`
	Holder      *string     `db:"holder"`
	Created     int64       `db:"created"`
	Updated     int64       `db:"updated"`
	Headers     []byte      `db:"headers"`
	Payload     []byte      `db:"payload"`
	Result      []byte      `db:"result"`
	WasDue      int64       `db:"was_due"` // checkout: when the row became due
	Now         int64       `db:"now"`     // the database's clock when the row was read
	Cut         bool        `db:"cut"`     // checkout: due tasks were left because of CheckoutRequest.Bytes

	// Of a row whose lease had run out when checkout took it over: who had held it, since when, until when, and as which attempt.
	WasHolder  *string `db:"was_holder"`
	WasTaken   *int64  `db:"was_taken"`
	WasUntil   *int64  `db:"was_until"`
	WasAttempt int     `db:"was_attempt"`

	// PayloadSize and ResultSize are the lengths of the two, for engines or drivers that read an empty value as null.
	// PayloadSize is there as well where a search leaves large payloads out; see FillPayloads.
	PayloadSize *int64 `db:"payload_size"`
	ResultSize  *int64 `db:"result_size"`
}

// SizeOf is the length of a payload or a result as :payload_size and :result_size have it: null for none.
func SizeOf(b []byte) *int64 {
	if b == nil {
		return nil
	}
	n := int64(len(b))
	return &n
}

// CountRow is one line of Statements.Count, CountNewest and CountUpTo.
type CountRow struct {
	Queue  string      `db:"queue"`
	State  state.State `db:"state"`
	Tasks  int64       `db:"tasks"`
	Parked int64       `db:"parked"` // of Tasks, those without a due time
	Due    int64       `db:"due"`    // of Tasks, those whose due time has come
	Oldest *int64      `db:"oldest"` // how long, in microseconds, the oldest of these has been due
	Cut    int64       `db:"cut"`    // 1 when the count stopped at its limit
}

// NoteRow is a row of Statements.Note and Notes.
type NoteRow struct {
	Kind    string `db:"kind"`
	Name    string `db:"name"`
	Version int64  `db:"version"`
	Value   string `db:"value"`
	Updated int64  `db:"updated"`
	Expires *int64 `db:"expires"` // null is never
	Now     int64  `db:"now"`
}

// AttemptRow is a row of Statements.Attempts.
type AttemptRow struct {
	Task    uuid.UUID `db:"task"`
	Fence   int64     `db:"fence"`
	Queue   string    `db:"queue"`
	Attempt int       `db:"attempt"`
	Outcome string    `db:"outcome"`
	Started int64     `db:"started"`
	Ended   int64     `db:"ended"`
	Worker  string    `db:"worker"`
	Error   []byte    `db:"error"`
}

// mapper finds the fields of rows by their db tags. Its findings are kept for each type.
var mapper = reflectx.NewMapper("db")

// Scan reads all rows into structs by their db tags, and closes the rows. The fields are looked up once, not for each row.
func Scan[T any](rows Rows) ([]T, error) { return scan[T](rows, 0) }

// leastRoom and mostRoom bound what is set aside for rows before they are read.
const leastRoom, mostRoom = 8, 1000

// scan is Scan for rows that are likely to be no more than atMost.
func scan[T any](rows Rows, atMost int) ([]T, error) {
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
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
		if text, ok := fields[i].(*string); ok {
			fields[i] = TextOrNull{text}
		}
	}
	var out []T
	for rows.Next() {
		row = empty
		if err := rows.Scan(fields...); err != nil {
			return nil, err
		}
		if len(out) == leastRoom && atMost > leastRoom { // it is not just a look that finds little
			out = append(make([]T, 0, min(atMost, mostRoom)), out...)
		}
		out = append(out, row)
	}
	return out, rows.Err()
}

// TextOrNull reads null as the empty text, for an engine on which they are the same. A text that may be missing is a *string.
type TextOrNull struct{ To *string }

// Scan is called by database/sql.
func (t TextOrNull) Scan(v any) error {
	var s sql.NullString
	err := s.Scan(v)
	*t.To = s.String
	return err
}

// restoreAllEmpty gives back the empty values that a driver read as null.
func restoreAllEmpty(rows []Row) {
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

// HandOutOrder compares rows of a checkout: by priority, then by when they became due, so that a worker begins with what has
// waited longest.
func HandOutOrder(a, b Row) int {
	return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.WasDue, b.WasDue), bytes.Compare(a.ID[:], b.ID[:]))
}

// Among returns those of rows whose ids are among others', in their order.
func Among(rows, others []Row) (out []Row) {
	ids := make(map[uuid.UUID]bool, len(others))
	for _, r := range others {
		ids[r.ID] = true
	}
	for _, r := range rows {
		if ids[r.ID] {
			out = append(out, r)
		}
	}
	return out
}

package dialect

import (
	"context"
	"database/sql"
	"fmt"
	"reflect"
	"testing"

	"github.com/google/uuid"
)

// table is rows as a driver gives them.
type table struct {
	columns []string
	rows    [][]any
	at      int
}

func (x *table) Columns() ([]string, error) { return x.columns, nil }
func (x *table) Next() bool                 { x.at++; return x.at <= len(x.rows) }
func (x *table) Err() error                 { return nil }
func (x *table) Close() error               { return nil }
func (x *table) Scan(dest ...any) error {
	for i, v := range x.rows[x.at-1] {
		if s, ok := dest[i].(sql.Scanner); ok {
			if err := s.Scan(v); err != nil {
				return err
			}
			continue
		}
		if v != nil {
			reflect.ValueOf(dest[i]).Elem().Set(reflect.ValueOf(v).Convert(reflect.TypeOf(dest[i]).Elem()))
		}
	}
	return nil
}

func TestScanReadsAnEnginesWayOfSayingIt(t *testing.T) {
	t.Parallel()
	got, err := Scan[Row](&table{columns: []string{"QUEUE", "Kind", "fence"}, rows: [][]any{{"q", nil, int64(1)}, {[]byte("b"), "k", int64(2)}}})
	want := []Row{{Queue: "q", Fence: 1}, {Queue: "b", Kind: "k", Fence: 2}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v %v, want %+v", got, err, want)
	}
	if _, err := Scan[Row](&table{columns: []string{"NONESUCH"}}); err == nil {
		t.Error("a column that is nowhere passes")
	}
}

// answers gives each query its rows.
type answers map[string][][]any

func (a answers) Exec(context.Context, string, ...any) (int64, error) { return 0, nil }
func (a answers) Query(_ context.Context, query string, _ ...any) (Rows, error) {
	rows, ok := a[query]
	if !ok {
		return nil, fmt.Errorf("nobody answers %q", query)
	}
	return &table{columns: []string{"id", "fence", "priority"}, rows: rows}, nil
}

// After alone is all that is there, First alone what was locked, and both are what was locked as it is then.
func TestFirstAndAfter(t *testing.T) {
	t.Parallel()
	a, b, c := uuid.UUID{1}, uuid.UUID{2}, uuid.UUID{3}
	conn := answers{
		"first": {{a[:], int64(1), int64(0)}, {b[:], int64(2), int64(0)}},
		"after": {{a[:], int64(1), int64(5)}, {b[:], int64(3), int64(5)}, {c[:], int64(1), int64(5)}},
		"none":  nil,
	}
	for _, x := range []struct {
		first, after string
		want         []Row
	}{
		{"first", "", []Row{{ID: a, Fence: 1}, {ID: b, Fence: 2}}},
		{"", "after", []Row{{ID: a, Fence: 1, Priority: 5}, {ID: b, Fence: 3, Priority: 5}, {ID: c, Fence: 1, Priority: 5}}},
		{"first", "after", []Row{{ID: a, Fence: 1, Priority: 5}}},
		{"none", "after", nil},
	} {
		s := NewSession(fake{}, Pool{}, Server{ExplicitTx: true}, Names{})
		batch := Batch{First: x.first, SQL: "sql", After: x.after, Max: 10}
		got, err := s.QueryBatch(t.Context(), conn, batch, Args{"id": Col[uuid.UUID]{a, b, c}}, 3)
		if err != nil || !reflect.DeepEqual(got, x.want) {
			t.Errorf("first %q, after %q: got %+v %v, want %+v", x.first, x.after, got, err, x.want)
		}
	}
}

// counts touches as many rows as it says, and notes what it was told.
type counts struct {
	answers
	touched int64
	told    *[]any
}

func (c counts) Exec(_ context.Context, query string, args ...any) (int64, error) {
	*c.told = append([]any{query}, args...)
	return c.touched, nil
}

func TestOneIsForASingleRow(t *testing.T) {
	t.Parallel()
	a, b := uuid.UUID{1}, uuid.UUID{2}
	s := NewSession(fake{}, Pool{}, Server{}, Names{})
	batch := Batch{SQL: "many {rows}", Row: ":id", Sep: ",", Max: 2, One: "one :id :queue"}
	for _, x := range []struct {
		touched int64
		ids     Col[uuid.UUID]
		want    []Row
		told    []any
	}{
		{1, Col[uuid.UUID]{a}, []Row{{ID: a}}, []any{"one ? ?", a, "q"}},
		{0, Col[uuid.UUID]{a}, nil, []any{"one ? ?", a, "q"}},
		{1, Col[uuid.UUID]{a, b}, []Row{{ID: b}}, nil},
		{1, Col[uuid.UUID]{a, b, a}, []Row{{ID: b}, {ID: a}}, []any{"one ? ?", a, "q"}}, // the last is alone in its statement
	} {
		var told []any
		conn := counts{answers{"many ?,?": {{b[:], int64(0), int64(0)}}}, x.touched, &told}
		got, err := s.QueryBatch(t.Context(), conn, batch, Args{"id": x.ids, "queue": "q"}, len(x.ids))
		if err != nil || !reflect.DeepEqual(got, x.want) || !reflect.DeepEqual(told, x.told) {
			t.Errorf("%d rows: got %+v %v by %v, want %+v by %v", len(x.ids), got, err, told, x.want, x.told)
		}
	}
	if _, err := s.QueryBatch(t.Context(), counts{told: new([]any)}, Batch{One: ":more", Max: 1}, Args{}, 1); err == nil {
		t.Error("a name without a value passes")
	}
}

func TestTerminatedIsWhatAClientReads(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"SELECT 1": "SELECT 1;\n", "BEGIN NULL; END;": "BEGIN NULL; END;\n/\n"} {
		if got := Terminated(text); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

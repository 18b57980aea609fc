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

func TestTerminatedIsWhatAClientReads(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"SELECT 1": "SELECT 1;\n", "BEGIN NULL; END;": "BEGIN NULL; END;\n/\n"} {
		if got := Terminated(text); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

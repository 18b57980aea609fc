package sqlrun

import (
	"context"
	"database/sql"
	"fmt"
	"reflect"
	"testing"

	"github.com/dbq-go/dbq/dialect"
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

func TestScanConvertsEnginesValues(t *testing.T) {
	t.Parallel()
	got, err := scan[dialect.Row](t.Context(), &table{
		columns: []string{"QUEUE", "Kind", "fence"},
		rows:    [][]any{{"q", nil, int64(1)}, {[]byte("b"), "k", int64(2)}},
	}, 0)
	want := []dialect.Row{{Queue: "q", Fence: 1}, {Queue: "b", Kind: "k", Fence: 2}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v %v, want %+v", got, err, want)
	}
	if _, err := scan[dialect.Row](t.Context(), &table{columns: []string{"NONESUCH"}}, 0); err == nil {
		t.Error("a column that is nowhere passes")
	}
}

// answers gives each query its rows.
type answers map[string][][]any

func (a answers) Exec(context.Context, string, ...any) (int64, error) { return 0, nil }
func (a answers) Query(_ context.Context, query string, _ []any, read func(dialect.Rows) error) error {
	rows, ok := a[query]
	if !ok {
		return fmt.Errorf("nobody answers %q", query)
	}
	return read(&table{columns: []string{"id", "fence", "priority"}, rows: rows})
}

// counts touches as many rows as it says, and records its calls.
type counts struct {
	answers
	touched int64
	sent    *[]any
}

func (c counts) Exec(_ context.Context, query string, args ...any) (int64, error) {
	*c.sent = append(*c.sent, append([]any{query}, args...)...)
	return c.touched, nil
}

func TestBatchOfSingleRowsBindsEachAsPlainValues(t *testing.T) {
	t.Parallel()
	a, b := uuid.UUID{1}, uuid.UUID{2}
	s := NewSession(fake{}, dialect.Pool{}, dialect.Server{}, dialect.Names{})
	args := dialect.Args{"id": dialect.Col[uuid.UUID]{a, b}, "queue": "q"}
	var sent []any
	single := dialect.Batch{SQL: ":id :queue", Max: 1}
	touched, err := s.ExecBatch(t.Context(), counts{touched: 1, sent: &sent}, single, args, 2)
	if want := []any{"? ?", a, "q", "? ?", b, "q"}; err != nil || touched != 2 || !reflect.DeepEqual(sent, want) {
		t.Errorf("%d rows touched, %v by %v, want 2 by %v", touched, err, sent, want)
	}
	single.SQL = ":more"
	if _, err := s.ExecBatch(t.Context(), counts{sent: new([]any)}, single, args, 1); err == nil {
		t.Error("a name without a value passes")
	}
}

func TestBatchIsCutIntoStatements(t *testing.T) {
	t.Parallel()
	s := NewSession(fake{}, dialect.Pool{}, dialect.Server{}, dialect.Names{})
	list := dialect.Batch{SQL: "{rows}", Row: ":id", Max: 2}
	for n, want := range map[int][]any{
		0: nil,
		1: {"?", 10},
		2: {"?, ?", 10, 11},
		3: {"?, ?", 10, 11, "?", 12},
		4: {"?, ?", 10, 11, "?, ?", 12, 13},
	} {
		var sent []any
		args := dialect.Args{"id": dialect.Col[int]{10, 11, 12, 13}}
		_, err := s.ExecBatch(t.Context(), counts{sent: &sent}, list, args, n)
		if err != nil || !reflect.DeepEqual(sent, want) {
			t.Errorf("%d rows: %v by %v, want %v", n, err, sent, want)
		}
	}
}

func TestColumnsOfRowsAreNamedByTheirTags(t *testing.T) {
	t.Parallel()
	args := ColumnsOf([]struct {
		Task uuid.UUID `db:"task" arg:"id"`
		Name string    `db:"name"`
	}{{uuid.UUID{1}, "a"}, {uuid.UUID{2}, "b"}})
	id, name := args["id"].(dialect.Column), args["name"].(dialect.Column)
	if len(args) != 2 || id.Len() != 2 || id.At(1) != (uuid.UUID{2}) {
		t.Errorf("got %v", args)
	}
	if got, want := name.Slice(), []string{"a", "b"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got, want := name.Pick([]int{1}).Slice(), []string{"b"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

package oracle

import (
	"bytes"
	"database/sql/driver"
	"reflect"
	"testing"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/google/uuid"
	ora "github.com/sijms/go-ora/v2"
)

// What go-ora is handed. Whether a server takes it is for a server to say.
func TestBindValue(t *testing.T) {
	t.Parallel()
	id := uuid.UUID{1, 2}
	text, long, n := "x", bytes.Repeat([]byte{7}, inlineBytes+1), int64(5)
	for _, c := range []struct {
		name      string
		got, want any
	}{
		{"an id as RAW", id, id[:]},
		{"a text", "x", "x"},
		{"a text that may be null", &text, &text},
		{"a null text keeps its type", (*string)(nil), (*string)(nil)},
		{"a number", n, n},
		{"a null number keeps its type", (*int64)(nil), (*int64)(nil)},
		{"a short payload as RAW", []byte("p"), []byte("p")},
		{"the longest short one", long[1:], long[1:]},
		{"a long payload as BLOB", long, ora.Blob{Data: long}},
		{"no payload keeps its type", []byte(nil), []byte(nil)},
		{"an empty payload, which its size tells from none", []byte{}, []byte{}},
		{"ids", []uuid.UUID{id, {3}}, ora.NewBatch([][]byte{id[:], append([]byte{3}, make([]byte, 15)...)})},
		{"numbers", []int64{1, 2}, ora.NewBatch([]int64{1, 2})},
		{"numbers or null", []*int64{nil, &n}, ora.NewBatch([]*int64{nil, &n})},
		{"texts", []string{"", "x"}, ora.NewBatch([]string{"", "x"})},
		{"results, all BLOB", [][]byte{nil, {}, []byte("r"), long},
			ora.NewBatch([]ora.Blob{{}, {Data: []byte{}}, {Data: []byte("r")}, {Data: long}})},
	} {
		if got := (Dialect{}).BindValue(c.got); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %#v, want %#v", c.name, got, c.want)
		}
	}
}

// database/sql must hand these to the driver as they are, and not as what their Value method says.
func TestDriverAcceptsBoundValues(t *testing.T) {
	t.Parallel()
	for _, v := range []any{
		uuid.UUID{1}, "x", (*string)(nil), int64(1), (*int64)(nil), 3,
		[]byte("p"), make([]byte, inlineBytes+1), []uuid.UUID{{1}}, [][]byte{nil},
	} {
		bound := (Dialect{}).BindValue(v)
		if _, isValuer := bound.(driver.Valuer); isValuer {
			t.Errorf("%T becomes a %T, which would be asked for another value", v, bound)
		}
		nv := driver.NamedValue{Ordinal: 1, Value: bound}
		if err := (&conn{}).CheckNamedValue(&nv); err != nil {
			t.Errorf("%T: %v", bound, err)
		}
	}
}

// The empty text is null on Oracle: for each value that may be empty or missing, what is bound tells the two apart.
func TestEmptyIsDistinctFromNull(t *testing.T) {
	t.Parallel()
	s := sqlrun.NewSession(Dialect{}, dialect.Pool{}, dialect.Server{ExplicitTx: true}, namings[0])
	sizes := func(b dialect.Batch, name string) (out []any) {
		t.Helper()
		payloads := dialect.Col[[]byte]{nil, {}, []byte("abc")}
		col := make(dialect.Col[*int64], len(payloads))
		for i, p := range payloads {
			if p != nil {
				col[i] = new(int64(len(p)))
			}
		}
		args := dialect.Args{name: payloads, name + "_size": col}
		var r recorder
		only := dialect.Batch{SQL: "BEGIN {rows} END;", Row: ":" + name + "_size", Max: b.Max}
		if _, err := s.ExecBatch(t.Context(), &r, only, args, len(payloads)); err != nil {
			t.Fatal(err)
		}
		for _, v := range r.last.values {
			if p := v.(*int64); p == nil {
				out = append(out, nil)
			} else {
				out = append(out, *p)
			}
		}
		return out
	}
	want := []any{nil, int64(0), int64(3)}
	for name, b := range map[string]dialect.Batch{"payload": s.Statements.Insert, "result": s.Statements.Settle} {
		if got := sizes(b, name); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got sizes %v, want %v", name, got, want)
		}
	}
}

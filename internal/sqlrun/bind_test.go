package sqlrun

import (
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/dialect"
)

func TestBind(t *testing.T) {
	t.Parallel()
	args := dialect.Args{"a": 1, "b_c": "two", "d": nil, "unused": 9}
	for _, c := range []struct {
		name   string
		style  dialect.PlaceholderStyle
		text   string
		want   string
		values []any
	}{
		{"no names", dialect.Question, "SELECT 1", "SELECT 1", []any{}},
		{"question", dialect.Question, "x = :a AND y = :b_c", "x = ? AND y = ?", []any{1, "two"}},
		{"dollar", dialect.Dollar, "x = :a AND y = :b_c", "x = $1 AND y = $2", []any{1, "two"}},
		{"colon", dialect.Colon, "x = :a AND y = :b_c", "x = :arg1 AND y = :arg2", []any{1, "two"}},
		{"repeated", dialect.Dollar, "(:a, :b_c, :a)", "($1, $2, $3)", []any{1, "two", 1}},
		{"null", dialect.Dollar, "x IS :d", "x IS $1", []any{nil}},
		{"comment before it", dialect.Dollar,
			"-- when: always?\n-- why\nSELECT :a /* one */", "SELECT $1 /* one */", []any{1}},
		{"in a literal", dialect.Dollar, "':a' || :a || ''':a' || :b_c", "':a' || $1 || ''':a' || $2", []any{1, "two"}},
		{"in a comment", dialect.Dollar, "1 -- :a isn't\n+ :a /* :a's */ + :a",
			"1 -- :a isn't\n+ $1 /* :a's */ + $2", []any{1, 1}},
		{"a cast and an assignment", dialect.Dollar, "x := :a::int", "x := $1::int", []any{1}},
		{"next to punctuation", dialect.Dollar, "CAST(:a AS bigint)+:a;", "CAST($1 AS bigint)+$2;", []any{1, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := binder{style: c.style}
			for range 2 { // the second time from the cache
				text, values, err := b.bind(c.text, args)
				if err != nil || text != c.want || !reflect.DeepEqual(values, c.values) {
					t.Errorf("got %q %v %v, want %q %v", text, values, err, c.want, c.values)
				}
			}
		})
	}
}

func TestBindRefusesMissingValues(t *testing.T) {
	t.Parallel()
	rows := dialect.Args{"id": dialect.Col[int]{1, 2}, "n": 1}
	var b binder
	for _, c := range []struct {
		name string
		bind func() (string, []any, error)
		want string
	}{
		{"a name without a value", func() (string, []any, error) { return b.bind("x = :other", rows) }, ":other"},
		{"a column as one value", func() (string, []any, error) { return b.bind("x = :id", rows) }, ":id"},
		{"a column outside of the rows", func() (string, []any, error) {
			return b.bindBatch(dialect.Batch{SQL: "x = :id {rows}", Row: "(:n)"}, rows, 0, 2)
		}, ":id"},
		{"a name missing in a row", func() (string, []any, error) {
			return b.bindBatch(dialect.Batch{SQL: "{rows}", Row: "(:other)"}, rows, 0, 2)
		}, ":other"},
		{"a name missing after the rows", func() (string, []any, error) {
			return b.bindBatch(dialect.Batch{SQL: "{rows} :other", Row: "(:id)"}, rows, 0, 2)
		}, ":other"},
		{"a row without a place", func() (string, []any, error) {
			return b.bindBatch(dialect.Batch{SQL: "x", Row: "(:id)"}, rows, 0, 2)
		}, "{rows}"},
		{"a question mark", func() (string, []any, error) { return b.bind("x = ? AND :n = 1", rows) }, "question mark"},
		{"a name missing in an array batch", func() (string, []any, error) {
			return b.bindBatch(dialect.Batch{SQL: "x = ANY(:other)"}, rows, 0, 2)
		}, ":other"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			text, values, err := c.bind()
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %q %v %v, want an error that names %s", text, values, err, c.want)
			}
		})
	}
}

func TestBindBatch(t *testing.T) {
	t.Parallel()
	args := dialect.Args{"id": dialect.Col[string]{"a", "b", "c"}, "n": dialect.Col[*int64]{nil, nil, nil}, "queue": "q"}
	null := (*int64)(nil)
	rows := dialect.Batch{
		SQL: "UPDATE t SET q = :queue FROM (VALUES {rows}) d WHERE q <> :queue",
		Row: "(:id, :n, :queue)",
	}
	for _, c := range []struct {
		name     string
		style    dialect.PlaceholderStyle
		batch    dialect.Batch
		from, to int
		want     string
		values   []any
	}{
		{"rows", dialect.Question, rows, 0, 2,
			"UPDATE t SET q = ? FROM (VALUES (?, ?, ?), (?, ?, ?)) d WHERE q <> ?",
			[]any{"q", "a", null, "q", "b", null, "q", "q"}},
		{"one row, numbered", dialect.Dollar, rows, 2, 3,
			"UPDATE t SET q = $1 FROM (VALUES ($2, $3, $4)) d WHERE q <> $5",
			[]any{"q", "c", null, "q", "q"}},
		{"arrays", dialect.Dollar, dialect.Batch{SQL: "f(:id, :n, :queue, :id)"}, 0, 3,
			"f($1, $2, $3, $4)", []any{[]string{"a", "b", "c"}, []*int64{nil, nil, nil}, "q", []string{"a", "b", "c"}}},
		{"a part of arrays", dialect.Dollar, dialect.Batch{SQL: "f(:id)"}, 1, 3, "f($1)", []any{[]string{"b", "c"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := binder{style: c.style}
			text, values, err := b.bindBatch(c.batch, args, c.from, c.to)
			if err != nil || text != c.want || !reflect.DeepEqual(values, c.values) {
				t.Errorf("got %q %v %v, want %q %v", text, values, err, c.want, c.values)
			}
		})
	}
}

func TestInlinedValuesAreNotBound(t *testing.T) {
	t.Parallel()
	b := binder{
		style: dialect.Question,
		value: func(v any) any { return []any{v} },
		inline: func(text []byte, v any) ([]byte, bool) {
			if n, ok := v.(int); ok {
				return strconv.AppendInt(text, int64(n), 10), true
			}
			return text, false
		},
	}
	args := dialect.Args{"id": dialect.Col[int]{1, 2}, "s": dialect.Col[string]{"a", "b"}, "n": 3, "q": "q"}
	batch := dialect.Batch{SQL: "a = :n AND q = :q IN {rows} OR n = :n", Row: "(:id, :s, :n)"}
	for _, c := range []struct {
		name   string
		bind   func() (string, []any, error)
		want   string
		values []any
	}{
		{"a batch",
			func() (string, []any, error) { return b.bindBatch(batch, args, 0, 2) },
			"a = 3 AND q = ? IN (1, ?, 3), (2, ?, 3) OR n = 3", []any{[]any{"q"}, []any{"a"}, []any{"b"}}},
		{"a plain statement",
			func() (string, []any, error) { return b.bind("n = :n AND q = :q", args) },
			"n = 3 AND q = ?", []any{[]any{"q"}}},
		{"one row",
			func() (string, []any, error) { return b.bindRow("n = :id AND s = :s", args, 1) },
			"n = 2 AND s = ?", []any{[]any{"b"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			text, values, err := c.bind()
			if err != nil || text != c.want || !reflect.DeepEqual(values, c.values) {
				t.Errorf("got %q %v %v, want %q %v", text, values, err, c.want, c.values)
			}
		})
	}
}

func TestBindValueSeesEveryValue(t *testing.T) {
	t.Parallel()
	b := binder{style: dialect.Question, value: func(v any) any { return []any{v} }}
	args := dialect.Args{"id": dialect.Col[int]{1, 2}, "n": 3}
	_, values, err := b.bindBatch(dialect.Batch{SQL: ":n {rows}", Row: "(:id)"}, args, 0, 2)
	if want := []any{[]any{3}, []any{1}, []any{2}}; err != nil || !reflect.DeepEqual(values, want) {
		t.Errorf("got %v %v, want %v", values, err, want)
	}
	_, values, err = b.bindBatch(dialect.Batch{SQL: ":id"}, args, 0, 2)
	if want := []any{[]any{[]int{1, 2}}}; err != nil || !reflect.DeepEqual(values, want) {
		t.Errorf("got %v %v, want %v", values, err, want)
	}
}

func TestLiteralWritesValuesIntoTheText(t *testing.T) {
	t.Parallel()
	var s Session
	args := dialect.Args{"title": "is it there? it's", "version": 3}
	got, err := s.Literal("INSERT INTO t VALUES (:title, :version)", args)
	if want := "INSERT INTO t VALUES ('is it there? it''s', 3)"; err != nil || got != want {
		t.Errorf("got %q %v, want %q", got, err, want)
	}
}

func TestSeparator(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ sql, row, want string }{
		{"DELETE WHERE id IN ({rows})", ":id", ", "},
		{"UPDATE FROM ({rows})", "SELECT :id, 3", " UNION ALL "},
		{"BEGIN\n  {rows}\nEND;", "BEGIN\n    INSERT :id;\n  END;", "\n  "},
		{"SELECT 1\n WHERE (1 = 0\n        {rows})", "OR id = :id", "\n        "},
	} {
		if got := Separator(dialect.Batch{SQL: c.sql, Row: c.row}); got != c.want {
			t.Errorf("the rows %q are separated by %q, want %q", c.row, got, c.want)
		}
	}
}

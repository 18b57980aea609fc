package sqlrun

import (
	"strings"
	"testing"

	"github.com/dbq-go/dbq/dialect"
)

// FuzzBind binds any text: the binder refuses it for a question mark, or changes nothing but its names, of which
// literals and comments have none.
func FuzzBind(f *testing.F) {
	for _, text := range []string{
		"SELECT 1", "x = :a AND y = :b_c", "(:a, :b, :a)", "-- why: this?\nSELECT :a /* one */", "CAST(:a AS bigint)+:a;",
		"':a' || :a", "'it''s :a'", "\":a\"", "x := :a", ":a::int", "a ? b", ":", "::", ":::a", "'", "/*", "--", "{rows}",
		"-- isn't\n:a", "é:a", "\x00:a\xff",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if text == "" { // the binder takes it for a misspelled name
			return
		}
		plain, question := withoutComment(text), binder{style: dialect.Question}
		names := question.compile(text).names
		const rows = 3
		one, columns := dialect.Args{}, dialect.Args{}
		for _, name := range names {
			one[name], columns[name] = ":"+name, dialect.Col[string]{":" + name, ":" + name, ":" + name}
		}
		got, values, err := question.bind(text, one)
		if refused := strings.Contains(plain, "?"); refused != (err != nil) {
			t.Errorf("%q: got error %v, want one: %v", text, err, refused)
		}
		if err != nil {
			return
		}
		if restored(t, got, values) != plain {
			t.Errorf("%q became %q with %v", text, got, values)
		}
		for _, style := range []dialect.PlaceholderStyle{dialect.Dollar, dialect.Colon} {
			b := binder{style: style}
			got, values, err := b.bind(text, one)
			if err != nil || strings.Contains(got, "?") || len(values) != len(names) {
				t.Errorf("%q became %q with %v, %v", text, got, values, err)
			}
		}
		inlining := binder{inline: func(text []byte, v any) ([]byte, bool) { return append(text, v.(string)...), true }}
		if got, values, err := inlining.bind(text, one); got != plain || len(values) != 0 || err != nil {
			t.Errorf("%q became %q with %v, %v", text, got, values, err)
		}
		batch := dialect.Batch{SQL: "head {rows} tail", Row: text}
		got, values, err = question.bindBatch(batch, columns, 0, rows)
		list := strings.Join([]string{plain, plain, plain}, Separator(batch))
		if want := "head " + list + " tail"; err != nil ||
			restored(t, got, values) != want {
			t.Errorf("%d rows of %q became %q with %v, %v", rows, text, got, values, err)
		}
		for _, bare := range []string{
			"'" + strings.ReplaceAll(text, "'", "''") + "'",
			"--" + strings.ReplaceAll(text, "\n", " ") + "\n",
			"/*" + strings.ReplaceAll(text, "*", "+") + "*/",
		} {
			got, values, err := question.bind("SELECT "+bare+":z", dialect.Args{"z": 1})
			if !strings.Contains(bare, "?") && (got != "SELECT "+bare+"?" || len(values) != 1 || err != nil) {
				t.Errorf("%q became %q with %v, %v", bare, got, values, err)
			}
		}
	})
}

// restored is a text with its values in the place of question marks.
func restored(t *testing.T, text string, values []any) string {
	t.Helper()
	parts := strings.Split(text, "?")
	if len(parts) != len(values)+1 {
		t.Fatalf("%q has %d values", text, len(values))
	}
	out := parts[0]
	for i, v := range values {
		out += v.(string) + parts[i+1]
	}
	return out
}

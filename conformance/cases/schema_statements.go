package cases

import (
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/dbq-go/dbq/state"
)

// valueName finds the names of values. It also finds the type of a PostgreSQL cast (::int): statements say CAST.
var valueName = regexp.MustCompile(`:([a-z_]+)`)

func schemaStatements(t *test) {
	st := reflect.ValueOf(sqlrun.NewTexts(t.dialect(), dialect.Names{Prefix: t.Prefix}).Statements)
	for i := range st.NumField() {
		field, v := st.Type().Field(i).Name, st.Field(i)
		mayBeEmpty := dialect.FieldOf(field).Optional
		switch x := v.Interface().(type) {
		case dialect.PlaceholderStyle, bool, []state.State:
		case string:
			t.checkStatement(field, x, mayBeEmpty)
		case []string:
			if len(x) == 0 && !mayBeEmpty {
				t.Errorf("%s is empty", field)
			}
			for _, s := range x {
				t.checkStatement(field, s, false)
			}
		case map[state.State]string: // conditions
			for _, s := range x {
				t.checkStatement(field, s, false)
			}
		case dialect.Batch:
			if x.SQL != "" || !mayBeEmpty {
				t.checkBatch(field, x)
			}
		case map[string]dialect.Batch:
			if len(x) == 0 {
				t.Errorf("%s is empty: Checkout has no statement", field)
			}
			for _, b := range x {
				if b.Max == 0 { // a plain text
					t.checkStatement(field, b.SQL, false)
				} else {
					t.checkBatch(field, b)
				}
			}
		default:
			t.Errorf("this suite does not know how to check the field %s", field)
		}
	}
}

func (t *test) checkBatch(field string, b dialect.Batch) {
	if b.Max < 1 {
		t.Errorf("%s takes %d rows in one statement", field, b.Max)
	}
	if rows := strings.Count(b.SQL, "{rows}"); (b.Row != "") != (rows == 1) || rows > 1 {
		t.Errorf("%s has the row %q and %d times {rows} in %s", field, b.Row, rows, b.SQL)
	}
	t.checkStatement(field, b.SQL, false)
	t.checkStatement(field, b.Row, true)
}

func (t *test) checkStatement(field, text string, mayBeEmpty bool) {
	if strings.TrimSpace(text) == "" && !mayBeEmpty {
		t.Errorf("%s is empty", field)
	}
	if field == "Limit" && strings.Count(text, ":limit") != 1 {
		t.Errorf("Limit must hold :limit once: %s", text)
	}
	if strings.Contains(text, "?") {
		t.Errorf("%s holds a question mark, which the core takes for a placeholder: %s", field, text)
	}
	if _, asks := t.dialect().(dialect.Searcher); field == "Own" || field == "Next" && asks {
		return // only the dialect knows the values
	}
	f := dialect.FieldOf(field)
	documented := slices.Concat(f.Args, f.Columns)
	for _, m := range valueName.FindAllStringSubmatch(text, -1) {
		if !slices.Contains(documented, strings.TrimSuffix(m[1], "_size")) {
			t.Errorf("%s asks for :%s, which is not one of %q", field, m[1], documented)
		}
	}
}

func schemaNames(t *test) {
	st := reflect.ValueOf(sqlrun.NewTexts(t.dialect(), dialect.Names{Prefix: "otherprefix_"}))
	usual := regexp.MustCompile(`\bdbq_\w`)
	var look func(field string, v reflect.Value)
	look = func(field string, v reflect.Value) {
		switch v.Kind() {
		case reflect.String:
			if found := usual.FindString(v.String()); found != "" {
				t.Errorf("%s names a table of the default prefix under another one: %s", field, v.String())
			}
		case reflect.Struct:
			for i := range v.NumField() {
				look(field, v.Field(i))
			}
		case reflect.Slice:
			for i := range v.Len() {
				look(field, v.Index(i))
			}
		case reflect.Map:
			for _, k := range v.MapKeys() {
				look(field, v.MapIndex(k))
			}
		}
	}
	for i := range st.NumField() {
		look(st.Type().Field(i).Name, st.Field(i))
	}
}

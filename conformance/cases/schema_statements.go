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

// documentedValues are the values that each statement may use, as dialect.Statements documents them.
var documentedValues = map[string]string{
	"Now": "", "Dual": "", "Begin": "", "Limit": "limit", "Columns": "", "Payload": "", "DropTable": "", "DropView": "",
	"Count":     "",
	"CountUpTo": "queue limit", "CountNewest": "limit", "NextQueue": "queue",
	"MigrationLock": "name", "MigrationUnlock": "name",
	"Insert": "queue id reused clock reference kind task_key priority at delay max_attempts headers payload " +
		"payload_size now",
	"AddKeys": "id queue scope name task expires", "FindKeys": "id", "LockKeys": "id", "SetKeys": "id task expires",
	"DropKeys": "id", "OldKeys": "limit", "LockWaiting": "id running", "Postpone": "id at",
	"Replace":  "id kind priority at headers payload payload_size",
	"Settle":   "id fence state at after uncount result result_size lock_wait callers_tx",
	"Remove":   "id fence lock_wait",
	"LockFree": "id",
	"Extend":   "id fence lease progress progress_size",
	"Start":    "id fence", "DropLeases": "id fence", "ExpireLeases": "age limit",
	"Movable": "id", "Move": "id", "Purge": "id", "Purgeable": "id", "Assignments": "",
	"SetResult": "id result result_size", "SetProgress": "id progress",
	"Held": "queue holder", "Exhausted": "queue holder",
	"RecordLast":     "id error error_size",
	"Record":         "id fence queue attempt outcome taken ended worker error",
	"ExpireAttempts": "queue age limit",
	"Busy":           "queue", "BusyKeys": "queue", "DueFirst": "queue limit", "DueKeys": "queue after limit",
	"DueOfKeys": "queue task_key limit",
	"Archive":   "id", "IDBehind": "after before offset", "Peek": "id",
	"InState": "", "Next": "queue", "Notify": "channel payload",
}

// valueName finds the names of values. It also finds the type of a PostgreSQL cast (::int): statements say CAST.
var valueName = regexp.MustCompile(`:([a-z_]+)`)

func schemaStatements(t *test) {
	st := reflect.ValueOf(sqlrun.NewTexts(t.dialect(), dialect.Names{Prefix: t.Prefix}).Statements)
	for i := range st.NumField() {
		field, v := st.Type().Field(i).Name, st.Field(i)
		mayBeEmpty := sqlrun.MayBeEmpty(field)
		switch x := v.Interface().(type) {
		case dialect.PlaceholderStyle, []state.State:
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
	documented, known := documentedValues[field]
	if _, asks := t.dialect().(dialect.Searcher); field == "Own" || field == "Next" && asks {
		return // only the dialect knows the values
	}
	if !known {
		t.Errorf("this suite does not know which values %s may ask for", field)
	}
	for _, m := range valueName.FindAllStringSubmatch(text, -1) {
		if !slices.Contains(strings.Fields(documented), m[1]) {
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

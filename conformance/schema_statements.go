package conformance

import (
	"cmp"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/state"
)

// statementNames are the values that each statement may ask for, as dialect.Statements documents them.
var statementNames = map[string]string{
	"Now": "", "Dual": "", "Begin": "", "Version": "", "MigrationTable": "", "Drop": "", "Count": "", "CountUpTo": "queue limit", "CountNewest": "limit", "NextQueue": "queue",
	"SetVersion": "version title compatible", "MigrationLock": "name", "MigrationUnlock": "name",
	"Insert":      "queue id reused clock reference kind priority at delay max_attempts headers payload payload_size",
	"InsertAlike": "queue id kind priority at delay max_attempts headers payload payload_size now",
	"Settle":      "id fence state at after uncount result result_size lock_wait",
	"Complete":    "id fence lock_wait", "Remove": "id fence lock_wait", "RemoveAlike": "id fence lock_wait", "Unlocked": "id",
	"Extend": "id fence lease",
	"Start":  "id fence", "DropLeases": "id fence", "ExpireLeases": "age limit", "Move": "id",
	"SetResult": "id result result_size", "Get": "id", "Held": "queue holder", "Exhausted": "queue holder",
	"Note": "kind name", "Notes": "kind limit", "AddNote": "kind name value ttl", "SetNote": "kind name value ttl version",
	"DropNote": "kind name", "ExpireNotes": "kind age",
	"RecordAlike": "id fence queue attempt outcome started ended worker",
	"Record":      "id fence queue attempt outcome started ended worker error", "Attempts": "id limit", "ExpireAttempts": "queue age limit",
	"Archive": "id", "ListArchive": "limit",
	"List": "limit", "FindIDs": "limit", "IDBehind": "after before offset", "Peek": "id", "FindReference": "queue reference",
	"InState": "", "Next": "queue", "Notify": "channel payload",
}

// anyName are fields whose values are the dialect's own business, as are those of Next where it is the dialect that runs it.
var anyName = []string{"Checkout", "CheckoutBatch"}

// word finds the names of values. It takes the type of a PostgreSQL cast (::int) for a name, rightly so: the core cannot bind it.
var word = regexp.MustCompile(`:([a-z_]+)`)

func schemaStatements(t *T) {
	statements := t.dialect().Statements(dialect.Names{Prefix: t.prefix})
	st := reflect.ValueOf(statements)
	checkouts := 0
	for i := range st.NumField() {
		field, v := st.Type().Field(i).Name, st.Field(i)
		mayBeEmpty := statements.MayBeEmpty(field)
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
		case map[state.Event]dialect.Batch:
			t.checkMove(field, x)
		case map[string]string:
			checkouts += len(x)
			for _, s := range x {
				t.checkStatement(field, s, false)
			}
		case map[string]dialect.Batch:
			checkouts += len(x)
			for _, b := range x {
				t.checkBatch(field, b)
			}
		default:
			t.Errorf("this suite does not know how to check the field %s", field)
		}
	}
	if checkouts == 0 {
		t.Errorf("Checkout and CheckoutBatch are both empty")
	}
}

func (t *T) checkMove(field string, moves map[state.Event]dialect.Batch) {
	for _, tr := range state.ByOperator() {
		if _, ok := moves[tr.Event]; !ok {
			t.Errorf("%s has no statement for %s", field, tr.Event)
		}
	}
	for e, b := range moves {
		if _, ok := state.Find(e, state.Operator); !ok {
			t.Errorf("%s has a statement for %s, which is not an operator's event", field, e)
		}
		t.checkBatch(field, b)
	}
}

func (t *T) checkBatch(field string, b dialect.Batch) {
	if b.Max < 1 {
		t.Errorf("%s takes %d rows in one statement", field, b.Max)
	}
	for i, text := range []string{b.SQL, b.First, b.After} {
		if text == "" && i > 0 {
			continue // for engines that cannot return what a statement changed
		}
		row := b.Row
		if i > 0 {
			row = cmp.Or(b.ReadRow, b.Row)
		}
		if rows := strings.Count(text, "{rows}"); (row != "") != (rows == 1) || rows > 1 {
			t.Errorf("%s has the row %q and %d times {rows} in %s", field, row, rows, text)
		}
		t.checkStatement(field, text, false)
	}
	if strings.Contains(b.One, "{rows}") {
		t.Errorf("%s has {rows} in what is for a single row: %s", field, b.One)
	}
	t.checkStatement(field, b.One, true)
	t.checkStatement(field, b.Row, true)
	t.checkStatement(field, b.ReadRow, true)
}

func (t *T) checkStatement(field, text string, mayBeEmpty bool) {
	if strings.TrimSpace(text) == "" && !mayBeEmpty {
		t.Errorf("%s is empty", field)
	}
	if field == "List" || field == "FindIDs" || field == "ListArchive" {
		parts := []string{"{where}", ":limit"}
		if field == "List" {
			parts = append(parts, "{order}")
		}
		for _, part := range parts {
			if strings.Count(text, part) != 1 {
				t.Errorf("%s must hold %s once: %s", field, part, text)
			}
		}
	}
	if strings.Contains(text, "?") {
		t.Errorf("%s holds a question mark, which the core takes for a placeholder: %s", field, text)
	}
	documented, known := statementNames[field]
	if _, asks := t.dialect().(dialect.Nexter); slices.Contains(anyName, field) || field == "Next" && asks {
		return
	}
	if !known {
		t.Errorf("this suite does not know which values %s may ask for", field)
	}
	for _, m := range word.FindAllStringSubmatch(text, -1) {
		if !slices.Contains(strings.Fields(documented), m[1]) {
			t.Errorf("%s asks for :%s, which is not one of %q", field, m[1], documented)
		}
	}
}

func schemaNames(t *T) {
	st := reflect.ValueOf(t.dialect().Statements(dialect.Names{Prefix: "otherprefix_"}))
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

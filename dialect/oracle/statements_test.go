package oracle

import (
	"context"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/internal/dialecttest"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
	driver "github.com/sijms/go-ora/v2"
)

// one and many are the values that the core binds, under the names that it uses.
var one, many = values()

func values() (one, many dialect.Args) {
	one, many = dialecttest.One(), dialecttest.Two()
	one["priority"], one["age"], one["kind"], one["namespace"], one["after"] = 5, int64(1), "k", "k", uuid.UUID{2}
	sizes := dialect.Col[*int64]{nil, new(int64)}
	// what all rows share goes into an array, too
	many["lease"], many["known_started"] = dialect.Col[int64]{1, 1}, dialect.Col[int64]{0, 0}
	many["holder"] = dialect.Col[string]{"h", "h"}
	many["payload"] = dialect.Col[[]byte]{nil, make([]byte, inlineBytes+1)}
	many["payload_size"], many["result_size"] = sizes, sizes
	return one, many
}

// sent is a statement as the driver gets it.
type sent struct {
	name, text string
	values     []any
}

// recorder is a connection that writes down what it is told. It is no server.
type recorder struct{ last sent }

func (r *recorder) Exec(_ context.Context, query string, args ...any) (int64, error) {
	r.last = sent{text: query, values: args}
	return 0, nil
}

func (r *recorder) Query(_ context.Context, query string, args []any, read func(dialect.Rows) error) error {
	r.last = sent{text: query, values: args}
	return read(none{})
}

type none struct{}

func (none) Columns() ([]string, error) { return nil, nil }
func (none) Next() bool                 { return false }
func (none) Scan(...any) error          { return nil }
func (none) Err() error                 { return nil }

// everything is each statement of the dialect, DDL first, as it is sent.
func everything(t *testing.T, names dialect.Names) (out []sent) {
	s := sqlrun.NewSession(Dialect{}, dialect.Pool{}, dialect.Server{ExplicitTx: true}, names)
	st := s.Texts
	raw := func(name string, texts ...string) {
		for i, text := range texts {
			out = append(out, sent{name: fmt.Sprint(name, " ", i), text: text})
		}
	}
	bound := func(name, text string, args dialect.Args) {
		t.Helper()
		var r recorder
		if _, err := s.Exec(t.Context(), &r, text, args); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		r.last.name = name
		out = append(out, r.last)
	}
	batch := func(name string, b dialect.Batch) {
		t.Helper()
		var r recorder
		if _, err := s.ExecBatch(t.Context(), &r, b, many, 2); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		r.last.name = name
		out = append(out, r.last)
	}
	for _, m := range (Dialect{}).Migrations(names) {
		raw(fmt.Sprint("Migration ", m.Version), m.Statements...)
	}
	raw("Probe", probe)
	raw("Now", "SELECT "+st.Now+" AS now "+st.Dual)
	bound("Version", st.Version, one)
	bound("SetVersion", st.SetVersion, one)
	bound("MigrationLock", st.MigrationLock.Take, one)
	bound("MigrationLock free", st.MigrationLock.Free, one)
	bound("Get", st.Get, one)
	bound("Held", st.Held, one)
	bound("FindReference", st.FindReference, one)
	bound("Count", st.Count, one)
	// the core's conditions, all at once
	where := "1 = 1 AND queue = :queue AND reference = :reference AND kind = :kind AND due IS NULL AND updated <= " +
		st.Now + " - :age AND id > :after AND " + state.Condition(state.All()...)
	bound("List", sqlrun.ListText(st.List, where, true), one)
	bound("FindIDs", strings.Replace(st.FindIDs, "{where}", where, 1), one)
	bound("ListArchive", strings.Replace(st.ListArchive, "{where}", where, 1), one)
	bound("CountUpTo", st.CountUpTo, one)
	bound("CountNewest", st.CountNewest, one)
	bound("NextQueue", st.NextQueue, one)
	bound("IDBehind", st.IDBehind, one)
	bound("IDBefore", st.IDBefore, one)
	bound("DueKeys", st.DueKeys, dialect.Args{"queue": "q", "after": "k", "limit": 10})
	for name, text := range map[string]string{
		"Next":           st.Next,
		"Busy":           st.Busy,
		"BusyKeys":       st.BusyKeys,
		"DueTasks":       st.DueTasks,
		"GetKV":          st.GetKV,
		"LockKV":         st.LockKV,
		"ListKV":         st.ListKV,
		"EarliestKV":     st.EarliestKV,
		"AddKV":          st.AddKV,
		"SetKV":          st.SetKV,
		"DropKV":         st.DropKV,
		"ExpireKV":       st.ExpireKV,
		"Attempts":       st.Attempts,
		"ExpireAttempts": st.ExpireAttempts,
		"ExpireLeases":   st.ExpireLeases,
	} {
		bound(name, text, one)
	}
	texts, batches := dialecttest.Private(st.Statements)
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		bound("Private "+name, texts[name], one)
	}
	batch("Insert", st.Insert)
	batch("AddKeys", st.AddKeys)
	batch("FindKeys", st.FindKeys)
	batch("LockKeys", st.LockKeys)
	batch("SetKeys", st.SetKeys)
	batch("DropKeys", st.DropKeys)
	bound("OldKeys", st.OldKeys, one)
	batch("LockWaiting", st.LockWaiting)
	batch("Replace", st.Replace)
	batch("Postpone", st.Postpone)
	batch("AddStatistics", st.AddStatistics)
	bound("Statistics", st.Statistics, one)
	bound("StatisticsOf", st.StatisticsOf, one)
	bound("OldestStatistics", st.OldestStatistics, one)
	bound("CountAudit", st.CountAudit, one)
	bound("CountArchive", st.CountArchive, one)
	bound("DropStatistics", st.DropStatistics, one)
	bound("CountIDs", st.CountIDs, one)
	batch("AddWorkflowTasks", st.AddWorkflowTasks)
	batch("AddWorkflowNeeds", st.AddWorkflowNeeds)
	batch("WorkflowTasks", st.WorkflowTasks)
	batch("WorkflowNeeds", st.WorkflowNeeds)
	batch("LockWorkflowTasks", st.LockWorkflowTasks)
	batch("CountNeeds", st.CountNeeds)
	batch("MeetNeeds", st.MeetNeeds)
	batch("NeededWorkflowTasks", st.NeededWorkflowTasks)
	batch("DropWorkflowNeeds", st.DropWorkflowNeeds)
	batch("DropWorkflowTasks", st.DropWorkflowTasks)
	bound("AddWorkflowChange", st.AddWorkflowChange, one)
	bound("WorkflowStep", st.WorkflowStep, one)
	bound("WorkflowList", st.WorkflowList, one)
	bound("WorkflowParents", st.WorkflowParents, one)
	bound("Workflows", st.Workflows, one)
	batch("Settle", st.Settle)
	batch("Remove", st.Remove)
	batch("LockFree", st.LockFree)
	batch("Extend", st.Extend)
	batch("Start", st.Start)
	batch("DropLeases", st.DropLeases)
	batch("Peek", st.Peek)
	batch("DueOfKeys", st.DueOfKeys)
	batch("HeadsOfKeys", st.HeadsOfKeys)
	batch("KeyRates", st.KeyRates)
	batch("SetKeyRates", st.SetKeyRates)
	bound("ExpireKeyRates", st.ExpireKeyRates, one)
	bound("DropKeyRates", st.DropKeyRates, one)
	bound("CapKeyRates", st.CapKeyRates, one)
	batch("SetResult", st.SetResult)
	batch("SetProgress", st.SetProgress)
	batch("Record", st.Record)
	batch("RecordLast", st.RecordLast)
	bound("LastAttempt", st.LastAttempt, one)
	batch("Archive", st.Archive)
	for _, row := range state.ByOperator() {
		batch("Move "+string(row.Event), st.Move[row.Event])
		batch("Movable "+string(row.Event), st.Movable[row.Event])
	}
	for _, name := range slices.Sorted(maps.Keys(batches)) {
		batch("Private "+name, batches[name])
	}
	raw("Drop", st.Drop...)
	return out
}

// catalog lists the server's own views that our statements read.
func catalog() schema {
	of := func(names ...string) (columns []column) {
		for _, name := range names {
			columns = append(columns, column{name: name})
		}
		return columns
	}
	return schema{
		"PRODUCT_COMPONENT_VERSION": of("VERSION_FULL", "PRODUCT"),
		"NLS_DATABASE_PARAMETERS":   of("PARAMETER", "VALUE"),
		"NLS_SESSION_PARAMETERS":    of("PARAMETER", "VALUE"),
		"ALL_USERS":                 of("USERNAME", "DEFAULT_COLLATION"),
		"ALL_OBJECTS":               of("OWNER", "OBJECT_NAME", "OBJECT_TYPE"),
	}
}

// namings are those that a program may ask for, the longest among them.
var namings = []dialect.Names{
	{Prefix: "dbq_"},
	{Prefix: "q_", Schema: "jobs"},
	{Prefix: "twenty_characters_1_", Schema: "twenty_characters_2_"},
}

func TestEveryStatementIsValidOracleSQL(t *testing.T) {
	t.Parallel()
	for _, names := range namings {
		s := catalog()
		all := everything(t, names)
		for _, x := range all {
			problems := check
			if strings.HasPrefix(x.text, "COMMENT") {
				problems = func(s schema, text string, _ int) []string { return checkComment(s, text) }
			}
			for _, problem := range problems(s, x.text, len(x.values)) {
				t.Errorf("%v %s: %s\n%s", names, x.name, problem, x.text)
			}
		}
		if len(all) < 40 {
			t.Errorf("only %d statements were read", len(all))
		}
		st := reflect.ValueOf(Dialect{}.Statements(names))
		for _, f := range reflect.VisibleFields(st.Type()) {
			field := f.Name
			read := slices.ContainsFunc(all, func(x sent) bool { return strings.HasPrefix(x.name+" ", field+" ") })
			others := field == "Movable" || field == "Move" || // everything has one for each event
				field == "Indexes" // which Oracle has none of
			if !read && !others && !f.Anonymous && !st.FieldByIndex(f.Index).IsZero() && !sqlrun.FieldOf(field).Part {
				t.Errorf("%s was not read", field)
			}
		}
	}
}

// The statement for programs in other languages, in docs/enqueue-from-sql.md, is Oracle's, too.
func TestDocumentedEnqueueIsValidOracleSQL(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/enqueue-from-sql.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Oracle\n")
	_, text, _ := strings.Cut(section, "```sql\n")
	text, _, found := strings.Cut(text, "\n/\n```")
	s := catalog()
	for _, x := range everything(t, namings[0]) {
		check(s, x.text, len(x.values)) // makes the tables
	}
	for _, problem := range check(s, text, 0) {
		t.Errorf("%s\n%s", problem, text)
	}
	if !found {
		t.Error("the page has no statement for Oracle")
	}
}

// No time goes over the wire, and nothing of a type that the driver would have to guess.
func TestEveryBoundValueHasADriverType(t *testing.T) {
	t.Parallel()
	batch := fmt.Sprintf("%T", driver.NewBatch([]int64{1}))
	for _, x := range everything(t, namings[0]) {
		arrays := 0
		for i, v := range x.values {
			switch v.(type) {
			case []byte, string, *string, int, int64, *int64, driver.Blob:
			default:
				if arrays++; fmt.Sprintf("%T", v) != batch {
					t.Errorf("%s: the value %d is a %T", x.name, i+1, v)
				}
			}
		}
		isDML := !strings.HasPrefix(x.text, "SELECT") && !strings.HasPrefix(x.text, "DECLARE")
		if arrays > 0 && (arrays < len(x.values) || !isDML) {
			t.Errorf("%s: %d of %d values are arrays: go-ora wants all of them to be, and a plain INSERT, UPDATE or DELETE\n%s",
				x.name, arrays, len(x.values), x.text)
		}
	}
}

// Settling and what else changes many tasks goes as array binds; a block cannot.
func TestArrayBinds(t *testing.T) {
	t.Parallel()
	st := sqlrun.NewTexts(Dialect{}, namings[0])
	batches := map[string]dialect.Batch{
		"Settle":     st.Settle,
		"Remove":     st.Remove,
		"Start":      st.Start,
		"DropLeases": st.DropLeases,
		"take":       st.Private["take"],
		"take over":  st.Private["take over"],
		"poison":     st.Private["poison"],
	}
	for e, b := range st.Move {
		batches[string(e)] = b
	}
	for name, b := range batches {
		sql := strings.Join(strings.Fields(b.SQL), " ")
		if b.Row != "" || strings.Contains(sql, "BEGIN") || !strings.Contains(sql, "WHERE id = :id AND") {
			t.Errorf("%s is no array bind by primary key: %+v", name, b)
		}
	}
}

// DDL commits by itself, so each step is run again after a failure between two of them.
func TestEachStepCanBeRunAgain(t *testing.T) {
	t.Parallel()
	steps, st := []string(nil), sqlrun.NewTexts(Dialect{}, namings[0])
	for _, m := range (Dialect{}).Migrations(namings[0]) {
		steps = append(steps, m.Statements...)
	}
	for _, text := range steps {
		if !strings.HasPrefix(text, "COMMENT") && !strings.Contains(text, "SQLCODE <> -955") {
			t.Errorf("what is there already would be an error: %s", text)
		}
	}
	for _, text := range st.Drop {
		if !strings.Contains(text, "SQLCODE <> -942") {
			t.Errorf("what is gone already would be an error: %s", text)
		}
	}
}

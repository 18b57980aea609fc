package dialecttest

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/dbq-go/dbq/state"
)

// result has the columns that statements may return.
type result struct {
	dialect.Row
	Version    *int `db:"version"`
	Compatible *int `db:"compatible"`
	Tasks      int  `db:"tasks"`

	Any  bool    `db:"any"`                   // of SQLite
	Lock *string `db:"pg_advisory_xact_lock"` // of PostgreSQL
}

// elsewhere are the statements that are not run for themselves, with the reason.
var elsewhere = map[string]string{
	"Begin":      "every transaction of this test begins with it",
	"Drop":       "it comes last",
	"OfWorkflow": "it is a condition",
}

// told are the statements that tell the number of rows or nothing, and return no columns.
var told = []string{
	"SetVersion", "AddKV", "SetKV", "DropKV", "ExpireKV", "ExpireAttempts", "ExpireLeases", "Notify",
	"AddWorkflowChange", "AddAudit", "DropKeyRates", "CapKeyRates", "ExpireKeyRates",
}

// everyStatementRuns checks that the server takes each statement, in a transaction of its own, and returns no columns
// but those of result; and that the core's statements do what dialect.Statements says, as far as numbers of rows show.
// In the end it drops the tables. locks are those of an engine.
func everyStatementRuns(t *testing.T, s *sqlrun.Session, one, two dialect.Args, locks map[string]string) {
	t.Helper()
	r := runner{t: t, s: s, one: one, two: two, locks: locks, read: readAs[result]}
	st := reflect.ValueOf(s.Texts)
	for _, field := range reflect.VisibleFields(st.Type()) {
		if !field.Anonymous {
			r.field(field.Name, st.FieldByIndex(field.Index))
		}
	}
	for name := range elsewhere {
		if !st.FieldByName(name).IsValid() {
			t.Errorf("%s is no statement any more", name)
		}
	}
	t.Run("effects", func(t *testing.T) { effects(t, s) })
	for range 2 { // what is not there is no error
		for _, text := range s.Texts.Drop {
			if _, err := s.Pool.Write.ExecContext(t.Context(), text); err != nil {
				t.Errorf("%v\n%s", err, text)
			}
		}
	}
}

// runner runs each text of a session's statements.
type runner struct {
	t        *testing.T
	s        *sqlrun.Session
	one, two dialect.Args
	locks    map[string]string
	read     reader
}

// A reader runs a query and reads its rows into a type.
type reader func(ctx context.Context, s *sqlrun.Session, c dialect.Conn, text string, args dialect.Args) error

func readAs[T any](ctx context.Context, s *sqlrun.Session, c dialect.Conn, text string, args dialect.Args) error {
	_, err := sqlrun.QueryAs[T](ctx, s, c, text, args)
	return err
}

// field runs what a field of Statements holds.
func (r runner) field(name string, v reflect.Value) {
	r.t.Helper()
	if elsewhere[name] != "" || sqlrun.FieldOf(name).Part {
		return
	}
	if empty(v) {
		r.t.Run(name, func(t *testing.T) {
			if !sqlrun.FieldOf(name).Optional {
				t.Fatal("it is empty")
			}
			t.Skip("this dialect leaves it empty")
		})
		return
	}
	switch v := v.Interface().(type) {
	case string:
		r.text(name, v)
	case []string:
		r.inTx(name, strings.Join(v, ";\n"), func(ctx context.Context, c dialect.Conn) error {
			for _, text := range v {
				if _, err := c.Exec(ctx, text); err != nil {
					return err
				}
			}
			return nil
		})
	case dialect.Batch:
		r.batch(name, v)
	case map[state.Event]dialect.Batch:
		for _, row := range state.ByOperator() { // every operator's event has its statement
			r.batch(name+" "+string(row.Event), v[row.Event])
		}
	case map[state.State]dialect.Index:
		for _, in := range slices.Sorted(maps.Keys(v)) {
			r.index(name+" "+in.String(), v[in])
		}
	case dialect.Lock:
		r.exec(name, v.Take, v.Free)
	case map[string]dialect.Batch:
		texts, batches := Private(r.s.Texts.Statements)
		r.own(name, texts)
		for _, key := range slices.Sorted(maps.Keys(batches)) {
			r.batch(name+" "+key, batches[key])
		}
	default:
		r.t.Errorf("%s is a %T, which this test cannot run", name, v)
	}
}

// index runs what an index is for.
func (r runner) index(name string, by dialect.Index) {
	r.t.Helper()
	if by.Where != "" {
		r.query(name, sqlrun.IndexText(r.s.Texts.ListSome, by), r.read)
	}
	if by.Filter != "" {
		r.query(name+" filter", sqlrun.ListText(r.s.Texts.List, by.Filter, false), r.read)
		r.query(name+" archived", strings.Replace(r.s.Texts.ListArchive, "{where}", by.Filter, 1), r.read)
	}
}

// empty reports whether a field holds no statement.
func empty(v reflect.Value) bool {
	switch x := v.Interface().(type) {
	case dialect.Batch:
		return x.SQL == ""
	case dialect.Lock:
		return x.Take == ""
	case string:
		return x == ""
	default:
		return (v.Kind() == reflect.Slice || v.Kind() == reflect.Map) && v.Len() == 0
	}
}

// everyTask leads to all tasks of the queue.
var everyTask = dialect.Index{Where: "1 = 1"}

// text runs a plain statement as the core does.
func (r runner) text(name, text string) {
	r.t.Helper()
	st := r.s.Texts
	switch {
	case name == "Now":
		r.query(name, "SELECT "+text+" AS now "+st.Dual, r.read)
	case strings.HasSuffix(name, "tKV") || name == "QueueKV": // GetKV, ListKV, EarliestKV
		r.query(name, text, readAs[sqlrun.KVRow])
	case name == "Attempts":
		r.query(name, text, readAs[sqlrun.AttemptRow])
	case name == "Count" || name == "CountUpTo" || name == "CountNewest" || name == "NextQueue":
		r.query(name, text, readAs[sqlrun.CountRow])
	case name == "MatchSome":
		text = strings.ReplaceAll(text, "{matches}", "queue = :queue")
		r.query(name, sqlrun.IndexText(text, everyTask), readAs[sqlrun.SomeRow])
	case name == "ListSome" || name == "SomeIDs":
		r.query(name, sqlrun.IndexText(text, everyTask), r.read)
	case name == "WorkflowStep" || name == "WorkflowList" || name == "WorkflowParents" || name == "Workflows":
		r.query(name, text, readAs[sqlrun.WorkflowRow])
	case name == "ListAudit":
		r.query(name, sqlrun.ListText(text, "1 = 1", false), readAs[sqlrun.AuditRow])
	case name == "Statistics" || name == "StatisticsOf":
		r.query(name, text, readAs[sqlrun.StatisticsRow])
	case name == "CountAudit" || name == "CountArchive":
		r.query(name, text, readAs[sqlrun.TasksRow])
	case name == "OldestStatistics":
		r.query(name, text, readAs[sqlrun.TimeRow])
	case slices.Contains(told, name):
		r.exec(name, text)
	default:
		r.query(name, sqlrun.ListText(text, "1 = 1", false), r.read)
	}
}

// own runs a dialect's own texts.
func (r runner) own(name string, texts map[string]string) {
	r.t.Helper()
	frees := map[string]bool{}
	for take, free := range r.locks {
		r.exec(name+" "+take, texts[take], texts[free])
		frees[free] = true
	}
	for _, key := range slices.Sorted(maps.Keys(texts)) {
		if _, takes := r.locks[key]; !takes && !frees[key] {
			r.query(name+" "+key, texts[key], r.read)
		}
	}
}

func (r runner) query(name, text string, read reader) {
	r.t.Helper()
	r.inTx(name, text, func(ctx context.Context, c dialect.Conn) error { return read(ctx, r.s, c, text, r.one) })
}

// exec runs statements that are not asked for rows, the later ones also when an earlier one failed: they free its lock.
func (r runner) exec(name string, texts ...string) {
	r.t.Helper()
	r.inTx(name, strings.Join(texts, ";\n"), func(ctx context.Context, c dialect.Conn) (err error) {
		for _, text := range texts {
			if text != "" {
				_, execErr := r.s.Exec(ctx, c, text, r.one)
				err = errors.Join(err, execErr)
			}
		}
		return err
	})
}

// batch runs a batch, of a single row where it takes no more.
func (r runner) batch(name string, b dialect.Batch) {
	r.t.Helper()
	if b.Max < 1 || b.SQL == "" {
		r.t.Errorf("%s is not filled: %+v", name, b)
		return
	}
	args := bound(name, r.two)
	r.inTx(name, b.SQL, func(ctx context.Context, c dialect.Conn) error {
		switch name {
		case "WorkflowTasks", "NeededWorkflowTasks", "LockWorkflowTasks":
			_, err := sqlrun.QueryBatchAs[sqlrun.WorkflowRow](ctx, r.s, c, b, args, min(b.Max, 2))
			return err
		case "WorkflowNeeds":
			_, err := sqlrun.QueryBatchAs[sqlrun.NeedRow](ctx, r.s, c, b, args, min(b.Max, 2))
			return err
		case "KeyRates":
			_, err := sqlrun.QueryBatchAs[sqlrun.KeyRateRow](ctx, r.s, c, b, args, min(b.Max, 2))
			return err
		}
		if strings.HasSuffix(name, "Keys") && !strings.HasSuffix(name, "OfKeys") { // of unique tasks
			_, err := sqlrun.QueryBatchAs[sqlrun.KeyRow](ctx, r.s, c, b, args, min(b.Max, 2))
			return err
		}
		_, err := r.s.QueryBatch(ctx, c, b, args, min(b.Max, 2))
		return err
	})
}

// errUndo ends a transaction of the runner, so that no statement meets what another has left.
var errUndo = errors.New("nothing is to stay")

func (r runner) inTx(name, text string, f func(ctx context.Context, c dialect.Conn) error) {
	r.t.Helper()
	r.t.Run(name, func(t *testing.T) {
		t.Helper()
		err := r.s.Tx(t.Context(), func(ctx context.Context, c dialect.Conn) error {
			if err := f(ctx, c); err != nil {
				return err
			}
			return errUndo
		})
		if !errors.Is(err, errUndo) {
			t.Errorf("%v\n%s", err, text)
		}
	})
}

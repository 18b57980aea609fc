package dialecttest

import (
	"context"
	"testing"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// effects holds what the statements do, by how many rows they touch or there are afterwards. It goes through the lives of a few tasks.
func effects(t *testing.T, s *dialect.Session) {
	e := world{t: t, s: s}
	e.migration()
	e.inserts()
	e.reads()
	st := s.Statements
	e.ends("Settle", st.Settle, state.Completed)
	e.ends("Settle", st.Settle, state.Poison)
	e.ends("Complete", st.Complete, state.Completed)
	e.ends("Remove", st.Remove, state.None)
	e.ends("RemoveAlike", st.RemoveAlike, state.None)
	e.ends("Extend", st.Extend, state.Processing)
	e.ends("Start", st.Start, state.Processing)
	e.conditions()
	e.archive()
	e.notes()
	e.attempts()
}

// world is the tables of a session, on which each change is a transaction of its own.
type world struct {
	t *testing.T
	s *dialect.Session
}

// want holds a number.
func (e world) want(what string, got, want int) {
	e.t.Helper()
	if got != want {
		e.t.Errorf("%s: %d, want %d", what, got, want)
	}
}

func (e world) tx(f func(ctx context.Context, c dialect.Conn) error) {
	e.t.Helper()
	if err := e.s.Tx(e.t.Context(), f); err != nil {
		e.t.Fatal(err)
	}
}

// exec runs a plain statement and tells how many rows it touched.
func (e world) exec(text string, args dialect.Args) (touched int) {
	e.t.Helper()
	e.tx(func(ctx context.Context, c dialect.Conn) error {
		n, err := e.s.Exec(ctx, c, text, args)
		touched = int(n)
		return err
	})
	return touched
}

// change runs a batch and tells how many rows it returned.
func (e world) change(b dialect.Batch, args dialect.Args, n int) (returned int) {
	e.t.Helper()
	e.tx(func(ctx context.Context, c dialect.Conn) error {
		rows, err := e.s.QueryBatch(ctx, c, b, args, n)
		returned = len(rows)
		return err
	})
	return returned
}

// addAlike runs a batch of new rows, and holds that it is refused when they are there.
func (e world) addAlike(name string, b dialect.Batch, args dialect.Args, n int) {
	e.t.Helper()
	add := func() error {
		return e.s.Tx(e.t.Context(), func(ctx context.Context, c dialect.Conn) error {
			_, err := e.s.ExecBatch(ctx, c, b, bound(name, args), n)
			return err
		})
	}
	if err := add(); err != nil {
		e.t.Fatalf("%s: %v", name, err)
	}
	if err := add(); e.s.Class(err) != dialect.Duplicate {
		e.t.Errorf("%s of what is there: %v, want %v", name, err, dialect.Duplicate)
	}
}

// query reads rows of a type.
func query[T any](e world, text string, args dialect.Args) (rows []T) {
	e.t.Helper()
	e.tx(func(ctx context.Context, c dialect.Conn) (err error) {
		rows, err = dialect.QueryAs[T](ctx, e.s, c, text, args)
		return err
	})
	return rows
}

// in counts the tasks in a state.
func (e world) in(in state.State) (tasks int) {
	e.t.Helper()
	for _, row := range query[dialect.CountRow](e, e.s.Statements.Count, nil) {
		if row.State == in {
			tasks += int(row.Tasks)
		}
	}
	return tasks
}

// fresh are n new ids in order.
func fresh(n int) dialect.Col[uuid.UUID] {
	ids := make(dialect.Col[uuid.UUID], n)
	for i := range ids {
		ids[i] = uuid.Must(uuid.NewV7())
	}
	return ids
}

// column is n times a value.
func column[T any](n int, v T) dialect.Col[T] {
	col := make(dialect.Col[T], n)
	for i := range col {
		col[i] = v
	}
	return col
}

// newTasks are what is bound to insert tasks.
func newTasks(ids dialect.Col[uuid.UUID]) dialect.Args {
	n, payload := len(ids), []byte("p")
	return dialect.Args{"queue": "q", "id": ids, "reference": column[*string](n, nil), "kind": column(n, "k"), "priority": column(n, int64(5)),
		"max_attempts": column(n, int64(9)), "at": column[*int64](n, nil), "delay": column(n, int64(0)), "headers": column[*string](n, nil),
		"now": time.Now().UnixMicro(), "reused": column(n, int64(0)), "clock": int64(0), "payload": column(n, payload), "payload_size": column(n, dialect.SizeOf(payload))}
}

// leased inserts n tasks and takes them. Nothing else may be due.
func (e world) leased(n int) dialect.Col[uuid.UUID] {
	e.t.Helper()
	ids := fresh(n)
	e.want("inserted", e.change(e.s.Statements.Insert, newTasks(ids), n), n)
	e.take(n)
	return ids
}

// take takes all n tasks that are due, and returns the mark.
func (e world) take(n int) (holder string) {
	e.t.Helper()
	holder = uuid.NewString()
	rows, err := e.s.Dialect.Checkout(e.t.Context(), e.s, dialect.CheckoutRequest{
		Strategy: e.s.Server.Strategies[0], Queue: "q", Limit: n + 1, Lease: time.Hour, Holder: holder})
	if err != nil {
		e.t.Fatal(err)
	}
	e.want("taken", len(rows), n)
	return holder
}

func (e world) migration() {
	e.t.Helper()
	e.want("SetVersion", e.exec(e.s.Statements.SetVersion, dialect.Args{"version": 99, "title": "t", "compatible": 98}), 1)
	rows := query[Columns](e, e.s.Statements.Version, nil)
	if len(rows) != 1 || rows[0].Version == nil || *rows[0].Version != 99 {
		e.t.Errorf("Version: %+v, want 99", rows)
	}
}

// inserts adds one task and several, by both ways, and takes them.
func (e world) inserts() {
	e.t.Helper()
	st := e.s.Statements
	for _, n := range []int{1, 3} {
		args := newTasks(fresh(n))
		e.want("Insert", e.change(st.Insert, args, n), n)
		e.want("Insert of what is there", e.change(st.Insert, args, n), 0)
		e.want("after Insert", e.in(state.Created), n)
		e.take(n)
		if st.InsertAlike.SQL != "" {
			e.addAlike("InsertAlike", st.InsertAlike, newTasks(fresh(n)), n)
			e.want("after InsertAlike", e.in(state.Created), n)
			e.take(n)
		}
	}
}

// reads holds the questions about tasks.
func (e world) reads() {
	e.t.Helper()
	st := e.s.Statements
	before := e.in(state.Processing)
	args, ref := newTasks(fresh(3)), "r"
	args["reference"] = dialect.Col[*string]{&ref, nil, nil}
	ids := args["id"].(dialect.Col[uuid.UUID])
	e.want("inserted", e.change(st.Insert, args, 3), 3)
	holder := e.take(3)
	find := func(text string, args dialect.Args) int {
		return len(query[dialect.Row](e, dialect.ListText(text, "1 = 1", false), args))
	}
	e.want("Get", find(st.Get, dialect.Args{"id": ids[0]}), 1)
	e.want("Get of none", find(st.Get, dialect.Args{"id": uuid.UUID{9}}), 0)
	e.want("Held", find(st.Held, dialect.Args{"queue": "q", "holder": holder}), 3)
	e.want("Held in another queue", find(st.Held, dialect.Args{"queue": "other", "holder": holder}), 0)
	e.want("FindReference", find(st.FindReference, dialect.Args{"queue": "q", "reference": ref}), 1)
	e.want("FindReference in another queue", find(st.FindReference, dialect.Args{"queue": "other", "reference": ref}), 0)
	for _, text := range []string{st.List, st.FindIDs} {
		e.want("listed", find(text, dialect.Args{"limit": 1000}), before+3)
		e.want("listed within a limit", find(text, dialect.Args{"limit": 2}), 2)
	}
	lowest, highest := uuid.UUID{}, uuid.Max
	e.want("IDBehind", find(st.IDBehind, dialect.Args{"after": lowest, "before": highest, "offset": before + 2}), 1)
	e.want("IDBehind the last", find(st.IDBehind, dialect.Args{"after": lowest, "before": highest, "offset": before + 3}), 0)
	e.want("IDBehind none", find(st.IDBehind, dialect.Args{"after": highest, "before": lowest, "offset": 0}), 0)
	e.want("Peek", e.change(st.Peek, dialect.Args{"id": append(fresh(1), ids...)}, 4), 3)
}

// ends holds a statement of those who hold leases: under another fence it does nothing, and else it leads each task to a state. It runs for
// a single row, for some of which one is settled already, and again.
func (e world) ends(field string, b dialect.Batch, to state.State) {
	e.t.Helper()
	if b.SQL == "" {
		return // this dialect leaves it empty
	}
	name := field + " to " + to.String()
	working, there := e.in(state.Processing), e.in(to)
	ids := e.leased(3)
	run := func(ids dialect.Col[uuid.UUID], fence int64) int {
		e.t.Helper()
		n := len(ids)
		args := dialect.Args{"id": ids, "fence": column(n, fence), "lease": time.Hour.Microseconds(), "state": column(n, int64(to)),
			"at": column[*int64](n, nil), "after": column[*int64](n, nil), "uncount": column(n, int64(0)),
			"result": column[[]byte](n, nil), "result_size": column[*int64](n, nil), "lock_wait": nil}
		return e.change(b, bound(field, args), n)
	}
	e.want(name+" of one under another fence", run(ids[:1], 2), 0)
	e.want(name+" under another fence", run(ids, 2), 0)
	e.want("in work", e.in(state.Processing), working+3)
	e.want(name+" of one", run(ids[:1], 1), 1)
	if to == state.Processing {
		e.want(name, run(ids, 1), 3)
		return
	}
	e.want(name+" of the rest", run(ids, 1), 2)
	e.want(name+" again", run(ids, 1), 0)
	e.want(name+" of one again", run(ids[:1], 1), 0)
	e.want("left in work", e.in(state.Processing), working)
	if to != state.None {
		e.want("after "+name, e.in(to), there+3)
	}
}

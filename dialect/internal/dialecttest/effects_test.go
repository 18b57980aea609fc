package dialecttest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// effects holds what the statements do, by how many rows they touch or there are afterwards. It goes through the lives
// of a few tasks.
func effects(t *testing.T, s *sqlrun.Session) {
	e := world{t: t, s: s}
	e.migration()
	e.inserts()
	e.reads()
	for _, n := range []int{3, 40} { // rows that share most values may have another statement
		e.ends(dialect.Settle, state.Completed, n)
		e.ends(dialect.Settle, state.Poison, n)
		e.ends(dialect.Remove, state.None, n)
		e.ends(dialect.Extend, state.Processing, n)
		e.ends(dialect.Start, state.Processing, n)
	}
	e.mixed()
	e.conditions()
	e.archive()
	e.keyValues()
	e.attempts()
	e.keyRates()
}

// world is the tables of a session, on which each change is a transaction of its own.
type world struct {
	t *testing.T
	s *sqlrun.Session
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

// run does an operation and tells how many rows it changed.
func (e world) run(op dialect.Op, args dialect.Args, n int) (changed int) {
	e.t.Helper()
	e.tx(func(ctx context.Context, c dialect.Conn) error {
		got, err := e.s.RunBatch(ctx, c, op, args, n)
		if changed = len(got.Rows); got.All {
			changed = n
		}
		return err
	})
	return changed
}

// query reads rows of a type.
func query[T any](e world, text string, args dialect.Args) (rows []T) {
	e.t.Helper()
	e.tx(func(ctx context.Context, c dialect.Conn) (err error) {
		rows, err = sqlrun.QueryAs[T](ctx, e.s, c, text, args)
		return err
	})
	return rows
}

// in counts the tasks in a state.
func (e world) in(in state.State) (tasks int) {
	e.t.Helper()
	for _, row := range query[sqlrun.CountRow](e, e.s.Texts.Count, nil) {
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

// newTasks are the values that insert tasks.
func newTasks(ids dialect.Col[uuid.UUID]) dialect.Args {
	n, payload := len(ids), []byte("p")
	return dialect.Args{
		"queue": "q", "id": ids, "reference": column[*string](n, nil),
		"task_key": column[*string](n, nil), "kind": column(n, "k"),
		"priority": column(n, int64(5)), "max_attempts": column(n, int64(9)),
		"at": column[*int64](n, nil), "delay": column(n, int64(0)), "headers": column[*string](n, nil),
		"now": (*int64)(nil), "reused": column(n, int64(0)), "clock": int64(0),
		"payload": column(n, payload), "payload_size": column(n, sizeOf(payload)),
	}
}

// leased inserts n tasks and takes them. Nothing else may be due.
func (e world) leased(n int) dialect.Col[uuid.UUID] {
	e.t.Helper()
	ids := fresh(n)
	e.want("inserted", e.run(dialect.Insert, newTasks(ids), n), n)
	e.take(n)
	return ids
}

// take takes all n tasks that are due, and returns the mark.
func (e world) take(n int) (holder string) {
	e.t.Helper()
	holder = uuid.NewString()
	leased, err := e.s.Dialect.Checkout(e.t.Context(), &e.s.Session, dialect.CheckoutRequest{
		Strategy: e.s.Server.Strategies[0], Queue: "q", Limit: n + 1, Lease: time.Hour, Holder: holder})
	if err != nil {
		e.t.Fatal(err)
	}
	e.want("taken", len(leased.Rows), n)
	return holder
}

func (e world) migration() {
	e.t.Helper()
	e.want("SetVersion", e.exec(e.s.Texts.SetVersion, dialect.Args{"version": 99, "title": "t", "compatible": 98}), 1)
	rows := query[result](e, e.s.Texts.Version, nil)
	if len(rows) != 1 || rows[0].Version == nil || *rows[0].Version != 99 {
		e.t.Errorf("Version: %+v, want 99", rows)
	}
}

// inserts adds one task and several, of new ids and of ids that may have been used, and takes them.
func (e world) inserts() {
	e.t.Helper()
	for _, n := range []int{1, 3, 60} {
		given := newTasks(fresh(n))
		given["reused"] = column(n, int64(1))
		e.want("Insert under given ids", e.run(dialect.Insert, given, n), n)
		e.want("Insert of what is there", e.run(dialect.Insert, given, n), 0)
		e.want("after Insert", e.in(state.Created), n)
		e.take(n)
		more := newTasks(append(fresh(2), given["id"].(dialect.Col[uuid.UUID])...))
		more["reused"] = column(n+2, int64(1))
		e.want("Insert of two and what is there", e.run(dialect.Insert, more, n+2), 2)
		e.take(2)

		args := newTasks(fresh(n))
		e.want("Insert", e.run(dialect.Insert, args, n), n)
		e.want("after Insert", e.in(state.Created), n)
		e.take(n)
		err := e.s.Tx(e.t.Context(), func(ctx context.Context, c dialect.Conn) error {
			got, err := e.s.RunBatch(ctx, c, dialect.Insert, args, n)
			e.want("Insert of what is there", len(got.Rows), 0)
			return err
		})
		if err != nil && e.s.Class(err) != dialect.Duplicate { // new ids are never there
			e.t.Errorf("Insert of what is there: %v", err)
		}
	}
}

// reads holds the questions about tasks.
func (e world) reads() {
	e.t.Helper()
	st := e.s.Texts
	before := e.in(state.Processing)
	args, ref := newTasks(fresh(3)), "r"
	args["reference"] = dialect.Col[*string]{&ref, nil, nil}
	ids := args["id"].(dialect.Col[uuid.UUID])
	e.want("inserted", e.run(dialect.Insert, args, 3), 3)
	holder := e.take(3)
	find := func(text string, args dialect.Args) int {
		return len(query[dialect.Row](e, sqlrun.ListText(text, "1 = 1", false), args))
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
	behind := func(after, before uuid.UUID, offset int) int {
		return find(st.IDBehind, dialect.Args{"after": after, "before": before, "offset": offset})
	}
	e.want("IDBehind", behind(lowest, highest, before+2), 1)
	e.want("IDBehind the last", behind(lowest, highest, before+3), 0)
	e.want("IDBehind none", behind(highest, lowest, 0), 0)
	ahead := func(before uuid.UUID, offset int) int {
		return find(st.IDBefore, dialect.Args{"before": before, "offset": offset})
	}
	e.want("IDBefore", ahead(highest, before+2), 1)
	e.want("IDBefore the first", ahead(highest, before+3), 0)
	e.want("IDBefore none", ahead(lowest, 0), 0)
	e.want("Peek", e.change(st.Peek, dialect.Args{"id": append(fresh(1), ids...)}, 4), 3)
}

// ends holds an operation of those who hold leases: under another fence it does nothing, and else it leads each task to
// a state. It runs for a single row, for n of which one is settled already, and again.
func (e world) ends(op dialect.Op, to state.State, n int) {
	e.t.Helper()
	name := fmt.Sprintf("%s of %d to %v", op, n, to)
	working, there := e.in(state.Processing), e.in(to)
	ids := e.leased(n)
	run := func(ids dialect.Col[uuid.UUID], fence int64) int {
		e.t.Helper()
		return e.run(op, settled(ids, fence, to), len(ids))
	}
	e.want(name+" of one under another fence", run(ids[:1], 2), 0)
	e.want(name+" under another fence", run(ids, 2), 0)
	e.want("leased", e.in(state.Processing), working+n)
	e.want(name+" of one", run(ids[:1], 1), 1)
	if to == state.Processing {
		e.want(name, run(ids, 1), n)
		return
	}
	e.want(name+" of the rest", run(ids, 1), n-1)
	e.want(name+" again", run(ids, 1), 0)
	e.want(name+" of one again", run(ids[:1], 1), 0)
	e.want("left leased", e.in(state.Processing), working)
	if to != state.None {
		e.want("after "+name, e.in(to), there+n)
	}
}

// mixed settles tasks under several fences to several states at once.
func (e world) mixed() {
	e.t.Helper()
	const n = 60
	ids := e.leased(n)
	args := settled(ids, 1, state.Completed)
	fences, states := args["fence"].(dialect.Col[int64]), args["state"].(dialect.Col[int64])
	for i := range 20 {
		fences[i] = 2 // all of them lost
	}
	fences[59] = 3 // lost, too
	for i := 30; i < 35; i++ {
		states[i] = int64(state.Poison)
	}
	completed, poison := e.in(state.Completed), e.in(state.Poison)
	e.want("Settle of what is mixed", e.run(dialect.Settle, args, n), n-21)
	e.want("completed of what is mixed", e.in(state.Completed), completed+n-21-5)
	e.want("poison of what is mixed", e.in(state.Poison), poison+5)
	fences = column(n, int64(1))
	for i := range 18 {
		fences[i] = 9
	}
	args["fence"] = fences
	e.want("Remove of what is left and not lost", e.run(dialect.Remove, args, n), 3)
	e.want("Remove of what is left", e.run(dialect.Remove, settled(ids, 1, state.None), n), 18)
}

// settled are the values that end the attempts of tasks under a fence.
func settled(ids dialect.Col[uuid.UUID], fence int64, to state.State) dialect.Args {
	n := len(ids)
	return dialect.Args{
		"id": ids, "fence": column(n, fence), "lease": time.Hour.Microseconds(), "state": column(n, int64(to)),
		"at": column[*int64](n, nil), "after": column[*int64](n, nil), "uncount": column(n, int64(0)),
		"result": column[[]byte](n, nil), "result_size": column[*int64](n, nil), "lock_wait": nil, "callers_tx": int64(0),
		"progress": column[[]byte](n, nil), "progress_size": column[*int64](n, nil),
	}
}

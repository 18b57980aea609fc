package dialecttest

import (
	"context"
	"maps"
	"strings"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// conditions holds that the conditions of an index leave no task of its state out.
func (e world) conditions() {
	e.t.Helper()
	list := func(where string) int {
		return len(query[dialect.Row](e, sqlrun.ListText(e.s.Texts.List, where, false), dialect.Args{"limit": 1000}))
	}
	for in, index := range e.s.Texts.Indexes {
		all := list(state.Condition(in))
		if index.Where != "" {
			e.want("Where of "+in.String(), list(state.Condition(in)+" AND "+index.Where), all)
		}
		if index.Filter != "" {
			e.want("Filter of "+in.String(), list(state.Condition(in)+" AND "+index.Filter), all)
			if all == 0 {
				e.t.Errorf("there is no task in %v to find", in)
			}
		}
	}
}

// archive moves the tasks that are completed into the archive, and leaves one that is leased.
func (e world) archive() {
	e.t.Helper()
	st := e.s.Texts
	where := func(text string, in state.State) (ids dialect.Col[uuid.UUID]) {
		text = strings.Replace(text, "{where}", state.Condition(in), 1)
		for _, row := range query[dialect.Row](e, text, dialect.Args{"limit": 1000}) {
			ids = append(ids, row.ID)
		}
		return ids
	}
	completed := where(st.FindIDs, state.Completed)
	if len(completed) == 0 {
		e.t.Error("there is no completed task to archive")
	}
	ids := append(completed, e.leased(1)...)
	args := dialect.Args{"id": ids}
	copied := func(ctx context.Context, c dialect.Conn) error {
		if _, err := e.s.QueryBatch(ctx, c, st.Movable[state.Purge], args, len(ids)); err != nil {
			return err
		}
		_, err := e.s.ExecBatch(ctx, c, st.Archive, args, len(ids))
		return err
	}
	for range 2 { // what is there stays as it is
		e.tx(copied)
		e.want("Archive", len(where(st.ListArchive, state.Completed)), len(completed))
		e.want("Archive of what is leased", len(where(st.ListArchive, state.Processing)), 0)
	}
	e.want("Purgeable", e.change(st.Movable[state.Purge], args, len(ids)), len(completed))
	returned := 0
	if st.Returning {
		returned = len(completed)
	}
	e.want("Purge", e.change(st.Move[state.Purge], args, len(ids)), returned)
	e.want("left after Purge", e.in(state.Completed), 0)
}

func (e world) keyValues() {
	e.t.Helper()
	st := e.s.Texts
	kv := func(name string, version int64, ttl *int64) dialect.Args {
		return dialect.Args{"namespace": "k", "name": name, "value": "v", "version": version, "ttl": ttl, "limit": 10}
	}
	read := func(text string, args dialect.Args) []sqlrun.KVRow {
		e.t.Helper()
		return query[sqlrun.KVRow](e, text, args)
	}
	e.want("AddKV", e.exec(st.AddKV, kv("stays", 0, nil)), 1)
	e.want("AddKV", e.exec(st.AddKV, kv("ends", 0, new(int64))), 1)
	var again int64
	err := e.s.Tx(e.t.Context(), func(ctx context.Context, c dialect.Conn) (err error) {
		again, err = e.s.Exec(ctx, c, st.AddKV, kv("stays", 0, nil))
		return err
	})
	if again != 0 || err != nil && e.s.Class(err) != dialect.Duplicate {
		e.t.Errorf("AddKV of what is there: %d, %v", again, err)
	}
	e.want("SetKV of another version", e.exec(st.SetKV, kv("stays", 2, nil)), 0)
	first := read(st.GetKV, kv("stays", 0, nil))[0].Version // the clock, so that no version comes twice for a name
	e.want("SetKV", e.exec(st.SetKV, kv("stays", first, nil)), 1)
	if rows := read(st.GetKV, kv("stays", 0, nil)); len(rows) != 1 || rows[0].Version != first+1 || rows[0].Value != "v" ||
		rows[0].Expires != nil {
		e.t.Errorf("GetKV: %+v", rows)
	}
	if rows := read(st.ListKV, kv("", 0, nil)); len(rows) != 2 || rows[0].Name != "ends" || rows[0].Expires == nil ||
		*rows[0].Expires > rows[0].Now {
		e.t.Errorf("ListKV: %+v", rows)
	}
	one := kv("", 0, nil)
	one["limit"] = 1
	e.want("ListKV within a limit", len(read(st.ListKV, one)), 1)
	e.want("EarliestKV leaves out what stays", len(read(st.EarliestKV, kv("", 0, nil))), 1)
	expire := func(namespace string, age time.Duration) int {
		e.t.Helper()
		return e.exec(st.ExpireKV, dialect.Args{"namespace": namespace, "age": age.Microseconds()})
	}
	e.want("ExpireKV of an hour ago", expire("k", time.Hour), 0)
	e.want("ExpireKV of another namespace", expire("other", 0), 0)
	e.want("ExpireKV", expire("k", 0), 1)
	e.want("DropKV", e.exec(st.DropKV, kv("stays", 0, nil)), 1)
	e.want("DropKV again", e.exec(st.DropKV, kv("stays", 0, nil)), 0)
}

// attempts records attempts that ended at the beginning of time, and removes them.
func (e world) attempts() {
	e.t.Helper()
	st := e.s.Texts
	of := func(id uuid.UUID, n int) dialect.Args {
		fences := make(dialect.Col[int64], n)
		for i := range fences {
			fences[i] = int64(n - i)
		}
		return dialect.Args{"queue": "q", "id": column(n, id), "fence": fences,
			"attempt": column(n, int64(1)), "outcome": column(n, "completed"), "taken": column(n, int64(1)),
			"ended": column(n, int64(2)), "worker": column(n, "w"), "error": column(n, []byte("e"))}
	}
	recorded := func(name string, id uuid.UUID, n int) {
		e.t.Helper()
		rows := query[sqlrun.AttemptRow](e, st.Attempts, dialect.Args{"id": id, "limit": 10})
		e.want("attempts after "+name, len(rows), n)
		for i, row := range rows {
			if row.Task != id || row.Fence != int64(i+1) || row.Queue != "q" || row.Outcome != "completed" ||
				row.Worker != "w" || row.Ended != 2 {
				e.t.Errorf("after %s: attempt %d is %+v", name, i+1, row)
			}
		}
	}
	record := func(id uuid.UUID, n int) {
		e.t.Helper()
		e.tx(func(ctx context.Context, c dialect.Conn) error {
			_, err := e.s.ExecBatch(ctx, c, st.Record, of(id, n), n)
			return err
		})
		recorded("Record", id, n)
	}
	ids, left := fresh(1), 3
	record(ids[0], 1)
	record(ids[0], 3) // of which one is there
	within := query[sqlrun.AttemptRow](e, st.Attempts, dialect.Args{"id": ids[0], "limit": 2})
	e.want("Attempts within a limit", len(within), 2)
	id := e.leased(1)
	e.tx(func(ctx context.Context, c dialect.Conn) error {
		_, err := e.s.ExecBatch(ctx, c, st.RecordLast, dialect.Args{"id": dialect.Col[uuid.UUID](id),
			"error": column(1, []byte(nil)), "error_size": column(1, (*int64)(nil))}, 1)
		return err
	})
	e.want("RecordLast of what is leased",
		len(query[sqlrun.AttemptRow](e, st.Attempts, dialect.Args{"id": id[0], "limit": 10})), 0)
	expire := func(queue string, age time.Duration, limit int) int {
		e.t.Helper()
		return e.exec(st.ExpireAttempts, dialect.Args{"queue": queue, "age": age.Microseconds(), "limit": limit})
	}
	e.want("ExpireAttempts of a century", expire("q", 100*365*24*time.Hour, 10), 0)
	e.want("ExpireAttempts of another queue", expire("other", 0, 10), 0)
	e.want("ExpireAttempts within a limit", expire("q", 0, 2), 2)
	e.want("ExpireAttempts", expire("q", 0, 10), left-2)
}

// keyRates checks the statements on the rates per key.
func (e world) keyRates() {
	st := e.s.Texts
	set := func(queue string, names []string, full ...int64) {
		e.t.Helper()
		e.tx(func(ctx context.Context, c dialect.Conn) error {
			_, err := e.s.ExecBatch(ctx, c, st.SetKeyRates, dialect.Args{"queue": queue,
				"name": dialect.Col[string](names), "full_at": dialect.Col[int64](full)}, len(names))
			return err
		})
	}
	wantRates := func(what, queue string, want map[string]int64) {
		e.t.Helper()
		var rows []sqlrun.KeyRateRow
		e.tx(func(ctx context.Context, c dialect.Conn) (err error) {
			names := dialect.Col[string]{"a", "A", "a ", "b", "absent"}
			rows, err = sqlrun.QueryBatchAs[sqlrun.KeyRateRow](ctx, e.s, c, st.KeyRates,
				dialect.Args{"queue": queue, "name": names}, len(names))
			return err
		})
		got := map[string]int64{}
		for _, row := range rows {
			got[row.Key] = row.Full
		}
		if !maps.Equal(got, want) {
			e.t.Errorf("%s: the rates are %v, want %v", what, got, want)
		}
	}
	const later = 1 << 60
	set("q", []string{"a", "A", "a "}, 1, 2, later)
	set("other", []string{"a"}, 3)
	set("q", []string{"b", "a"}, 4, later)
	wantRates("SetKeyRates", "q", map[string]int64{"a": later, "A": 2, "a ": later, "b": 4})
	e.exec(st.CapKeyRates, dialect.Args{"queue": "q", "full_at": int64(later - 1)})
	wantRates("CapKeyRates", "q", map[string]int64{"a": later - 1, "A": 2, "a ": later - 1, "b": 4})
	expire := func(age time.Duration, limit int) int {
		e.t.Helper()
		return e.exec(st.ExpireKeyRates, dialect.Args{"age": age.Microseconds(), "limit": limit})
	}
	e.want("ExpireKeyRates of a century", expire(100*365*24*time.Hour, 10), 0)
	e.want("ExpireKeyRates within a limit", expire(0, 1), 1)
	e.want("ExpireKeyRates", expire(0, 10), 2)
	wantRates("ExpireKeyRates", "q", map[string]int64{"a": later - 1, "a ": later - 1})
	set("other", []string{"b"}, later)
	e.want("DropKeyRates", e.exec(st.DropKeyRates, dialect.Args{"queue": "q"}), 2)
	wantRates("DropKeyRates", "q", map[string]int64{})
	wantRates("DropKeyRates of another queue", "other", map[string]int64{"b": later})
}

package dialecttest

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// One is what the core binds to a statement about one thing, under the names that it uses. The map is the caller's, who adds to it what his
// dialect's checkout binds.
func One() dialect.Args {
	return dialect.Args{
		"queue": "q", "holder": "h", "reference": "r", "limit": 10, "lease": int64(1000), "name": "n", "version": 99, "title": "t", "id": uuid.UUID{1},
	}
}

// Two is the same for a batch of two rows.
func Two() dialect.Args {
	return dialect.Args{
		"queue": "q", "holder": "h", "lease": int64(1000),
		"id": dialect.Col[uuid.UUID]{{1}, {2}}, "fence": dialect.Col[int64]{1, 2}, "state": dialect.Col[int64]{2, 3},
		"at": dialect.Col[*int64]{nil, new(int64)}, "after": dialect.Col[*int64]{nil, nil}, "uncount": dialect.Col[int64]{0, 1},
		"result": dialect.Col[[]byte]{nil, {}}, "reference": dialect.Col[*string]{nil, new(string)}, "kind": dialect.Col[string]{"", "k"},
		"priority": dialect.Col[int64]{0, 9}, "max_attempts": dialect.Col[int64]{1, 2}, "delay": dialect.Col[int64]{0, 1},
		"headers": dialect.Col[*string]{nil, nil}, "payload": dialect.Col[[]byte]{nil, []byte("p")},
	}
}

// Columns are those that every dialect's statements may return.
type Columns struct {
	dialect.Row
	dialect.CountRow
	Version *int `db:"version"`
}

// EveryStatementRuns holds that the server takes each statement, in a transaction of its own, and returns no columns but those of T. locks are
// the statements of Checkout that take a lock, with those that free it. In the end it drops the tables.
func EveryStatementRuns[T any](t *testing.T, s *dialect.Session, one, two dialect.Args, locks map[string]string) {
	t.Helper()
	st := s.Statements
	inTx := func(name, text string, f func(ctx context.Context, c dialect.Conn) error) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			t.Helper()
			if err := s.Tx(t.Context(), f); err != nil {
				t.Errorf("%v\n%s", err, text)
			}
		})
	}
	query := func(name, text string) {
		t.Helper()
		text = strings.Replace(text, "{where}", "1 = 1", 1)
		inTx(name, text, func(ctx context.Context, c dialect.Conn) error {
			_, err := dialect.QueryAs[T](ctx, s, c, text, one)
			return err
		})
	}
	lock := func(name, take, free string) {
		t.Helper()
		inTx(name, take, func(ctx context.Context, c dialect.Conn) error {
			_, err := s.Exec(ctx, c, take, one)
			_, freeErr := s.Exec(ctx, c, free, one)
			return errors.Join(err, freeErr)
		})
	}
	batch := func(name string, b dialect.Batch) {
		t.Helper()
		if b.Max < 1 || b.SQL == "" {
			t.Errorf("%s is not filled: %+v", name, b)
			return
		}
		inTx(name, b.SQL, func(ctx context.Context, c dialect.Conn) error {
			for _, text := range []string{b.First, b.SQL, b.After} { // also what would only follow rows that are not there
				part := dialect.Batch{SQL: text, Row: b.Row, Sep: b.Sep, Max: b.Max, Repeat: b.Repeat}
				if text != b.SQL && b.ReadRow != "" {
					part.Row, part.Repeat = b.ReadRow, false
				}
				if text != "" {
					if _, err := s.QueryBatch(ctx, c, part, two, 2); err != nil {
						return err
					}
				}
			}
			if b.One != "" {
				_, err := s.QueryBatch(ctx, c, b, two, 1)
				return err
			}
			return nil
		})
	}
	query("Now", "SELECT "+st.Now+" AS now "+st.Dual)
	query("Version", st.Version)
	query("SetVersion", st.SetVersion)
	switch {
	case st.MigrationUnlock != "":
		lock("MigrationLock", st.MigrationLock, st.MigrationUnlock)
	case st.MigrationLock != "":
		query("MigrationLock", st.MigrationLock)
	}
	query("Get", st.Get)
	query("Held", st.Held)
	query("List", st.List)
	query("FindIDs", st.FindIDs)
	for in, condition := range st.InState {
		query("InState "+in.String(), strings.Replace(st.List, "{where}", condition, 1))
		query("InState "+in.String()+" archived", strings.Replace(st.ListArchive, "{where}", condition, 1))
	}
	query("Next", st.Next)
	query("FindReference", st.FindReference)
	query("Count", st.Count)
	frees := map[string]bool{}
	for take, free := range locks {
		lock("Checkout "+take, st.Checkout[take], st.Checkout[free])
		frees[free] = true
	}
	for name, text := range st.Checkout {
		if _, takes := locks[name]; !takes && !frees[name] {
			query("Checkout "+name, text)
		}
	}
	batch("Insert", st.Insert)
	batch("Settle", st.Settle)
	batch("Remove", st.Remove)
	batch("Extend", st.Extend)
	batch("Peek", st.Peek)
	for _, row := range state.ByOperator() { // every operator's event has its statement
		batch("Move "+string(row.Event), st.Move[row.Event])
	}
	for name, b := range st.CheckoutBatch {
		batch("CheckoutBatch "+name, b)
	}
	for range 2 { // what is not there is no error
		for _, text := range st.Drop {
			if _, err := s.Pool.Write.ExecContext(t.Context(), text); err != nil {
				t.Errorf("%v\n%s", err, text)
			}
		}
	}
}

// MovesAreTheStateTables holds that each operator's event has a statement with the guard and the effects that the state table says, and
// nothing else has one.
func MovesAreTheStateTables(t *testing.T, d dialect.Dialect) {
	t.Helper()
	moves := d.Statements(dialect.Names{Prefix: "dbq_"}).Move
	for _, row := range state.ByOperator() {
		b := moves[row.Event]
		for _, text := range []string{b.First, b.SQL} {
			if text == "" && b.SQL != "" {
				continue // there is no First
			}
			if !strings.Contains(text, state.Guard(row, "due")) {
				t.Errorf("%s is not guarded as the state table says: %s", row.Event, text)
			}
		}
		if row.To == state.None {
			continue
		}
		if to := "state = " + state.Literals(row.To) + ","; !strings.Contains(b.SQL, to) {
			t.Errorf("%s does not lead to %v: %s", row.Event, row.To, b.SQL)
		}
		if strings.Contains(b.SQL, "fence = fence + 1") != row.Fence {
			t.Errorf("%s: the fence should grow: %v: %s", row.Event, row.Fence, b.SQL)
		}
		if strings.Contains(b.SQL, "attempt = 0") != (row.Attempts == state.Reset) {
			t.Errorf("%s: the attempts should start over: %v: %s", row.Event, row.Attempts == state.Reset, b.SQL)
		}
	}
	if len(moves) != len(state.ByOperator()) {
		t.Errorf("there are %d moves, the state table has %d", len(moves), len(state.ByOperator()))
	}
}

// NamesStandInEveryStatement holds that statements are about the tables of the schema and the prefix that they are asked for, and that all
// names are written in.
func NamesStandInEveryStatement(t *testing.T, d dialect.Dialect) {
	t.Helper()
	st := d.Statements(dialect.Names{Schema: "jobs", Prefix: "q_"})
	for name, b := range map[string]dialect.Batch{
		"Get": {SQL: st.Get}, "Insert": st.Insert, "Checkout": {SQL: st.Checkout["ready"]}, "Settle": st.Settle, "Version": {SQL: st.Version},
		"Drop": {SQL: strings.Join(st.Drop, ";")},
	} {
		text := b.SQL
		if b.Row != "" {
			text = strings.Replace(text, "{rows}", "", 1)
		}
		if !strings.Contains(text, " jobs.q_") || strings.Contains(text, "dbq_") || strings.Contains(text, "{") {
			t.Errorf("%s is not about the tables it was asked for: %s", name, b.SQL)
		}
	}
}

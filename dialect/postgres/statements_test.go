package postgres

import (
	"context"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// scalars and columns2 are what the core binds, under the names that it uses.
var (
	scalars = dialect.Args{
		"queue": "q", "holder": "h", "since": make([]int64, 10), "reference": "r", "limit": 10, "lease": int64(1000), "name": "n", "version": 99, "title": "t",
		"lock": "l", "id": uuid.UUID{1},
	}
	columns2 = dialect.Args{
		"queue": "q", "holder": "h", "since": make([]int64, 10), "lease": int64(1000),
		"id": dialect.Col[uuid.UUID]{{1}, {2}}, "fence": dialect.Col[int64]{1, 2}, "state": dialect.Col[int64]{2, 3},
		"at": dialect.Col[*int64]{nil, new(int64)}, "after": dialect.Col[*int64]{nil, nil}, "uncount": dialect.Col[int64]{0, 1},
		"result": dialect.Col[[]byte]{nil, {}}, "reference": dialect.Col[*string]{nil, new(string)}, "kind": dialect.Col[string]{"", "k"},
		"priority": dialect.Col[int64]{0, 9}, "max_attempts": dialect.Col[int64]{1, 2}, "delay": dialect.Col[int64]{0, 1},
		"headers": dialect.Col[*string]{nil, nil}, "payload": dialect.Col[[]byte]{nil, []byte("p")}, "due": dialect.Col[*int64]{nil, nil},
	}
)

// anything is every column that a statement may return.
type anything struct {
	dialect.Row
	dialect.CountRow
	Version *int    `db:"version"`
	Lock    *string `db:"pg_advisory_xact_lock"`
}

// modes are how pgx may send a statement: prepared, and as behind a pooler that cannot prepare.
var modes = []string{"cache_statement", "cache_describe", "describe_exec", "exec"}

func TestEveryStatementRuns(t *testing.T) {
	onEachServer(t, func(t *testing.T, dsn string) {
		for _, mode := range modes {
			t.Run(mode, func(t *testing.T) {
				t.Parallel()
				runEach(t, migrated(t, with(dsn, "default_query_exec_mode="+mode)))
			})
		}
	})
}

func runEach(t *testing.T, s *dialect.Session) {
	st := s.Statements
	inTx := func(name, text string, f func(ctx context.Context, c dialect.Conn) error) {
		t.Helper()
		if err := s.Tx(t.Context(), f); err != nil {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
	query := func(name, text string) {
		t.Helper()
		text = strings.Replace(text, "{where}", "1 = 1", 1)
		inTx(name, text, func(ctx context.Context, c dialect.Conn) error {
			_, err := dialect.QueryAs[anything](ctx, s, c, text, scalars)
			return err
		})
	}
	batch := func(name string, b dialect.Batch) {
		t.Helper()
		if b.Max < 1 || b.SQL == "" {
			t.Errorf("%s is not filled: %+v", name, b)
			return
		}
		inTx(name, b.SQL, func(ctx context.Context, c dialect.Conn) error {
			_, err := s.QueryBatch(ctx, c, b, columns2, 2)
			return err
		})
	}
	query("Now", "SELECT "+st.Now+" AS now")
	query("Version", st.Version)
	query("SetVersion", st.SetVersion)
	query("MigrationLock", st.MigrationLock)
	query("Get", st.Get)
	query("Held", st.Held)
	query("List", st.List)
	query("FindIDs", st.FindIDs)
	query("FindReference", st.FindReference)
	query("Count", st.Count)
	for name, text := range st.Checkout {
		query("Checkout "+name, text)
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

func TestMovesAreTheStateTablesAndNoMore(t *testing.T) {
	t.Parallel()
	moves := Dialect{}.Statements(dialect.Names{Prefix: "dbq_"}).Move
	for _, row := range state.ByOperator() {
		text := moves[row.Event].SQL
		if !strings.Contains(text, state.Guard(row, "due")) {
			t.Errorf("%s is not guarded as the state table says: %s", row.Event, text)
		}
		if to := "state = " + state.Literals(row.To) + ","; row.To != state.None && !strings.Contains(text, to) {
			t.Errorf("%s does not lead to %v: %s", row.Event, row.To, text)
		}
		if row.To != state.None && strings.Contains(text, "fence = fence + 1") != row.Fence {
			t.Errorf("%s: the fence should grow: %v: %s", row.Event, row.Fence, text)
		}
		if row.To != state.None && strings.Contains(text, "attempt = 0") != (row.Attempts == state.Reset) {
			t.Errorf("%s: the attempts should start over: %v: %s", row.Event, row.Attempts == state.Reset, text)
		}
	}
	if len(moves) != len(state.ByOperator()) {
		t.Errorf("there are %d moves, the state table has %d", len(moves), len(state.ByOperator()))
	}
}

func TestNamesStandInEveryStatement(t *testing.T) {
	t.Parallel()
	names := dialect.Names{Schema: "jobs", Prefix: "q_"}
	st := Dialect{}.Statements(names)
	for name, text := range map[string]string{
		"Get": st.Get, "Insert": st.Insert.SQL, "Checkout": st.Checkout["ready"], "Settle": st.Settle.SQL, "Version": st.Version,
		"Drop": strings.Join(st.Drop, ";"),
	} {
		if !strings.Contains(text, " jobs.q_") || strings.Contains(text, "dbq_") || strings.Contains(text, "{") {
			t.Errorf("%s is not about the tables it was asked for: %s", name, text)
		}
	}
}

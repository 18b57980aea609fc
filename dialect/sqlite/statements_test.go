package sqlite

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// migrated is a session on a new database with dbq's tables.
func migrated(t *testing.T, params string) *dialect.Session {
	t.Helper()
	pool := openFile(t, filepath.Join(t.TempDir(), "q.db"), params)
	server, err := Dialect{}.Probe(t.Context(), pool.Write)
	if err != nil {
		t.Fatal(err)
	}
	s := dialect.NewSession(Dialect{}, pool, server, dialect.Names{Prefix: "dbq_"})
	err = s.Tx(t.Context(), func(ctx context.Context, c dialect.Conn) error {
		texts := s.Statements.MigrationTable
		for _, m := range (Dialect{}).Migrations(s.Names) {
			texts = append(texts, m.Statements...)
		}
		for _, text := range texts {
			if _, err := c.Exec(ctx, text); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// scalars and columns are what the core binds, under the names that it uses.
var (
	scalars = dialect.Args{
		"queue": "q", "holder": "h", "reference": "r", "limit": 10, "lease": int64(1000), "name": "n", "version": 99, "title": "t", "now": int64(1),
		"id": uuid.UUID{1},
	}
	columns2 = dialect.Args{
		"queue": "q", "holder": "h", "lease": int64(1000),
		"id": dialect.Col[uuid.UUID]{{1}, {2}}, "fence": dialect.Col[int64]{1, 2}, "state": dialect.Col[int64]{2, 3},
		"at": dialect.Col[*int64]{nil, new(int64)}, "after": dialect.Col[*int64]{nil, nil}, "uncount": dialect.Col[int64]{0, 1},
		"result": dialect.Col[[]byte]{nil, {}}, "reference": dialect.Col[*string]{nil, new(string)}, "kind": dialect.Col[string]{"", "k"},
		"priority": dialect.Col[int64]{0, 9}, "max_attempts": dialect.Col[int64]{1, 2}, "delay": dialect.Col[int64]{0, 1},
		"headers": dialect.Col[*string]{nil, nil}, "payload": dialect.Col[[]byte]{nil, []byte("p")}, "due": dialect.Col[*int64]{nil, nil},
	}
)

func TestEveryStatementRuns(t *testing.T) {
	t.Parallel()
	s := migrated(t, "")
	st := s.Statements
	query := func(name, text string) {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(text, "{where}", "1 = 1", 1)
			err := s.Tx(t.Context(), func(ctx context.Context, c dialect.Conn) error {
				_, err := dialect.QueryAs[anything](ctx, s, c, text, scalars)
				return err
			})
			if err != nil {
				t.Errorf("%v\n%s", err, text)
			}
		})
	}
	batch := func(name string, b dialect.Batch) {
		t.Run(name, func(t *testing.T) {
			if b.Max < 1 || b.SQL == "" {
				t.Fatalf("the batch is not filled: %+v", b)
			}
			err := s.Tx(t.Context(), func(ctx context.Context, c dialect.Conn) error {
				_, err := s.QueryBatch(ctx, c, b, columns2, 2)
				return err
			})
			if err != nil {
				t.Errorf("%v\n%s", err, b.SQL)
			}
		})
	}
	query("Now", "SELECT "+st.Now+" AS now")
	query("Version", st.Version)
	query("SetVersion", st.SetVersion)
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

// anything is every column that a statement may return.
type anything struct {
	dialect.Row
	dialect.CountRow
	Version *int `db:"version"`
	Any     bool `db:"any"`
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

func TestViewIsReadableToAPerson(t *testing.T) {
	t.Parallel()
	s := migrated(t, "")
	_, err := s.Pool.Write.ExecContext(t.Context(), `INSERT INTO dbq_task (id, queue, kind, state, priority, max_attempts, due, created, updated, payload, result)
VALUES (x'0198c1f2000070008000000000000001', 'mail', '', 3, 0, 5, 1700000000123000, 0, 0, x'00ff', CAST('no route' AS BLOB))`)
	if err != nil {
		t.Fatal(err)
	}
	var id, st, due, result string
	var bytes int
	err = s.Pool.Read.QueryRowContext(t.Context(), "SELECT id, state, due, payload_bytes, result FROM dbq_tasks").Scan(&id, &st, &due, &bytes, &result)
	if err != nil {
		t.Fatal(err)
	}
	if id != "0198c1f2000070008000000000000001" || st != "ERROR" || due != "2023-11-14 22:13:20.123" || bytes != 2 || result != "no route" {
		t.Errorf("got %s %s %s %d %s", id, st, due, bytes, result)
	}
}

package postgres_test

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/internal/dialecttest"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"
)

// explainer is a connection that runs a statement under EXPLAIN, rolls it back, and keeps the plan. The statement is
// prepared, as the driver does, and planned as mode says: for the values at hand, or for any.
type explainer struct {
	t     *testing.T
	conn  *sql.Conn
	mode  string // of plan_cache_mode
	table string
	last  node
}

// node is a node of a plan as EXPLAIN prints it.
type node struct {
	Type     string  `json:"Node Type"`
	Relation string  `json:"Relation Name"`
	Index    string  `json:"Index Name"`
	Rows     float64 `json:"Actual Rows"`
	Loops    float64 `json:"Actual Loops"`
	Removed  float64 `json:"Rows Removed by Filter"`
	Joined   float64 `json:"Rows Removed by Join Filter"`
	Recheck  float64 `json:"Rows Removed by Index Recheck"`
	Hit      int     `json:"Shared Hit Blocks"`
	Read     int     `json:"Shared Read Blocks"`
	Plans    []node  `json:"Plans"`
}

// walk calls f for a node and all below it.
func (n node) walk(f func(node)) {
	f(n)
	for _, below := range n.Plans {
		below.walk(f)
	}
}

// String draws the plan.
func (n node) String() string {
	var draw func(n node, indent string) string
	draw = func(n node, indent string) string {
		s := fmt.Sprintf("%s%s %s %s: %.0f rows x %.0f, %.0f removed, %d buffers\n",
			indent, n.Type, n.Relation, n.Index, n.Rows, n.Loops,
			n.Removed+n.Joined+n.Recheck, n.Hit+n.Read)
		for _, below := range n.Plans {
			s += draw(below, indent+"  ")
		}
		return s
	}
	return draw(n, "    ")
}

// Bounds, with room above what was measured on PostgreSQL 15 and 18: an empty poll reads 30 buffers, three in each
// priority, and a row that is checked out or settled takes 12 to 15, since it is found through the primary key, written
// to the table, and entered into two indexes, each three deep. A takeover takes 19, and 6 for the row that it writes to
// the table of leases, with one index. One walk over the future tasks would read a thousand more.
const (
	buffersFixed     = 100
	buffersPerRow    = 25
	buffersPerSecond = 10 // for a row that the statement writes to a second table
)

// check explains what run does and compares its cost with a batch of n rows. In the table it may visit rows, twice: to
// find and to write.
func (e *explainer) check(name string, n, rows int, run func() error) {
	e.t.Helper()
	name = fmt.Sprintf("%s under %s", name, e.mode)
	if err := run(); err != nil {
		e.t.Fatalf("%s: %v", name, err)
	}
	visited, written, problem := 0.0, 0, ""
	e.last.walk(func(p node) {
		removed := p.Removed + p.Joined + p.Recheck
		if p.Type == "ModifyTable" {
			written++
		}
		onTable := p.Relation != "" && strings.HasSuffix(e.table, p.Relation)
		switch {
		case p.Type == "Seq Scan" && onTable:
			problem = "a sequential scan of the table"
		case p.Type == "Sort" && p.Rows*p.Loops > float64(rows):
			problem = fmt.Sprintf("a sort of %.0f rows", p.Rows*p.Loops)
		case onTable && p.Type != "ModifyTable" && p.Type != "Bitmap Heap Scan":
			visited += (p.Rows + removed) * p.Loops
		case p.Type == "CTE Scan" && p.Loops <= 1: // one pass over rows that were counted where they were found
		case p.Index != "":
			visited += (p.Rows + removed) * p.Loops
		default:
			visited += removed * p.Loops
		}
	})
	buffers := e.last.Hit + e.last.Read
	if most := buffersFixed + buffersPerRow*n + buffersPerSecond*n*max(0, written-1) + rows; buffers > most {
		problem = fmt.Sprintf("%d buffers, more than %d", buffers, most)
	}
	if most := float64(2*rows + 10); visited > most {
		problem = fmt.Sprintf("%.0f rows visited, more than %.0f", visited, most)
	}
	if found := e.last.Rows * e.last.Loops; (found > 0) != (n > 0) { // what finds nothing costs nothing
		problem = fmt.Sprintf("%.0f rows returned by a statement for %d", found, n)
	}
	if problem != "" {
		e.t.Errorf("%s: %s\n%v", name, problem, e.last)
		return
	}
	e.t.Logf("%-50s %5d buffers, %5.0f rows visited", name, buffers, visited)
}

// Query explains instead of querying, and returns no rows.
func (e *explainer) Query(ctx context.Context, query string, args []any, read func(dialect.Rows) error) error {
	literals := make([]string, len(args))
	for i, arg := range args {
		literals[i] = literal(arg)
	}
	execute := "EXECUTE plan_test"
	if len(args) > 0 {
		execute += " (" + strings.Join(literals, ", ") + ")"
	}
	var plan []struct{ Plan node }
	for _, text := range []string{"BEGIN", "SET LOCAL plan_cache_mode = " + e.mode, "PREPARE plan_test AS " + query} {
		if _, err := e.conn.ExecContext(ctx, text); err != nil {
			return fmt.Errorf("%w\n%s", err, text)
		}
	}
	var text []byte
	if err := e.conn.QueryRowContext(ctx, "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+execute).Scan(&text); err != nil {
		return err
	}
	if err := json.Unmarshal(text, &plan); err != nil {
		return err
	}
	e.last = plan[0].Plan
	for _, text := range []string{"ROLLBACK", "DEALLOCATE plan_test"} {
		if _, err := e.conn.ExecContext(ctx, text); err != nil {
			return err
		}
	}
	return sqlrun.ConnOf(e.conn).Query(ctx, "SELECT id FROM "+e.table+" WHERE false", nil, read)
}

// Exec is not needed: what workers run returns rows.
func (e *explainer) Exec(context.Context, string, ...any) (int64, error) {
	return 0, fmt.Errorf("the plan test explains only what returns rows")
}

// literal writes a value as EXECUTE wants it.
func literal(v any) string {
	quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
	switch x := v.(type) {
	case string:
		return quote(x)
	case int:
		return strconv.Itoa(x)
	case int64:
		return strconv.FormatInt(x, 10)
	case pgtype.UUID:
		return quote(uuid.UUID(x.Bytes).String())
	case []pgtype.UUID:
		return array(x, func(id pgtype.UUID) string { return uuid.UUID(id.Bytes).String() })
	case []int64:
		return array(x, func(i int64) string { return strconv.FormatInt(i, 10) })
	case []*int64:
		return array(x, func(i *int64) string {
			if i == nil {
				return "NULL"
			}
			return strconv.FormatInt(*i, 10)
		})
	case [][]byte:
		return array(x, func(b []byte) string {
			if b == nil {
				return "NULL"
			}
			return `"\\x` + hex.EncodeToString(b) + `"`
		})
	}
	panic(fmt.Sprintf("the plan test cannot write a %T", v))
}

func array[T any](values []T, text func(T) string) string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = text(v)
	}
	return "'{" + strings.Join(texts, ",") + "}'"
}

// planPage checks that the statements of docs/sql/postgres-explain.sql run as they are written there, and that each
// plan uses the indexes that the page names and does not scan the table of tasks.
func planPage(t *testing.T, s *sqlrun.Session, conn *sql.Conn) {
	for _, x := range dialecttest.ExplainPage(t, "postgres", s.Names.Prefix) {
		plan := planText(t, conn, x.SQL)
		for _, index := range x.Indexes {
			used := strings.Contains(plan, "Scan using "+index+" on ")
			if !used && !strings.Contains(plan, "Bitmap Index Scan on "+index+" ") {
				t.Errorf("%s does not use %s:\n%s", x.Name, index, plan)
			}
		}
		if strings.Contains(plan, "Seq Scan on "+s.Names.Table("task")+" ") {
			t.Errorf("%s scans the table:\n%s", x.Name, plan)
		}
	}
}

// planText returns what an EXPLAIN prints.
func planText(t *testing.T, conn *sql.Conn, explain string) string {
	t.Helper()
	rows, err := conn.QueryContext(t.Context(), explain)
	if err != nil {
		t.Fatalf("%v\n%s", err, explain)
	}
	var plan strings.Builder
	for rows.Next() {
		var line string
		check.OK(t, rows.Scan(&line))
		plan.WriteString(line + "\n")
	}
	if err := rows.Err(); err != nil {
		t.Fatalf("%v\n%s", err, explain)
	}
	return plan.String()
}

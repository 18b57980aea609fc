package sqlite_test

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/internal/dialecttest"
	"github.com/dbq-go/dbq/dialect/sqlite"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// TestNoWorkerStatementScansTheTable holds the promise of flat cost: what a worker runs finds its rows by an
// index, whether or not the database was ever analyzed. SQLite's plans tell the way, not the cost.
func TestNoWorkerStatementScansTheTable(t *testing.T) {
	s := planSession(t)
	t.Run("not analyzed", func(t *testing.T) { checkPlans(t, s) })
	fill(t, s, 20_000, "'work', '', 2, 5, 10, 1, 1, NULL, NULL, 'done'")
	analyze(t, s)
	t.Run("analyzed when nothing was due or leased", func(t *testing.T) { checkPlans(t, s) })
	fill(t, s, 5_000, "'work', '', 0, i % 9, 10, 0, 0, 4000000000000000 + i, NULL, ''")
	fill(t, s, 1_000, "'work', '', 0, 9, 10, 0, 0, 1600000000000000 + i, NULL, ''")
	fill(t, s, 5, "'work', '', 1, 5, 10, 1, 1, NULL, 4000000000000000, 'busy'")
	analyze(t, s)
	t.Run("analyzed with few leased", func(t *testing.T) { checkPlans(t, s) })
	fill(t, s, 500, "'work', '', 1, 5, 10, 1, 1, NULL, 4000000000000000, 'busy'")
	analyze(t, s)
	t.Run("analyzed with many leased", func(t *testing.T) { checkPlans(t, s) })
	t.Run("docs/sql/sqlite-explain.sql", func(t *testing.T) { planPage(t, s) })
}

// planPage checks that the statements of docs/sql/sqlite-explain.sql run as they are written there, and that each plan
// uses the indexes that the page names.
func planPage(t *testing.T, s *sqlrun.Session) {
	for _, x := range dialecttest.ExplainPage(t, "sqlite", s.Names.Prefix) {
		e := &explainer{s: s}
		_, err := e.Exec(t.Context(), strings.TrimPrefix(x.SQL, explain))
		if err != nil {
			t.Errorf("%s: %v", x.Name, err)
			continue
		}
		name := strings.ToLower(x.Name)
		e.check(t, name)
		var indexes []string
		for _, index := range x.Indexes {
			indexes = append(indexes, strings.TrimPrefix(index, s.Names.Prefix+"task_"))
		}
		if !slices.Equal(indexes, wanted[name]) {
			t.Errorf("%s: the page names %v, want %v", x.Name, indexes, wanted[name])
		}
	}
}

// wanted are the indexes that the plan of a statement must search by, without their prefix. A search by row id is
// always good.
var wanted = map[string][]string{
	"any":            {"busy", "ready"},
	"next":           {"busy", "ready"},
	"ready":          {"ready"},
	"expired":        {"busy"},
	"take":           {"ready"},
	"take over":      {"id"},
	"given":          {"id"},
	"take given":     {"id"},
	"settle":         {"id"},
	"remove":         {"id"},
	"extend":         {"id"},
	"start":          {"id"},
	"peek":           {"id"},
	"payloads":       {"id"},
	"get":            {"id"},
	"held":           {"busy"},
	"exhausted":      {"failed"},
	"find reference": {"reference"},
	"count up to":    {"busy", "failed", "ready"},
	"next queue":     {"busy", "failed", "ready"},
	"due keys":       {"id", "key"},
	"id behind":      {"id"},
	"id before":      {"id"},
	"list window":    {"id"},
	"list failed":    {"failed"},
	"list archive":   {"plan_archive_id"},
	"some CREATED":   {"ready"},
	"some ERROR":     {"failed"},
	"some POISON":    {"failed"},
	"match some":     {"busy"},
	"list some":      {"ready"},

	"some PROCESSING": {"busy"},
	"audit of task":   {"plan_audit_task", "sqlite_autoindex_plan_audit_1"},
	"audit page":      {"sqlite_autoindex_plan_audit_1"},
	"count union":     {"busy", "failed", "ready"},
	"next union":      {"busy", "failed", "ready"},

	"complete one":     {"id"},
	"complete uniform": {"id"},
	"remove one":       {"id"},
	"remove uniform":   {"id"},
	"lock uniform":     {"id"},
}

// due are the statements that ask for due tasks alone: they may not walk future ones.
var due = map[string]bool{"any": true, "ready": true, "take": true}

// window and failed are the conditions of the two kinds of pages of package store that read a part of what matches.
const (
	window = `1 = 1 AND coalesce(queue, '') = :queue AND kind = :kind AND coalesce(task_key, '') = :task_key
   AND (holder = :holder OR substr(holder, 1, length(:held_by)) = :held_by)
   AND updated <= 1 AND id > :after AND id < :before AND coalesce(state, -1) IN (0)`
	failed = `1 = 1 AND queue = :queue AND id < :before AND (state = 4)`
)

func checkPlans(t *testing.T, s *sqlrun.Session) {
	st := s.Texts
	plain, batches := dialecttest.Private(st.Statements)
	plain["get"], plain["held"], plain["find reference"], plain["next"] = st.Get, st.Held, st.FindReference, st.Next
	plain["exhausted"], plain["count up to"], plain["next queue"] = st.Exhausted, st.CountUpTo, st.NextQueue
	plain["due keys"] = st.DueKeys
	plain["id behind"], plain["id before"] = st.IDBehind, st.IDBefore
	plain["list window"] = sqlrun.ListText(st.List, window, true)
	plain["list failed"] = sqlrun.ListText(st.List, failed, true)
	plain["list archive"] = sqlrun.ListText(st.ListArchive, "1 = 1 AND id > :after AND id < :before", false)
	for in, index := range st.Indexes {
		if index.Where != "" {
			plain["some "+in.String()] = sqlrun.IndexText(st.SomeIDs, index)
		}
	}
	plain["list some"] = sqlrun.IndexText(st.ListSome, st.Indexes[state.Created])
	plain["match some"] = strings.ReplaceAll(sqlrun.IndexText(st.MatchSome, st.Indexes[state.Processing]),
		"{matches}", "kind = :kind")
	plain["audit of task"] = sqlrun.ListText(st.ListAudit, "1 = 1 AND a.task = :task", true)
	plain["audit page"] = sqlrun.ListText(st.ListAudit, "1 = 1 AND a.id < :before", true)
	plain["count union"] = sqlrun.UnionText(st.CountUpTo, 3, "queue")
	plain["next union"] = sqlrun.UnionText(st.NextQueue, 3, "queue")
	batches["settle"], batches["remove"], batches["extend"], batches["peek"] = st.Settle, st.Remove, st.Extend, st.Peek
	batches["start"] = st.Start
	maps.DeleteFunc(batches, func(name string, _ dialect.Batch) bool { return strings.HasPrefix(name, "insert") })

	id := uuid.Must(uuid.NewV7())
	one := dialect.Args{
		"id": id, "reference": "r", "queue": "work", "priority": 9, "share": int64(100), "was_due": int64(1),
		"lease": int64(1), "known_started": int64(0), "holder": "plan", "now": int64(1),
		"after": uuid.Nil, "before": uuid.Max, "offset": 1999, "limit": 10,
		"kind": "", "task_key": "k", "task": id, "held_by": "w#", "queue_0": "work", "queue_1": "work", "queue_2": "none",
	}
	const n = 100
	numbers, times := make(dialect.Col[int64], n), make(dialect.Col[*int64], n)
	many := dialect.Args{
		"id": make(dialect.Col[uuid.UUID], n), "result": make(dialect.Col[[]byte], n),
		"progress": make(dialect.Col[[]byte], n),
		"fence":    numbers, "state": numbers, "uncount": numbers, "was_due": numbers,
		"at": times, "after": times, "due": times,
		"lease": int64(1), "known_started": int64(0), "holder": "plan", "queue": "work",
		"share": int64(100), "now": int64(1),
	}
	seen := 0
	for name, text := range plain {
		e := &explainer{s: s}
		if _, err := s.Query(t.Context(), e, text, one); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		e.check(t, name)
		seen++
	}
	for name, b := range batches {
		e := &explainer{s: s}
		args := maps.Clone(many)
		if strings.HasSuffix(name, " uniform") {
			args["fence"] = int64(1) // one for all
		}
		if _, err := s.QueryBatch(t.Context(), e, b, args, min(n, b.Max)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		e.check(t, name)
		seen++
	}
	if seen != len(wanted) {
		t.Errorf("%d statements were explained, %d are known: change the test with the dialect", seen, len(wanted))
	}
}

// explain is what stands before a statement.
const explain = "EXPLAIN QUERY PLAN"

// explainer is a connection that explains a statement instead of running it.
type explainer struct {
	s    *sqlrun.Session
	plan []string
}

// Query notes the plan, and returns no rows.
func (e *explainer) Query(ctx context.Context, query string, args []any, read func(dialect.Rows) error) error {
	conn := sqlrun.ConnOf(e.s.Pool.Write)
	err := conn.Query(ctx, explain+" "+query, args, func(rows dialect.Rows) error {
		for rows.Next() {
			var id, parent, unused int
			var detail string
			if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
				return err
			}
			e.plan = append(e.plan, detail)
		}
		return rows.Err()
	})
	if err != nil {
		return fmt.Errorf("%w\n%s", err, query)
	}
	return conn.Query(ctx, "SELECT 1 AS id WHERE false", nil, read)
}

// Exec notes the plan, too.
func (e *explainer) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	return 0, e.Query(ctx, query, args, func(dialect.Rows) error { return nil })
}

func (e *explainer) check(t *testing.T, name string) {
	t.Helper()
	indexes, known := wanted[name]
	if !known {
		t.Errorf("%s: the test does not know this statement", name)
	}
	task := e.s.Names.Table("task")
	var used []string
	for _, step := range e.plan {
		reads := strings.Contains(step+" ", " "+task+" ") || strings.Contains(step, " t ") ||
			strings.Contains(step, " a ") || strings.Contains(step, " p ")
		onlyDue := strings.Contains(step, "(queue=? AND priority=? AND due<?)") ||
			strings.Contains(step, "AND (due,id)<(?,?))")
		switch {
		case reads && !strings.HasPrefix(step, "SEARCH"):
			t.Errorf("%s: the table is not searched: %s", name, step)
		case due[name] && strings.Contains(step, task+"_ready ") && !onlyDue:
			t.Errorf("%s: it walks tasks that are not due: %s", name, step)
		case strings.Contains(step, "TEMP B-TREE"):
			t.Errorf("%s: rows are sorted: %s", name, step)
		case reads && !strings.Contains(step, "INTEGER PRIMARY KEY"):
			used = append(used, index(step, task))
		}
	}
	slices.Sort(used)
	if used = slices.Compact(used); !slices.Equal(used, indexes) {
		t.Errorf("%s: searched by %v, want %v; the plan:\n\t%s", name, used, indexes, strings.Join(e.plan, "\n\t"))
	}
}

// index is the index that a step searches.
func index(step, task string) string {
	_, by, _ := strings.Cut(step, " USING ")
	by, _, _ = strings.Cut(by, " (")
	by = strings.TrimPrefix(strings.TrimPrefix(by, "COVERING "), "INDEX ")
	return strings.TrimPrefix(by, task+"_")
}

func planSession(t *testing.T) *sqlrun.Session {
	t.Helper()
	pool, err := sqlite.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "plan.db"), nil)
	check.OK(t, err)
	t.Cleanup(func() { pool.Close() })
	names := dialect.Names{Prefix: "plan_"}
	for _, m := range (sqlite.Dialect{}).Migrations(names) {
		for _, text := range m.Statements {
			if _, err := pool.Write.ExecContext(t.Context(), text); err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
		}
	}
	return sqlrun.NewSession(sqlite.Dialect{}, pool, dialect.Server{}, names)
}

// fill adds n rows; values are queue, kind, state, priority, max_attempts, attempt, fence, due, lease_until, taken_by.
func fill(t *testing.T, s *sqlrun.Session, n int, values string) {
	t.Helper()
	text := `
INSERT INTO plan_task
       (id, queue, kind, state, priority, max_attempts, attempt, fence, due, lease_until, taken_by,
        created, updated, payload)
WITH RECURSIVE g (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM g WHERE i < ?)
SELECT randomblob(16), ` + values + `,
       1, 1, x'00'
  FROM g`
	if _, err := s.Pool.Write.ExecContext(t.Context(), text, n); err != nil {
		t.Fatal(err)
	}
}

// analyze gives the planner the statistics of the moment. A connection reads them when it opens or runs it.
func analyze(t *testing.T, s *sqlrun.Session) {
	t.Helper()
	if _, err := s.Pool.Write.ExecContext(t.Context(), "ANALYZE"); err != nil {
		t.Fatal(err)
	}
}

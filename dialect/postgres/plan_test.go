package postgres_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/internal/dialecttest"
	"github.com/dbq-go/dbq/dialect/postgres"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/google/uuid"
)

// The table that plans are made for: much that must not be walked, and little that is due.
const (
	finished = 1_000_000 // COMPLETED
	future   = 200_000   // not due yet, in priorities 0 to 8, before all that is due
	due      = 4_000     // in priority 9
	leased   = 1_000     // with a lease that lasts
	lapsed   = 1_000     // with an expired lease
	failed   = 20_000    // parked, and as many in POISON
)

// planBatches are the sizes of batches. A batch of a thousand beside the few rows of a short test is best joined to all
// of them, and PostgreSQL does so.
func planBatches() []int {
	if testing.Short() {
		return []int{10, 100}
	}
	return []int{10, 100, 1000}
}

// planServers are where the plan tests run: each DSN that is set.
var planServers = []string{
	"DBQ_TEST_POSTGRES_DSN", "DBQ_TEST_POSTGRES15_DSN", "DBQ_TEST_POSTGRES17_DSN", "DBQ_TEST_POSTGRES18_DSN",
}

// TestCostOfEachStatementIsThatOfItsBatch holds the promise of flat cost: beside a million finished and 200,000 future
// tasks no statement of a worker reads more than its batch asks for, with any plan that the server may choose.
func TestCostOfEachStatementIsThatOfItsBatch(t *testing.T) {
	dialecttest.OnEachServer(t, "PostgreSQL", planServers, plans)
}

func plans(t *testing.T, dsn string) {
	s := planSession(t, dsn)
	conn, err := s.Pool.Caller.Conn(t.Context()) // whose planner may choose a sequential scan
	check.OK(t, err)
	defer conn.Close()
	// A queue's statistics are often old: they may be from when it was empty.
	t.Run("analyzed when empty", func(t *testing.T) { planEach(t, s, conn) })
	for _, table := range []string{"task", "audit", "archive"} {
		exec(t.Context(), t, s.Pool.Write, "VACUUM ANALYZE "+s.Names.Table(table))
	}
	t.Run("analyzed", func(t *testing.T) { planEach(t, s, conn) })
	t.Run("docs/sql/postgres-explain.sql", func(t *testing.T) { planPage(t, s, conn) })
	// A queue that had just run empty has pages and no rows, for what the planner knows.
	exec(t.Context(), t, s.Pool.Write,
		"UPDATE pg_class SET reltuples = 0 WHERE oid = '"+s.Names.Table("task")+"'::regclass")
	t.Run("believed to be empty", func(t *testing.T) {
		for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
			e := &explainer{t: t, conn: conn, mode: mode, table: s.Names.Table("task")}
			for _, n := range planBatches() {
				// It may then sort all that is due instead of reading it in order; the future and the finished it never touches.
				planTaking(s, e, n, due)
				planUniform(s, e, n)
			}
		}
	})
}

// planTaking holds the checkouts that take what their search finds, and may visit some rows more.
func planTaking(s *sqlrun.Session, e *explainer, n, more int) {
	for _, name := range []string{"ready", "ready within"} {
		e.check(fmt.Sprintf("%s, %d", name, n), n, n+more, func() error {
			_, err := s.Query(e.t.Context(), e, s.Statements.Private[name].SQL, planQueue("work", n))
			return err
		})
	}
}

// planUniform holds the statements for rows under one fence.
func planUniform(s *sqlrun.Session, e *explainer, n int) {
	for _, name := range []string{"complete uniform", "remove uniform"} {
		ids, _ := e.rows(n, "state = 1 AND holder = 'busy'")
		// Dead tuples of rows that were changed and rolled back before count as visits.
		e.check(fmt.Sprintf("%s, %d", name, n), n, 2*n, func() error {
			args := dialect.Args{"id": ids, "fence": int64(1), "lock_wait": int64(1000)}
			_, err := s.QueryBatch(e.t.Context(), e, s.Statements.Private[name], args, n)
			return err
		})
	}
}

func planQueue(name string, limit int) dialect.Args {
	return dialect.Args{"queue": name, "limit": limit, "lease": int64(60e6), "known_started": int64(0), "holder": "plan",
		"since": make([]int64, 10), "oldest": int64(0), "bytes": int64(1 << 30), "used": int64(0), "share": int64(1 << 20)}
}

func planEach(t *testing.T, s *sqlrun.Session, conn *sql.Conn) {
	for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
		e := &explainer{t: t, conn: conn, mode: mode, table: s.Names.Table("task")}
		for _, n := range planBatches() {
			// By each strategy: SKIP LOCKED and under the advisory lock, and what CAS reads and then takes. A search for expired
			// leases visits the leased tasks, which are as many as workers hold, and writes its batch.
			planTaking(s, e, n, 0)
			planUniform(s, e, n)
			for name, visits := range map[string]int{"see ready": n, "see expired": leased + lapsed + n} {
				e.check(fmt.Sprintf("%s, %d", name, n), n, visits, func() error {
					_, err := s.Query(t.Context(), e, s.Statements.Private[name].SQL, planQueue("work", n))
					return err
				})
			}
			e.checkBatch(s, "take ready", s.Statements.Private["take ready"], n,
				"state = 0 AND due < 2000000000000000 AND priority = 9")
			e.checkBatch(s, "take expired", s.Statements.Private["take expired"], n, "state = 1 AND holder = 'gone'")
			for name, b := range map[string]dialect.Batch{"settle": s.Statements.Settle, "remove": s.Statements.Remove,
				"extend": s.Statements.Extend, "start": s.Statements.Start} {
				e.checkBatch(s, name, b, n, "state = 1 AND holder = 'busy'")
			}
		}
		// One visit for each priority, and one for each leased task.
		for _, name := range []string{"work", "later"} {
			e.check("idle poll, "+name, 10, leased+lapsed+10, func() error {
				_, err := s.Query(t.Context(), e, s.Statements.Next, planQueue(name, 0))
				return err
			})
		}
		e.check("oldest", 1, 1, func() error {
			args := planQueue("work", 0)
			args["late"] = int64(0)
			_, err := s.Query(t.Context(), e, s.Statements.Private["oldest"].SQL, args)
			return err
		})
		planCounting(s, e)
		// Nothing is due in this queue, and its 20,000 future tasks are in all priorities.
		for _, name := range []string{"ready", "ready within", "see ready", "see expired"} {
			e.check("empty poll, "+name, 0, 0, func() error {
				_, err := s.Query(t.Context(), e, s.Statements.Private[name].SQL, planQueue("later", 100))
				return err
			})
		}
	}
}

// planCounting holds what statistics and cleaning ask, whose cost is that of their limit however many tasks there are.
func planCounting(s *sqlrun.Session, e *explainer) {
	const limit = 100
	// As many as Clean passes at once. Beside the few rows of a short test reading all of them is as good.
	window := 2000
	if testing.Short() {
		window = 200
	}
	st := s.Texts
	e.check("list window", 0, window, func() error {
		text := sqlrun.ListText(st.List, `1 = 1 AND coalesce(queue, '') = :queue AND kind = :kind
   AND coalesce(task_key, '') = :task_key
   AND (holder = :holder OR substr(holder, 1, length(:held_by)) = :held_by)
   AND updated <= 1 AND id > :after AND id < :before
   AND coalesce(state, -1) IN (0)`, true)
		_, err := s.Query(e.t.Context(), e, text, dialect.Args{"queue": "work", "kind": "none", "task_key": "k",
			"holder": "w", "held_by": "w#", "limit": limit, "after": e.idBehind(window), "before": e.idBehind(0)})
		return err
	})
	for in, index := range st.Indexes {
		if index.Where == "" {
			continue
		}
		for name, text := range map[string]string{"some": st.SomeIDs, "list some": st.ListSome, "match some": st.MatchSome} {
			text = strings.ReplaceAll(text, "{matches}", "kind = :kind")
			e.check(name+" "+in.String(), limit, limit, func() error {
				args := dialect.Args{"queue": "work", "limit": limit, "kind": "none"}
				_, err := s.Query(e.t.Context(), e, sqlrun.IndexText(text, index), args)
				return err
			})
		}
	}
	planAudit(s, e)
	// Waiting, due in one of ten priorities, leased, failed and POISON: up to the limit of each.
	for _, c := range []struct {
		name, text string
		rows       int
		args       dialect.Args
	}{
		{"count up to", st.CountUpTo, 14 * limit, dialect.Args{"queue": "work", "limit": limit}},
		{"count newest", st.CountNewest, limit, dialect.Args{"limit": limit}},
		{"next queue", st.NextQueue, 10, dialect.Args{"queue": "later"}},
		{"count union", sqlrun.UnionText(st.CountUpTo, 3, "queue"), 3 * 14 * limit,
			dialect.Args{"queue_0": "work", "queue_1": "later", "queue_2": "work", "limit": limit}},
		{"next union", sqlrun.UnionText(st.NextQueue, 3, "queue"), 30,
			dialect.Args{"queue_0": "", "queue_1": "later", "queue_2": "work"}},
		{"list failed", sqlrun.ListText(st.List, `1 = 1 AND queue = :queue AND id < :before AND (state = 4)`, true), limit,
			dialect.Args{"queue": "work", "before": uuid.Max, "limit": limit}},
		{"id before", st.IDBefore, window, dialect.Args{"before": uuid.Max, "offset": window - 1}},
		{"id behind", st.IDBehind, window, dialect.Args{"after": uuid.Nil, "before": uuid.Max, "offset": window - 1}},
	} {
		e.check(c.name, limit, c.rows, func() error {
			_, err := s.Query(e.t.Context(), e, c.text, c.args)
			return err
		})
	}
}

// planAudit holds what the pages of the audit and of a task read of many entries, and what lists read of the archive.
func planAudit(s *sqlrun.Session, e *explainer) {
	const limit = 100
	for _, c := range []struct {
		name, table, text string
		rows              int
		args              dialect.Args
	}{
		{"audit page", "audit", sqlrun.ListText(s.Texts.ListAudit, "1 = 1 AND a.id < :before", true), limit,
			dialect.Args{"before": uuid.Max, "limit": limit}},
		{"audit of task", "audit", sqlrun.ListText(s.Texts.ListAudit, "1 = 1 AND a.task = :task", true), 0,
			dialect.Args{"task": uuid.New(), "limit": limit}},
		{"list archive", "archive", sqlrun.ListText(s.Texts.ListArchive, "1 = 1 AND id > :after", false), limit,
			dialect.Args{"after": uuid.Nil, "limit": limit}},
	} {
		of := *e
		of.table = s.Names.Table(c.table)
		// A change of several parts has a row for each, which the page adds up.
		of.check(c.name, c.rows, 2*limit, func() error {
			_, err := s.Query(e.t.Context(), &of, c.text, c.args)
			return err
		})
	}
}

// idBehind returns the id that is n tasks before the last one.
func (e *explainer) idBehind(n int) (id uuid.UUID) {
	e.t.Helper()
	text := fmt.Sprintf("SELECT id FROM %s ORDER BY id DESC LIMIT 1 OFFSET %d", e.table, n)
	if err := e.conn.QueryRowContext(e.t.Context(), text).Scan(&id); err != nil {
		e.t.Fatal(err)
	}
	return id
}

// checkBatch runs a batch statement for n rows that fit a condition.
func (e *explainer) checkBatch(s *sqlrun.Session, name string, b dialect.Batch, n int, where string) {
	e.t.Helper()
	ids, fences := e.rows(n, where)
	states := make(dialect.Col[int64], n)
	for i := range states {
		states[i] = 2
	}
	args := dialect.Args{"id": ids, "fence": fences, "state": states, "uncount": make(dialect.Col[int64], n),
		"at": make(dialect.Col[*int64], n), "after": make(dialect.Col[*int64], n), "result": make(dialect.Col[[]byte], n),
		"lease": int64(60e6), "known_started": int64(0), "holder": "plan", "lock_wait": int64(1000),
		"progress": make(dialect.Col[[]byte], n)}
	e.check(fmt.Sprintf("%s, %d", name, n), n, n, func() error {
		_, err := s.QueryBatch(e.t.Context(), e, b, args, n)
		return err
	})
}

// rows finds n rows that fit a condition, in no order.
func (e *explainer) rows(n int, where string) (dialect.Col[uuid.UUID], dialect.Col[int64]) {
	e.t.Helper()
	ids, fences := make(dialect.Col[uuid.UUID], n), make(dialect.Col[int64], n)
	rows, err := e.conn.QueryContext(e.t.Context(), fmt.Sprintf(
		"SELECT id, fence FROM %s WHERE queue = 'work' AND %s ORDER BY md5(id::text) LIMIT %d", e.table, where, n))
	if err != nil {
		e.t.Fatal(err)
	}
	defer rows.Close()
	for i := range n {
		if !rows.Next() {
			e.t.Fatalf("fewer than %d rows with %s", n, where)
		}
		if err := rows.Scan(&ids[i], &fences[i]); err != nil {
			e.t.Fatal(err)
		}
	}
	return ids, fences
}

// emptySession makes tables of its own, and drops them when the test ends.
func emptySession(t *testing.T, dsn string) *sqlrun.Session {
	t.Helper()
	pool, err := postgres.Open(t.Context(), dsn, nil)
	check.OK(t, err)
	t.Cleanup(func() { pool.Close() })
	names := dialect.Names{Prefix: fmt.Sprintf("plan%d_", time.Now().UnixNano()%1e9)}
	s := sqlrun.NewSession(postgres.Dialect{}, pool, dialect.Server{}, names)
	t.Cleanup(func() {
		for _, text := range s.Texts.Drop {
			exec(context.WithoutCancel(t.Context()), t, pool.Write, text)
		}
	})
	for _, m := range (postgres.Dialect{}).Migrations(names) {
		for _, text := range m.Statements {
			exec(t.Context(), t, pool.Write, text)
		}
	}
	task := names.Table("task")
	exec(t.Context(), t, pool.Write, "ALTER TABLE "+task+" SET UNLOGGED") // plans are the same, and the filling is faster
	// Autovacuum would decide when plans change. After it, lease has so few pages that a session of a caller's pool reads
	// all of it for each task of a takeover. That costs at most the pages that the statement itself adds, for each task.
	for _, table := range []string{task, names.Table("lease")} {
		exec(t.Context(), t, pool.Write, "ALTER TABLE "+table+" SET (autovacuum_enabled = false)")
	}
	exec(t.Context(), t, pool.Write, "VACUUM ANALYZE "+task)
	return s
}

// planSession fills the tables of emptySession.
func planSession(t *testing.T, dsn string) *sqlrun.Session {
	t.Helper()
	s := emptySession(t, dsn)
	pool, names, task := s.Pool, s.Names, s.Names.Table("task")
	share := 1
	if testing.Short() {
		share = 10
	}
	fill := func(n int, values string) {
		// Ids of version 7 in the order of their time, the rest random.
		exec(t.Context(), t, pool.Write, fmt.Sprintf(`INSERT INTO %s (id, queue, kind, state, priority,
  max_attempts, attempt, fence, due, lease_until, holder, created, updated, payload)
SELECT CAST(lpad(to_hex(1700000000000 + i / 50), 12, '0') || '70008000' ||
         lpad(to_hex((random() * 281474976710655)::bigint), 12, '0') AS uuid),
       %s, 1, 1, CAST('forty bytes of a payload, as good as any' AS bytea)
  FROM generate_series(1, %d) AS i`, task, values, n))
	}
	// Columns: queue, kind, state, priority, max_attempts, attempt, fence, due, lease_until, holder.
	const now, never, long = "1600000000000000", "4000000000000000", "CAST(NULL AS bigint)"
	fill(finished/share, "'work', '', 2, 5, 10, 1, 1, "+long+", "+long+", 'done'")
	fill(future/share, "'work', '', 0, i % 9, 10, 0, 0, "+never+" + i, "+long+", CAST(NULL AS text)")
	fill(future/share/10, "'later', '', 0, i % 10, 10, 0, 0, "+never+" + i, "+long+", CAST(NULL AS text)")
	for _, s := range []int{3, 4} {
		fill(failed, fmt.Sprintf("'work', '', %d, 5, 10, 1, 1, %s, %s, CAST(NULL AS text)", s, long, long))
	}
	fill(due, "'work', '', 0, 9, 10, 0, 0, "+now+" + i, "+long+", CAST(NULL AS text)")
	fill(leased, "'work', '', 1, 5, 10, 1, 1, "+long+", "+never+", 'busy'")
	fill(lapsed, "'work', '', 1, 5, 10, 1, 1, "+long+", "+now+", 'gone'")
	exec(t.Context(), t, pool.Write, fmt.Sprintf(`INSERT INTO %s (id, part, happened, who, program, address, request,
  action, queue, subject, task, task_filter, reason, old_value, new_value, changed)
SELECT gen_random_uuid(), 0, i, '', '', '', '', '', '', '', gen_random_uuid(), '', '', '', '', 1
  FROM generate_series(1, %d) AS i`, names.Table("audit"), failed))
	exec(t.Context(), t, pool.Write, fmt.Sprintf(`INSERT INTO %s SELECT *, 1 FROM %s WHERE state = 3`,
		names.Table("archive"), task))
	return s
}

func exec(ctx context.Context, t *testing.T, db *sql.DB, text string) {
	t.Helper()
	if _, err := db.ExecContext(ctx, text); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
}

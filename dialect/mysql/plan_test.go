package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/internal/dialecttest"
	"github.com/dbq-go/dbq/dialect/kit/search"
	"github.com/dbq-go/dbq/internal/sqlrun"
	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

// The table that plans are made for: much that must not be walked, and little that is due.
const (
	finished = 30_000 // COMPLETED
	future   = 20_000 // not due yet, in priorities 0 to 8, before all that is due
	due      = 500    // in priority 9
	leased   = 300    // with a lease that lasts
	lapsed   = 200    // with an expired lease
)

func planTable(t *testing.T, s *sqlrun.Session) {
	t.Helper()
	const now, never = "1600000000000000", "4000000000000000"
	fill(t, s, finished, "2, 5, 1, 1, -1, -1, 'done'")
	fill(t, s, future, "0, n.i % 9, 0, 0, "+never+" + n.i, -1, ''")
	fill(t, s, due, "0, 9, 0, 0, "+now+" + n.i, -1, ''")
	fill(t, s, leased, "1, 5, 1, 1, -1, "+never+", 'busy'")
	fill(t, s, lapsed, "1, 5, 1, 1, -1, "+now+", 'gone'")
}

// ways are the index by which each statement must reach the task table. Those that take ids must reach no row but
// these.
var ways = map[string]string{
	"due": "lane", "ready": "lane", "ready sizes": "lane", "see ready": "lane", "see expired": "lane", "oldest": "lane",
	"held": "lane", "exhausted": "lane", "find reference": "reference", "get": "PRIMARY", "next": "lane",
	"lock ready": "PRIMARY", "lock expired": "PRIMARY", "try lock ready": "PRIMARY", "try lock expired": "PRIMARY",
	"take": "PRIMARY", "take over": "PRIMARY", "poison": "PRIMARY", "start": "PRIMARY", "known_started": "PRIMARY",
	"claimed": "PRIMARY", "extended": "PRIMARY", "drop leases": "PRIMARY",
	"settle": "PRIMARY", "lock settle": "PRIMARY", "remove": "PRIMARY", "lock remove": "PRIMARY", "extend": "PRIMARY",
	"peek": "PRIMARY", "inserted": "PRIMARY", "payloads": "PRIMARY",
	"complete uniform": "PRIMARY", "lock uniform": "PRIMARY", "lock free": "PRIMARY",
	"count up to": "lane", "next queue": "lane", "id behind": "PRIMARY", "id before": "PRIMARY", "list window": "PRIMARY",
	"count union": "lane", "next union": "lane",
	"some CREATED": "lane", "some PROCESSING": "lane", "some COMPLETED": "lane", "some ERROR": "lane",
	"some POISON": "lane", "list some": "lane", "some of a priority": "lane", "match some": "lane",
	"list archive": "PRIMARY", "audit page": "PRIMARY", "audit of task": "audit",
	"busy": "lane", "due of keys": "key", "heads of keys": "order",
}

// lockless are statements that only read, without locks.
var lockless = []string{"list archive", "audit page", "some ERROR", "list some", "some of a priority",
	"inserted", "due", "count up to", "next queue", "count union", "next union", "id behind",
	"id before", "list window"}

// TestEachStatementOfAWorkerReachesItsRowsByTheRightIndex holds the promise of flat cost, whether the optimizer's
// statistics are from when the table was empty, of tens of thousands of rows, or of a few: then a scan would seem
// cheap, and lock what others need.
func TestEachStatementOfAWorkerReachesItsRowsByTheRightIndex(t *testing.T) {
	onEachServer(t, func(t *testing.T, dsn string) {
		s := migrated(t, dsn)
		t.Run("not analyzed, empty", func(t *testing.T) { planEach(t, s) })
		fill(t, s, 20, "1, 5, 1, 1, -1, 4000000000000000, 'busy'")
		_, err := s.Pool.Write.ExecContext(t.Context(), text(s.Names, "UPDATE {task} SET reference = 'r' LIMIT 1"))
		must(t, err)
		analyze(t, s)
		t.Run("few rows", func(t *testing.T) { planEach(t, s) })
		planTable(t, s)
		t.Run("statistics of few rows", func(t *testing.T) { planEach(t, s) })
		analyze(t, s)
		t.Run("analyzed", func(t *testing.T) { planEach(t, s) })
		t.Run("docs/sql/mysql-explain.sql", func(t *testing.T) { planPage(t, s) })
	})
}

// planPage checks that the statements of docs/sql/mysql-explain.sql run as they are written there, and that each plan
// uses the index that the page names.
func planPage(t *testing.T, s *sqlrun.Session) {
	conn, err := s.Pool.Write.Conn(t.Context())
	must(t, err)
	defer conn.Close()
	_, err = conn.ExecContext(t.Context(), "USE "+s.Names.Schema)
	must(t, err)
	for _, x := range dialecttest.ExplainPage(t, "mysql", s.Names.Prefix) {
		e := &explainer{db: conn}
		err := e.Query(t.Context(), strings.TrimPrefix(x.SQL, explain), nil, func(dialect.Rows) error { return nil })
		name := strings.ToLower(x.Name)
		e.check(t, name, err)
		if index := strings.TrimPrefix(x.Indexes[0], s.Names.Prefix+"task_"); index != ways[name] {
			t.Errorf("%s: the page names %s, want %s", x.Name, index, ways[name])
		}
	}
}

func planEach(t *testing.T, s *sqlrun.Session) {
	st := s.Texts
	plain, batches := dialecttest.Private(st.Statements)
	for _, name := range []string{"queue lock", "queue free", "turn lock", "turn free"} {
		delete(plain, name)
	}
	plain["held"], plain["find reference"], plain["get"], plain["next"] = st.Held, st.FindReference, st.Get, st.Next
	plain["exhausted"], plain["count up to"], plain["next queue"] = st.Exhausted, st.CountUpTo, st.NextQueue
	plain["id behind"], plain["busy"] = st.IDBehind, st.Busy
	plain["id before"] = st.IDBefore
	plain["list window"] = sqlrun.ListText(st.List, `1 = 1 AND coalesce(queue, '') = :queue AND kind = :kind
   AND coalesce(task_key, '') = :task_key
   AND (holder = :holder OR substr(holder, 1, length(:held_by)) = :held_by)
   AND updated <= 1 AND id > :after AND id < :before
   AND coalesce(state, -1) IN (0)`, true)
	plain["list archive"] = sqlrun.ListText(st.ListArchive, "1 = 1 AND id > :after AND id < :before", false)
	for in, index := range st.Indexes {
		plain["some "+in.String()] = sqlrun.IndexText(st.SomeIDs, index)
	}
	poison := st.Indexes[state.Poison]
	poison.Where += " AND priority = :priority AND id > :after AND id < :before"
	poison.Order = "id DESC"
	plain["some of a priority"] = sqlrun.IndexText(st.SomeIDs, poison)
	plain["list some"] = sqlrun.IndexText(st.ListSome, st.Indexes[state.Error])
	plain["match some"] = strings.ReplaceAll(sqlrun.IndexText(st.MatchSome, st.Indexes[state.Created]),
		"{matches}", "kind = :kind")
	plain["audit of task"] = sqlrun.ListText(st.ListAudit, "1 = 1 AND a.task = :task", true)
	plain["audit page"] = sqlrun.ListText(st.ListAudit, "1 = 1 AND a.id < :before", true)
	plain["count union"] = sqlrun.UnionText(st.CountUpTo, 3, "queue")
	plain["next union"] = sqlrun.UnionText(st.NextQueue, 3, "queue")
	batches["due of keys"], batches["heads of keys"] = st.DueOfKeys, st.HeadsOfKeys
	batches["settle"], batches["remove"], batches["extend"], batches["peek"] = st.Settle, st.Remove, st.Extend, st.Peek
	batches["lock free"], batches["drop leases"], batches["start"] = st.LockFree, st.DropLeases, st.Start
	delete(batches, "insert uniform") // it reads nothing
	delete(batches, "claim")          // it reads nothing but its list

	if got, want := len(plain)+len(batches), len(ways); got != want {
		t.Errorf("%d statements are explained, %d are known: change the test with the dialect", got, want)
	}
	one := dialect.Args{
		"id": batchOf(t, s, 1)["id"].(dialect.Column).At(0), "reference": "r", "queue": "work", "priority": 9,
		"holder": "busy", "share": int64(100), "after": uuid.Nil, "before": uuid.Max, "offset": 1999, "limit": 10,
		"kind": "", "task_key": "k", "held_by": "w#", "task": uuid.New(),
		"queue_0": "work", "queue_1": "later", "queue_2": "work",
	}
	maps.Copy(one, searchArgs("work"))
	for _, name := range slices.Sorted(maps.Keys(plain)) {
		e := &explainer{db: s.Pool.Write}
		_, err := s.Query(t.Context(), e, plain[name], one)
		e.check(t, name, err)
	}
	for _, n := range []int{1, 10, maxRows} {
		rows := batchOf(t, s, n)
		for _, name := range slices.Sorted(maps.Keys(batches)) {
			e, args := &explainer{db: s.Pool.Write}, maps.Clone(rows)
			if strings.HasSuffix(name, " uniform") {
				args["fence"] = int64(1) // one for all
			}
			_, err := s.QueryBatch(t.Context(), e, batches[name], args, n)
			e.check(t, fmt.Sprintf("%s, %d", name, n), err)
		}
	}
}

// batchOf are the arguments of a batch for the first n leased rows, and others when there are fewer.
func batchOf(t *testing.T, s *sqlrun.Session, n int) dialect.Args {
	t.Helper()
	leased := text(s.Names, "SELECT id, fence FROM {task} WHERE queue = :queue AND state = 1 ORDER BY id LIMIT :limit")
	found, err := s.Read(t.Context(), leased, dialect.Args{"queue": "work", "limit": n})
	must(t, err)
	keys := make(dialect.Col[string], n)
	ids, fences, states := make(dialect.Col[uuid.UUID], n), make(dialect.Col[int64], n), make(dialect.Col[int64], n)
	for i := range n {
		ids[i], fences[i], states[i], keys[i] = uuid.New(), 1, 2, fmt.Sprint("key ", i)
		if i < len(found) {
			ids[i], fences[i] = found[i].ID, found[i].Fence
		}
	}
	return dialect.Args{"id": ids, "fence": fences, "state": states, "uncount": make(dialect.Col[int64], n),
		"at": make(dialect.Col[*int64], n), "after": make(dialect.Col[*int64], n), "result": make(dialect.Col[[]byte], n),
		"lease": int64(60e6), "known_started": int64(0), "holder": "plan", "now": int64(1),
		"progress": make(dialect.Col[[]byte], n), "callers_tx": int64(0),
		"queue": "work", "limit": 1, "block": int64(1), "task_key": keys}
}

// explainer is a connection that explains a statement instead of running it.
type explainer struct {
	db interface {
		ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
		QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	}
	lines []planLine
}

// explain is what stands before a statement.
const explain = "EXPLAIN FORMAT=TRADITIONAL"

type planLine struct{ kind, table, access, key, rows, extra string }

func (e *explainer) Query(ctx context.Context, query string, args []any, read func(dialect.Rows) error) error {
	rows, err := e.db.QueryContext(ctx, explain+" "+query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return err
	}
	for rows.Next() {
		values, dest := make([]sql.NullString, len(names)), make([]any, len(names))
		for i := range dest {
			dest[i] = &values[i]
		}
		if err := rows.Scan(dest...); err != nil {
			return err
		}
		col := func(name string) string { return values[slices.Index(names, name)].String }
		e.lines = append(e.lines, planLine{
			kind: col("select_type"), table: col("table"), access: col("type"),
			key: col("key"), rows: col("rows"), extra: col("Extra"),
		})
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return sqlrun.ConnOf(e.db).Query(ctx, "SELECT 1 AS now FROM DUAL WHERE 1 = 0", nil, read)
}

func (e *explainer) Exec(context.Context, string, ...any) (int64, error) {
	return 0, fmt.Errorf("the plan test has no need of Exec")
}

// check compares how the task table is reached with what ways says.
func (e *explainer) check(t *testing.T, name string, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	key, _, _ := strings.Cut(name, ",")
	want := ways[key]
	switch want {
	case "PRIMARY":
	case "audit":
		want = "dbq_audit_task"
	default:
		want = "dbq_task_" + want
	}
	met := false // a row that is looked for by a unique index alone may have been looked up already, and is no line then
	for _, l := range e.lines {
		onTask := l.table == "t" || l.table == "dbq_task" || l.table == "a"
		byIndex := slices.Contains([]string{"const", "eq_ref", "ref", "range"}, l.access)
		if rows, _ := strconv.Atoi(l.rows); l.access == "index" && rows <= 20 && slices.Contains(lockless, key) {
			byIndex = true // a whole index of few rows is as good as its ranges
		}
		onLease := l.table == "l" || l.table == "dbq_lease" && l.kind != "INSERT"
		wrong := onTask && (!byIndex || l.key != want) || onLease && (!byIndex || l.key != "PRIMARY")
		if wrong || strings.Contains(l.extra, "filesort") {
			t.Errorf("%s: wants %s, the plan is\n%+v", name, want, e.lines)
			return
		}
		met = met || onTask || onLease || strings.Contains(l.extra, "const table")
	}
	if !met {
		t.Errorf("%s: the plan does not meet the tasks:\n%+v", name, e.lines)
	}
}

// TestCheckoutLocksWhatItTakes counts the rows that a checkout of 5 has locked: those, in the index and in the
// table, and not what lies before them. On MariaDB a range's end counts, too.
func TestCheckoutLocksWhatItTakes(t *testing.T) {
	onEachServer(t, func(t *testing.T, dsn string) {
		s := migrated(t, dsn)
		planTable(t, s)
		analyze(t, s)
		for _, strategy := range s.Server.Strategies {
			for _, expired := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, expired first %v", strategy, expired), func(t *testing.T) {
					var locked int
					r := dialect.CheckoutRequest{
						Strategy: strategy, Queue: "work", Limit: 5, Lease: time.Second, Holder: "locks",
					}
					if expired {
						r.Search = dialect.ExpiredFirst
					}
					c := &checkout{s: &s.Session, r: r, scan: search.Scan{Since: search.FromStart()}}
					find := c.skipLocked
					if strategy == dialect.CAS {
						find = c.seenReady
					}
					err := s.Tx(t.Context(), func(ctx context.Context, conn dialect.Conn) (err error) {
						if err = c.parts(ctx, conn, []int{9}, find); err == nil {
							locked, err = countLocks(ctx, s, conn)
						}
						return err
					})
					must(t, err)
					if len(c.budget.Result().Rows) != 5 {
						t.Fatalf("%d rows were taken, want 5", len(c.budget.Result().Rows))
					}
					if locked < 5 || locked > 2*5+2 {
						t.Errorf("%d locks for a checkout of 5", locked)
					}
					t.Logf("%d locks", locked)
				})
			}
		}
	})
}

// countLocks is how many row locks the transaction of conn holds.
func countLocks(ctx context.Context, s *sqlrun.Session, conn dialect.Conn) (int, error) {
	query := `
SELECT count(*) AS now
  FROM performance_schema.data_locks AS l
 WHERE l.lock_type = 'RECORD' AND l.thread_id = PS_CURRENT_THREAD_ID()`
	if s.Server.Product == "MariaDB" {
		query = `
SELECT trx_rows_locked AS now
  FROM information_schema.innodb_trx
 WHERE trx_mysql_thread_id = CONNECTION_ID()`
	}
	rows, err := s.Query(ctx, conn, query, nil)
	if err != nil {
		return 0, err
	}
	if len(rows) != 1 {
		return 0, fmt.Errorf("the server tells of %d transactions", len(rows))
	}
	return int(rows[0].Now), nil
}

// searchArgs returns where searches begin, which the core does not bind.
func searchArgs(queue string) dialect.Args {
	args := sinceArgs(queue, search.FromStart())
	args["since"], args["oldest"], args["late"] = int64(0), int64(0), int64(0)
	return args
}

package dialecttest

import (
	"maps"
	"net/url"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/kit/search"
	"github.com/dbq-go/dbq/dialect/mysql"
	"github.com/dbq-go/dbq/dialect/oracle"
	"github.com/dbq-go/dbq/dialect/postgres"
	"github.com/dbq-go/dbq/dialect/sqlite"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/internal/sqlrun"
)

// An engine is a dialect with what the tests need to know of it.
type engine struct {
	dialect dialect.Dialect
	open    Open
	servers []string // the variables that name servers
	drop    string   // see OwnSchema

	// one and two are the values that the dialect's private statements bind, besides One and Two.
	one, two dialect.Args
	// locks are the statements of Checkout that take a lock, each with the one that frees it.
	locks map[string]string
	// params are parameters of the DSN under which every statement runs.
	params []string
	// longAgo makes the task of kind 'long' one that was taken, and whose lease ended, at the beginning of time.
	longAgo string
}

var engines = map[string]engine{
	"SQLite": {
		dialect: sqlite.Dialect{}, open: sqlite.Open,
		one: dialect.Args{"now": int64(1), "priority": 5, "was_due": int64(1)},
	},
	"PostgreSQL": {
		dialect: postgres.Dialect{}, open: postgres.Open,
		servers: PostgresServers, drop: "DROP SCHEMA IF EXISTS %s CASCADE",
		one: dialect.Args{"since": search.FromStart(), "oldest": int64(0), "late": int64(0), "many": int64(0)},
		two: dialect.Args{"since": search.FromStart()},
		// prepared, and as behind a pooler that cannot prepare
		params: []string{"default_query_exec_mode=cache_statement", "default_query_exec_mode=cache_describe",
			"default_query_exec_mode=describe_exec", "default_query_exec_mode=exec"},
		longAgo: "UPDATE {task} SET updated = 1, lease_until = 2 WHERE kind = 'long'",
	},
	"MySQL": {
		dialect: mysql.Dialect{}, open: mysql.Open, servers: MySQLServers, drop: "DROP DATABASE IF EXISTS %s",
		one: mysqlArgs(), two: dialect.Args{"now": int64(1)},
		locks: map[string]string{"queue lock": "queue free", "turn lock": "turn free"},
		// ages of dialect/mysql/statements.go
		longAgo: "UPDATE {task} SET due_at = 1 - 4611686018427387904, updated = 1, lease_end = 2 WHERE kind = 'long'",
	},
	"Oracle": {dialect: oracle.Dialect{}},
}

// mysqlArgs begins a search at the start of each priority.
func mysqlArgs() dialect.Args {
	args := dialect.Args{"priority": 5, "since": int64(0), "oldest": int64(0), "late": int64(0)}
	for priority, at := range search.FromStart() {
		args["since"+strconv.Itoa(priority)] = at
	}
	return args
}

// migrated returns a session on tables of the test's own. An empty DSN is a new SQLite file.
func (e engine) migrated(t *testing.T, dsn, param string) *sqlrun.Session {
	t.Helper()
	var s *sqlrun.Session
	if dsn == "" {
		pool, err := e.open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "q.db"), nil)
		check.OK(t, err)
		t.Cleanup(func() { pool.Close() })
		s = Session(t, e.dialect, pool, dialect.Names{Prefix: "dbq_"})
	} else {
		u, err := url.Parse(dsn)
		check.OK(t, err)
		if u.RawQuery != "" && param != "" {
			u.RawQuery += "&"
		}
		u.RawQuery += param
		s = OwnSchema(t, e.dialect, e.open, u.String(), e.drop)
	}
	Migrate(t, s)
	return s
}

// onEachEngine runs f for each dialect.
func onEachEngine(t *testing.T, f func(t *testing.T, e engine)) {
	t.Helper()
	t.Parallel()
	for name, e := range engines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, e)
		})
	}
}

func TestEveryStatementRuns(t *testing.T) {
	onEachEngine(t, func(t *testing.T, e engine) {
		if e.open == nil {
			t.Skip("its own tests check statements without a server")
		}
		one, two := One(), Two()
		maps.Copy(one, e.one)
		maps.Copy(two, e.two)
		if e.servers == nil {
			everyStatementRuns(t, e.migrated(t, "", ""), one, two, e.locks)
			return
		}
		OnEachServer(t, e.dialect.Name(), e.servers, func(t *testing.T, dsn string) {
			for _, param := range append(e.params, "")[:max(1, len(e.params))] {
				t.Run(param, func(t *testing.T) {
					t.Parallel()
					everyStatementRuns(t, e.migrated(t, dsn, param), one, two, e.locks)
				})
			}
		})
	})
}

func TestCheckoutsBeginAtCursor(t *testing.T) {
	onEachEngine(t, func(t *testing.T, e engine) {
		if e.longAgo == "" {
			t.Skip("without a search cursor, or without a server")
		}
		OnEachServer(t, e.dialect.Name(), e.servers, func(t *testing.T, dsn string) {
			checkoutsBeginAtCursor(t, func(t *testing.T) *sqlrun.Session { return e.migrated(t, dsn, "") }, e.longAgo)
		})
	})
}

func TestMovesFollowStateTable(t *testing.T) {
	onEachEngine(t, func(t *testing.T, e engine) { movesFollowStateTable(t, e.dialect) })
}

func TestStatementsNameTheirTables(t *testing.T) {
	onEachEngine(t, func(t *testing.T, e engine) {
		if e.open != nil && e.servers == nil {
			t.Skip("SQLite has no schemas")
		}
		statementsNameTheirTables(t, e.dialect)
	})
}

func TestSchemaHasEveryState(t *testing.T) {
	onEachEngine(t, func(t *testing.T, e engine) { schemaHasEveryState(t, e.dialect) })
}

package engines

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/mysql"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/google/uuid"
)

// onMySQL runs f on each server of MySQL's protocol that the environment names.
func onMySQL(t *testing.T, f func(t *testing.T, dsn string)) {
	t.Helper()
	onServers(t, "mysql", f)
}

// onServers runs f on each server of a driver that the environment names.
func onServers(t *testing.T, driver string, f func(t *testing.T, dsn string)) {
	t.Helper()
	t.Parallel()
	ran := false
	for _, target := range present() {
		if target.driver == driver {
			ran = true
			t.Run(target.name, func(t *testing.T) { f(t, os.Getenv(target.variable())) })
		}
	}
	if !ran {
		t.Skipf("no server for the driver %s: run make test, which starts what it finds, or set DBQ_TEST_..._DSN", driver)
	}
}

// onEngines runs f in parallel on SQLite and on each server whose DSN is set, but not behind the pooler.
func onEngines(t *testing.T, f func(t *testing.T, target target, dsn string)) {
	t.Helper()
	t.Parallel()
	for _, target := range present() {
		dsn := os.Getenv(target.variable())
		if target.name == "pgbouncer" {
			continue
		}
		t.Run(target.name, func(t *testing.T) {
			t.Parallel()
			if target.file != nil {
				dsn = target.file(t.TempDir())
			}
			f(t, target, dsn)
		})
	}
}

// driverDSN is a DSN of dbq's as go-sql-driver wants it, with parameters of a caller.
func driverDSN(t *testing.T, dsn, parameters string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal("the DSN cannot be read") // it may hold a password
	}
	password, _ := u.User.Password()
	return fmt.Sprintf("%s:%s@tcp(%s)%s?%s", u.User.Username(), password, u.Host, u.Path, parameters)
}

// ownTables gives a test tables of its own, which it drops.
func ownTables(t *testing.T, dsn string) dbq.Option {
	t.Helper()
	return dbq.WithPrefix(ownPrefix(t, dsn))
}

// ownPrefix is ownTables as the prefix of their names.
func ownPrefix(t *testing.T, dsn string) string {
	t.Helper()
	prefix := fmt.Sprintf("pool%x_", uuid.New().ID())
	t.Cleanup(func() {
		if err := dbq.DropTables(context.WithoutCancel(t.Context()), dsn, dbq.WithPrefix(prefix)); err != nil {
			t.Error(err)
		}
	})
	return prefix
}

// A pool of the caller's keeps the promises whatever its DSN says, or is refused with what to change in it.
func TestCallersPool(t *testing.T) {
	for parameters, refused := range map[string]string{
		"":                           "",
		"parseTime=true&loc=Local":   "",
		"interpolateParams=true":     "",
		"clientFoundRows=true":       "",
		"multiStatements=true":       "",
		"time_zone=%27%2B05%3A45%27": "",
		"sql_mode=%27ANSI%2CTRADITIONAL%2CNO_BACKSLASH_ESCAPES%27": "",
		"transaction_isolation=%27SERIALIZABLE%27":                 "",
		"collation=utf8mb4_general_ci":                             "",
		"maxAllowedPacket=0":                                       "",
		"collation=latin1_swedish_ci":                              "use collation=utf8mb4_bin",
		"sql_mode=%27%27":                                          "add sql_mode=%27STRICT_ALL_TABLES%27",
		"autocommit=0":                                             "add autocommit=ON",
		"transaction_read_only=1":                                  "transaction_read_only=OFF",
		"completion_type=1":                                        "add completion_type=NO_CHAIN",
		"sql_safe_updates=1":                                       "add sql_safe_updates=OFF",
		"sql_if_exists=1":                                          "add sql_if_exists=OFF",
		"sql_select_limit=1":                                       "sql_select_limit",
		"binlog_format=%27STATEMENT%27":                            "set it to ROW",
	} {
		t.Run(parameters, func(t *testing.T) {
			onMySQL(t, func(t *testing.T, dsn string) {
				callersPool(t, dsn, parameters, refused)
			})
		})
	}
}

func callersPool(t *testing.T, dsn, parameters, refused string) {
	prefix := ownTables(t, dsn)
	db, err := sql.Open("mysql", driverDSN(t, dsn, parameters))
	check.OK(t, err)
	defer db.Close()
	if err := db.PingContext(t.Context()); err != nil {
		t.Skipf("this server has no such setting: %v", err) // transaction_isolation is tx_isolation before MariaDB 11.1
	}
	c, err := dbq.New(t.Context(), db, mysql.Dialect{}, prefix, dbq.WithMigrate())
	if refused != "" {
		if strings.HasPrefix(parameters, "binlog_format") && err == nil {
			t.Skip("the server writes no binary log")
		}
		if !errors.Is(err, dialect.ErrServer) || !strings.Contains(err.Error(), refused) {
			t.Errorf("got %v, want an error that says %q", err, refused)
		}
		return
	}
	check.OK(t, err)
	defer c.Close()
	tasksOnCallersPool(t, c)
	transactionOnCallersPool(t, db, dsn, prefix)
}

// oddText is changed by a wrong encoding.
const oddText = `päylöad 'quoted" \back 日本 🐝`

// tasksOnCallersPool sends tasks through all that a client does on a pool, with texts that a wrong encoding would
// change.
func tasksOnCallersPool(t *testing.T, c *dbq.Client) {
	q := c.Queue("ö" + oddText)
	added, err := q.EnqueueMany(t.Context(), []dbq.NewTask{
		{Reference: "A ", Payload: []byte(oddText), Headers: map[string]string{"k": oddText}}, {Reference: "a "},
		{Reference: "a"},
		{Reference: "A "}})
	if err != nil || added[0].Duplicate || added[1].Duplicate || added[2].Duplicate || !added[3].Duplicate {
		t.Fatalf("got %+v, %v, want the last alone to be a duplicate", added, err)
	}
	now, err := c.Now(t.Context())
	if off := time.Since(now).Abs(); err != nil || off > time.Minute {
		t.Errorf("the database's clock is off by %v (%v): the session's time zone got into it", off, err)
	}
	tasks, err := q.Checkout(t.Context(), 3, time.Minute)
	if err != nil || len(tasks) != 3 || string(tasks[0].Payload) != oddText || tasks[0].Headers["k"] != oddText {
		t.Fatalf("got %v, %v, want 3 tasks, the first with its payload", tasks, err)
	}
	settled, err := q.SettleMany(t.Context(), []dbq.Settlement{
		{Lease: tasks[0].Lease, Outcome: dbq.Completed([]byte(oddText))},
		{Lease: tasks[1].Lease, Outcome: dbq.Deleted()},
		{Lease: tasks[2].Lease, Outcome: dbq.RetryIn(0, errors.New(oddText))}})
	if err != nil || settled[0].State != dbq.StateCompleted || settled[1].Err != nil ||
		settled[2].State != dbq.StateError {
		t.Fatalf("got %+v, %v", settled, err)
	}
	if err := q.Complete(t.Context(), tasks[0].Lease, nil); !errors.Is(err, dbq.ErrLeaseLost) {
		t.Errorf("completing twice: got %v, want ErrLeaseLost", err)
	}
	got, err := c.Get(t.Context(), tasks[0].ID)
	if err != nil || string(got.Result) != oddText {
		t.Errorf("got %q, %v, want the result as it was", got.Result, err)
	}
	// Nothing is left open that would hold a snapshot or locks: what another session adds is seen at once.
	if _, err := q.Enqueue(t.Context(), dbq.NewTask{}); err != nil {
		t.Fatal(err)
	}
	if again, err := q.Checkout(t.Context(), 5, time.Minute); err != nil || len(again) != 2 {
		t.Errorf("got %d tasks, %v, want the failed one and the new one", len(again), err)
	}
}

// transactionOnCallersPool enqueues and completes a task by a client of dbq's own, in transactions of the caller's
// pool, as a worker does that completes a task with its effects.
func transactionOnCallersPool(t *testing.T, db *sql.DB, dsn string, prefix dbq.Option) {
	own, err := dbq.Open(t.Context(), dsn, prefix)
	check.OK(t, err)
	defer own.Close()
	tx, err := db.BeginTx(t.Context(), nil)
	check.OK(t, err)
	defer tx.Rollback()
	id, err := own.Queue("tx").EnqueueTx(t.Context(), tx, dbq.NewTask{Payload: []byte("\x00\xff\x80"), Reference: oddText})
	check.OK(t, err)
	check.OK(t, tx.Commit())
	taken, err := own.Queue("tx").Checkout(t.Context(), 2, time.Minute)
	if err != nil || len(taken) != 1 || taken[0].ID != id || string(taken[0].Payload) != "\x00\xff\x80" {
		t.Fatalf("got %v, %v, want the task with its bytes", taken, err)
	}
	if tx, err = db.BeginTx(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	check.OK(t, own.Queue("tx").CompleteTx(t.Context(), tx, taken[0].Lease, []byte("\xfe\xff")))
	check.OK(t, tx.Commit())
	if got, err := own.Get(t.Context(), id); err != nil || got.State != dbq.StateCompleted ||
		string(got.Result) != "\xfe\xff" {
		t.Errorf("got %v with result %q, %v, want COMPLETED with its bytes", got.State, got.Result, err)
	}
}

// A DSN that leads to another product than its scheme says is refused before anything is made, and the error names the
// right scheme.
func TestSchemeOfTheOtherProduct(t *testing.T) {
	onMySQL(t, func(t *testing.T, dsn string) {
		right, rest, _ := strings.Cut(dsn, ":")
		wrong := map[string]string{"mysql": "mariadb", "mariadb": "mysql"}[right]
		_, err := dbq.Open(t.Context(), wrong+":"+rest, ownTables(t, dsn), dbq.WithMigrate())
		if !errors.Is(err, dialect.ErrDSN) || !strings.Contains(err.Error(), "write "+right+": instead of "+wrong+":") {
			t.Errorf("got %v", err)
		}
	})
}

// A schema that is not there yet is made by the migration; before that the tables are not there, and the database is.
func TestSchemaIsMadeByTheMigration(t *testing.T) {
	onMySQL(t, func(t *testing.T, dsn string) {
		schema := fmt.Sprintf("pool%x", uuid.New().ID())
		if _, err := dbq.Open(t.Context(), dsn, dbq.WithSchema(schema)); !errors.Is(err, dbq.ErrNotMigrated) {
			t.Errorf("got %v, want ErrNotMigrated", err)
		}
		c, err := dbq.Open(t.Context(), dsn, dbq.WithSchema(schema), dbq.WithMigrate())
		check.OK(t, err)
		defer c.Close()
		defer func() {
			if _, err := c.DB().ExecContext(context.WithoutCancel(t.Context()), "DROP DATABASE "+schema); err != nil {
				t.Errorf("left behind: %v", err)
			}
		}()
		if _, err := c.Queue("q").Enqueue(t.Context(), dbq.NewTask{}); err != nil {
			t.Error(err)
		}
	})
}

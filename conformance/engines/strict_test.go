package engines

import (
	"context"
	"database/sql"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/conformance"
)

// strict are settings by which administrators protect a server from programs that hold it up. A role or a database may have them, too.
var strict = map[string]string{
	"statement_timeout": "5s", "idle_in_transaction_session_timeout": "2s", "default_transaction_isolation": "serializable",
}

// strictCases are those that these settings could break: long transactions, conflicts, and answers that were lost.
var strictCases = regexp.MustCompile("^(Faults/(AnswerLost|CutDuring|Stalled)|Contention/|CompleteTx/|EnqueueTx/|Worker/|Schema/Concurrent)")

// idle is why laws of transactions that wait are known to fail.
const idle = "its handlers' own transactions are idle for some seconds, and idle_in_transaction_session_timeout ends them after 2 s"

// The promises are kept under a strict administrator's settings.
func TestStrictSettings(t *testing.T) {
	for _, target := range targets {
		dsn := os.Getenv(target.variable())
		if !strings.HasPrefix(dsn, "postgres") || target.name == "pgbouncer" { // which refuses settings that it does not know
			continue
		}
		if testing.Short() && target.name != "postgres18" { // the versions do not differ in this
			continue
		}
		for name, value := range strict {
			dsn = withParameter(dsn, name, value)
		}
		t.Run(target.name, func(t *testing.T) {
			conformance.Run(t, conformance.Harness{DSN: func(string) string { return dsn }, Processes: true, Match: strictCases,
				Known: map[string]string{"Worker/HandlersInTransactions": idle,
					"Worker/TransactionsOnACallersPool": idle, "Worker/TransactionsOnASmallPool": idle}})
		})
	}
}

// serializableCases are those whose transactions are the program's own.
var serializableCases = regexp.MustCompile("^(CompleteTx/|EnqueueTx/|Worker/TerminatedProcess)")

// A server whose sessions begin at SERIALIZABLE keeps the promises.
func TestSerializableByDefault(t *testing.T) {
	for _, target := range mysqlServers() {
		dsn := os.Getenv(target.variable())
		if dsn == "" || testing.Short() && target.name != "mysql97" && target.name != "mariadb118" {
			continue
		}
		t.Run(target.name, func(t *testing.T) {
			serializable(t, dsn)
			conformance.Run(t, conformance.Harness{DSN: func(string) string { return dsn }, Processes: true, Match: serializableCases})
		})
	}
}

// serializable makes the server's new sessions begin at SERIALIZABLE until the end of the test.
func serializable(t *testing.T, dsn string) {
	db, err := sql.Open("mysql", driverDSN(t, dsn, ""))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	var before string
	ask := "SELECT @@GLOBAL.transaction_isolation"
	if err := db.QueryRowContext(t.Context(), ask).Scan(&before); err != nil { // its name before MariaDB 11.1
		ask = "SELECT @@GLOBAL.tx_isolation"
		if err := db.QueryRowContext(t.Context(), ask).Scan(&before); err != nil {
			t.Fatal(err)
		}
	}
	set := func(ctx context.Context, level string) {
		if _, err := db.ExecContext(ctx, "SET GLOBAL TRANSACTION ISOLATION LEVEL "+level); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { set(context.WithoutCancel(t.Context()), strings.ReplaceAll(before, "-", " ")) })
	set(t.Context(), "SERIALIZABLE")
}

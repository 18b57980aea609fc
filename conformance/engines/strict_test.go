package engines

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/conformance"
)

// strict are settings by which administrators protect a server from programs that hold it up. A role or a database may
// have them, too.
var strict = map[string]string{
	"statement_timeout": "5s", "idle_in_transaction_session_timeout": "2s",
	"default_transaction_isolation": "serializable",
}

// strictCases are those that these settings could break: long transactions, conflicts, and answers that were lost.
var strictCases = regexp.MustCompile("^(Faults/(AnswerLost|CutDuring|Stalled)|Contention/|CompleteTx/|EnqueueTx/|" +
	"Worker/|Schema/Concurrent)")

// idle is why laws of transactions that wait are known to fail.
const idle = "its handlers' own transactions are idle for some seconds, and idle_in_transaction_session_timeout " +
	"ends them after 2 s"

// The promises are kept under a strict administrator's settings.
func TestStrictSettings(t *testing.T) {
	for _, target := range present() {
		dsn := os.Getenv(target.variable())
		if !strings.HasPrefix(dsn, "postgres") || target.name == "pgbouncer" { // which refuses settings that it does not know
			continue
		}
		for name, value := range strict {
			dsn = withParameter(dsn, name, value)
		}
		t.Run(target.name, func(t *testing.T) {
			conformance.Run(t, conformance.Harness{DSN: func(string) string { return dsn }, Processes: true, Match: strictCases,
				Known: map[string]string{"Worker/HandlersInTransactions": idle,
					"Worker/TransactionsOnAnotherPool": idle}})
		})
	}
}

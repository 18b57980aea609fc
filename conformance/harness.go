package conformance

import (
	"context"
	"regexp"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/dialect"
)

// A Harness describes the database to test and the cases to run on it. Only DSN is required.
type Harness struct {
	// DSN returns the DSN for a case. The dialect of its scheme must be imported. dir is a directory that is removed
	// after the case, for databases that are files; for a server, return the same DSN each time. Each case creates
	// tables under its own prefix and drops them afterwards.
	DSN func(dir string) string
	// Processes reports that the program calls Child first in main or TestMain, so cases can start worker processes.
	// Otherwise the cases that need several processes are skipped.
	Processes bool
	// OddSession changes a DSN so that its sessions have an unusual time zone, such as Asia/Kathmandu. Nil skips the
	// case.
	OddSession func(dsn string) string
	// Transactions has functions that begin further kinds of transactions on a client's database, besides *sql.Tx and
	// *sqlx.Tx, by the name of the kind.
	Transactions map[string]func(ctx context.Context, c *dbq.Client) (tx dbq.Tx, commit, rollback func() error, err error)
	// Cluster is for a database of several nodes. Nil skips the group Failover.
	Cluster *Cluster

	// Strategies are the strategies to test. Nil means every strategy that the server supports.
	Strategies []dialect.Strategy
	// Match selects cases by their full names (group/name). Nil means all.
	Match *regexp.Regexp
	// Known maps cases (group/name) that are known to fail to the reason. They are skipped with that reason.
	Known map[string]string
	// Select reports whether to run a case under a strategy; best is the server's default strategy. Nil means every
	// case under every strategy, but Run uses Short with go test -short.
	Select func(c Case, strategy, best dialect.Strategy) bool
	// Parallel is how many cases Check runs at once; 0 means 6. Cases that load the machine always run alone. Run
	// leaves it to go test.
	Parallel int
	// Load multiplies the work of the cases with many workers; 0 means 1.
	Load int
	// Seed is the seed of the random choices; 0 uses the clock. Reports contain it.
	Seed uint64
	// Report, if not nil, receives the report of Run after the last case. Check returns it instead.
	Report func(Report)
}

// A Cluster is a database of several nodes that the suite can kill. The cases of the group Failover need one, and the
// cases of Contention distribute their workers over its nodes.
type Cluster struct {
	// Nodes are DSNs of the same database, one for each node, as a program near that node would use. A DSN should also
	// list the other nodes, or use a proxy in front of them, so that the program can continue if its node is down.
	Nodes []string
	// Writer returns the index of the node that currently accepts writes. Nil means that all nodes do.
	Writer func(ctx context.Context) (int, error)
	// Kill ends a node as kill -9 does, and returns when its processes have ended. It also performs the failover, as a
	// failover manager would.
	Kill func(ctx context.Context, node int) error
	// Restart starts a killed node on its own data, and returns when it is a member of the cluster again.
	Restart func(ctx context.Context, node int) error
}

package conformance

import (
	"context"
	"regexp"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/dialect"
)

// A Harness describes the database to test and what to run on it. Only DSN is required.
type Harness struct {
	// DSN returns where a case opens its clients. The dialect of its scheme must be imported. dir is a folder that is
	// removed after the case, for databases that are files; a server's DSN is always the same. Each case uses tables of
	// its own, under its own prefix, and drops them afterwards.
	DSN func(dir string) string
	// Processes says that the program calls Child first thing in main or TestMain, so that cases can start worker
	// processes. Otherwise the cases that need several processes are skipped.
	Processes bool
	// OddSession changes a DSN so that its sessions have an unusual time zone, such as Asia/Kathmandu. Nil skips the case.
	OddSession func(dsn string) string
	// Transactions begin more kinds of transactions than *sql.Tx and *sqlx.Tx on a client's database, by the name of the
	// kind.
	Transactions map[string]func(ctx context.Context, c *dbq.Client) (tx dbq.Tx, commit, rollback func() error, err error)
	// Cluster is for a database of several nodes. Nil skips the group Failover.
	Cluster *Cluster

	// Strategies are those to test. Nil means every strategy that the server supports.
	Strategies []dialect.Strategy
	// Match selects cases by their full names (group/name). Nil means all.
	Match *regexp.Regexp
	// Known maps cases (group/name) that are known to fail to the reason. They are skipped with it.
	Known map[string]string
	// Short leaves out, under all strategies but the default one, the groups that depend little on the strategy: what is
	// left are Checkout, Lease and Contention. Run sets it with go test -short.
	Short bool
	// Parallel is how many cases Check runs at once; 0 means 6. Cases that load the machine always run alone. Run leaves
	// it to go test.
	Parallel int
	// Load multiplies the work of the cases with many workers; 0 means 1.
	Load int
	// Seed of the random choices; 0 takes one from the clock. Reports name it.
	Seed uint64
	// Report, if not nil, receives the report of Run after the last case. Check returns it instead.
	Report func(Report)
}

// A Cluster is a database of several nodes that the suite may kill. The cases of the group Failover need one, and those
// of Contention spread their workers over its nodes.
type Cluster struct {
	// Nodes are DSNs of the same database, one for each node, as a program beside that node is configured. A DSN should
	// also name the other nodes, or lead through a proxy that knows them, so that the program can go on when its node is
	// dead.
	Nodes []string
	// Writer returns the index of the node that takes writes now. Nil means that all nodes do.
	Writer func(ctx context.Context) (int, error)
	// Kill ends a node as kill -9 does, and returns when its processes are gone. It also does what a failover manager does
	// next.
	Kill func(ctx context.Context, node int) error
	// Restart starts a killed node on its own data, and returns when it is a member of the cluster again.
	Restart func(ctx context.Context, node int) error
}

// Package conformance checks whether a dialect, a server version or a managed database keeps dbq's promises.
//
// A case is a name and a law; a failure prints the law that was broken. Run executes the cases as subtests of a Go test,
// Check without package testing, for programs. Both do every case that depends on the strategy once for each strategy of the
// server, and the others once.
//
//	func TestMain(m *testing.M) {
//		conformance.Child() // lets cases start worker processes of this very program
//		os.Exit(m.Run())
//	}
//
//	func TestConformance(t *testing.T) {
//		conformance.Run(t, conformance.Harness{
//			DSN: func(dir string) string { return "sqlite:" + filepath.Join(dir, "queue.db") },
//			Processes: true,
//		})
//	}
//
// The suite may miss a defect; it should never blame a dialect that has none. It never branches on an engine's name: what an
// engine cannot do is left out by a field of the Harness, with the reason in the report.
package conformance

import (
	"context"
	"flag"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/dialect"
)

// Case is one law and the program that checks it. Its name is unique within the group.
type Case struct {
	Group string
	Name  string
	Law   string // one sentence that must hold on every engine, printed when it does not
	run   func(t *T)
	once  bool // does not depend on the strategy: runs under the default one only
	alone bool // loads the machine: does not run beside other cases
	small bool // needs no more than a queue of its own name: shares its tables with others, since making them takes longer than the case
}

// FullName is the case as reports name it: group/name.
func (c Case) FullName() string { return c.Group + "/" + c.Name }

// Harness is what an engine must provide to be tested. Only DSN is required.
type Harness struct {
	// DSN is where a case opens its clients. The dialect for its scheme must be imported. dir is a folder that is removed
	// after the case, for databases that are files; a server's DSN is always the same. Each case uses tables of its own,
	// under a prefix of its own, and drops them afterwards.
	DSN func(dir string) string
	// Strategies to test; nil is each one that the server reports.
	Strategies []dialect.Strategy
	// Processes says that the program calls Child first thing in main or TestMain, so that cases can start processes. Else the
	// cases that need several processes are skipped.
	Processes bool
	// OddSession changes a DSN so that its sessions have a strange time zone, such as Asia/Kathmandu. Nil skips the case.
	OddSession func(dsn string) string
	// Transactions begin more kinds of transactions on a client's database than *sql.Tx and *sqlx.Tx, by the name of the kind.
	Transactions map[string]func(ctx context.Context, c *dbq.Client) (tx dbq.Tx, commit, rollback func() error, err error)
	// Cluster is for a database of several nodes: how to kill one. Nil skips the cases of the group Failover.
	Cluster *Cluster
	// Known names cases (group/name) that are known to fail, with the reason. They are skipped with it.
	Known map[string]string
	// Match picks the cases to run by their full names (group/name). Nil is all of them.
	Match *regexp.Regexp
	// Parallel is how many cases Check runs at once; 0 is 6. Cases that load the machine are always run alone. Run leaves it to go test.
	Parallel int
	// Report, if not nil, gets the report of Run after its last case. (Check returns it.)
	Report func(Report)
	// Short leaves out, under all strategies but the default one, the groups that depend little on the strategy: what is left are Checkout,
	// Lease and Contention. Run sets it with go test -short.
	Short bool
	// Load multiplies the work of the contention cases; 0 is 1, for CI.
	Load int
	// Seed of the random choices; 0 takes one from the clock. It is logged.
	Seed uint64
}

// caseTimeout bounds one case.
const caseTimeout = 3 * time.Minute

// groups are the cases in the order in which they are run and printed.
func groups() [][]Case {
	return [][]Case{
		schemaCases(), transitionCases(), enqueueCases(), enqueueTxCases(), append(checkoutCases(), bytesCases()...),
		slices.Concat(leaseCases(), lockedCases(), lapseCases()), renewalCases(), completeTxCases(), operateCases(), fleetCases(), keepingCases(),
		roundTripCases(), errorCases(), clockCases(), wakeCases(), contentionCases(), faultCases(), workerCases(), runtimeCases(),
		logCases(), killerCases(), workerTxCases(), failoverCases(),
	}
}

// Cases lists every case, in order.
func Cases() []Case { return slices.Concat(groups()...) }

// Run executes every case as a subtest named strategy/group/name.
func Run(t *testing.T, h Harness) {
	t.Helper()
	h.Short = h.Short || testing.Short()
	s := newSuite(h)
	rep, err := s.begin(t.Context(), t.TempDir())
	if err != nil {
		t.Fatalf("the server cannot be tested: %v", err)
	}
	t.Logf("%s, strategies %v, seed %d", rep.Server(), rep.Strategies, s.seed)
	jobs := s.jobs(rep.Strategies)
	if len(jobs) == 0 {
		t.Fatalf("no case matches %q", h.Match)
	}
	results := make([]Result, len(jobs))
	for _, strategy := range rep.Strategies {
		t.Run(string(strategy), func(t *testing.T) {
			for i, j := range jobs {
				if j.strategy != strategy {
					continue
				}
				t.Run(j.FullName(), func(t *testing.T) {
					if !j.alone {
						t.Parallel()
					}
					r := s.run(t.Context(), j.Case, strategy, t.TempDir(), func(line string) { t.Log(line) })
					results[i] = r
					switch {
					case r.Skipped != "":
						t.Skip(r.Skipped)
					case len(r.Failures) > 0:
						t.Errorf("broken law: %s", j.Law)
						for _, f := range r.Failures {
							t.Error(f)
						}
					}
				})
			}
		})
	}
	s.end(t.Context(), &rep, results)
	if h.Report == nil {
		return
	}
	if pattern := flag.Lookup("test.run"); len(rep.Results) < len(jobs) && pattern != nil {
		rep.Match = pattern.Value.String()
	}
	h.Report(rep)
}

// Package cases holds the laws of the conformance suite: a case for each, in groups. Package conformance runs them.
//
// A group's cases are in the file of its name, which begins with the list of their laws. What they are made of: run.go
// is one run of a case, steps.go the usual steps, processes.go are worker processes. Package transcript judges the
// answers that many workers got, and package proxy breaks their connections.
package cases

import (
	"context"
	"slices"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/dialect"
)

// A Case is one law and the program that checks it. Its name is unique within the group.
type Case struct {
	Group string
	Name  string
	Law   string // one sentence that must hold on every engine, printed when it does not

	Once  bool // does not depend on the strategy: runs under the default one only
	Alone bool // loads the machine: does not run beside other cases
	Slow  bool // takes more than four seconds on some engine
	// SharedTables is set if the case needs no more than a queue of its own name. It shares its tables, since making
	// them takes longer than the case.
	SharedTables bool

	run func(t *test)
}

// FullName is the case as reports name it: group/name.
func (c Case) FullName() string { return c.Group + "/" + c.Name }

// Timeout bounds one case.
const Timeout = 3 * time.Minute

// All lists every case, group by group.
func All() []Case { return slices.Concat(groups()...) }

// groups are the cases in the order in which they are run and printed.
func groups() [][]Case {
	return [][]Case{
		schemaCases(), transitionCases(), enqueueCases(), enqueueTxCases(),
		uniqueCases(), checkoutCases(), leaseCases(), renewalCases(), completeTxCases(), operateCases(), deadLetterCases(),
		workflowCases(), progressCases(), fleetCases(), keepingCases(), statisticsCases(), limitCases(), scheduleCases(),
		auditCases(), roundTripCases(), errorCases(), clockCases(), wakeCases(), contentionCases(), faultCases(),
		workerCases(), workerTxCases(), failoverCases(),
	}
}

// An Env is the environment of a case. The fields from Load on are also in conformance.Harness.
type Env struct {
	DSN        string // where the case opens its clients
	Prefix     string // of its tables
	KeepTables bool   // the tables are shared: others remove them
	Strategy   dialect.Strategy
	Dir        string // a directory for files, removed by others
	Seed       uint64
	Log        func(line string) // may be nil

	// Patience bounds the wait for something that time brings about; 0 means 40 s.
	Patience time.Duration

	Load         int
	Processes    bool
	OddSession   func(dsn string) string
	Transactions map[string]func(ctx context.Context, c *dbq.Client) (tx dbq.Tx, commit, rollback func() error, err error)
	Cluster      *Cluster
}

// A Result is the result of a run of a case. The law held unless there are Failures or the case was skipped.
type Result struct {
	Failures  []string
	Skipped   string   // the reason
	Conflicts int64    // that its clients met and retried
	Left      []Object // objects that could not be removed
}

// An Object is an object of the database, made by a case, that must be removed again.
type Object struct {
	Name string
	Drop func(ctx context.Context) error
}

// removeTimeout bounds the removal of one object.
const removeTimeout = 30 * time.Second

// Remove drops the object, even when ctx has ended.
func (o Object) Remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	return o.Drop(ctx)
}

// Tables are dbq's tables under a prefix.
func Tables(dsn, prefix string) Object {
	return Object{prefix + "*", func(ctx context.Context) error {
		return dbq.DropTables(ctx, dsn,
			dbq.WithPrefix(prefix))
	}}
}

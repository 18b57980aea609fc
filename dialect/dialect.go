// Package dialect is the contract between dbq and a family of database engines.
//
// A dialect is small and stateless. It reports what a server can do, supplies the statements that differ between
// engines, leases tasks, and classifies errors; the core of dbq binds, runs and retries. No dialect imports dbq, so a
// dialect can live in any repository. The conformance suite tests whether a dialect keeps dbq's promises:
// conformance.Run.
//
// To write a dialect, implement Dialect (examples/acme is the smallest), register a Driver for its DSN schemes in an
// init function, and pass a harness to conformance.Run. docs/dialect.md is a step-by-step guide.
package dialect

import (
	"context"
	"database/sql"
	"time"
)

// A Dialect supports one family of engines. It must be stateless and safe for concurrent use: the core passes the
// result of Probe in each Session. It must not retry and must not decide policy.
//
// A dialect can also implement ValueBinder and Inliner (values for its driver), BatchRunner (changes of many rows),
// Searcher (the start of searches), Listener (notifications), Native (a driver that is faster below database/sql), and
// Discarder (connections that belong to another pool). A Conn of Native can be a Pipeline, and the driver of a Pool can
// be an OuterPool.
type Dialect interface {
	// Name is the family, such as "postgres", for logs, metrics and the names of tests. The core never branches on it.
	Name() string

	// Probe determines the server's product and features. It runs once when a client opens. In doubt it must return an
	// error that describes what to change: a wrong guess breaks promises silently.
	Probe(ctx context.Context, db *sql.DB) (Server, error)

	// Migrations returns the steps that create the schema, numbered without gaps. Step 0 creates the table of
	// migrations and its schema. It runs before every migration, so it must be safe to repeat. A released step never
	// changes. See kit.ReadSchema.
	Migrations(Names) []Migration

	// Statements returns the texts of the statements that the core runs.
	Statements(Names) Statements

	// Checkout leases tasks of r.Queue to r.Holder until r.Lease from now, and returns them. If no task can be leased,
	// it returns no rows and no error.
	//
	//  1. Atomicity. Two calls never return the same row with overlapping leases. A call that fails leaves no row leased,
	//     unless its error is Ambiguous: it then returns the rows that it is known to have leased. It writes through s.Do
	//     or s.Tx, in which the end of ctx does not interrupt a commit.
	//  2. Order. It leases due tasks in the order of priority, due time and id. It skips rows that other checkouts are
	//     leasing.
	//  3. Expiry. It takes over PROCESSING tasks whose leases have expired, under the next fence. The row carries the
	//     previous attempt (WasHolder and so on), which is added to the history in the same transaction:
	//     kit.Budget.TakeOver does so. An attempt that is not known to have started is a lapse; see LapsesPerAttempt.
	//  4. Exhaustion. A task whose lease has expired and that has no attempt left becomes POISON. It is also returned,
	//     under the next fence and with its last holder. See {exhausted} of Names.Filler, or kit.TakeOver. Its dead-letter
	//     notice is added in the same transaction: kit.Budget.TakeOver and Runner.EnqueueNotices do so.
	//  5. Budget. It leases at most r.Limit tasks, and only the first whose payloads fit in r.Bytes together, but at least
	//     one. kit.Budget.Fit selects them. CheckoutResult.More reports whether any were left.
	//  6. Pause and limits. A queue that is paused or has limits hands out nothing: the statements that search for tasks
	//     have the condition {unpaused}; see Statements.
	//  7. Search. r.Search says what it searches for. If r.Given is not nil, the due tasks are those of r.Given that are
	//     still due under their fences.
	Checkout(ctx context.Context, s *Session, r CheckoutRequest) (CheckoutResult, error)

	// Classify returns the class of a driver's error. It must look through wrapped errors, and return Unknown in doubt,
	// but Ambiguous for a connection that was lost after something was sent.
	Classify(err error) Class
}

// Server is the result of Probe.
type Server struct {
	Product string // such as "PostgreSQL" or "SQLite"
	Version string // as the server reports it: "18.6"
	// Untested reports that the server is accepted although the conformance suite has not been run on its product, or
	// only on later versions. The client logs it.
	Untested bool
	// Strategies are the supported strategies, best first. The first is the default.
	Strategies []Strategy
	// MaxPayload is the largest payload of a task on this server, in bytes.
	MaxPayload int
	// Precision is the resolution of the server's clock. A lease can expire that much too early.
	Precision time.Duration
	// NoSchemas makes the core refuse dbq.WithSchema.
	NoSchemas bool
	// OneWriter reports that only one transaction writes at a time, whatever the number of connections.
	OneWriter bool
	// RollsBack reports that the server can roll back a transaction by itself, as after a deadlock, without a later
	// error: each following statement autocommits, and COMMIT succeeds.
	RollsBack bool
	// LongLockWaits reports that a statement can wait more than a second for a locked row, whatever :lock_wait is.
	// Settling batches then run Statements.LockFree first.
	LongLockWaits bool
	// Notifies reports that Statements.Notify works here. Without it, workers find tasks only by polling.
	Notifies bool
	// Pooler is the name of a pooler in front of the server that shares its sessions among clients, or "". A client can
	// send notifications through it, but receives none.
	Pooler string
	// ExplicitTx makes the core wrap each write in Statements.Begin and COMMIT, for a server or a pool whose
	// transactions are not READ COMMITTED by default.
	ExplicitTx bool
}

// Strategy is a method by which several workers check out tasks at the same time.
type Strategy string

const (
	// SkipLocked locks the next rows that no other transaction has locked.
	SkipLocked Strategy = "skip-locked"
	// Advisory holds a lock on the queue during each short checkout, never for each task, and never during the work.
	Advisory Strategy = "advisory"
	// CAS reads candidates without locks and leases them by an update that checks their fences again.
	CAS Strategy = "cas"
)

// Names are the schema and the prefix of the tables. Both are lower-case SQL identifiers, checked by the core, so
// they need no quoting.
type Names struct {
	Schema string // "" is the connection's default
	Prefix string // such as "dbq_"
}

// Table returns the qualified name of a table, view or index owner such as "task".
func (n Names) Table(name string) string {
	if n.Schema != "" {
		return n.Schema + "." + n.Prefix + name
	}
	return n.Prefix + name
}

// CheckoutRequest is one checkout.
type CheckoutRequest struct {
	Strategy Strategy
	Queue    string
	Limit    int           // at least 1
	Bytes    int64         // of all payloads, 0 means no limit; a single larger task can be leased alone
	Lease    time.Duration // from the database's current time
	Holder   string        // unique to the call: if a token were used twice, earlier batches would be returned again
	Search   Search
	// KnownStarted is :known_started, which a checkout writes into that column: 1 if the caller starts each task
	// immediately, so that an attempt whose lease expires counts.
	KnownStarted int64
	// Given are the due tasks to lease, as statements of this transaction returned them: their ids, fences and sizes of
	// payloads. It comes with OnlyDue. Nil means that the checkout searches.
	Given []Row
}

// Search says what a checkout searches for, and in which order.
type Search int

const (
	// DueFirst searches for due tasks, and for expired leases only if none is due.
	DueFirst Search = iota
	// ExpiredFirst searches for expired leases, and then for due tasks.
	ExpiredFirst
	// OnlyDue and OnlyExpired are for queues with limits, of which the core determines the order.
	OnlyDue
	OnlyExpired
)

// CheckoutResult is the result of a checkout.
type CheckoutResult struct {
	Rows []Row // the leased tasks, and those moved to POISON
	More bool  // due tasks were left because of CheckoutRequest.Bytes
}

// A Driver connects DSN schemes to a Dialect. Schemes, Dialect and Open are required.
type Driver struct {
	Schemes []string
	Dialect Dialect
	// Products maps schemes to the product that they stand for, a Server.Product. If a DSN leads to another product, it
	// may be a mistake, so the core refuses it and names the right scheme.
	Products map[string]string
	// Open opens the pools for a DSN. It must not contact the server for longer than ctx allows, must refuse DSN
	// options that break dbq's promises, and must not put a password into an error. Unless password is nil, each new
	// connection uses what it returns instead of the DSN's password.
	Open func(ctx context.Context, dsn string, password Password) (Pool, error)
	// File says that a DSN is scheme:PATH?parameters and names a file. It is shown with the path. Nothing in it is
	// secret but the values of parameters such as password. The core refuses a Password for it.
	File bool
	// Target returns the parts of a DSN to show, if its parameters may name the host or the database. It gets the DSN
	// without its user, its password, and parameters such as password. If it is nil, the DSN's own hosts and database
	// are shown.
	Target func(DSN) Target
	// Note is information that users need before they rely on these databases. A client logs it once, and tools show
	// it. It is empty for most dialects.
	Note string
}

// A Password returns the password for a new connection. It may be called by several goroutines.
type Password func(ctx context.Context) (string, error)

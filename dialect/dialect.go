// Package dialect is the contract between dbq and a family of database engines.
//
// A dialect is small and stateless. It reports what a server can do, supplies the statements that differ between
// engines, leases tasks, and classifies errors; the core of dbq binds, runs and retries. No dialect imports dbq, so a
// dialect can live in any repository. The conformance suite tests whether a dialect keeps dbq's promises:
// conformance.Run.
//
// To write one, implement Dialect (examples/acme is the smallest), register a Driver for its DSN schemes in an init
// function, and give conformance.Run a harness. docs/dialect.md walks through it.
package dialect

import (
	"context"
	"database/sql"
	"time"
)

// A Dialect speaks to one family of engines. It must be stateless and safe for concurrent use: the core passes what
// Probe found in each Session. It must not retry and must not decide policy.
//
// A dialect may also implement ValueBinder and Inliner (what its driver binds), BatchRunner (changes of many rows),
// Searcher (where searches start), Listener (notifications), and Native (a driver that is faster below database/sql).
type Dialect interface {
	// Name is the family, such as "postgres", for logs, metrics and the names of tests. The core never branches on it.
	Name() string

	// Probe finds out what the server is and what it can do. It runs once when a client opens. In doubt it must return an
	// error that names what to change: a wrong guess breaks promises silently.
	Probe(ctx context.Context, db *sql.DB) (Server, error)

	// Migrations are the numbered steps that create the schema, without gaps. Step 0 creates the table of migrations and
	// its schema. It runs before every migration, so it must be safe to repeat. A released step never changes. See
	// ReadSchema.
	Migrations(Names) []Migration

	// Statements returns the texts that the core runs.
	Statements(Names) Statements

	// Checkout leases tasks of r.Queue to r.Holder until r.Lease from now, and returns them. If no task can be leased, it
	// returns nil, nil.
	//
	//  1. Atomicity. Two calls never return the same row with overlapping leases. A call that fails leaves no row leased,
	//     unless its error is Ambiguous: it then returns the rows that it is known to have leased. It writes through s.Do
	//     or s.Tx, in which the end of ctx does not interrupt a commit.
	//  2. Order. It takes due tasks by HandOutOrder: by priority, due time and id. It passes over rows that other
	//     checkouts are taking.
	//  3. Expiry. It takes over PROCESSING tasks whose leases have expired, under the next fence: before due tasks if
	//     r.Expired is set, and otherwise only if it finds none due. The row carries the previous attempt (WasHolder and
	//     so on), which is added to the history in the same transaction: Budget.TakeOver does so. An attempt that is not
	//     known to have started is a lapse; see LapsesPerAttempt.
	//  4. Exhaustion. A task whose lease has expired and that has no attempt left becomes POISON. It is returned, too,
	//     under the next fence and with its last holder. See {exhausted} of Names.Filler, or Row.TakeOver.
	//  5. Budget. It leases at most r.Limit tasks, and only the first whose payloads fit in r.Bytes together, but at least
	//     one. Budget.Fit selects them. Budget.Leased sets Row.Cut if any were left.
	//  6. Pause. A paused queue hands out nothing; see {unpaused} of Names.Filler.
	Checkout(ctx context.Context, s *Session, r CheckoutRequest) ([]Row, error)

	// Classify returns the class of a driver's error. It must look through wrapped errors, and return Unknown in doubt,
	// but Ambiguous for a connection that was lost after something was sent.
	Classify(err error) Class
}

// Server is the result of Probe.
type Server struct {
	Product string // as people say it: "PostgreSQL", "SQLite"
	Version string // as the server says it: "18.6"
	// Strategies that this server can do, best first. The first is the default.
	Strategies []Strategy
	// MaxPayload is the largest payload in bytes that one task may carry on this server.
	MaxPayload int
	// Precision is how coarse the server's clock is. A lease may end that much before it should.
	Precision time.Duration
	// NoSchemas makes the core refuse dbq.WithSchema.
	NoSchemas bool
	// OneWriter says that one transaction writes at a time, whatever the number of connections.
	OneWriter bool
	// RollsBack says that the server may roll back a transaction by itself, as after a deadlock, without a later error:
	// each statement that follows commits by itself, and COMMIT succeeds.
	RollsBack bool
	// LongLockWaits says that a statement may wait longer than a second for a row that another transaction has locked,
	// whatever :lock_wait is: batches that settle then ask for Statements.LockFree first.
	LongLockWaits bool
	// Notifies says that Statements.Notify works here. Without it workers find out by polling alone.
	Notifies bool
	// Pooler names what stands before the server and shares its sessions among clients, "" for nothing. A client sends
	// notifications through it, and gets none.
	Pooler string
	// ExplicitTx makes the core wrap each write in Statements.Begin and COMMIT, for a server or a pool whose
	// transactions do not start at READ COMMITTED by themselves.
	ExplicitTx bool
}

// Strategy is a way to check out tasks that several workers want at once.
type Strategy string

const (
	// SkipLocked locks the next rows that nobody else has locked.
	SkipLocked Strategy = "skip-locked"
	// Advisory holds a lock per queue around a short checkout; never one per task, and never during the work.
	Advisory Strategy = "advisory"
	// CAS reads candidates without locks and takes them by an update that checks their fence again.
	CAS Strategy = "cas"
)

// PauseKind is the kind of the key/value records whose names are the queues that are paused.
const PauseKind = "pause"

const unpaused = "NOT EXISTS (SELECT 1 FROM {kv} n WHERE n.kind = '" + PauseKind + "' AND n.name = :queue)"

// Names are the tables' places. Both are lower-case SQL identifiers, checked by the core, so they need no quoting.
type Names struct {
	Schema string // "" is the connection's default
	Prefix string // such as "dbq_"
}

// Table is the qualified name of a table, view or index owner such as "task".
func (n Names) Table(name string) string {
	if n.Schema != "" {
		return n.Schema + "." + n.Prefix + name
	}
	return n.Prefix + name
}

// CheckoutRequest is one checkout.
type CheckoutRequest struct {
	Strategy     Strategy
	Queue        string
	Limit        int           // at least 1
	Bytes        int64         // of all payloads, 0 is no bound; one larger task may come alone
	Lease        time.Duration // from the database's now on
	Holder       string        // unique to the call: a token used twice would return earlier batches again
	Expired      bool          // look for expired leases, too
	StartsAtOnce bool          // the caller starts each task at once; see KnownStarted
}

// A Driver ties DSN schemes to a Dialect. Schemes, Dialect and Open are required.
type Driver struct {
	Schemes []string
	Dialect Dialect
	// Products are the schemes that promise a product, a Server.Product: a DSN that leads to another one may be a mistake,
	// so the core refuses it and names the right scheme.
	Products map[string]string
	// Open makes the pools for a DSN. It must not contact the server for longer than ctx allows, must refuse DSN
	// options that break dbq's promises, and must not put a password into an error.
	Open func(ctx context.Context, dsn string) (Pool, error)
	// File says that a DSN is scheme:PATH?parameters and names a file. It is shown with the path. Nothing in it is secret
	// but the values of parameters such as password.
	File bool
	// Target returns what is shown of a DSN whose parameters may name the host or the database. It gets the DSN without
	// its user, its password, and parameters such as password. If it is nil, the DSN's own hosts and database are shown.
	Target func(DSN) Target
	// Note is what a person should know before relying on these databases: a client logs it once, tools show it. It is
	// empty for most.
	Note string
}

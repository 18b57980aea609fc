// Package dbq is a durable task queue that stores its tasks in the database you already run.
//
// Import the dialect of your database, open a client by DSN, and enqueue a task:
//
//	import _ "github.com/dbq-go/dbq/dialect/postgres"
//
//	var SendMail = dbq.Kind[Mail]{Name: "send-mail", Queue: "mail"}
//
//	client, err := dbq.Open(ctx, "postgres://app@db.example/app")
//	id, err := SendMail.Enqueue(ctx, client, Mail{To: "ann@example.com"})
//
// A Kind is a type of task: it has a name, a queue, and a Go type for the payload. Queue.Enqueue takes tasks with
// payloads of bytes.
//
// Package worker runs a handler on the tasks of a queue. To do without it, check tasks out and settle them by hand:
//
//	q := client.Queue("mail")
//	consumer := q.Consumer()
//	defer consumer.Close()
//	tasks, err := consumer.Checkout(ctx, 10, time.Minute) // waits until tasks are due
//	err = q.Complete(ctx, tasks[0].Lease, nil)
//
// # Delivery
//
// Delivery is at least once, to one worker at a time. Checkout leases a task with a fence, a number that increases
// with every change of owner. Every settling call carries the fence. A worker whose task was taken over gets
// ErrLeaseLost and changes nothing.
//
// If a worker dies, a checkout takes its task over about a second after the lease has expired. A task that exhausts
// its attempts, even by crashing its workers, goes to POISON. If an effect must not happen twice, complete the task
// in the same transaction: see CompleteTx.
//
// # Clocks
//
// The database's clock decides when a task is due and when a lease expires. It is never compared with a worker's clock.
//
// # Errors
//
// Calls return *Error, which names the operation, the queue and the task. errors.Is finds this package's sentinels, and
// errors.As finds the driver's error. If a connection is lost during a commit, dbq checks the outcome. It returns
// ErrMayHaveHappened only if the outcome cannot be determined.
//
// # Strategies
//
// A strategy is the method by which several workers check out tasks at the same time. Each server has a default;
// WithStrategy selects another one.
package dbq

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/core"
	"github.com/dbq-go/dbq/internal/dsnredact"
	"github.com/dbq-go/dbq/internal/errs"
	"github.com/dbq-go/dbq/internal/store"
	"github.com/dbq-go/dbq/internal/wake"
	"github.com/google/uuid"
)

// Client is an open database. It is safe for concurrent use; open one for each process and database.
type Client struct {
	store  *store.Store
	wake   *wake.Waker
	core   core.Core
	cfg    config
	owned  bool // Close closes the pools
	ids    ids
	id     string        // see ID
	tokens atomic.Uint64 // counts the checkouts, to give each a unique token
	ends   endPoller
}

// Open opens the database that dsn names: a URL, or for PostgreSQL also libpq's keywords and values, as in
// "host=db.example dbname=app". The dialect for its scheme must be imported. Close the client when done.
//
// Open returns ErrUnknownScheme, ErrDSN, ErrServer, ErrUnavailable, ErrDenied or ErrOption, and ErrNotMigrated,
// ErrSchemaOld or ErrSchemaNew if this version cannot use the tables. No error contains the DSN's password.
func Open(ctx context.Context, dsn string, opts ...Option) (*Client, error) {
	cfg, err := configOf(dsn, opts)
	if err != nil {
		return nil, err
	}
	drv, pool, err := openPool(ctx, dsn, cfg.password)
	if err != nil {
		return nil, err
	}
	c, err := open(ctx, pool, drv.Dialect, dsn, cfg)
	if err != nil {
		pool.Close()
		return nil, err
	}
	c.owned = true
	return c, nil
}

// New makes a client on a pool that the caller owns and closes. It needs no registered dialect. It returns the errors
// of Open. For a pgx pool use postgres.FromPool of dialect/postgres. On SQLite, prefer Open, which separates the one
// writing connection from the readers.
//
// A client and the program's transactions share the pool. If these can take all of its connections, workers cannot
// renew their leases: give New a pool of its own, and the program's by WithTxDB.
func New(ctx context.Context, db *sql.DB, d dialect.Dialect, opts ...Option) (*Client, error) {
	if db == nil || d == nil {
		return nil, &Error{Op: "open", Err: fmt.Errorf("%w: New needs a pool and a dialect", ErrOption)}
	}
	cfg, err := configOf("", opts)
	if err != nil {
		return nil, err
	}
	return open(ctx, dialect.Pool{Write: db, Read: db, Caller: cfg.txDB}, d, "", cfg)
}

func open(ctx context.Context, pool dialect.Pool, d dialect.Dialect, dsn string, cfg config) (*Client, error) {
	c, err := bareClient(ctx, pool, d, dsn, cfg)
	if err != nil {
		return nil, err
	}
	if pool.Warning != "" {
		c.cfg.logger.Warn("dbq: warning about the connection", "warning", pool.Warning)
	}
	server := c.store.Server()
	if c.store.Strategy == "" {
		c.store.Strategy = server.Strategies[0]
	}
	if !slices.Contains(server.Strategies, c.store.Strategy) {
		return nil, &Error{Op: "open", Err: fmt.Errorf("%w: WithStrategy: %s %s supports only %v",
			ErrOption, server.Product, server.Version, server.Strategies)}
	}
	if c.cfg.migrate {
		if _, _, err := c.store.Migrate(ctx); err != nil {
			return nil, c.wrap("migrate", "", uuid.Nil, err)
		}
	} else if err := c.store.CheckSchema(ctx); err != nil {
		return nil, c.wrap("open", "", uuid.Nil, err)
	}
	logNote(c.cfg.logger, d, dsn)
	logUntested(c.cfg.logger, server)
	return c, nil
}

// openError wraps an error from before there is a client.
func openError(d dialect.Dialect, dsn string, err error) error {
	class := dialect.Unknown
	if d != nil {
		class = d.Classify(err)
	}
	if class == dialect.Ambiguous { // Open only reads
		class = dialect.Unavailable
	}
	err = dsnredact.Scrub(errs.WithSentinel(class, err), dsn)
	return &Error{Op: "open", Class: class, Err: missingImport(dsn, err)}
}

// Close ends the client; later calls return ErrClosed. It closes the pools that Open made, but not a pool given to
// New.
func (c *Client) Close() error {
	if !c.store.Close() {
		return nil
	}
	c.wake.Close()
	if !c.owned {
		return nil
	}
	return c.store.Pool().Close()
}

// DB returns a pool in which to begin transactions for the Tx calls. For a client made by Open it is separate from
// the connections that the client itself uses, and of the same size: pool_max_conns in the DSN, 16 by default. So
// workers can renew their leases however many transactions are open. For a client made by New, it is the pool given to
// New, or that of WithTxDB.
//
// On SQLite, it is the one writing connection, and a transaction blocks all other writes of the client. A goroutine
// that has a transaction open must write only through the Tx methods. Any other call waits for the transaction, and
// the transaction waits for the call, until busy_timeout has passed (ErrWriterBusy).
func (c *Client) DB() *sql.DB {
	if caller := c.store.Pool().Caller; caller != nil {
		return caller
	}
	return c.store.Pool().Write
}

// Now reads the database's clock.
func (c *Client) Now(ctx context.Context) (time.Time, error) {
	us, err := c.store.ReadNow(ctx)
	if err != nil {
		return time.Time{}, c.wrap("now", "", uuid.Nil, err)
	}
	return fromMicros(&us), nil
}

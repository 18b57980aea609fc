// Package dbq is a durable task queue that lives in the database you already run.
//
// Import the dialect of your database, open a client by DSN, and take a queue:
//
//	import _ "github.com/dbq-go/dbq/dialect/postgres"
//
//	c, err := dbq.Open(ctx, "postgres://app@db.example/app")
//	q := c.Queue("mail")
//	id, err := q.Enqueue(ctx, dbq.NewTask{Payload: []byte("hello")})
//
// and somewhere else, with package worker or by hand:
//
//	tasks, err := q.Checkout(ctx, 10, time.Minute)
//	err = q.Complete(ctx, tasks[0].Lease, nil)
//
// # Delivery
//
// A task is handed out at least once, to one worker at a time: Checkout gives a lease with a fence, a number that grows with
// every change of owner. Every settling call carries the fence; a worker whose task was taken over gets ErrLeaseLost and
// changes nothing. A task whose worker died is taken over by the checkout itself as soon as its lease has run out. A task
// whose attempts are spent goes to POISON, also when each attempt ended in a crash. Work that must not be done twice is
// completed in the same transaction as its effects: CompleteTx.
//
// # Clocks
//
// The database's clock decides when a task is due and when a lease has run out. A worker's own clock is never compared with it.
//
// # Errors
//
// Calls return *Error, which says what was done to what; errors.Is finds this package's sentinels and errors.As the driver's
// error. When a connection dies during a commit, dbq looks what happened, and says ErrMayHaveHappened only when that cannot be
// known.
//
// # Strategies
//
// How tasks are checked out by several workers at once is the dialect's business; WithStrategy chooses another way than the
// server's default.
package dbq

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/google/uuid"
)

// Client is an open database. It is safe for concurrent use; open one for each process and database.
type Client struct {
	s        *dialect.Session
	cfg      config
	strategy dialect.Strategy
	owned    bool // Close closes the pools
	closed   atomic.Bool
	ids      ids
	id       string        // see ID
	tokens   atomic.Uint64 // counts the checkouts, so that each has a token of its own
	retried  atomic.Int64
	conflict atomic.Int64 // of retried, those because of a conflict
	looks    looks
	reaches  reaches
	awaited  awaited
	sweeps   sweeps
	// announced are the versions of workers' notes, by their ids.
	announced sync.Map
	// lockedUntil is until when its settlements find out first which rows are free, in nanoseconds; see meetsLocked.
	lockedUntil atomic.Int64
	expired     atomic.Int64 // when it removed renewals that had ended, in nanoseconds
	forgot      atomic.Int64 // when it looked for workers to forget, in nanoseconds
	place       place
	ear         ear
	doorbell    doorbell
}

// Open opens the database that dsn names. The dialect for its scheme must be imported. It fails with ErrUnknownScheme, ErrDSN,
// ErrUnavailable, ErrDenied, ErrOption, or when the tables are not as this version wants them: ErrNotMigrated, ErrSchemaOld,
// ErrSchemaNew. No error shows the DSN's password. Close the client when done.
func Open(ctx context.Context, dsn string, opts ...Option) (*Client, error) {
	drv, pool, err := openPool(ctx, dsn)
	if err != nil {
		return nil, err
	}
	c, err := open(ctx, pool, drv.Dialect, dsn, opts)
	if err != nil {
		pool.Close()
		return nil, err
	}
	c.owned, c.place.database = true, sha256.Sum256([]byte(dsn)) // it tells DSNs apart, and shows none
	return c, nil
}

// New makes a client on a pool that the caller owns and closes. It needs no registered dialect. Errors are those of Open. On
// SQLite prefer Open, which keeps one writing connection apart from the readers.
func New(ctx context.Context, db *sql.DB, d dialect.Dialect, opts ...Option) (*Client, error) {
	if db == nil || d == nil {
		return nil, &Error{Op: "open", Err: fmt.Errorf("%w: New wants a pool and a dialect", ErrOption)}
	}
	return open(ctx, dialect.Pool{Write: db, Read: db}, d, "", opts)
}

func open(ctx context.Context, pool dialect.Pool, d dialect.Dialect, dsn string, opts []Option) (*Client, error) {
	c, err := bareClient(ctx, pool, d, dsn, opts)
	if err != nil {
		return nil, err
	}
	if pool.Caution != "" {
		c.cfg.logger.Warn("dbq: caution about the connection", "caution", pool.Caution)
	}
	server := c.Server()
	c.strategy = c.cfg.strategy
	if c.strategy == "" {
		c.strategy = server.Strategies[0]
	}
	if !slices.Contains(server.Strategies, c.strategy) {
		return nil, &Error{Op: "open", Err: fmt.Errorf("%w: %s %s cannot do strategy %q, only %v",
			ErrOption, server.Product, server.Version, c.strategy, server.Strategies)}
	}
	if c.cfg.migrate {
		if _, _, err := c.migrateLogged(ctx); err != nil {
			return nil, c.wrap("migrate", "", uuid.Nil, err)
		}
	} else if err := c.checkSchema(ctx); err != nil {
		return nil, c.wrap("open", "", uuid.Nil, err)
	}
	logNote(c.cfg.logger, d, dsn)
	return c, nil
}

// openError wraps an error from before there is a client.
func openError(d dialect.Dialect, dsn string, err error) error {
	class := dialect.Unknown
	if d != nil {
		class = d.Classify(err)
	} else if !errors.Is(err, ErrUnknownScheme) {
		class = dialect.ClassifyConn(err)
	}
	if class == dialect.Ambiguous { // nothing but questions were asked
		class = dialect.Unavailable
	}
	return &Error{Op: "open", Class: class, Err: dialect.Scrub(withSentinel(class, err), dsn)}
}

// Close ends the client: later calls return ErrClosed. Pools that Open made are closed; a pool given to New is not.
func (c *Client) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	c.ear.close()
	c.doorbell.close()
	if !c.owned {
		return nil
	}
	return c.s.Pool.Close()
}

// Target is where the client's DSN leads, without user, password and options. It is unknown for a client that New made.
func (c *Client) Target() dialect.Target { return c.cfg.target }

// String describes the client by its name, its server, and where its DSN leads. It shows no user, password or option.
func (c *Client) String() string {
	text := fmt.Sprintf("dbq client %s on %s %s", c.cfg.name, c.s.Server.Product, c.s.Server.Version)
	if t := c.cfg.target; t != (dialect.Target{}) {
		text += " at " + t.String()
	}
	return text
}

// Format prints String whatever the verb: %+v and %#v show neither the client's configuration nor its pools.
func (c *Client) Format(f fmt.State, _ rune) { fmt.Fprint(f, c.String()) }

// LogValue logs what String says, as a group.
func (c *Client) LogValue() slog.Value {
	attrs := []slog.Attr{slog.String("name", c.cfg.name), slog.String("product", c.s.Server.Product), slog.String("version", c.s.Server.Version)}
	if t := c.cfg.target; t != (dialect.Target{}) {
		attrs = append(attrs, slog.String("database", t.String()))
	}
	return slog.GroupValue(attrs...)
}

// Server is what was found when the client opened.
func (c *Client) Server() dialect.Server { return c.s.Server }

// Dialect is the name of the engine's family, such as "postgres".
func (c *Client) Dialect() string { return c.s.Dialect.Name() }

// Strategy is how this client checks out.
func (c *Client) Strategy() dialect.Strategy { return c.strategy }

// MaxPayload is the largest payload in bytes that this client enqueues.
func (c *Client) MaxPayload() int {
	if c.cfg.maxPayload > 0 {
		return c.cfg.maxPayload
	}
	return c.s.Server.MaxPayload
}

// MaxCheckoutBytes is how many bytes of payload a checkout of this client brings; see WithMaxCheckoutBytes.
func (c *Client) MaxCheckoutBytes() int { return c.cfg.maxCheckoutBytes }

// Name is who this client says it is when it holds leases; see WithName.
func (c *Client) Name() string { return c.cfg.name }

// ID is the client's name, # and ten random characters: no two clients share one, even when they share a name. The holder of a lease
// begins with it. It has at most MaxReference characters.
func (c *Client) ID() string { return c.id }

// Retried counts the writes that were tried again because of a conflict or a lost connection, since the client opened.
func (c *Client) Retried() int64 { return c.retried.Load() }

// Conflicts counts the tries, since the client opened, that ended in a conflict with somebody else's write (a deadlock, a lock that was
// not had in time, a serialization failure) and were made again. Retried counts them, too. A few are the price of concurrency; many say
// that another strategy may fit the load better.
func (c *Client) Conflicts() int64 { return c.conflict.Load() }

// DB is a pool to begin transactions in for the Tx calls. For a client made by Open it is apart from the connections
// that the client uses itself, and as large: pool_max_conns in the DSN, 16 by default. So transactions keep no worker
// from renewing leases, however many are open and however long. Of a client made by New it is the pool that was given,
// of which a worker keeps some for itself; see Reserve.
//
// On SQLite it is the one connection that writes. A transaction keeps all other writes of the client waiting. In a
// goroutine that has one open, write by the Tx calls alone: another call waits for the transaction's end, which waits
// for the call, until busy_timeout is over (ErrWriterBusy).
func (c *Client) DB() *sql.DB {
	if c.s.Pool.Caller != nil {
		return c.s.Pool.Caller
	}
	return c.s.Pool.Write
}

// Reserve keeps connections of a pool that was given to New for the calls that are made with the context that it
// returns, until release is called. These calls never wait for connections that transactions of the program hold.
// Workers do so for what they need themselves.
//
// It keeps half of the pool's limit, and at most 4, shared by all who reserve some of the same pool; conns is how many.
// It waits for them up to 5 seconds; those that it has not got by then are taken from the pool when they are needed. A
// pool without a limit and a client made by Open need none, and a pool of one connection can spare none: conns is 0
// then, and the context may be used all the same.
func (c *Client) Reserve(ctx context.Context) (reserved context.Context, conns int, release func()) {
	if c.s.Pool.Caller == nil && c.s.Pool.Write.Stats().MaxOpenConnections == 1 && !c.s.Server.OneWriter {
		c.cfg.logger.Warn("dbq: the pool given to New has one connection, so no lease is renewed while a transaction is open; " +
			"raise its limit to 3 or more")
	}
	return c.s.Reserve(ctx)
}

// Logger is where the client, and workers on it, report; see WithLogger.
func (c *Client) Logger() *slog.Logger { return c.cfg.logger }

// Now reads the database's clock.
func (c *Client) Now(ctx context.Context) (time.Time, error) {
	var now time.Time
	err := c.read(ctx, func(ctx context.Context, conn dialect.Conn) error {
		us, err := c.now(ctx, conn)
		now = fromMicros(&us)
		return err
	})
	return now, c.wrap("now", "", uuid.Nil, err)
}

// now is the database's clock in microseconds, as a statement on conn sees it.
func (c *Client) now(ctx context.Context, conn dialect.Conn) (int64, error) {
	return c.s.AskNow(func(text string, args dialect.Args) ([]dialect.Row, error) { return c.s.Query(ctx, conn, text, args) })()
}

// checkoutToken names one checkout: its worker, or the client itself, then # and what no other checkout has, which is the client's random part and a
// number. Tasks leased under a token are returned to the caller who lost the answer, so a token used twice would give one task two holders.
func (c *Client) checkoutToken(worker string) string {
	number := strconv.FormatUint(c.tokens.Add(1), 36)
	if worker == "" || worker == c.id || strings.HasPrefix(worker, c.id+"/") {
		return cmp.Or(worker, c.id) + "#" + number
	}
	return worker + c.id[strings.LastIndexByte(c.id, '#'):] + "." + number
}

// workerOf is who made a checkout, by its token.
func workerOf(token string) string {
	if at := strings.LastIndexByte(token, '#'); at >= 0 {
		return token[:at]
	}
	return token
}

// newClientID is a client's name with a random part: a name may be used by several clients at a time, and by one after another.
func newClientID(name string) string {
	const digits = "0123456789abcdefghijklmnopqrstuvwxyz"
	random := make([]byte, 10) // 51 bits
	for i := range random {
		random[i] = digits[rand.IntN(len(digits))]
	}
	return name + "#" + string(random)
}

func (c *Client) scrub(err error) error { return c.cfg.scrub(err) }

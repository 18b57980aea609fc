package dbq

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/bounds"
	"github.com/dbq-go/dbq/internal/dsnredact"
	"github.com/dbq-go/dbq/internal/sqlrun"
)

// Option configures a client. Open, New and Migrate return ErrOption if a value is invalid or an option is given
// twice. WithObserver and WithEnqueueHook can be given several times; all of them are called, in the order given.
type Option func(*config) error

// setting is an Option that may be given once. Unless ok, its value is refused; allowed says which values are not.
func setting(name string, ok bool, allowed string, set func(*config)) Option {
	return func(c *config) error {
		switch {
		case c.given[name]:
			return fmt.Errorf("%w: %s is given twice; leave one of them out", ErrOption, name)
		case !ok:
			return invalidOption(name, allowed)
		case c.given == nil:
			c.given = map[string]bool{}
		}
		c.given[name] = true
		set(c)
		return nil
	}
}

// invalidOption returns an error such as: invalid option: WithMaxAttempts must be 1 to 32767. It does not show the
// value: a DSN, or its password, may have got there.
func invalidOption(name, allowed string) error {
	return fmt.Errorf("%w: %s must be %s", ErrOption, name, allowed)
}

type config struct {
	target      dialect.Target        // the DSN's host and database; the DSN itself is not kept
	scrub       func(err error) error // hides the DSN's secrets in an error
	names       dialect.Names
	strategy    dialect.Strategy
	name        string
	maxPayload  int
	maxAttempts int

	maxCheckoutBytes int

	migrate bool
	logger  *slog.Logger

	withoutNotify bool
	observe       []func(Call)
	hooks         []func(ctx context.Context, queue string, t *NewTask) error
	clock         func() time.Time
	password      dialect.Password
	txDB          *sql.DB
	session       func(*sqlrun.Session) // changes the statements; nil outside of package dbqtest
	given         map[string]bool       // options that can be given only once
}

// DefaultMaxAttempts is the limit of attempts if neither the task nor the client sets one.
const DefaultMaxAttempts = 20

// identifier matches names that every engine accepts without quotes, short enough for the longest suffix.
var identifier = regexp.MustCompile(`^[a-z][a-z0-9_]{0,19}$`)

const anIdentifier = "1 to 20 lower-case letters, digits and underscores, the first one a letter"

// WithPrefix sets the prefix of the names of dbq's tables: 1 to 20 lower-case letters, digits and underscores, the
// first one a letter. The default is "dbq_".
func WithPrefix(prefix string) Option {
	return setting("WithPrefix", identifier.MatchString(prefix), anIdentifier,
		func(c *config) { c.names.Prefix = prefix })
}

// WithSchema sets the schema of dbq's tables, spelled like a prefix. Migrate creates it if it does not exist.
// The default is the connection's own schema. SQLite has no schemas and refuses the option.
func WithSchema(schema string) Option {
	return setting("WithSchema", identifier.MatchString(schema), anIdentifier,
		func(c *config) { c.names.Schema = schema })
}

// WithStrategy selects a checkout strategy instead of the server's default. Open refuses a strategy that the server
// does not support.
func WithStrategy(s dialect.Strategy) Option {
	return setting("WithStrategy", true, "", func(c *config) { c.strategy = s })
}

// WithName sets the client's name, which appears in the holder of each lease: 1 to 150 characters, none of them a
// control character. The default is program@host/pid. Several clients may share a name; Info.ID distinguishes them.
func WithName(name string) Option {
	return setting("WithName", bounds.Text(name, 1, bounds.MaxName, ErrOption, "name") == nil,
		fmt.Sprintf("1 to %d characters of valid UTF-8, none of them a control character", bounds.MaxName),
		func(c *config) { c.name = name })
}

// WithMaxAttempts sets the limit of attempts for tasks that do not set NewTask.MaxAttempts: 1 to MaxMaxAttempts. The
// default is DefaultMaxAttempts.
func WithMaxAttempts(n int) Option {
	return setting("WithMaxAttempts", n >= 1 && n <= MaxMaxAttempts, fmt.Sprintf("1 to %d", MaxMaxAttempts),
		func(c *config) { c.maxAttempts = n })
}

// WithMaxPayload limits the payloads that this client enqueues, in bytes; at least 1. The default is the server's
// limit. Reading is not limited: a larger task that another client enqueued is handed out like any other; see
// WithMaxCheckoutBytes.
func WithMaxPayload(bytes int) Option {
	return setting("WithMaxPayload", bytes >= 1, "at least 1", func(c *config) { c.maxPayload = bytes })
}

// DefaultMaxCheckoutBytes is the default of WithMaxCheckoutBytes.
const DefaultMaxCheckoutBytes = 32 << 20

// WithMaxCheckoutBytes limits the sum of the payloads of one checkout, in bytes; at least 1. A checkout leases the
// first due tasks that fit and leaves the others to the next checkout. A task whose payload alone exceeds the limit
// is checked out by itself. Headers and results, of at most 4,000 bytes each, do not count. The default is
// DefaultMaxCheckoutBytes.
func WithMaxCheckoutBytes(bytes int) Option {
	return setting("WithMaxCheckoutBytes", bytes >= 1, "at least 1",
		func(c *config) { c.maxCheckoutBytes = bytes })
}

// WithMigrate creates or upgrades the tables when the client opens; see Migrate. Without it, Open returns
// ErrNotMigrated or ErrSchemaOld if they are missing or old.
func WithMigrate() Option {
	return func(c *config) error { c.migrate = true; return nil }
}

// WithLogger sets the logger of the client and of its workers; docs/log.md lists the lines. No line contains a
// payload or a password. The default is slog.Default at the time the client opens. slog.New(slog.DiscardHandler)
// turns logging off.
func WithLogger(l *slog.Logger) Option {
	return setting("WithLogger", l != nil, "a logger", func(c *config) { c.logger = l })
}

// WithoutNotify turns off notifications between processes: the client neither sends nor receives them. Workers then
// find other processes' tasks by polling. Only latency depends on notifications. By default they are on if the engine
// has them (PostgreSQL). They cost one connection while a worker runs, and at most 1000 notifications per second for
// each queue that receives tasks.
func WithoutNotify() Option {
	return func(c *config) error { c.withoutNotify = true; return nil }
}

// WithPassword sets a function that returns the password of each new connection, instead of the one in the DSN: for
// passwords that expire, such as the tokens of a cloud's IAM. It may be called by several goroutines, and its context
// has the time that is left for the connection. If it fails, the database counts as unavailable. Open refuses it for
// databases without passwords, and New always does, because its caller connects. docs/passwords.md has examples.
func WithPassword(password func(ctx context.Context) (string, error)) Option {
	return setting("WithPassword", password != nil, "a function", func(c *config) { c.password = password })
}

// WithTxDB sets the pool that Client.DB returns, for the program's transactions, on the same database as the pool
// given to New. That then serves only the client, so that workers can renew their leases however many transactions are
// open. Its caller closes it. Open refuses the option, because it makes such a pool, and New refuses it on SQLite,
// where all transactions share one writer.
func WithTxDB(db *sql.DB) Option {
	return setting("WithTxDB", db != nil, "a pool", func(c *config) { c.txDB = db })
}

func newConfig(dsn string, opts []Option) (config, error) {
	c := config{
		scrub:       dsnredact.NewScrubber(dsn),
		names:       dialect.Names{Prefix: "dbq_"},
		maxAttempts: DefaultMaxAttempts,
		logger:      slog.Default(),
		clock:       time.Now,

		maxCheckoutBytes: DefaultMaxCheckoutBytes,
	}
	if dsn != "" {
		c.target = dsnredact.TargetOf(dsn)
	}
	for _, opt := range opts {
		if err := opt(&c); err != nil {
			return c, err
		}
	}
	if c.name == "" {
		c.name = processName()
	}
	return c, nil
}

// processName returns program@host/pid.
func processName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%.40s@%.60s/%d", filepath.Base(os.Args[0]), host, os.Getpid())
}

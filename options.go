package dbq

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/limits"
	"github.com/dbq-go/dbq/internal/redact"
)

// Option changes how a client is opened. An invalid value is ErrOption, and so is an option given twice. WithObserver
// and WithHeaders may be given several times; all are called, in the order given.
type Option func(*config) error

// once is an option that may be given once.
func once(name string, apply func(*config) error) Option {
	return func(c *config) error {
		if c.given[name] {
			return fmt.Errorf("%w: %s is given twice; leave one of them out", ErrOption, name)
		}
		if c.given == nil {
			c.given = map[string]bool{}
		}
		c.given[name] = true
		return apply(c)
	}
}

type config struct {
	target      dialect.Target        // where the DSN leads; of the DSN itself nothing is kept
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
	headers       []func(ctx context.Context) map[string]string
	clock         func() time.Time
	given         map[string]bool // options that may be given once
}

// DefaultMaxAttempts is the limit of attempts if neither the task nor the client sets one.
const DefaultMaxAttempts = 10

// identifier matches names that every engine accepts without quotes, short enough for the longest suffix.
var identifier = regexp.MustCompile(`^[a-z][a-z0-9_]{0,19}$`)

// WithPrefix sets the prefix of the names of dbq's tables: 1 to 20 lower-case letters, digits and underscores, the
// first one a letter. The default is "dbq_".
func WithPrefix(prefix string) Option {
	return once("WithPrefix", func(c *config) error {
		if !identifier.MatchString(prefix) {
			return fmt.Errorf("%w: the prefix %q is not 1 to 20 of a-z, 0-9 and _, beginning with a letter", ErrOption, prefix)
		}
		c.names.Prefix = prefix
		return nil
	})
}

// WithSchema sets the schema of dbq's tables, spelled like a prefix. Migrate creates it if permitted. The default is
// the connection's own schema. SQLite has no schemas and refuses the option.
func WithSchema(schema string) Option {
	return once("WithSchema", func(c *config) error {
		if !identifier.MatchString(schema) {
			return fmt.Errorf("%w: the schema %q is not 1 to 20 of a-z, 0-9 and _, beginning with a letter", ErrOption, schema)
		}
		c.names.Schema = schema
		return nil
	})
}

// WithStrategy selects another checkout strategy than the server's default. Open refuses one that the server does not
// support.
func WithStrategy(s dialect.Strategy) Option {
	return once("WithStrategy", func(c *config) error { c.strategy = s; return nil })
}

// WithName sets the client's name, which appears in the holder of each lease. The default is program@host/pid. Several
// clients may share a name; Info.ID distinguishes them.
func WithName(name string) Option {
	return once("WithName", func(c *config) error {
		if err := limits.Text(name, 1, limits.MaxName, ErrOption, "client's name"); err != nil {
			return err
		}
		c.name = name
		return nil
	})
}

// WithMaxAttempts sets the limit of attempts for tasks that do not set NewTask.MaxAttempts. The default is
// DefaultMaxAttempts.
func WithMaxAttempts(n int) Option {
	return once("WithMaxAttempts", func(c *config) error {
		if n < 1 || n > MaxMaxAttempts {
			return fmt.Errorf("%w: max attempts of %d, it must be between 1 and %d", ErrOption, n, MaxMaxAttempts)
		}
		c.maxAttempts = n
		return nil
	})
}

// WithMaxPayload limits the payloads that this client enqueues, in bytes. The default is the server's limit. Reading is
// not limited: a larger task that another client enqueued is handed out like any other; see WithMaxCheckoutBytes.
func WithMaxPayload(bytes int) Option {
	return once("WithMaxPayload", func(c *config) error {
		if bytes < 1 {
			return fmt.Errorf("%w: the largest payload is %d bytes, use at least 1", ErrOption, bytes)
		}
		c.maxPayload = bytes
		return nil
	})
}

// DefaultMaxCheckoutBytes is the default of WithMaxCheckoutBytes.
const DefaultMaxCheckoutBytes = 32 << 20

// WithMaxCheckoutBytes limits the sum of the payloads of one checkout, in bytes. A checkout that reaches the limit
// leases the first of the due tasks and leaves the others to the next one. A task whose payload alone exceeds the limit
// is checked out by itself. Headers and results, of at most 4,000 bytes each, do not count. The default is
// DefaultMaxCheckoutBytes.
func WithMaxCheckoutBytes(bytes int) Option {
	return once("WithMaxCheckoutBytes", func(c *config) error {
		if bytes < 1 {
			return fmt.Errorf("%w: the most bytes of a checkout are %d, use at least 1", ErrOption, bytes)
		}
		c.maxCheckoutBytes = bytes
		return nil
	})
}

// WithMigrate creates or updates the tables when the client opens; see Migrate. Without it, Open returns ErrNotMigrated
// or ErrSchemaOld.
func WithMigrate() Option {
	return func(c *config) error { c.migrate = true; return nil }
}

// WithLogger sets the logger of the client and of its workers; docs/worker.md lists the lines. No line shows a payload
// or a password. The default is slog.Default at the time the client opens. slog.New(slog.DiscardHandler) turns logging
// off.
func WithLogger(l *slog.Logger) Option {
	return once("WithLogger", func(c *config) error {
		if l == nil {
			return fmt.Errorf("%w: a nil logger", ErrOption)
		}
		c.logger = l
		return nil
	})
}

// WithoutNotify turns off notifications between processes: the client neither sends nor receives them. Workers then
// find other processes' tasks by polling. Only latency depends on notifications. By default they are on where the
// engine has them (PostgreSQL). They cost one connection while a worker runs, and one notification for each queue that
// is enqueued to, at most 1000 a second.
func WithoutNotify() Option {
	return func(c *config) error { c.withoutNotify = true; return nil }
}

// WithClock sets the clock that dates new ids, for tests. Nothing else depends on a client's clock.
func WithClock(now func() time.Time) Option {
	return once("WithClock", func(c *config) error {
		if now == nil {
			return fmt.Errorf("%w: a nil clock", ErrOption)
		}
		c.clock = now
		return nil
	})
}

func newConfig(dsn string, opts []Option) (config, error) {
	c := config{
		scrub:       redact.NewScrubber(dsn),
		names:       dialect.Names{Prefix: "dbq_"},
		maxAttempts: DefaultMaxAttempts,
		logger:      slog.Default(),
		clock:       time.Now,

		maxCheckoutBytes: DefaultMaxCheckoutBytes,
	}
	if dsn != "" {
		c.target = dialect.TargetOf(dsn)
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

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

// Option changes how a client is opened. A refused value is ErrOption, and so is an option that is given twice, since
// one of its values would be lost. WithObserver and WithHeaders may be given several times: each is called, in the
// order given.
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
	observe       []func(Event)
	headers       []func(ctx context.Context) map[string]string
	clock         func() time.Time
	given         map[string]bool // options that may be given once
}

// DefaultMaxAttempts is how often a task is tried when neither it nor the client says otherwise.
const DefaultMaxAttempts = 10

// identifier is what every engine takes without quotes, short enough for the longest name behind it.
var identifier = regexp.MustCompile(`^[a-z][a-z0-9_]{0,19}$`)

// WithPrefix puts a prefix before the names of dbq's tables. The default is "dbq_". It is 1 to 20 lower-case letters,
// digits and underscores and begins with a letter.
func WithPrefix(prefix string) Option {
	return once("WithPrefix", func(c *config) error {
		if !identifier.MatchString(prefix) {
			return fmt.Errorf("%w: the prefix %q is not 1 to 20 of a-z, 0-9 and _, beginning with a letter", ErrOption, prefix)
		}
		c.names.Prefix = prefix
		return nil
	})
}

// WithSchema puts dbq's tables into a schema, which Migrate makes if it can. The default is the connection's own. It is
// spelled like a prefix. SQLite has no schemas and refuses it.
func WithSchema(schema string) Option {
	return once("WithSchema", func(c *config) error {
		if !identifier.MatchString(schema) {
			return fmt.Errorf("%w: the schema %q is not 1 to 20 of a-z, 0-9 and _, beginning with a letter", ErrOption, schema)
		}
		c.names.Schema = schema
		return nil
	})
}

// WithStrategy checks out in another way than the server's default. One that the server cannot do is refused by Open.
func WithStrategy(s dialect.Strategy) Option {
	return once("WithStrategy", func(c *config) error { c.strategy = s; return nil })
}

// WithName is who the client says it is in the holder of a lease, for people to read. The default is program@host/pid.
// Several clients may share a name; Info.ID tells them apart.
func WithName(name string) Option {
	return once("WithName", func(c *config) error {
		if err := limits.Text(name, 1, limits.MaxName, ErrOption, "client's name"); err != nil {
			return err
		}
		c.name = name
		return nil
	})
}

// WithMaxAttempts is how often a task that does not say is tried. The default is DefaultMaxAttempts.
func WithMaxAttempts(n int) Option {
	return once("WithMaxAttempts", func(c *config) error {
		if n < 1 || n > MaxMaxAttempts {
			return fmt.Errorf("%w: max attempts of %d, it must be between 1 and %d", ErrOption, n, MaxMaxAttempts)
		}
		c.maxAttempts = n
		return nil
	})
}

// WithMaxPayload lowers the largest payload, in bytes, that this client enqueues. The default is what the server can
// take. It does not bound what is read: a larger task, which another client enqueued, is handed out like any other; see
// WithMaxCheckoutBytes.
func WithMaxPayload(bytes int) Option {
	return once("WithMaxPayload", func(c *config) error {
		if bytes < 1 {
			return fmt.Errorf("%w: a largest payload of %d bytes", ErrOption, bytes)
		}
		c.maxPayload = bytes
		return nil
	})
}

// DefaultMaxCheckoutBytes is how many bytes of payload a checkout brings when the client does not say otherwise.
const DefaultMaxCheckoutBytes = 32 << 20

// WithMaxCheckoutBytes bounds the payloads that one checkout brings, in bytes together. A checkout then leases fewer
// tasks than it may, the first of those that are due, and leaves the others to the next one. A task whose payload is
// larger by itself comes alone, so that it is not stuck: the bound is then its size. Headers and results, of 4,000
// bytes each at most, do not count. The default is DefaultMaxCheckoutBytes.
func WithMaxCheckoutBytes(bytes int) Option {
	return once("WithMaxCheckoutBytes", func(c *config) error {
		if bytes < 1 {
			return fmt.Errorf("%w: checkouts of %d bytes at most, it must be at least 1", ErrOption, bytes)
		}
		c.maxCheckoutBytes = bytes
		return nil
	})
}

// WithMigrate brings the tables to this version when the client opens; see Migrate. The default is to refuse to open.
func WithMigrate() Option {
	return func(c *config) error { c.migrate = true; return nil }
}

// WithLogger is where the client, and workers on it, report what an operator should know; docs/worker.md lists the
// lines. No line has a payload or a password. The default is slog.Default, as it is when the client opens;
// slog.New(slog.DiscardHandler) is silent.
func WithLogger(l *slog.Logger) Option {
	return once("WithLogger", func(c *config) error {
		if l == nil {
			return fmt.Errorf("%w: a nil logger", ErrOption)
		}
		c.logger = l
		return nil
	})
}

// WithoutNotify keeps the client from telling other processes that it enqueued, and from listening to what they tell;
// workers then find tasks of other processes by polling alone. The default is to do both where the engine can
// (PostgreSQL), which costs a connection while a worker runs, and a notification for each queue that is enqueued to, at
// most 1000 a second. Nothing but latency depends on it.
func WithoutNotify() Option {
	return func(c *config) error { c.withoutNotify = true; return nil }
}

// WithClock is the wall clock that new ids are dated by, for tests. Nothing else depends on a client's clock.
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

// processName says which program runs, where, and under which process number.
func processName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%.40s@%.60s/%d", filepath.Base(os.Args[0]), host, os.Getpid())
}

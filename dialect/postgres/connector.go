package postgres

import (
	"context"
	"crypto/tls"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/kit"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// connector connects by pgx. It is used as a pointer, so that a printed pool does not show the configuration.
type connector struct {
	plain  driver.Connector
	pooled driver.Connector // for a pooler that shares sessions

	mu      sync.Mutex
	decided driver.Connector // nil until a connection has shown which of the two it is
}

// newConnector returns a connector. If chooses is set, its first connection decides how statements are sent: prepared,
// which is pgx's default, or by exec behind a pooler that shares sessions. Otherwise the configuration decides. If
// password is nil, the one of the configuration is used.
func newConnector(cfg pgx.ConnConfig, chooses bool, password dialect.Password) *connector {
	before := stdlib.OptionBeforeConnect(func(ctx context.Context, cfg *pgx.ConnConfig) (err error) {
		if password != nil {
			cfg.Password, err = kit.NextPassword(ctx, password)
		}
		return err
	})
	reset := stdlib.OptionResetSession(func(ctx context.Context, c *pgx.Conn) error {
		conn := c.PgConn().Conn()
		if secure, ok := conn.(*tls.Conn); ok {
			conn = secure.NetConn()
		}
		tracked, _ := conn.(*kit.TrackedConn)
		tracked.TakenWith(ctx)
		return nil
	})
	plain := stdlib.GetConnector(cfg, before, reset)
	if !chooses {
		return &connector{plain: plain, decided: plain}
	}
	cfg.DefaultQueryExecMode = pgx.QueryExecModeExec
	return &connector{plain: plain, pooled: stdlib.GetConnector(cfg, before, reset)}
}

// Driver returns the connector itself, so that it can be reached from its *sql.DB.
func (c *connector) Driver() driver.Driver { return c }

// Open is pgx's.
func (c *connector) Open(dsn string) (driver.Conn, error) { return c.plain.Driver().Open(dsn) }

// connect is Connect for a connection that is not of a *sql.DB.
func (c *connector) connect(ctx context.Context) (*pgx.Conn, error) {
	conn, err := c.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return conn.(*stdlib.Conn).Conn(), nil
}

// Connect connects to the first server that serves.
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	c.mu.Lock()
	decided := c.decided
	c.mu.Unlock()
	if decided != nil {
		conn, err := decided.Connect(ctx)
		return conn, withoutConfig(err)
	}
	conn, err := c.plain.Connect(ctx)
	if err != nil {
		return nil, withoutConfig(err)
	}
	shares, err := sharesSessions(ctx, conn.(*stdlib.Conn).Conn())
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	decided = c.plain
	if shares {
		decided = c.pooled
	}
	c.mu.Lock()
	c.decided = decided
	c.mu.Unlock()
	if !shares {
		return conn, nil
	}
	_ = conn.Close()
	conn, err = decided.Connect(ctx)
	return conn, withoutConfig(err)
}

// steady connects the sessions of dbq's own statements. A session keeps the plan of a prepared statement, and the
// cheapest plan on an empty table is a sequential scan. So these sessions use one only if there is no index. That makes
// a plan without an index seem expensive, and PostgreSQL before 18 would compile it (jit). Sessions that do not prepare
// plan each statement when it runs, and may be shared by a pooler.
type steady struct{ *connector }

func (c steady) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	session := conn.(*stdlib.Conn).Conn()
	if session.Config().DefaultQueryExecMode != pgx.QueryExecModeCacheStatement {
		return conn, nil
	}
	_, err = session.PgConn().Exec(ctx, `SELECT set_config(name, 'off', false)
  FROM pg_settings WHERE name IN ('enable_seqscan', 'jit')`).ReadAll() // other products may not know one of them
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// connectError replaces pgx's error, which contains the configuration with the password.
type connectError struct{ cause error }

// Error returns each line of the cause once: pgx repeats a refusal for its attempts with and without TLS.
func (e *connectError) Error() string {
	var lines []string
	for line := range strings.SplitSeq(e.cause.Error(), "\n") {
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return "cannot connect: " + strings.Join(lines, "; ")
}

func (e *connectError) Unwrap() error { return e.cause }

func withoutConfig(err error) error {
	var failed *pgconn.ConnectError
	if errors.As(err, &failed) {
		err = &connectError{failed.Unwrap()}
		if refused := (*pgconn.PgError)(nil); errors.As(err, &refused) {
			switch refused.Code {
			case "3D000":
				err = kit.NoDatabase(failed.Config.Database, err)
			case "42704", "22023", "55P02": // it does not know a parameter or its value, or no session can set it
				err = fmt.Errorf("%w: %w", dialect.ErrDSN, err)
			}
		}
	}
	return err
}

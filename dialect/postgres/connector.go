package postgres

import (
	"context"
	"database/sql/driver"
	"errors"
	"sync"

	"github.com/dbq-go/dbq/dialect"
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
			cfg.Password, err = password.Next(ctx)
		}
		return err
	})
	plain := stdlib.GetConnector(cfg, before)
	if !chooses {
		return &connector{plain: plain, decided: plain}
	}
	cfg.DefaultQueryExecMode = pgx.QueryExecModeExec
	return &connector{plain: plain, pooled: stdlib.GetConnector(cfg, before)}
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

// connectError replaces pgx's error, which contains the configuration with the password.
type connectError struct{ cause error }

func (e *connectError) Error() string { return "cannot connect: " + e.cause.Error() }
func (e *connectError) Unwrap() error { return e.cause }

func withoutConfig(err error) error {
	var failed *pgconn.ConnectError
	if errors.As(err, &failed) {
		err = &connectError{failed.Unwrap()}
		if refused := (*pgconn.PgError)(nil); errors.As(err, &refused) && refused.Code == "3D000" {
			err = dialect.NoDatabase(failed.Config.Database, err)
		}
	}
	return err
}

package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

var _ dialect.Listener = Dialect{}

// closeTimeout limits the closing of a listening connection.
const closeTimeout = time.Second

// Listen listens on a connection of its own, because notifications are sent to sessions. It connects as the pool does
// now: an earlier password may have expired. A pool of another maker can only be asked for the settings of one of its
// connections.
func (Dialect) Listen(ctx context.Context, db *sql.DB, channel string, ready func(), heard func(payload string)) error {
	connect := func(ctx context.Context) (*pgx.Conn, error) {
		cfg, err := settings(ctx, db)
		if err != nil {
			return nil, err
		}
		return pgx.ConnectConfig(ctx, cfg)
	}
	if own, ok := db.Driver().(interface {
		connect(context.Context) (*pgx.Conn, error)
	}); ok {
		connect = own.connect
	}
	conn, err := connect(ctx)
	if conn != nil {
		defer func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
			defer cancel()
			_ = conn.Close(ctx) // the server notices a lost connection
		}()
	}
	if err != nil {
		return err
	}
	// It is idle until something happens. PostgreSQL 13 does not know this setting.
	const patient = "SELECT set_config(name, '0', false) FROM pg_settings WHERE name = 'idle_session_timeout'"
	if _, err := conn.Exec(ctx, patient); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{channel}.Sanitize()); err != nil {
		return err
	}
	ready()
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		heard(n.Payload)
	}
}

// settings returns the settings of the pool's connections.
func settings(ctx context.Context, db *sql.DB) (*pgx.ConnConfig, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	var cfg *pgx.ConnConfig
	err = conn.Raw(func(driver any) error {
		c, ok := driver.(*stdlib.Conn)
		if !ok {
			return fmt.Errorf("%w: the pool's driver is %T, and listening needs pgx's", errors.ErrUnsupported, driver)
		}
		cfg = c.Conn().Config()
		cfg.OnNotification = nil // that connection's own
		return nil
	})
	return cfg, err
}

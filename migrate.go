package dbq

import (
	"context"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/store"
	"github.com/google/uuid"
)

// Migrate creates or upgrades the tables in the database that dsn names, and returns the versions before and after; 0
// means no tables. It keeps all data. If the tables are current, or have a compatible newer version, it does nothing.
// Many processes can call it at once: one does the work, and the others wait. It returns the errors of Open.
//
// For a pool that the caller owns, use New with WithMigrate.
func Migrate(ctx context.Context, dsn string, opts ...Option) (from, to int, err error) {
	cfg, err := configOf(dsn, opts)
	if err != nil {
		return 0, 0, err
	}
	drv, pool, err := openPool(ctx, dsn, cfg.password)
	if err != nil {
		return 0, 0, err
	}
	defer pool.Close()
	c, err := bareClient(ctx, pool, drv.Dialect, dsn, cfg)
	if err != nil {
		return 0, 0, err
	}
	from, to, err = c.store.Migrate(ctx)
	return from, to, c.wrap("migrate", "", uuid.Nil, err)
}

// DropTables removes dbq's tables with everything in them, for tests and for uninstalling dbq. It does nothing if
// they do not exist.
func DropTables(ctx context.Context, dsn string, opts ...Option) error {
	cfg, err := configOf(dsn, opts)
	if err != nil {
		return err
	}
	drv, pool, err := openPool(ctx, dsn, cfg.password)
	if err != nil {
		return err
	}
	defer pool.Close()
	c, err := bareClient(ctx, pool, drv.Dialect, dsn, cfg)
	if err != nil {
		return err
	}
	return c.wrap("drop tables", "", uuid.Nil, c.store.DropTables(ctx))
}

// MigrationSQL returns the statements that Migrate runs on an empty database of this dialect, with comments. A DBA
// can review and run them.
func MigrationSQL(d dialect.Dialect, opts ...Option) (string, error) {
	cfg, err := newConfig("", opts)
	if err != nil {
		return "", &Error{Op: "migrate", Err: err}
	}
	text, err := store.MigrationSQL(d, cfg.names)
	if err != nil {
		return "", &Error{Op: "migrate", Err: err}
	}
	return text, nil
}

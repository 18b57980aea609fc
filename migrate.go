package dbq

import (
	"context"
	"database/sql"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/store"
	"github.com/google/uuid"
)

// Migrate brings the tables in the database that dsn names to this version and returns the versions before and after, 0
// being no tables. It keeps data, does nothing when there is nothing to do, and may run in many processes at once: one
// does the work, the others wait for it. Tables of a newer version that this program works with stay as they are.
// Errors are those of Open.
func Migrate(ctx context.Context, dsn string, opts ...Option) (from, to int, err error) {
	drv, pool, err := openPool(ctx, dsn)
	if err != nil {
		return 0, 0, err
	}
	defer pool.Close()
	return migratePool(ctx, pool, drv.Dialect, dsn, opts)
}

// MigrateDB is Migrate on a pool that the caller owns.
func MigrateDB(ctx context.Context, db *sql.DB, d dialect.Dialect, opts ...Option) (from, to int, err error) {
	return migratePool(ctx, dialect.Pool{Write: db, Read: db}, d, "", opts)
}

func migratePool(
	ctx context.Context, pool dialect.Pool, d dialect.Dialect, dsn string, opts []Option,
) (from, to int, err error) {
	c, err := bareClient(ctx, pool, d, dsn, opts)
	if err != nil {
		return 0, 0, err
	}
	from, to, err = c.store.Migrate(ctx)
	return from, to, c.wrap("migrate", "", uuid.Nil, err)
}

// DropTables removes dbq's tables with everything in them, for tests and for leaving. It does nothing when they are not
// there.
func DropTables(ctx context.Context, dsn string, opts ...Option) error {
	drv, pool, err := openPool(ctx, dsn)
	if err != nil {
		return err
	}
	defer pool.Close()
	c, err := bareClient(ctx, pool, drv.Dialect, dsn, opts)
	if err != nil {
		return err
	}
	return c.wrap("drop tables", "", uuid.Nil, c.store.DropTables(ctx))
}

// MigrationSQL returns the statements that Migrate runs on an empty database of this dialect, with comments, for a DBA
// to review and run.
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

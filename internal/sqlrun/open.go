package sqlrun

import (
	"context"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/redact"
)

// Open opens the pools for a DSN through the driver of its scheme. If that fails, it still returns the driver, whose
// dialect can classify the error. Errors never show the DSN's password.
func Open(ctx context.Context, dsn string) (dialect.Driver, dialect.Pool, error) {
	return OpenPassword(ctx, dsn, nil)
}

// OpenPassword is Open with a password for each new connection, unless it is nil. The driver must have them.
func OpenPassword(ctx context.Context, dsn string, password dialect.Password) (dialect.Driver, dialect.Pool, error) {
	d, err := dialect.Lookup(dsn)
	if err != nil {
		return dialect.Driver{}, dialect.Pool{}, err
	}
	open := d.Open
	if password != nil {
		open = func(ctx context.Context, dsn string) (dialect.Pool, error) { return d.OpenPassword(ctx, dsn, password) }
	}
	pool, err := open(ctx, dsn)
	if err != nil {
		return d, dialect.Pool{}, redact.Scrub(err, dsn)
	}
	return d, pool, nil
}

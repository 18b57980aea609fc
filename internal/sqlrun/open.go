package sqlrun

import (
	"context"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/internal/redact"
)

// Open opens the pools for a DSN through the driver of its scheme. If that fails, it still returns the driver, whose
// dialect can classify the error. Errors never show the DSN's password.
func Open(ctx context.Context, dsn string) (dialect.Driver, dialect.Pool, error) {
	d, err := dialect.Lookup(dsn)
	if err != nil {
		return dialect.Driver{}, dialect.Pool{}, err
	}
	pool, err := d.Open(ctx, dsn)
	if err != nil {
		return d, dialect.Pool{}, redact.Scrub(err, dsn)
	}
	return d, pool, nil
}

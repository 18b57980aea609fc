// Package postgres is dbq's dialect for PostgreSQL 13 and later, and for servers that speak its protocol, through pgx.
// Import it for its side effect:
//
//	import _ "github.com/dbq-go/dbq/dialect/postgres"
package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"
)

func init() {
	dialect.Register(dialect.Driver{
		Schemes: []string{"postgres", "postgresql", "cockroachdb"}, Dialect: Dialect{}, Open: Open, Target: target,
	})
}

// Dialect is the dialect of PostgreSQL.
type Dialect struct{}

// Name is "postgres".
func (Dialect) Name() string { return "postgres" }

// maxPayload is well under the 1 GB of a bytea, whose text form and copies must fit too, and more than a queue should
// carry.
const maxPayload = 100 << 20

// leastVersion is the oldest accepted version, and testedFrom the oldest one on which the suite has been run.
const leastVersion, testedFrom = 130_000, 150_000

// product is the name of the server itself, and not of another one with the same protocol.
const product = "PostgreSQL"

// Probe queries the server's product, version and settings. A server that is too old, read-only or not in UTF-8 is
// refused.
func (Dialect) Probe(ctx context.Context, db *sql.DB) (dialect.Server, error) {
	shared, err := findPooler(ctx, db)
	if err != nil {
		return dialect.Server{}, err
	}
	var version, encoding, client, isolation, readOnly string
	err = db.QueryRowContext(ctx, `SELECT version(), current_setting('server_encoding'),
  current_setting('client_encoding'), current_setting('default_transaction_isolation'),
  current_setting('transaction_read_only')`).Scan(&version, &encoding, &client, &isolation, &readOnly)
	if err != nil {
		return dialect.Server{}, err
	}
	var number int
	err = db.QueryRowContext(ctx, `SELECT CAST(current_setting('server_version_num') AS integer)`).Scan(&number)
	if err != nil {
		return dialect.Server{}, err
	}
	switch {
	case number < leastVersion:
		return dialect.Server{}, fmt.Errorf("%w: the server is too old, dbq needs PostgreSQL 13 or later: %s",
			dialect.ErrServer, version)
	case encoding != "UTF8":
		return dialect.Server{}, fmt.Errorf("%w: the database's encoding is %s, dbq needs UTF8", dialect.ErrServer, encoding)
	case client != "UTF8":
		return dialect.Server{}, fmt.Errorf("%w: the pool's sessions have client_encoding=%s, but dbq sends UTF-8: "+
			"set it to UTF8", dialect.ErrServer, client)
	case readOnly == "on":
		return dialect.Server{}, fmt.Errorf("%w: the server takes no writes: use the primary, or "+
			"target_session_attrs=read-write, if it is a standby; otherwise set default_transaction_read_only to off",
			dialect.ErrServer)
	}
	s := dialect.Server{
		Product: product, Version: strings.Fields(version + " ? ?")[1],
		MaxPayload: maxPayload, Precision: time.Microsecond,
		Strategies: []dialect.Strategy{dialect.SkipLocked, dialect.Advisory, dialect.CAS},
		ExplicitTx: isolation != "read committed",
		Notifies:   true,
		Untested:   number < testedFrom,
	}
	if shared {
		s.Pooler = poolerName
	}
	// Other servers with the same protocol need not lock like PostgreSQL. They accept the syntax, so they are
	// recognized by name.
	switch {
	case strings.Contains(version, "CockroachDB"): // its advisory locks are stubs, its SKIP LOCKED can skip too much
		s.Product, s.Strategies, s.Notifies = "CockroachDB", []dialect.Strategy{dialect.CAS}, false
		s.Untested = true
	case strings.Contains(version, "-YB-"):
		// It has no ctid, which the other strategies use.
		s.Product, s.Strategies, s.Notifies = "YugabyteDB", []dialect.Strategy{dialect.CAS}, false
		s.Untested = true
	}
	return s, nil
}

// BindValue converts ids to the driver's own type, which it sends as 16 bytes; it would send uuid.UUID as text. The
// driver knows this type even if it does not query the server for types, as behind a pooler.
func (Dialect) BindValue(v any) any {
	switch id := v.(type) {
	case uuid.UUID:
		return pgtype.UUID{Bytes: id, Valid: true}
	case []uuid.UUID:
		out := make([]pgtype.UUID, len(id))
		for i := range id {
			out[i] = pgtype.UUID{Bytes: id[i], Valid: true}
		}
		return out
	}
	return v
}

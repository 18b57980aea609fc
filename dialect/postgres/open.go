package postgres

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

const (
	defaultConns   = 16
	connectTimeout = 10 * time.Second
)

// Open makes the pool for a DSN such as postgres://user:password@host:5432/database?sslmode=require. Its parameters are those of
// pgx and libpq, and pool_max_conns (16 by default). Behind PgBouncer in transaction mode before 1.21 add
// default_query_exec_mode=exec.
//
// Several servers can be listed, as in postgres://user:password@one:5432,two:5432/database. Each connection is made to the first of them that
// can be reached and takes writes, unless target_session_attrs says otherwise.
func Open(ctx context.Context, dsn string) (dialect.Pool, error) {
	scheme, rest, _ := strings.Cut(dsn, ":")
	if !strings.HasPrefix(rest, "//") {
		return dialect.Pool{}, fmt.Errorf("%w: write %s://user@host:5432/database", dialect.ErrDSN, scheme)
	}
	conns, rest, err := takeConns("postgres:" + rest)
	if err != nil {
		return dialect.Pool{}, err
	}
	cfg, err := pgx.ParseConfig(rest)
	if err != nil {
		return dialect.Pool{}, fmt.Errorf("%w: %w", dialect.ErrDSN, err)
	}
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = connectTimeout
	}
	if cfg.RuntimeParams["application_name"] == "" {
		cfg.RuntimeParams["application_name"] = "dbq"
	}
	if cfg.ValidateConnect == nil && several(cfg) { // a standby among them is no place for a queue
		cfg.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	db := stdlib.OpenDB(*cfg)
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns) // the default of 2 would reconnect all the time
	db.SetConnMaxIdleTime(5 * time.Minute)
	return dialect.Pool{Write: db, Read: db}, nil
}

// several reports whether a DSN names more than one server; a fallback can also be the same one without TLS.
func several(cfg *pgx.ConnConfig) bool {
	return slices.ContainsFunc(cfg.Fallbacks, func(f *pgconn.FallbackConfig) bool { return f.Host != cfg.Host || f.Port != cfg.Port })
}

// takeConns takes pool_max_conns out of a DSN, which the server would not know.
func takeConns(dsn string) (int, string, error) {
	base, raw, found := strings.Cut(dsn, "?")
	if !found {
		return defaultConns, dsn, nil
	}
	params, err := url.ParseQuery(raw)
	if err != nil {
		return 0, "", fmt.Errorf("%w: its parameters cannot be read", dialect.ErrDSN) // the error might print a password
	}
	text := params.Get("pool_max_conns")
	if text == "" {
		return defaultConns, dsn, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 10_000 {
		return 0, "", fmt.Errorf("%w: pool_max_conns=%s, use a number from 1 to 10000", dialect.ErrDSN, text)
	}
	params.Del("pool_max_conns")
	return n, base + "?" + params.Encode(), nil
}

package postgres

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/kit"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const connectTimeout = 10 * time.Second

// Open makes the pool for a DSN such as postgres://user:password@host:5432/database?sslmode=require. Its parameters are
// those of pgx and libpq, and pool_max_conns (16 by default): how many connections the client may have, and as many
// again for Client.DB. Behind a pooler that shares sessions, as PgBouncer in transaction mode,
// default_query_exec_mode=exec is chosen; another one in the DSN is refused there when the client opens.
//
// Several servers can be listed, as in postgres://user:password@one:5432,two:5432/database. Each connection is made to
// the first of them that can be reached and takes writes, unless target_session_attrs says otherwise.
//
// Without a password in the DSN, PGPASSWORD and the passfile count, as for libpq. They are read for each connection.
func Open(_ context.Context, dsn string, password dialect.Password) (dialect.Pool, error) {
	d, err := dialect.ParseDSN(dsn)
	if err != nil {
		return dialect.Pool{}, err
	}
	if password == nil && !d.HasPassword && !d.Params.Has("password") {
		password = func(context.Context) (string, error) {
			cfg, _, _, err := config(dsn)
			if err != nil {
				return "", err
			}
			return cfg.Password, nil
		}
	}
	cfg, conns, chooses, err := config(dsn)
	if err != nil {
		return dialect.Pool{}, err
	}
	connector := newConnector(*cfg, chooses, password)
	return kit.NewPool(steady{connector}, connector, conns, 0), nil
}

// config parses a DSN and adds the settings of dbq. chooses reports that the DSN does not determine how statements are
// sent. pgx is given the DSN without its passwords, so that none of its errors can repeat one.
func config(dsn string) (cfg *pgx.ConnConfig, conns int, chooses bool, err error) {
	d, err := dialect.ParseDSN(dsn)
	if err != nil {
		return nil, 0, false, err
	}
	if conns, err = kit.TakeConns(d); err != nil {
		return nil, 0, false, err
	}
	password, hasPassword := d.Password, d.HasPassword
	if d.Params.Has("password") { // libpq's rule: a parameter wins
		password, hasPassword = d.Params.Get("password"), true
	}
	keyPassword := d.Params.Get("sslpassword")
	d.Params.Del("password")
	d.Params.Del("sslpassword")
	// pgx takes a plus for a plus, as libpq does.
	params := strings.ReplaceAll(d.Params.Encode(), "+", "%20")
	text := url.URL{Scheme: "postgres", Host: d.Hosts, Path: "/" + d.Database, RawQuery: params}
	if d.User != "" {
		text.User = url.User(d.User)
	}
	options := pgx.ParseConfigOptions{}
	if keyPassword != "" {
		options.GetSSLPassword = func(context.Context) string { return keyPassword }
	}
	if cfg, err = pgx.ParseConfigWithOptions(text.String(), options); err != nil {
		return nil, 0, false, fmt.Errorf("%w: %s", dialect.ErrDSN, mistake(err)) // not %w: pgx's error has the DSN in a field
	}
	if hasPassword {
		cfg.Password = password
	}
	// A session that became read-only stays so: the next connection may lead to a server that takes writes.
	ends := cfg.OnPgError
	cfg.OnPgError = func(c *pgconn.PgConn, e *pgconn.PgError) bool { return ends(c, e) && e.Code != readOnly }
	cfg.DialFunc = kit.Dialer(cfg.DialFunc).Dial
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = connectTimeout
	}
	if cfg.RuntimeParams["application_name"] == "" {
		cfg.RuntimeParams["application_name"] = "dbq"
	}
	cfg.RuntimeParams["client_encoding"] = "UTF8"   // a role or a database may have another
	if cfg.ValidateConnect == nil && several(cfg) { // one of them may be a standby, which takes no writes
		cfg.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	return cfg, conns, !d.Params.Has("default_query_exec_mode"), nil
}

// target returns the hosts and the database of a DSN, including libpq's parameters, as in
// ?host=one&port=5432&dbname=app.
func target(d dialect.DSN) dialect.Target {
	t := d.Target
	if host, port := d.Params.Get("host"), d.Params.Get("port"); t.Hosts == "" && host != "" {
		t.Hosts = host
		if port != "" {
			t.Hosts += ":" + port
		}
	}
	t.Database = cmp.Or(d.Params.Get("dbname"), t.Database)
	return t
}

// mistake returns pgx's complaint about a DSN without the DSN itself.
func mistake(err error) string {
	text := err.Error()
	if _, what, found := strings.Cut(text, "`: "); found {
		return what
	}
	return text
}

// several reports whether a DSN names more than one server; a fallback can also be the same one without TLS.
func several(cfg *pgx.ConnConfig) bool {
	return slices.ContainsFunc(cfg.Fallbacks, func(f *pgconn.FallbackConfig) bool {
		return f.Host != cfg.Host || f.Port != cfg.Port
	})
}

package mysql

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dbq-go/dbq/dialect"
	driver "github.com/go-sql-driver/mysql"
)

const (
	// lockWait is how many whole seconds a statement waits for a row that another transaction has locked. The client's
	// own sessions have the least there is, since a batch that waits holds up all that is in it; those of transactions
	// that the program begins have the server's.
	lockWait     = "innodb_lock_wait_timeout"
	defaultConns = 16
	dialTimeout  = 10 * time.Second
)

// passed are the parameters that go to the driver as they are.
var passed = []string{"tls", "timeout", "readTimeout", "writeTimeout", "allowCleartextPasswords", "allowNativePasswords", "serverPubKey",
	"compress", "connectionAttributes"}

// Open makes the pool for a DSN such as mysql://user:password@host:3306/database. Its parameters are pool_max_conns
// (16 by default) and the driver's for TLS, timeouts and authentication; those that would change what statements mean
// are refused, since dbq sets them.
//
// The nodes of a cluster can be listed, as in mysql://user:password@one:3306,two:3306/database. Each connection is
// made to the first of them that can be reached, is not read-only, and is part of its cluster; it is made anew after
// a minute.
func Open(_ context.Context, dsn string) (dialect.Pool, error) {
	cfg, addresses, conns, err := config(dsn)
	if err != nil {
		return dialect.Pool{}, err
	}
	callers, err := newNodes(cfg, addresses)
	if err != nil {
		return dialect.Pool{}, fmt.Errorf("%w: %w", dialect.ErrDSN, err)
	}
	cfg.Params[lockWait] = "1"
	client, err := newNodes(cfg, addresses)
	if err != nil {
		return dialect.Pool{}, fmt.Errorf("%w: %w", dialect.ErrDSN, err)
	}
	lifetime := time.Duration(0)
	if len(addresses) > 1 {
		lifetime = nodeLifetime
	}
	pool := dialect.NewPool(client, callers, conns, lifetime)
	pool.Begin = []string{begin}
	pool.Caution = caution(cfg.TLSConfig)
	return pool, nil
}

// caution is what to know about a way to use TLS.
func caution(tls string) string {
	switch tls {
	case "skip-verify":
		return "tls=skip-verify does not check the server's certificate: another server could answer and read everything; use tls=true"
	case "preferred":
		return "tls=preferred connects without TLS when the server offers none, and does not check its certificate; use tls=true"
	}
	return ""
}

// config reads a DSN, and adds what dbq sets by itself. addresses are those of its nodes.
func config(dsn string) (cfg *driver.Config, addresses []string, conns int, err error) {
	d, err := dialect.ParseDSN(dsn)
	if err != nil {
		return nil, nil, 0, err
	}
	if d.Hosts == "" || d.Database == "" {
		return nil, nil, 0, fmt.Errorf("%w: it names no host or no database: write %s://user:password@host:3306/database", dialect.ErrDSN, d.Scheme)
	}
	for node := range strings.SplitSeq(d.Hosts, ",") {
		host, port, err := dialect.SplitHost(node, "3306")
		if err != nil {
			return nil, nil, 0, fmt.Errorf("%w: the host or the port is not one", dialect.ErrDSN)
		}
		addresses = append(addresses, net.JoinHostPort(host, port))
	}
	conns, params, err := parameters(d.Params)
	if err != nil {
		return nil, nil, 0, err
	}
	if cfg, err = driver.ParseDSN("/?" + params.Encode()); err != nil { // the driver reads its own, and nothing that is secret
		return nil, nil, 0, fmt.Errorf("%w: the parameters (%s): %w", dialect.ErrDSN, strings.Join(slices.Sorted(maps.Keys(params)), ", "), err)
	}
	unchecked := cfg.TLSConfig == "skip-verify" || cfg.TLSConfig == "preferred"
	if cfg.AllowCleartextPasswords && (cfg.TLSConfig == "" || cfg.TLSConfig == "false" || unchecked) {
		return nil, nil, 0, fmt.Errorf("%w: allowCleartextPasswords sends the password readable to whoever answers, unless tls=true", dialect.ErrDSN)
	}
	cfg.User, cfg.Passwd = d.User, d.Password
	cfg.Net, cfg.DBName = "tcp", d.Database
	if cfg.Timeout == 0 {
		cfg.Timeout = dialTimeout
	}
	// One round trip for each statement instead of three; safe with utf8mb4, and the server's sql_mode is set below.
	cfg.InterpolateParams = true
	cfg.Collation = "utf8mb4_bin"
	cfg.RejectReadOnly = true
	cfg.MaxAllowedPacket = 1 << 30   // no statement is longer than the server's, which Probe read; asking would be a round trip for each connection
	cfg.Logger = &driver.NopLogger{} // what it would print is in the errors, too
	cfg.Params = map[string]string{
		"sql_mode":  "'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'",
		"time_zone": "'+00:00'",
	}
	return cfg, addresses, conns, nil
}

// parameters tells dbq's own from the driver's.
func parameters(query url.Values) (conns int, forDriver url.Values, err error) {
	conns, forDriver = defaultConns, url.Values{}
	for name := range query {
		value := query.Get(name)
		switch {
		case name == "pool_max_conns":
			conns, err = strconv.Atoi(value)
			if err != nil || conns < 1 || conns > 10_000 {
				return 0, nil, fmt.Errorf("%w: pool_max_conns=%s, use a number from 1 to 10000", dialect.ErrDSN, value)
			}
		case slices.Contains(passed, name):
			forDriver.Set(name, value)
		default:
			return 0, nil, fmt.Errorf("%w: the parameter %q is not one that dbq leaves to you; known are pool_max_conns, %s",
				dialect.ErrDSN, name, strings.Join(passed, ", "))
		}
	}
	return conns, forDriver, nil
}

package mysql

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/kit"
	driver "github.com/go-sql-driver/mysql"
)

const (
	// lockWait is how many whole seconds a statement waits for a row that another transaction has locked. The client's
	// own sessions use the minimum, since a batch that waits delays everything in it; transactions that the program
	// begins use the server's setting.
	lockWait    = "innodb_lock_wait_timeout"
	dialTimeout = 10 * time.Second
)

// passed has the parameters that are passed to the driver unchanged.
var passed = []string{
	"tls", "timeout", "readTimeout", "writeTimeout", "allowCleartextPasswords", "allowNativePasswords", "serverPubKey",
	"compress", "connectionAttributes",
}

// Open returns the pool for a DSN such as mysql://user:password@host:3306/database. Its parameters are pool_max_conns
// (16 by default) and the driver's for TLS, timeouts and authentication. Parameters that would change the meaning
// of statements are refused, because dbq sets them.
//
// tls_ca is a file of the certificate authorities that may sign the server's certificate, in PEM. It implies tls=true.
// With tls=verify-ca, the certificate may have any name. A Unix socket takes the place of the host, as in
// mysql://user:password@/database?socket=/run/mysqld/mysqld.sock.
//
// A DSN may list the nodes of a cluster, as in mysql://user:password@one:3306,two:3306/database. Each connection goes
// to the first node that can be reached, is not read-only, and is part of its cluster. It is replaced after a minute.
func Open(_ context.Context, dsn string, password dialect.Password) (dialect.Pool, error) {
	cfg, addresses, conns, err := config(dsn)
	if err != nil {
		return dialect.Pool{}, err
	}
	if password != nil {
		err := cfg.Apply(driver.BeforeConnect(func(ctx context.Context, cfg *driver.Config) (err error) {
			cfg.Passwd, err = kit.NextPassword(ctx, password)
			return err
		}))
		if err != nil {
			return dialect.Pool{}, unusable("%w", err)
		}
	}
	callers, err := newNodes(cfg, addresses)
	if err != nil {
		return dialect.Pool{}, unusable("%w", err)
	}
	cfg.Params[lockWait] = "1"
	client, err := newNodes(cfg, addresses)
	if err != nil {
		return dialect.Pool{}, unusable("%w", err)
	}
	lifetime := time.Duration(0)
	if len(addresses) > 1 {
		lifetime = nodeLifetime
	}
	pool := kit.NewPool(client, callers, conns, lifetime)
	pool.Begin = []string{begin}
	pool.Warning = warning(cfg.TLSConfig)
	return pool, nil
}

// unusable returns dialect.ErrDSN with the reason.
func unusable(format string, args ...any) error {
	return fmt.Errorf("%w: %w", dialect.ErrDSN, fmt.Errorf(format, args...))
}

// warning returns the weakness of a TLS setting, or "".
func warning(tls string) string {
	switch tls {
	case "skip-verify":
		return "tls=skip-verify does not check the server's certificate, " +
			"so another server could answer and read everything; use tls=true"
	case "preferred":
		return "tls=preferred connects without TLS if the server offers none, " +
			"and does not check its certificate; use tls=true"
	}
	return ""
}

// config parses a DSN and adds the settings that dbq needs. addresses has one for each node.
func config(dsn string) (cfg *driver.Config, addresses []string, conns int, err error) {
	d, err := dialect.ParseDSN(dsn)
	if err != nil {
		return nil, nil, 0, err
	}
	socket, ca, mode := d.Params.Get("socket"), d.Params.Get("tls_ca"), d.Params.Get("tls")
	switch {
	case d.Hosts+socket == "" || d.Database == "":
		return nil, nil, 0, unusable("it names no host or no database: "+
			"write %s://user:password@host:3306/database", d.Scheme)
	case socket != "" && d.Hosts+ca+mode != "":
		return nil, nil, 0, unusable("a socket needs no host and no TLS: "+
			"write %s://user:password@/database?socket=/path", d.Scheme)
	case ca == "" && mode == verifyCA, ca != "" && !slices.Contains([]string{"", "true", verifyCA}, mode):
		return nil, nil, 0, unusable("tls_ca is for tls=true and tls=%s, which needs it", verifyCA)
	}
	for node := range strings.SplitSeq(d.Hosts, ",") {
		if socket != "" {
			addresses = []string{socket}
			break
		}
		host, port, err := dialect.SplitHost(node, "3306")
		if err != nil {
			return nil, nil, 0, unusable("a host or its port is invalid")
		}
		addresses = append(addresses, net.JoinHostPort(host, port))
	}
	if conns, err = kit.TakeConns(d); err != nil {
		return nil, nil, 0, err
	}
	params, err := parameters(d.Params)
	if err != nil {
		return nil, nil, 0, err
	}
	cfg, err = driver.ParseDSN("/?" + params.Encode()) // the driver's own parameters, without the password
	if err != nil {
		return nil, nil, 0, unusable("the parameters (%s): %w", strings.Join(slices.Sorted(maps.Keys(params)), ", "), err)
	}
	if ca != "" {
		if err := trust(cfg, ca, mode); err != nil {
			return nil, nil, 0, err
		}
	} else if cfg.TLS != nil {
		cfg.TLS.ServerName = "" // each node's own, instead of the driver's default
	}
	unchecked := cfg.TLSConfig == "skip-verify" || cfg.TLSConfig == "preferred"
	if cfg.AllowCleartextPasswords && (cfg.TLSConfig == "" || cfg.TLSConfig == "false" || unchecked) {
		return nil, nil, 0, unusable("allowCleartextPasswords sends the password in clear text, unless tls=true")
	}
	cfg.User, cfg.Passwd = d.User, d.Password
	cfg.Net, cfg.DBName = "tcp", d.Database
	if socket != "" {
		cfg.Net = "unix"
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = dialTimeout
	}
	cfg.DialFunc = kit.Dialer(new(net.Dialer).DialContext).Dial
	// One round trip for each statement instead of three; safe with utf8mb4, and the server's sql_mode is set below.
	cfg.InterpolateParams = true
	cfg.Collation = "utf8mb4_bin"
	cfg.RejectReadOnly = true
	// Probe reads the server's limit once, and no statement exceeds it. 0 would query it for each connection.
	cfg.MaxAllowedPacket = 1 << 30
	cfg.Logger = &driver.NopLogger{} // the errors contain what it would log
	cfg.Params = maps.Clone(fixed)
	cfg.Params["sql_mode"] = "'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'"
	cfg.Params["time_zone"] = "'+00:00'"
	return cfg, addresses, conns, nil
}

// parameters returns the driver's parameters of a DSN.
func parameters(query url.Values) (url.Values, error) {
	forDriver := url.Values{}
	for name := range query {
		switch {
		case name == "socket", name == "tls_ca", name == "tls" && query.Has("tls_ca"): // see config
		case slices.Contains(passed, name):
			forDriver.Set(name, query.Get(name))
		default:
			return nil, unusable("the parameter %q is not one that dbq accepts; known are pool_max_conns, socket, tls_ca, %s",
				name, strings.Join(passed, ", "))
		}
	}
	return forDriver, nil
}

package oracle

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/dbq-go/dbq/dialect"
	driver "github.com/sijms/go-ora/v2"
)

const defaultConns = 16

// passed are the options that go to go-ora as they are, in its spelling: where the server is, who asks, and how what is sent is protected. Those that
// change how values are read or written (LOB FETCH, CHARSET, SERVER LOCATION, LANGUAGE, TERRITORY), print them (TRACE FILE), or cut reading off
// by themselves (TIMEOUT) are dbq's.
var passed = []string{"SSL", "SSL VERIFY", "WALLET", "WALLET PASSWORD", "AUTH TYPE", "AUTH SERV", "ENCRYPTION", "DATA INTEGRITY",
	"SERVER", "SID", "INSTANCE NAME", "PROXY CLIENT NAME", "PROGRAM", "CONNECTION TIMEOUT"}

// descriptor is the parameter for a full connect descriptor, in go-ora's spelling.
const descriptor = "connStr"

// Open makes the pool for a DSN such as oracle://user:password@host:1521/service, or, for several addresses, failover and the other things that a
// connect descriptor of tnsnames.ora can say, oracle://user:password@/?connStr=(DESCRIPTION=...) with the descriptor URL-escaped. (Database Net
// Services Reference, "Local Naming Parameters in the tnsnames.ora File".) Its parameters are pool_max_conns (16 by default) and those of go-ora's that
// cannot change what statements mean.
func Open(_ context.Context, dsn string) (dialect.Pool, error) {
	text, conns, err := config(dsn)
	if err != nil {
		return dialect.Pool{}, err
	}
	c := &connector{dsn: text}
	return dialect.NewPool(c, c, conns, 0), nil
}

// config reads a DSN and writes go-ora's.
func config(dsn string) (text string, conns int, err error) {
	const form = "write oracle://user:password@host:1521/service, with special characters in the password escaped (%40 for @)"
	d, err := dialect.ParseDSN(dsn)
	if err != nil {
		return "", 0, err
	}
	if described := d.Params.Get(descriptor); described != "" {
		return configOf(d, described)
	}
	if d.Hosts == "" || strings.Contains(d.Hosts, ",") {
		return "", 0, fmt.Errorf("%w: it names no host, or several: %s", dialect.ErrDSN, form)
	}
	host, port, err := dialect.SplitHost(d.Hosts, "1521")
	if err != nil {
		return "", 0, fmt.Errorf("%w: the host or the port is not one: %s", dialect.ErrDSN, form)
	}
	conns, options, err := parameters(d.Params)
	if err != nil {
		return "", 0, err
	}
	if d.Database == "" && options.Get("SID") == "" {
		return "", 0, fmt.Errorf("%w: it names no service: %s", dialect.ErrDSN, form)
	}
	if err := named(d, options); err != nil {
		return "", 0, err
	}
	out := url.URL{Scheme: "oracle", Host: net.JoinHostPort(host, port), Path: "/" + d.Database, RawQuery: options.Encode()}
	if options.Get("WALLET") == "" { // go-ora reads a wallet's files when it parses
		out.User = url.UserPassword("user", "password") // what it finds wrong is not with these
		if _, err := driver.ParseConfig(out.String()); err != nil {
			return "", 0, fmt.Errorf("%w: %w", dialect.ErrDSN, err)
		}
	}
	out.User = nil
	if d.User != "" || d.HasPassword {
		out.User = url.UserPassword(d.User, d.Password)
	}
	return out.String(), conns, nil
}

// named refuses a DSN that does not say as whom to log on.
func named(d dialect.DSN, options url.Values) error {
	if (d.User == "" || d.Password == "") && options.Get("AUTH TYPE") == "" && options.Get("WALLET") == "" {
		return fmt.Errorf("%w: it names no user or no password: write user:password before the @; or say AUTH TYPE or WALLET", dialect.ErrDSN)
	}
	return nil
}

// configOf is config for a DSN with a connect descriptor.
func configOf(d dialect.DSN, described string) (text string, conns int, err error) {
	if d.Hosts != "" || d.Database != "" {
		return "", 0, fmt.Errorf("%w: the connect descriptor names the host and the service: write oracle://user:password@/?%s=(DESCRIPTION=...), escaped",
			dialect.ErrDSN, descriptor)
	}
	if flat := strings.ToUpper(strings.Join(strings.Fields(described), "")); !strings.HasPrefix(flat, "(DESCRIPTION") || !strings.Contains(flat, "(HOST=") {
		return "", 0, fmt.Errorf("%w: %s is no connect descriptor: write (DESCRIPTION=(ADDRESS=(PROTOCOL=TCP)(HOST=...)(PORT=1521))(CONNECT_DATA=...))",
			dialect.ErrDSN, descriptor)
	}
	d.Params.Del(descriptor)
	conns, options, err := parameters(d.Params)
	if err != nil {
		return "", 0, err
	}
	if err := named(d, options); err != nil {
		return "", 0, err
	}
	options.Set(descriptor, described)
	out := url.URL{Scheme: "oracle", Host: ":0", Path: "/", RawQuery: options.Encode()} // as go-ora's BuildJDBC writes it
	if d.User != "" || d.HasPassword {
		out.User = url.UserPassword(d.User, d.Password)
	}
	return out.String(), conns, nil
}

// parameters tells dbq's own from go-ora's, which are spelled in any case, with spaces.
func parameters(query url.Values) (conns int, forDriver url.Values, err error) {
	conns, forDriver = defaultConns, url.Values{}
	for name, values := range query {
		known := strings.ToUpper(strings.ReplaceAll(name, "_", " "))
		switch {
		case name == "pool_max_conns":
			conns, err = strconv.Atoi(values[0])
			if err != nil || conns < 1 || conns > 10_000 {
				return 0, nil, fmt.Errorf("%w: pool_max_conns=%s, use a number from 1 to 10000", dialect.ErrDSN, values[0])
			}
		case slices.Contains(passed, known) && !forDriver.Has(known):
			forDriver[known] = values
		default:
			return 0, nil, fmt.Errorf("%w: the parameter %q is not one that dbq leaves to you, or is there twice; known are pool_max_conns, %s",
				dialect.ErrDSN, name, strings.Join(passed, ", "))
		}
	}
	return conns, forDriver, nil
}

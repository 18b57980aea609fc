package oracle

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/dbq-go/dbq/dialect"
	"github.com/dbq-go/dbq/dialect/kit"
	driver "github.com/sijms/go-ora/v2"
)

// passed are the options that go to go-ora as they are, in its spelling: where the server is, the client, and how
// what is sent is protected. Those that change how values are read or written (LOB FETCH, CHARSET, SERVER LOCATION,
// LANGUAGE, TERRITORY), print them (TRACE FILE), or cut reading off by themselves (TIMEOUT) are dbq's.
var passed = []string{
	"SSL", "SSL VERIFY", "WALLET", "WALLET PASSWORD", "AUTH TYPE", "AUTH SERV", "ENCRYPTION", "DATA INTEGRITY",
	"SERVER", "SID", "INSTANCE NAME", "PROXY CLIENT NAME", "PROGRAM", "CONNECTION TIMEOUT",
}

// descriptor is the parameter for a full connect descriptor, in go-ora's spelling.
const descriptor = "connStr"

// form is the form of a DSN.
const form = "write oracle://user:password@host:1521/service, with special characters in the password escaped " +
	"(%40 for @)"

// Open makes the pool for a DSN such as oracle://user:password@host:1521/service. For several addresses, failover and
// the other things that a connect descriptor of tnsnames.ora can say, it is
// oracle://user:password@/?connStr=(DESCRIPTION=...) with the descriptor URL-escaped; see "Local Naming Parameters in
// the tnsnames.ora File" in the Database Net Services Reference. Its parameters are pool_max_conns (16 by default) and
// those of go-ora's that cannot change what statements mean.
func Open(_ context.Context, dsn string, password dialect.Password) (dialect.Pool, error) {
	text, conns, err := config(dsn, password)
	if err != nil {
		return dialect.Pool{}, err
	}
	c := &connector{dsn: text, password: password}
	return kit.NewPool(c, c, conns, 0), nil
}

// unusable returns dialect.ErrDSN with the reason.
func unusable(format string, args ...any) error {
	return fmt.Errorf("%w: %w", dialect.ErrDSN, fmt.Errorf(format, args...))
}

// config reads a DSN and writes go-ora's.
func config(dsn string, password dialect.Password) (text string, conns int, err error) {
	d, err := dialect.ParseDSN(dsn)
	if err != nil {
		return "", 0, err
	}
	out := url.URL{Scheme: "oracle", Host: ":0", Path: "/"} // as go-ora's BuildJDBC writes it for a descriptor
	described := d.Params.Get(descriptor)
	if described == "" {
		out.Path += d.Database
		out.Host, err = address(d)
	} else {
		d.Params.Del(descriptor)
		err = checkDescriptor(d, described)
	}
	if err != nil {
		return "", 0, err
	}
	if conns, err = kit.TakeConns(d); err != nil {
		return "", 0, err
	}
	options, err := parameters(d.Params)
	switch {
	case err != nil:
		return "", 0, err
	case described == "" && d.Database == "" && options.Get("SID") == "":
		return "", 0, unusable("it names no service: %s", form)
	case (d.User == "" || d.Password == "" && password == nil) && options.Get("AUTH TYPE") == "" &&
		options.Get("WALLET") == "":
		return "", 0, unusable("it names no user or no password: write user:password before the @, " +
			"or set AUTH TYPE or WALLET")
	case described != "":
		options.Set(descriptor, described)
	}
	out.RawQuery = options.Encode()
	if described == "" && options.Get("WALLET") == "" { // go-ora reads a wallet's files when it parses
		out.User = url.UserPassword("user", "password") // what it finds wrong is not with these
		if _, err := driver.ParseConfig(out.String()); err != nil {
			return "", 0, unusable("%w", err)
		}
	}
	out.User = nil
	if d.User != "" || d.HasPassword {
		out.User = url.UserPassword(d.User, d.Password)
	}
	return out.String(), conns, nil
}

// address returns the host and the port of a DSN.
func address(d dialect.DSN) (string, error) {
	if d.Hosts == "" || strings.Contains(d.Hosts, ",") {
		return "", unusable("it names no host, or several: %s", form)
	}
	host, port, err := dialect.SplitHost(d.Hosts, "1521")
	if err != nil {
		return "", unusable("the host or the port is not one: %s", form)
	}
	return net.JoinHostPort(host, port), nil
}

// checkDescriptor refuses what is no connect descriptor, and a DSN that says the same beside it.
func checkDescriptor(d dialect.DSN, described string) error {
	if d.Hosts != "" || d.Database != "" {
		return unusable("the connect descriptor names the host and the service: "+
			"write oracle://user:password@/?%s=(DESCRIPTION=...), escaped", descriptor)
	}
	flat := strings.ToUpper(strings.Join(strings.Fields(described), ""))
	if !strings.HasPrefix(flat, "(DESCRIPTION") || !strings.Contains(flat, "(HOST=") {
		return unusable("%s is no connect descriptor: "+
			"write (DESCRIPTION=(ADDRESS=(PROTOCOL=TCP)(HOST=...)(PORT=1521))(CONNECT_DATA=...))", descriptor)
	}
	return nil
}

// parameters returns go-ora's options, which are spelled in any case, with spaces.
func parameters(query url.Values) (url.Values, error) {
	forDriver := url.Values{}
	for name, values := range query {
		known := strings.ToUpper(strings.ReplaceAll(name, "_", " "))
		switch {
		case slices.Contains(passed, known) && !forDriver.Has(known):
			forDriver[known] = values
		default:
			return nil, unusable("the parameter %q is not one that dbq leaves to you, or is there twice; "+
				"known are pool_max_conns, %s", name, strings.Join(passed, ", "))
		}
	}
	return forDriver, nil
}

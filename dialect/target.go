package dialect

import (
	"encoding"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"unicode"
)

// Target is where a DSN leads. It is all of a DSN that dbq prints: it has no user, password or option, so nothing in it
// has to be masked. The zero Target is unknown.
type Target struct {
	Scheme   string // in lower case, such as "postgres"
	Hosts    string // host, host:port, or several of these with commas between; empty for a file and a local socket
	Database string // a database, a service, or SQLite's file
}

var _ encoding.TextMarshaler = Target{}

// TargetOf returns where a DSN leads: as much of it as can be told apart from what may be secret, for a DSN that is not
// understood nothing at all.
func TargetOf(dsn string) Target {
	if scheme, rest, _ := strings.Cut(dsn, ":"); strings.ToLower(scheme) == "sqlite" {
		path, _, _ := strings.Cut(strings.TrimPrefix(rest, "//"), "?")
		if misplacedUser(rest) {
			path = ""
		}
		return Target{Scheme: "sqlite", Database: path}
	}
	if d, err := ParseDSN(dsn); err == nil {
		return d.withParams()
	}
	if scheme, _ := schemeOf(dsn); homes[scheme] != "" {
		return Target{Scheme: scheme}
	}
	return Target{}
}

// withParams is the target with what parameters say of it, as PostgreSQL's may: ?host=one&port=5432&dbname=app.
func (d DSN) withParams() Target {
	t := d.Target
	if host := d.Params.Get("host"); t.Hosts == "" && host != "" {
		if port := d.Params.Get("port"); port != "" {
			host += ":" + port
		}
		if validHosts(host) {
			t.Hosts = host
		}
	}
	if name := d.Params.Get("dbname"); name != "" && !strings.ContainsFunc(name, unicode.IsControl) {
		t.Database = name
	}
	return t
}

// misplacedUser reports whether a SQLite DSN has what looks like a user before a host: it was meant for a server. A
// relative path with an @ in it can be written without the slashes.
func misplacedUser(rest string) bool {
	return strings.HasPrefix(rest, "//") && !strings.HasPrefix(rest, "///") && strings.Contains(rest, "@")
}

// String formats the target as a DSN without secrets, such as postgres://db.example:5432/app or sqlite:queue.db.
func (t Target) String() string {
	switch {
	case t == Target{}:
		return "unknown database"
	case t.Scheme == "sqlite":
		return "sqlite:" + t.Database
	case t.Hosts == "" && t.Database == "":
		return t.Scheme
	}
	out := t.Scheme + "://" + t.Hosts
	if t.Database != "" {
		out += "/" + url.PathEscape(t.Database)
	}
	return out
}

// MarshalText is String, for JSON.
func (t Target) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// DSN is a DSN taken apart, as in scheme://user:password@host:port,host:port/database?name=value. It prints as its
// Target.
type DSN struct {
	Target
	User     string
	Password string
	// HasPassword tells an empty password from none.
	HasPassword bool
	Params      url.Values
}

// Format prints the target whatever the verb, so that a password does not slip into a log by %+v.
func (d DSN) Format(f fmt.State, _ rune) { fmt.Fprint(f, d.Target.String()) }

// LogValue logs the target.
func (d DSN) LogValue() slog.Value { return slog.StringValue(d.Target.String()) }

// MarshalText is the target's, for JSON.
func (d DSN) MarshalText() ([]byte, error) { return d.Target.MarshalText() }

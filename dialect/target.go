package dialect

import (
	"encoding"
	"fmt"
	"log/slog"
	"net/url"
)

// Target has the hosts and the database of a DSN. It is the only part of a DSN that dbq prints: it has no user,
// password or option, so nothing needs to be masked. The zero Target means unknown.
type Target struct {
	Scheme   string // in lower case, such as "postgres"
	Hosts    string // host, host:port, or several of these with commas between; empty for a file and a local socket
	Database string // a database, a service, or a file
}

var _ encoding.TextMarshaler = Target{}

// String formats the target as a DSN without secrets, such as postgres://db.example:5432/app or sqlite:queue.db.
func (t Target) String() string {
	drv, _ := Lookup(t.Scheme)
	switch {
	case t == Target{}:
		return "unknown database"
	case drv.File:
		return t.Scheme + ":" + t.Database
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

// DSN is a parsed DSN, as in scheme://user:password@host:port,host:port/database?name=value. It prints as its Target.
type DSN struct {
	Target
	User     string
	Password string
	// HasPassword distinguishes an empty password from none.
	HasPassword bool
	Params      url.Values
}

// Format prints the target for every verb, so no password gets into a log by %+v.
func (d DSN) Format(f fmt.State, _ rune) { fmt.Fprint(f, d.Target.String()) }

// LogValue logs the target.
func (d DSN) LogValue() slog.Value { return slog.StringValue(d.Target.String()) }

// MarshalText is the target's, for JSON.
func (d DSN) MarshalText() ([]byte, error) { return d.Target.MarshalText() }

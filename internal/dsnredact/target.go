package dsnredact

import (
	"maps"
	"strings"
	"unicode"

	"github.com/dbq-go/dbq/dialect"
)

// TargetOf returns the target of a DSN, without any part that may be secret. Of a DSN that is not understood it returns
// the scheme at most, and that only if a driver is registered for it.
func TargetOf(dsn string) dialect.Target {
	drv, unknown := dialect.Lookup(dsn)
	scheme := dialect.SchemeOf(dsn)
	if drv.File {
		_, rest, _ := strings.Cut(dsn, ":")
		path, _, _ := strings.Cut(strings.TrimPrefix(rest, "//"), "?")
		if misplacedUser(rest) {
			path = ""
		}
		return dialect.Target{Scheme: scheme, Database: path}
	}
	d, err := dialect.ParseDSN(dsn)
	switch {
	case err == nil && drv.Target != nil:
		return shown(drv, d)
	case err == nil:
		return d.Target
	case unknown == nil:
		return dialect.Target{Scheme: scheme}
	}
	return dialect.Target{}
}

// misplacedUser reports whether a file's DSN seems to have a user before a host: it was meant for a server. A relative
// path with an @ in it can be written without the slashes.
func misplacedUser(rest string) bool {
	return strings.HasPrefix(rest, "//") && !strings.HasPrefix(rest, "///") && strings.Contains(rest, "@")
}

// shown is the target by the driver's own rule, which gets nothing that is secret. What is no host or no name is left
// as the DSN has it.
func shown(drv dialect.Driver, d dialect.DSN) dialect.Target {
	plain := d.Target
	d.User, d.Password = "", ""
	maps.DeleteFunc(d.Params, func(name string, _ []string) bool { return secretName.MatchString(name) })
	t := drv.Target(d)
	for node := range strings.SplitSeq(t.Hosts, ",") {
		if _, _, err := dialect.SplitHost(node, ""); err != nil {
			t.Hosts = plain.Hosts
			break
		}
	}
	if strings.ContainsFunc(t.Database, unicode.IsControl) {
		t.Database = plain.Database
	}
	t.Scheme = plain.Scheme
	return t
}

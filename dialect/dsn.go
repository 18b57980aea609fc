package dialect

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

// dsnError is an error in a DSN. Its text has only the DSN's scheme.
type dsnError struct{ scheme, why string }

func (e *dsnError) Error() string {
	return fmt.Sprintf(
		"%v: %s: write %s://user:password@host:port/database, with special characters in the user and the password escaped "+
			"(%%40 for @, %%2F for /)",
		ErrDSN,
		e.why,
		e.scheme,
	)
}

// ShowsNoDSN marks an error that contains no part of the DSN, so it needs no redaction.
func (e *dsnError) ShowsNoDSN() {}

// Is reports that it is ErrDSN.
func (e *dsnError) Is(err error) bool { return err == ErrDSN }

var (
	hostName  = regexp.MustCompile(`^[\p{L}\p{N}_](?:[\p{L}\p{N}_.-]*[\p{L}\p{N}_.])?$`)
	hostIPv6  = regexp.MustCompile(`^\[[0-9a-fA-F:.]+(?:%25[A-Za-z0-9_.-]+)?\]$`)
	paramName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_. -]{0,62}$`)
)

// ParseDSN takes a DSN apart that is written like a URL, or for PostgreSQL as libpq's keywords and values. In a URL the
// user and the password end at the last @ before the path. It refuses a DSN that can be read in two ways if one of them
// would show part of a password as a host, a database or a parameter. Every error is ErrDSN and contains only the DSN's
// scheme.
func ParseDSN(dsn string) (DSN, error) {
	dsn = fromKeywords(dsn)
	scheme := SchemeOf(dsn)
	if scheme == "" {
		return DSN{}, &dsnError{"scheme", "it does not begin with a scheme"}
	}
	refuse := func(why string) (DSN, error) {
		if _, err := Lookup(scheme); err != nil { // in app:password@tcp(host) it is the user
			return DSN{}, &dsnError{"scheme", why}
		}
		return DSN{}, &dsnError{scheme, why}
	}
	rest, ok := strings.CutPrefix(dsn[len(scheme)+1:], "//")
	if !ok {
		return refuse("the // after the scheme is missing")
	}
	if strings.Contains(rest, "#") {
		return refuse("it has a # that is not escaped (%23)")
	}
	rest, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	if strings.Contains(path, "@") {
		return refuse("it has an @ in its path")
	}
	if at := strings.LastIndex(query, "@"); at >= 0 && strings.Contains(query[at:], "/") {
		return refuse("it has an @ and a / behind a ?")
	}
	d := DSN{Target: Target{Scheme: scheme}}
	hosts := authority
	if at := strings.LastIndex(authority, "@"); at >= 0 {
		hosts = authority[at+1:]
		if err := d.setUser(authority[:at]); err != nil {
			return refuse("a % in the user or the password is not part of an escape")
		}
	}
	if !validHosts(hosts) {
		return refuse("the host or the port is not one")
	}
	d.Hosts = hosts
	var err error
	if d.Database, err = url.PathUnescape(strings.Trim(path, "/")); err != nil ||
		strings.ContainsFunc(d.Database, unicode.IsControl) {
		return refuse("the database's name cannot be read")
	}
	if d.Params, err = url.ParseQuery(query); err != nil {
		return refuse("the parameters cannot be read")
	}
	for param := range strings.SplitSeq(query, "&") {
		if param != "" && !strings.Contains(param, "=") {
			return refuse("a parameter has no value")
		}
	}
	for name := range d.Params {
		if !paramName.MatchString(name) {
			return refuse("a parameter has no proper name")
		}
	}
	return d, nil
}

// setUser reads the part before the @.
func (d *DSN) setUser(text string) (err error) {
	user, password, has := strings.Cut(text, ":")
	if d.User, err = url.PathUnescape(user); err != nil {
		return err
	}
	d.HasPassword = has
	d.Password, err = url.PathUnescape(password)
	return err
}

func validHosts(hosts string) bool {
	if hosts == "" {
		return true
	}
	for node := range strings.SplitSeq(hosts, ",") {
		if _, _, err := SplitHost(node, ""); err != nil {
			return false
		}
	}
	return true
}

var errHost = errors.New("not a host")

// SplitHost splits host:port or [address]:port of a DSN, without the brackets. port is the default if there is none.
// The error does not contain the text.
func SplitHost(node, port string) (host, _ string, err error) {
	host = node
	if i := strings.LastIndex(node, ":"); i > strings.LastIndex(node, "]") {
		host, port = node[:i], node[i+1:]
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || port[0] == '+' {
			return "", "", errHost
		}
	}
	switch {
	case hostName.MatchString(host):
		return host, port, nil
	case hostIPv6.MatchString(host):
		return strings.Replace(host[1:len(host)-1], "%25", "%", 1), port, nil
	}
	return "", "", errHost
}

// SchemeOf returns the scheme of a DSN in lower case, or "" if it does not begin with one. libpq's keywords and values
// have the scheme postgres.
func SchemeOf(dsn string) string {
	scheme, _, found := strings.Cut(fromKeywords(dsn), ":")
	if scheme = strings.ToLower(scheme); !found || !isScheme(scheme) {
		return ""
	}
	return scheme
}

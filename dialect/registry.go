package dialect

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
)

var (
	// ErrUnknownScheme is returned by Lookup for a DSN whose scheme no imported dialect has. Its text names the schemes
	// that are there.
	ErrUnknownScheme = errors.New("unknown DSN scheme")
	// ErrDSN is returned by Open for a DSN that is malformed or that the dialect refuses. Its text describes what to
	// change.
	ErrDSN = errors.New("unusable DSN")
	// ErrServer is returned by Probe for a server that cannot be used as it is configured: it is too old, read-only, or
	// has a setting that the dialect cannot work with. Its text describes what to change.
	ErrServer = errors.New("unusable server")
	// ErrNoDatabase is returned by a new connection if the server has no database with the name in the DSN; see
	// kit.NoDatabase.
	ErrNoDatabase = errors.New("the database does not exist")
)

var registry struct {
	sync.RWMutex
	drivers map[string]Driver
}

// Register registers a driver under its schemes; dialects call it from init. It panics on an incomplete driver and on
// a scheme that is taken, because both are programming errors.
func Register(d Driver) {
	if d.Dialect == nil || d.Open == nil || len(d.Schemes) == 0 {
		panic("dialect: Register of an incomplete driver")
	}
	registry.Lock()
	defer registry.Unlock()
	if registry.drivers == nil {
		registry.drivers = map[string]Driver{}
	}
	for _, scheme := range d.Schemes {
		if _, taken := registry.drivers[scheme]; taken {
			panic("dialect: Register of scheme " + scheme + ", which is taken")
		}
		registry.drivers[scheme] = d
	}
}

// Schemes lists the registered schemes, sorted.
func Schemes() []string {
	registry.RLock()
	defer registry.RUnlock()
	var out []string
	for scheme := range registry.drivers {
		out = append(out, scheme)
	}
	slices.Sort(out)
	return out
}

// Lookup returns the driver for a DSN, or for a bare scheme such as "postgres". If there is none, it returns
// ErrUnknownScheme.
func Lookup(dsn string) (Driver, error) {
	scheme, rest, _ := strings.Cut(fromKeywords(dsn), ":")
	scheme = strings.ToLower(scheme)
	registry.RLock()
	d, ok := registry.drivers[scheme]
	registry.RUnlock()
	if ok {
		return d, nil
	}
	if !isScheme(scheme) || !strings.HasPrefix(rest, "//") {
		// The text before the colon may be a user name, a password or a path: do not print it.
		return Driver{}, fmt.Errorf("%w: the DSN does not begin with one; use one of %s, followed by a colon",
			ErrUnknownScheme, strings.Join(Schemes(), ", "))
	}
	return Driver{}, fmt.Errorf("%w %q: use one of %s (a dialect is registered by importing it)",
		ErrUnknownScheme, scheme, strings.Join(Schemes(), ", "))
}

func isScheme(s string) bool {
	for _, r := range s {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '+' && r != '-' {
			return false
		}
	}
	return s != ""
}

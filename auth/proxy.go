package auth

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Rule gives rights to users that a proxy or an identity provider has authenticated. It matches a user by name, a
// member of a group or, with neither, every user.
type Rule struct {
	User  string `json:"user,omitempty" yaml:"user"`
	Group string `json:"group,omitempty" yaml:"group"`

	Role      Role     `json:"role" yaml:"role"`
	Queues    []string `json:"queues,omitempty" yaml:"queues"`
	Databases []string `json:"databases,omitempty" yaml:"databases"`
	Payloads  bool     `json:"payloads,omitempty" yaml:"payloads"`
}

// Rules are tried in order. A user that matches none of them is refused.
type Rules []Rule

// Principal returns the principal that the first matching rule gives a user, or Refused if none matches.
func (rs Rules) Principal(user string, groups []string) (Principal, error) {
	if !validName(user) || strings.HasPrefix(user, tokenName) {
		return Principal{}, Refused()
	}
	for _, r := range rs {
		if (r.User == "" || r.User == user) && (r.Group == "" || slices.Contains(groups, r.Group)) {
			return Principal{Name: user, Role: r.Role, Queues: r.Queues, Databases: r.Databases, Payloads: r.Payloads}, nil
		}
	}
	return Principal{}, Refused()
}

// Check refuses rules without a role.
func (rs Rules) Check() error {
	for i, r := range rs {
		if !slices.Contains(roles, r.Role) {
			return fmt.Errorf("rule %d: the role must be "+roleNames, i+1)
		}
	}
	if len(rs) == 0 {
		return errors.New("there are no rules; add at least one with a role")
	}
	return nil
}

// maxName is the maximum number of characters in the name of a principal, which the audit keeps.
const maxName = 200

func validName(name string) bool {
	return name != "" && utf8.ValidString(name) && utf8.RuneCountInString(name) <= maxName &&
		!strings.ContainsFunc(name, unicode.IsControl)
}

// Proxy trusts the name of a user whom a proxy has authenticated, in a header of the request. The proxy must remove
// these headers from its clients' requests. Requests from addresses outside From are not trusted.
type Proxy struct {
	// From are the addresses of the proxies, such as 10.1.2.3/32.
	From []netip.Prefix `json:"from" yaml:"from"`
	// UserHeader has the user's name, and GroupsHeader, which may be "", the groups, separated by commas.
	UserHeader   string `json:"user_header" yaml:"user_header"`
	GroupsHeader string `json:"groups_header,omitempty" yaml:"groups_header"`
	Rules        Rules  `json:"rules" yaml:"rules"`
}

// Check refuses a Proxy that could not authenticate any user.
func (p Proxy) Check() error {
	switch {
	case len(p.From) == 0:
		return errors.New("proxy: list the proxies' addresses in from")
	case p.UserHeader == "":
		return errors.New("proxy: name the header with the user in user_header")
	}
	if err := p.Rules.Check(); err != nil {
		return fmt.Errorf("proxy: %w", err)
	}
	return nil
}

// Authenticate implements Authenticator. It refuses a request with a duplicate header: one may be the client's own.
func (p Proxy) Authenticate(r *http.Request) (Principal, error) {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	trusted := func(prefix netip.Prefix) bool { return prefix.Contains(from.Addr().Unmap()) }
	if err != nil || !slices.ContainsFunc(p.From, trusted) {
		return Principal{}, ErrUnauthenticated
	}
	users := r.Header.Values(p.UserHeader)
	var groups []string
	if p.GroupsHeader != "" {
		groups = r.Header.Values(p.GroupsHeader)
	}
	switch {
	case len(users) == 0:
		return Principal{}, ErrUnauthenticated
	case len(users) > 1 || len(groups) > 1:
		return Principal{}, Refused()
	}
	if len(groups) == 1 {
		groups = strings.Split(groups[0], ",")
	}
	for i := range groups {
		groups[i] = strings.TrimSpace(groups[i])
	}
	return p.Rules.Principal(strings.TrimSpace(users[0]), groups)
}

package auth_test

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/dbq-go/dbq/auth"
)

// FuzzProxy sends any address and headers: only the proxy's own address names a user, and only by the rules.
func FuzzProxy(f *testing.F) {
	from := netip.MustParsePrefix("10.1.0.0/16")
	p := auth.Proxy{From: []netip.Prefix{from}, UserHeader: "X-User", GroupsHeader: "X-Groups", Rules: auth.Rules{
		{Group: "ops", Role: auth.Operator}, {User: "ann", Role: auth.Admin},
	}}
	f.Add("10.1.2.3:1234", "ann", "")
	f.Add("[::ffff:10.1.2.3]:1", "bob", "dev, ops")
	f.Add("192.0.2.1:80", "ann", "ops")
	f.Fuzz(func(t *testing.T, remote, user, groups string) {
		r := &http.Request{RemoteAddr: remote, Header: http.Header{"X-User": {user}, "X-Groups": {groups}}}
		got, err := p.Authenticate(r)
		if err != nil {
			return
		}
		at, bad := netip.ParseAddrPort(remote)
		if bad != nil || !from.Contains(at.Addr().Unmap()) || got.Name != strings.TrimSpace(user) ||
			got.Role == auth.Admin && got.Name != "ann" ||
			got.Role == auth.Operator && !strings.Contains(groups, "ops") {
			t.Errorf("%q, %q of %q: %+v", remote, user, groups, got)
		}
	})
}

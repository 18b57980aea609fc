package auth

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// Loopback accepts requests from this machine without credentials, as an Admin who sees payloads. Both ends of the
// connection must be loopback addresses, the Host header must be localhost or a loopback address, and there must be
// no header of a forwarding proxy. So a page in a browser cannot reach it by DNS rebinding. A proxy on this machine
// that adds no such header, as nginx by default, does make its clients local: do not run one in front. Loopback does
// not accept a request with an Authorization header, so that a Chain can check that header.
type Loopback struct{}

// forwarding are headers that proxies add.
var forwarding = []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip", "Via"}

// Authenticate implements Authenticator.
func (Loopback) Authenticate(r *http.Request) (Principal, error) {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if local == nil || !isLoopback(local.String()) || !isLoopback(r.RemoteAddr) || !isLocalHost(r.Host) {
		return Principal{}, ErrUnauthenticated
	}
	if _, ok := r.Header["Authorization"]; ok {
		return Principal{}, ErrUnauthenticated
	}
	for _, name := range forwarding {
		if _, ok := r.Header[name]; ok {
			return Principal{}, ErrUnauthenticated
		}
	}
	return Principal{Name: "loopback", Role: Admin, Payloads: true}, nil
}

// isLoopback reports whether an address with a port is of this machine.
func isLoopback(address string) bool {
	a, err := netip.ParseAddrPort(address)
	return err == nil && a.Addr().Unmap().IsLoopback()
}

// isLocalHost reports whether a Host header names this machine itself.
func isLocalHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	a, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && a.Unmap().IsLoopback()
}

package bridge

import (
	"fmt"
	"net/netip"
	"slices"
	"syscall"
)

// refused are the addresses that requests do not go to, unless Endpoint.Networks has them, in addition to those that
// are private, loopback, link-local (as are the metadata services of most clouds), multicast or unspecified.
var refused = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("100.64.0.0/10"),    // carriers, and Alibaba Cloud's metadata
	netip.MustParsePrefix("168.63.129.16/32"), // Azure's platform
	netip.MustParsePrefix("192.0.0.0/24"),     // protocol assignments, and Oracle Cloud's metadata
	netip.MustParsePrefix("192.0.2.0/24"),
	netip.MustParsePrefix("192.88.99.0/24"), // relays of 6to4
	netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("198.51.100.0/24"),
	netip.MustParsePrefix("203.0.113.0/24"),
	netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("::/96"), // an address of IPv4 in one of IPv6, as are the next four
	netip.MustParsePrefix("::ffff:0:0:0/96"),
	netip.MustParsePrefix("64:ff9b::/96"), // NAT64
	netip.MustParsePrefix("64:ff9b:1::/48"),
	netip.MustParsePrefix("2002::/16"), // 6to4
	netip.MustParsePrefix("2001::/23"), // Teredo and other assignments of protocols
	netip.MustParsePrefix("100::/64"),  // discarded
	netip.MustParsePrefix("2001:db8::/32"),
	netip.MustParsePrefix("3fff::/20"), // documentation, as the one before
	netip.MustParsePrefix("5f00::/16"), // segment routing
	netip.MustParsePrefix("fec0::/10"), // site-local
}

// isPublic reports whether an address is public on the internet.
func isPublic(a netip.Addr) bool {
	return a.IsGlobalUnicast() && !a.IsPrivate() &&
		!slices.ContainsFunc(refused, func(p netip.Prefix) bool { return p.Contains(a) })
}

// control returns a function for net.Dialer.Control. It refuses the addresses that are neither public nor in networks.
// It is called after the name has been resolved, so no response of a DNS server gets around it.
func control(networks []netip.Prefix) func(network, address string, c syscall.RawConn) error {
	return func(network, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil || network != "tcp4" && network != "tcp6" {
			return fmt.Errorf("refused: %s %s is not an address of TCP", network, address)
		}
		a := to.Addr().Unmap().WithZone("")
		if isPublic(a) || slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(a) }) {
			return nil
		}
		return fmt.Errorf("refused: the address %s is not public; allow it with Endpoint.Networks", a)
	}
}

package auth

import (
	"hash/maphash"
	"net/netip"

	"golang.org/x/time/rate"
)

// The rate at which tokens are checked that were not accepted before, for each group of addresses.
const (
	unknownRate   = 50 // per second
	unknownBurst  = 200
	addressGroups = 64
)

// addressLimits limits the requests of callers' addresses, in groups, so that it takes little memory whatever addresses
// there are. A flood from one address leaves the other groups alone. It is safe for concurrent use.
type addressLimits struct {
	seed   maphash.Seed // secret: a caller cannot choose the group of another
	groups []*rate.Limiter
}

func newAddressLimits() addressLimits {
	l := addressLimits{maphash.MakeSeed(), make([]*rate.Limiter, addressGroups)}
	for i := range l.groups {
		l.groups[i] = rate.NewLimiter(unknownRate, unknownBurst)
	}
	return l
}

// allow counts a request of an address with a port, and reports whether its group is within the limit. A network of
// IPv6 that one caller usually has, a /64, counts as one address.
func (l addressLimits) allow(remote string) bool {
	if a, err := netip.ParseAddrPort(remote); err == nil {
		address, bits := a.Addr().Unmap(), 32
		if address.Is6() {
			bits = 64
		}
		network, _ := address.WithZone("").Prefix(bits) // it fits
		remote = network.String()
	}
	return l.groups[maphash.String(l.seed, remote)%addressGroups].Allow()
}

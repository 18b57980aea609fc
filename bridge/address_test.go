package bridge

import (
	"net/netip"
	"strings"
	"testing"
)

func TestOnlyPublicAddressesAreDialed(t *testing.T) {
	t.Parallel()
	none := control(nil)
	own := control([]netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("::1/128")})
	for _, address := range []string{
		"127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1", "0.0.0.0", "0.1.2.3", "::", "10.0.0.1", "172.16.0.1",
		"192.168.1.1", "169.254.169.254", "::ffff:169.254.169.254", "fe80::1", "fe80::1%eth0", "fd00:ec2::254",
		"100.100.100.200", "100.64.0.1", "168.63.129.16", "192.0.0.192", "198.18.0.1",
		"224.0.0.1", "255.255.255.255", "240.0.0.1", "ff02::1",
		"64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::", "2001::1", "::127.0.0.1", "fec0::1", "2001:db8::1",
		"::ffff:0:a00:1", "::ffff:0:7f00:1", "3fff::1", "3fff:fff::1", "5f00::1", "100::1", "192.88.99.1",
	} {
		if err := none("tcp4", netip.AddrPortFrom(netip.MustParseAddr(address), 443).String(), nil); err == nil {
			t.Errorf("%s is dialed", address)
		}
	}
	for _, address := range []string{"8.8.8.8", "93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946"} {
		if err := none("tcp6", netip.AddrPortFrom(netip.MustParseAddr(address), 443).String(), nil); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
	for address, ok := range map[string]bool{
		"10.1.2.3:80": true, "[::ffff:10.1.2.3]:80": true, "10.2.0.1:80": false, "[::1]:80": true, "127.0.0.1:80": false,
		"localhost:80": false, "": false,
	} {
		if err := own("tcp4", address, nil); (err == nil) != ok {
			t.Errorf("%s: %v", address, err)
		}
	}
	if err := own("unix", "10.1.2.3:80", nil); err == nil || !strings.Contains(err.Error(), "TCP") {
		t.Errorf("unix: %v", err)
	}
}

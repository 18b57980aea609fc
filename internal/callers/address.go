package callers

import (
	"net"
	"net/http"
)

// Address returns the address that a request comes from, without its port.
func Address(r *http.Request) string {
	address, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return address
}

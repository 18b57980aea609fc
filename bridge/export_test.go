package bridge

import (
	"sync/atomic"
	"time"
)

// Sign is the signature of a sender, for tests of the receiver.
var Sign = sign

// SetClock makes the time of a Forwarder a number of nanoseconds after the present.
func SetClock(f *Forwarder) *atomic.Int64 {
	var ahead atomic.Int64
	f.now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	return &ahead
}

// Fill makes a Receiver as busy as MaxRequests allows.
func Fill(r *Receiver) {
	for range cap(r.running) {
		r.running <- struct{}{}
	}
}

package proxy

import (
	"fmt"
	"regexp"
	"time"
)

// A Rule is the moment at which a proxy cuts, and how. It applies once. Exactly one of AtByte, AtRequest and AtText is
// set.
type Rule struct {
	AtByte     int64          // cut when this many more bytes have gone to the server
	AtRequest  int            // cut at this request, counted from 1
	AtText     *regexp.Regexp // cut at the request that contains this
	After      int            // with AtText: cut this many requests of that connection later
	LoseAnswer bool           // let the request through and cut at its answer, which the client does not get
	KeepBytes  int            // this many bytes of the answer still reach the client
	StayDown   bool           // refuse new connections after the cut, until Heal
	Stall      bool           // let nothing pass from the request on, instead of cutting
	Delay      time.Duration  // cut the client off at once, and let the request reach the server this much later,
	Arrived    chan struct{}  // which closes this
}

// String describes the rule for messages.
func (r Rule) String() string {
	what := "request"
	if r.LoseAnswer {
		what = fmt.Sprintf("the answer, but for %d bytes, to request", r.KeepBytes)
	}
	switch {
	case r.AtText != nil && r.After > 0:
		what += fmt.Sprintf(" %d after one with %v", r.After, r.AtText)
	case r.AtText != nil:
		what += fmt.Sprintf(" with %v", r.AtText)
	case r.AtByte > 0:
		what = fmt.Sprintf("%d bytes", r.AtByte)
	default:
		what += fmt.Sprintf(" %d", r.AtRequest)
	}
	if r.Delay > 0 {
		what += fmt.Sprintf(", which arrives %v later", r.Delay)
	}
	if r.StayDown {
		what += ", server gone from then on"
	}
	return what
}

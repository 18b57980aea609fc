package dialect

import "fmt"

// LapsesPerAttempt is how many lapses in a row count as an attempt. It keeps a task whose leases always expire before
// the handler starts from being handed out forever.
//
// When a lease expires, its attempt counts if the row is marked as started, by CheckoutRequest.StartsAtOnce or
// Statements.Start. Otherwise the expiry is a lapse, and the attempt does not count.
const LapsesPerAttempt = 100

// The SQL expressions of a takeover; see Names.Filler. A row's attempt counts if counts is true. Lapses start again
// at zero when they have counted as an attempt.
var (
	counts      = fmt.Sprintf("(known_started = 1 OR lapses >= %d)", LapsesPerAttempt-1)
	exhausted   = "attempt >= max_attempts AND " + counts
	nextAttempt = "attempt + CASE WHEN " + counts + " THEN 1 ELSE 0 END"
	nextLapses  = fmt.Sprintf(
		"CASE WHEN known_started = 1 THEN lapses WHEN lapses >= %d THEN 0 ELSE lapses + 1 END", LapsesPerAttempt-1)
)

// TakeOver does the same as {exhausted}, {next_attempt} and {next_lapses} of Names.Filler, for a dialect that decides
// row by row. It reports whether a row whose lease expired has no attempt left. Otherwise it changes the row's
// attempt and lapses.
func (r *Row) TakeOver() (exhausted bool) {
	counts := r.KnownStarted == 1 || r.Lapses >= LapsesPerAttempt-1
	r.WasAttempt = r.Attempt
	if counts && r.Attempt >= r.MaxAttempts {
		return true
	}
	switch {
	case r.KnownStarted == 1:
	case counts:
		r.Lapses = 0
	default:
		r.Lapses++
	}
	if counts {
		r.Attempt++
	}
	return false
}

// KnownStarted returns :known_started, the value that a checkout writes into that column: 1 if its caller starts each
// task immediately.
func (r CheckoutRequest) KnownStarted() int64 {
	if r.StartsAtOnce {
		return 1
	}
	return 0
}

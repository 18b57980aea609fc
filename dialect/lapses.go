package dialect

import "fmt"

// LapsesPerAttempt is how many lapses in a row count as an attempt. It keeps a task whose leases always expire before
// the handler starts from being handed out forever.
//
// When a lease expires, its attempt counts if the row is marked as started, by CheckoutRequest.KnownStarted or
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

package search

import (
	"math/rand/v2"

	"github.com/dbq-go/dbq/dialect"
)

const (
	// Windows is the number of candidates that the strategy cas reads, in multiples of the checkout's limit, to find
	// some that no other checkout is leasing.
	Windows = 4
	// Rounds limits how often a checkout retries after others leased all its candidates.
	Rounds = 8
)

// Window returns limit of the candidates: in round 0 the first ones, in order, and later a random range, so that
// workers do not compete for the same rows again.
func Window(seen []dialect.Row, round, limit int) []dialect.Row {
	if spare := len(seen) - limit; round > 0 && spare > 0 {
		seen = seen[rand.IntN(spare+1):]
	}
	return seen[:min(limit, len(seen))]
}

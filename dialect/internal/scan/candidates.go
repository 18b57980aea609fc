package scan

import (
	"math/rand/v2"

	"github.com/dbq-go/dbq/dialect"
)

const (
	// Windows is how many checkouts' worth of candidates the strategy cas reads, to find some that nobody else is taking.
	Windows = 4
	// Rounds bounds how often a checkout tries again after others took all it tried.
	Rounds = 8
)

// Window returns limit of the candidates that were seen: the first, in order, in round 0, and then a random run, so
// that workers do not race for the same rows again.
func Window(seen []dialect.Row, round, limit int) []dialect.Row {
	if spare := len(seen) - limit; round > 0 && spare > 0 {
		seen = seen[rand.IntN(spare+1):]
	}
	return seen[:min(limit, len(seen))]
}

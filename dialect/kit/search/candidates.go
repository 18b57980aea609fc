package search

import (
	"math/rand/v2"
	"slices"

	"github.com/dbq-go/dbq/dialect"
	"github.com/google/uuid"
)

const (
	// windows is the number of candidates that the strategy cas reads, in multiples of the checkout's limit, to find
	// some that no other checkout is leasing.
	windows = 4
	// Rounds limits how often a checkout chooses again after others leased or locked all its candidates.
	Rounds = 8
)

// Candidates chooses what a checkout with the strategy cas tries to lease. It begins with the first candidates, in
// order. If others have leased or locked these, it goes on with a random range of the next ones, so that workers do not
// compete for the same rows again, and tries no task twice. The zero value is ready for use.
type Candidates struct {
	again  bool // a later round
	missed map[uuid.UUID]bool
}

// Read returns how many candidates to read for up to limit tasks.
func (c *Candidates) Read(limit int) int {
	if !c.again {
		return limit
	}
	return limit*windows + len(c.missed)
}

// Choose returns up to limit of the candidates seen.
func (c *Candidates) Choose(seen []dialect.Row, limit int) []dialect.Row {
	seen = slices.DeleteFunc(seen, func(row dialect.Row) bool { return c.missed[row.ID] })
	if spare := len(seen) - limit; c.again && spare > 0 {
		seen = seen[rand.IntN(spare+1):]
	}
	return seen[:min(limit, len(seen))]
}

// Leased ends the choice of some candidates, of which rows were leased. It reports whether others have leased or locked
// some of them.
func (c *Candidates) Leased(chosen, rows []dialect.Row) (missed bool) {
	if len(rows) == len(chosen) {
		return false
	}
	c.again = true
	if c.missed == nil {
		c.missed = map[uuid.UUID]bool{}
	}
	leased := make(map[uuid.UUID]bool, len(rows))
	for _, row := range rows {
		leased[row.ID] = true
	}
	for _, row := range chosen {
		if !leased[row.ID] {
			c.missed[row.ID] = true
		}
	}
	return true
}

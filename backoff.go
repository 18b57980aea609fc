package dbq

import (
	"math/rand/v2"
	"time"
)

var defaultBackoff = Exponential(time.Second, time.Hour)

// Exponential returns a backoff that starts with first and doubles after each attempt, up to most. A random reduction
// of each pause by up to a quarter keeps tasks that failed together from being retried together.
func Exponential(first, most time.Duration) func(attempt int) time.Duration {
	return func(attempt int) time.Duration {
		d := most
		if shift := max(attempt-1, 0); shift < 40 && first <= most>>shift {
			d = first << shift
		}
		if d <= 0 {
			return 0
		}
		return d - rand.N(d/4+1)
	}
}

package worker

import (
	"math/rand/v2"
	"time"
)

// Exponential is a backoff that doubles from first (after the first attempt) up to most, each time less a random part of up to a
// fourth, so that tasks that failed together are not retried together.
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

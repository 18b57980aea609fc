package dbq

import (
	"math/rand/v2"
	"time"
)

// DefaultBackoff is the pause after a failed attempt unless the worker has another Backoff: attempt⁴ seconds, at most
// two days, less a random part of up to a tenth. So the DefaultMaxAttempts attempts of a task that always fails are
// spread over about six days: the first retries help with a brief fault within seconds, and the last one comes after a
// weekend.
func DefaultBackoff(attempt int) time.Duration {
	const most = 48 * time.Hour
	n := time.Duration(min(max(attempt, 1), 100)) // more would overflow
	return shortened(min(n*n*n*n*time.Second, most), 10)
}

// Exponential returns a backoff that starts with first and doubles after each attempt, up to most. A random reduction
// of each pause by up to a quarter keeps tasks that failed together from being retried together.
func Exponential(first, most time.Duration) func(attempt int) time.Duration {
	return func(attempt int) time.Duration {
		d := most
		if shift := max(attempt-1, 0); shift < 40 && first <= most>>shift {
			d = first << shift
		}
		return shortened(d, 4)
	}
}

// shortened returns d less a random part of up to 1/part of it.
func shortened(d, part time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return d - rand.N(d/part+1)
}

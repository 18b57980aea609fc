package dbq_test

import (
	"testing"
	"time"

	"github.com/dbq-go/dbq"
)

func TestExponentialGrowsToItsBoundAndNeverBeyond(t *testing.T) {
	t.Parallel()
	b := dbq.Exponential(time.Second, time.Hour)
	for attempt := range 100 {
		d, most := b(attempt), min(time.Second<<min(max(attempt-1, 0), 12), time.Hour)
		if d < most*3/4-1 || d > most {
			t.Errorf("attempt %d waits %v, want between three fourths of %v and all of it", attempt, d, most)
		}
	}
}

// Ten attempts in eight minutes sent a task to POISON in any outage of a night.
func TestDefaultAttemptsLastForAWeekend(t *testing.T) {
	t.Parallel()
	var all, most time.Duration
	for attempt := 1; attempt < dbq.DefaultMaxAttempts; attempt++ {
		d := dbq.DefaultBackoff(attempt)
		all, most = all+d, max(most, d)
	}
	if days := all.Hours() / 24; days < 5.5 || days > 6.6 || most > 48*time.Hour {
		t.Errorf("the attempts take %.1f days, with pauses of up to %v", days, most)
	}
	if first := dbq.DefaultBackoff(1); first < 900*time.Millisecond || first > time.Second {
		t.Errorf("the first pause is %v", first)
	}
	for _, attempt := range []int{-1, 0, 1000, 1 << 40} {
		if d := dbq.DefaultBackoff(attempt); d <= 0 || d > 48*time.Hour {
			t.Errorf("the pause after attempt %d is %v", attempt, d)
		}
	}
}

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

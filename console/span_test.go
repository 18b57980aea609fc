package console

import (
	"testing"
	"time"

	"github.com/dbq-go/dbq/admin"
)

// TestSpansIncludeTheStepThatHasNotEnded checks that what happened a minute ago is in every span.
func TestSpansIncludeTheStepThatHasNotEnded(t *testing.T) {
	t.Parallel()
	hour := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	for _, s := range spans {
		for _, minute := range []int{0, 1, 14, 15, 29, 59} {
			now := hour.Add(time.Duration(minute)*time.Minute + 30*time.Second)
			from, to := s.around(now)
			if got := now.Sub(to); got != 30*time.Second {
				t.Errorf("%s at %v ends %v ago, want with the last complete minute", s.Name, now, got)
			}
			if !from.Equal(from.Truncate(s.period)) || to.Sub(from) < s.over || to.Sub(from) >= s.over+s.period {
				t.Errorf("%s at %v begins at %v and ends at %v", s.Name, now, from, to)
			}
			page, last := series{Span: s, to: to}, to.Add(-time.Second).Truncate(s.period)
			if page.Partial(admin.Point{At: last}) != !to.Equal(to.Truncate(s.period)) ||
				page.Partial(admin.Point{At: last.Add(-s.period)}) {
				t.Errorf("%s at %v: the wrong periods are partial", s.Name, now)
			}
		}
	}
}

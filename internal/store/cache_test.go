package store

import (
	"fmt"
	"testing"
	"time"
)

func TestExpiredSearchesAreBounded(t *testing.T) {
	t.Parallel()
	var e expiredSearches
	now := time.Now()
	for i := range 3 * maxCached {
		if !e.due(fmt.Sprint(i), now) {
			t.Fatalf("queue %d was searched before", i)
		}
		if len(e.last.all) > maxCached {
			t.Fatalf("%d queues are remembered", len(e.last.all))
		}
	}
}

func TestExpiredSearchesAreDueOnceInAWhile(t *testing.T) {
	t.Parallel()
	var e expiredSearches
	now := time.Now()
	for _, step := range []struct {
		after time.Duration
		due   bool
	}{{0, true}, {expiredEvery - 1, false}, {expiredEvery, true}, {expiredEvery + 1, false}} {
		if got := e.due("q", now.Add(step.after)); got != step.due {
			t.Errorf("after %v a search is due: %v, want %v", step.after, got, step.due)
		}
	}
	e.again("q")
	if !e.due("q", now.Add(expiredEvery+1)) {
		t.Error("a search that found as many as it asked for is not followed by another")
	}
}

func TestCheckoutLimitsFollowThePayloads(t *testing.T) {
	t.Parallel()
	var l checkoutLimits
	const n = 100
	for i, step := range []struct {
		limit, rows int
		cut, more   bool
	}{
		{100, 100, false, false}, // all fitted
		{100, 3, true, true},     // cut: twice as many next time
		{6, 6, false, true},      // all of these fitted: there may be more
		{12, 5, false, false},    // all there was
		{100, 0, false, false},
	} {
		limit := l.of("q", n)
		if limit != step.limit {
			t.Fatalf("step %d: a checkout asks for %d tasks, want %d", i, limit, step.limit)
		}
		if more := l.learn("q", n, limit, step.rows, step.cut); more != step.more {
			t.Fatalf("step %d: more is %v, want %v", i, more, step.more)
		}
	}
}

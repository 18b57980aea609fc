package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/dbq-go/dbq/state"
	"github.com/google/uuid"
)

func TestSweepsAreBounded(t *testing.T) {
	t.Parallel()
	var s sweeps
	for i := range 2 * maxCached {
		s.begin(sweepKey{fmt.Sprint(i), state.Completed, false}, time.Hour)
	}
	if len(s.at.all) != maxCached {
		t.Errorf("%d cursors are remembered, want %d", len(s.at.all), maxCached)
	}
}

func TestNextID(t *testing.T) {
	t.Parallel()
	for from, to := range map[uuid.UUID]uuid.UUID{{}: {15: 1}, {15: 255}: {14: 1}, {14: 1, 15: 255}: {14: 2}} {
		if got := nextID(from); got != to {
			t.Errorf("behind %v is %v, want %v", from, got, to)
		}
	}
}

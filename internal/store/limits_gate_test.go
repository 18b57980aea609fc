package store

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestGateLetsFewCheckoutsIn(t *testing.T) {
	t.Parallel()
	var gate checkoutGate
	var leave []func()
	for range checkoutsAtOnce {
		l, err := gate.enter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		leave = append(leave, l)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := gate.enter(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("one beyond the bound: %v", err)
	}
	leave[0]()
	if _, err := gate.enter(t.Context()); err != nil {
		t.Errorf("after one has ended: %v", err)
	}
}

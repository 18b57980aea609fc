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
		chosen, l, err := gate.enter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		chosen()
		leave = append(leave, l)
	}
	mustNotEnter(t, &gate, "one beyond the bound")
	leave[0]()
	if _, _, err := gate.enter(t.Context()); err != nil {
		t.Errorf("after one has ended: %v", err)
	}
}

func TestGateLetsACheckoutInWhenTheOneBeforeHasChosen(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(chosen, leave func()){
		"has chosen":           func(chosen, _ func()) { chosen() },
		"has ended":            func(_, leave func()) { leave() },
		"has chosen and ended": func(chosen, leave func()) { chosen(); leave() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var gate checkoutGate
			chosen, leave, err := gate.enter(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			mustNotEnter(t, &gate, "before")
			end(chosen, leave)
			if _, _, err := gate.enter(t.Context()); err != nil {
				t.Errorf("after: %v", err)
			}
			mustNotEnter(t, &gate, "while the next one chooses")
		})
	}
}

// mustNotEnter fails the test if the gate lets a checkout in.
func mustNotEnter(t *testing.T, gate *checkoutGate, when string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, _, err := gate.enter(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%s: got %v, want %v", when, err, context.DeadlineExceeded)
	}
}

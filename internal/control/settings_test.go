package control

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/dbq-go/dbq/internal/bounds"
	"github.com/dbq-go/dbq/internal/duration"
	"github.com/dbq-go/dbq/internal/errs"
	"github.com/dbq-go/dbq/internal/store"
)

func TestSettingsAreStoredAsFlatJSON(t *testing.T) {
	t.Parallel()
	set := Settings{
		Concurrency: 20,
		Lease:       duration.Seconds(90 * time.Second),
		KeepPoison:  duration.Seconds(duration.Forever), Archive: true,
	}
	b, err := json.Marshal(set)
	want := `{"concurrency":20,"lease_seconds":90,"keep_poison_seconds":-1,"archive":true}`
	if err != nil || string(b) != want {
		t.Errorf("got %s, %v, want %s", b, err, want)
	}
	if got, err := parseSettings(store.Record{Value: string(b)}); err != nil || got != set {
		t.Errorf("parsed as %+v, %v", got, err)
	}
	if b, err := json.Marshal(Settings{}); err != nil || string(b) != "{}" {
		t.Errorf("no settings are %s, %v", b, err)
	}
	for _, value := range []string{"", "[]", `{"poll_seconds":"soon"}`, `{"max_checkout":"5"}`} {
		if got, err := parseSettings(store.Record{Value: value}); err == nil || got != (Settings{}) {
			t.Errorf("%q is parsed as %+v, %v, want an error", value, got, err)
		}
	}
}

func TestSettingsAreChecked(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what string
		set  Settings
		want error
	}{
		{"nothing", Settings{}, nil},
		{"the largest", Settings{Concurrency: bounds.MaxCheckout, MaxCheckout: bounds.MaxCheckout,
			Poll: duration.Seconds(bounds.MaxLease), Lease: duration.Seconds(bounds.MaxLease),
			MaxAttempts: bounds.MaxMaxAttempts, History: "none",
			KeepCompleted: duration.Seconds(bounds.MaxDelay), KeepParked: duration.Seconds(duration.Forever)}, nil},
		{"concurrency", Settings{Concurrency: bounds.MaxCheckout + 1}, errs.ErrOption},
		{"max checkout", Settings{MaxCheckout: -1}, errs.ErrOption},
		{"poll", Settings{Poll: duration.Seconds(bounds.MaxLease) + 1}, errs.ErrOption},
		{"lease", Settings{Lease: duration.Seconds(bounds.MaxLease) + 1}, errs.ErrLeaseTime},
		{"attempts", Settings{MaxAttempts: bounds.MaxMaxAttempts + 1}, errs.ErrMaxAttempts},
		{"history", Settings{History: "some"}, errs.ErrOption},
		{"its own dead-letter queue", Settings{DeadLetter: "q"}, errs.ErrOption},
		{"dead-letter queue", Settings{DeadLetter: "\x00"}, errs.ErrQueueName},
		{"dead-letter queue with a lease", Settings{Lease: 1, DeadLetter: "alerts"}, errs.ErrLeaseTime},
		{"another dead-letter queue", Settings{DeadLetter: "alerts"}, nil},
		{"retention", Settings{KeepAttempts: duration.Seconds(bounds.MaxDelay) + 1}, errs.ErrOption},
		{"retention with a lease", Settings{Lease: duration.Seconds(time.Hour), KeepPoison: -1},
			errs.ErrOption},
	} {
		if err := c.set.Check("q"); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.what, err, c.want)
		}
	}
}

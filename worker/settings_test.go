package worker

import (
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/internal/control"
	"github.com/dbq-go/dbq/internal/duration"
)

func TestOperatorsSettingsOverrideTheWorkers(t *testing.T) {
	t.Parallel()
	w := Worker{Concurrency: 1, MaxCheckout: 20, BatchSize: 3, MaxAttempts: 4, Lease: time.Minute,
		Tuning:  Tuning{PollMin: time.Second, PollMax: 5 * time.Second},
		History: dbq.HistoryAll, Retention: dbq.Retention{Completed: 6, Poison: 7}}
	own := settings{concurrency: 1, maxCheckout: 20, maxAttempts: 4, lease: time.Minute, pollMax: 5 * time.Second,
		history: dbq.HistoryAll, retention: dbq.Retention{Completed: 6, Poison: 7}}
	if got := *resolve(&w, control.Settings{}); got != own {
		t.Errorf("without settings, %+v", got)
	}
	set := control.Settings{Concurrency: 10, MaxCheckout: 200, MaxAttempts: 40, Lease: duration.Seconds(time.Hour),
		Poll: duration.Seconds(time.Minute), History: "none",
		KeepPoison: 70, KeepParked: 80, Archive: true}
	want := settings{concurrency: 10, maxCheckout: 200, maxAttempts: 40, lease: time.Hour, pollMax: time.Minute,
		history: dbq.HistoryNone, retention: dbq.Retention{Completed: 6, Poison: 70, Parked: 80, Archive: true}}
	if got := *resolve(&w, set); got != want {
		t.Errorf("with settings, %+v", got)
	}
	// Some would make the worker fail.
	least := duration.Seconds(time.Millisecond)
	set = control.Settings{MaxCheckout: 1, Lease: least, Poll: least}
	if got := resolve(&w, set); got.maxCheckout != w.BatchSize || got.lease != minLease || got.pollMax != w.PollMin {
		t.Errorf("with settings that are too small, %+v", got)
	}
}

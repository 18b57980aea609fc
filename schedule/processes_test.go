package schedule_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/schedule"
)

// TestReconcileOfTwoVersions: two versions of a program that start at the same time delete none of the schedules that
// they declare both, and in the end, each has its own.
func TestReconcileOfTwoVersions(t *testing.T) {
	f := newFixture(t)
	hourly := func(name string) schedule.Schedule {
		return schedule.Schedule{Name: name, Every: time.Hour, Queue: "q"}
	}
	for range 50 {
		var both sync.WaitGroup
		for _, own := range []string{"old", "new"} {
			both.Go(func() {
				if err := f.s.Reconcile(t.Context(), "app", hourly("both"), hourly(own)); err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
		all, err := f.s.List(t.Context())
		f.must(err)
		if len(all) < 2 || all[0].Name != "both" {
			t.Fatalf("schedules %v", all)
		}
	}
	f.must(f.s.Reconcile(t.Context(), "app", hourly("both"), hourly("new")))
	if _, err := f.s.Get(t.Context(), "old"); !errors.Is(err, dbq.ErrNotFound) {
		t.Errorf("of the old version: %v", err)
	}
}

// TestReconcileOfTwoOwners: of two owners that declare a schedule at the same time, one gets it.
func TestReconcileOfTwoOwners(t *testing.T) {
	f := newFixture(t)
	for round := range 50 {
		name := fmt.Sprint("s", round)
		var both sync.WaitGroup
		var errs [2]error
		for k, owner := range []string{"a", "b"} {
			both.Go(func() {
				errs[k] = f.s.Reconcile(t.Context(), owner, schedule.Schedule{Name: name, Every: time.Hour, Queue: "q"})
			})
		}
		both.Wait()
		if (errs[0] == nil) == (errs[1] == nil) || !errors.Is(errors.Join(errs[0], errs[1]), schedule.ErrDefinition) {
			t.Fatalf("the owners got %v and %v; it belongs to %q", errs[0], errs[1], f.get(name).Owner)
		}
	}
}

// TestScheduledTaskHasItsKey: a schedule of a queue with limits per key.
func TestScheduledTaskHasItsKey(t *testing.T) {
	f := newFixture(t)
	f.put(schedule.Schedule{Name: "s", Every: time.Hour, Task: dbq.NewTask{Key: "ann"}})
	f.after(time.Hour)
	_, err := f.s.RunNow(t.Context(), "s")
	f.must(err)
	f.wantTasks(2)
	for _, task := range f.tasks() {
		if task.Key != "ann" {
			t.Errorf("the task has the key %q", task.Key)
		}
	}
}

package schedule_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/schedule"
	"github.com/google/uuid"
)

// runNow runs schedule s.
func (f fixture) runNow() uuid.UUID {
	f.Helper()
	id, err := f.s.RunNow(f.Context(), "s")
	f.must(err)
	return id
}

// cancel ends a task.
func (f fixture) cancel(id uuid.UUID) {
	f.Helper()
	f.must(admin.New(f.db.Client).Operate(f.Context(), admin.Cancel, id))
}

// TestNoOverlapSeesEachTaskOfRunNow: a time is skipped until the tasks of RunNow have all ended, and so has the task of
// the earlier time, in whatever order they end.
func TestNoOverlapSeesEachTaskOfRunNow(t *testing.T) {
	f := newFixture(t)
	f.put(schedule.Schedule{Name: "s", Every: time.Hour, NoOverlap: true})
	f.after(time.Hour)
	ids := []uuid.UUID{f.get("s").LastTaskID, f.runNow(), f.runNow(), f.runNow()}
	for _, next := range []int{1, 3, 0, 2} {
		f.after(time.Hour)
		f.wantTasks(4)
		if problem := f.get("s").Problem; !strings.Contains(problem, "has not ended") {
			t.Errorf("before task %d has ended, the problem is %q", next, problem)
		}
		f.cancel(ids[next])
	}
	if i := f.get("s"); !strings.Contains(i.Problem, ids[2].String()) || i.LastTaskID != ids[0] {
		t.Errorf("the problem is %q and the last task %s, want %s and %s", i.Problem, i.LastTaskID, ids[2], ids[0])
	}
	f.after(time.Hour)
	f.wantTasks(5)
	if i := f.get("s"); i.Problem != "" {
		t.Errorf("the problem is %q", i.Problem)
	}
}

// TestNoOverlapOfManyRuns: tasks of RunNow that have ended leave room for those that have not.
func TestNoOverlapOfManyRuns(t *testing.T) {
	f := newFixture(t)
	f.put(schedule.Schedule{Name: "s", Every: time.Hour, NoOverlap: true})
	first := f.runNow()
	for range 12 {
		f.cancel(f.runNow())
	}
	f.after(time.Hour)
	f.wantTasks(13)
	if i := f.get("s"); !strings.Contains(i.Problem, first.String()) {
		t.Errorf("the problem is %q, want task %s", i.Problem, first)
	}
	f.cancel(first)
	f.after(time.Hour)
	f.wantTasks(14)
}

// TestNoOverlapAfterAnEdit: what RunNow enqueued counts also if the schedule has NoOverlap only since then.
func TestNoOverlapAfterAnEdit(t *testing.T) {
	f := newFixture(t)
	f.put(schedule.Schedule{Name: "s", Every: time.Hour})
	f.runNow()
	f.after(time.Hour)
	f.wantTasks(2) // without NoOverlap, both run
	f.cancel(f.get("s").LastTaskID)
	f.put(schedule.Schedule{Name: "s", Every: time.Hour, NoOverlap: true})
	f.after(time.Hour)
	f.wantTasks(2)
}

// TestRunNowBesideOthers: calls of RunNow and edits of the same schedule at the same time are all made, and none
// overwrites what another has stored.
func TestRunNowBesideOthers(t *testing.T) {
	f := newFixture(t)
	const rounds, clients = 10, 4
	for round := range rounds {
		d := schedule.Schedule{Name: fmt.Sprint("s", round), Every: time.Hour, NoOverlap: true}
		f.put(d)
		ids := make([]uuid.UUID, clients)
		var all sync.WaitGroup
		for k := range clients {
			all.Go(func() {
				var err error
				if ids[k], err = f.s.RunNow(t.Context(), d.Name); err != nil {
					t.Error(err)
				}
			})
		}
		all.Go(func() {
			if err := f.s.Pause(t.Context(), d.Name); err != nil {
				t.Error(err)
			}
		})
		all.Wait()
		runs, err := f.s.Runs(t.Context(), d.Name)
		f.must(err)
		slices.SortFunc(runs, compareIDs)
		slices.SortFunc(ids, compareIDs)
		if !slices.Equal(runs, ids) || !f.get(d.Name).Paused {
			t.Errorf("the schedule has the tasks %v, want %v, and is paused: %v", runs, ids, f.get(d.Name).Paused)
		}
	}
	f.wantTasks(rounds * clients)
	if _, err := f.s.RunNow(t.Context(), "none"); !errors.Is(err, dbq.ErrNotFound) {
		t.Errorf("a schedule that does not exist: %v", err)
	}
}

func compareIDs(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) }

// TestRunNowOfTheLargestSchedule: a schedule that Put accepts can be run and paused, with long texts.
func TestRunNowOfTheLargestSchedule(t *testing.T) {
	f := newFixture(t)
	d := schedule.Schedule{Name: "s", Every: time.Hour, Queue: "q", NoOverlap: true}
	for size := 2900; ; size-- {
		d.Task.Payload = make([]byte, size)
		if f.s.Reconcile(t.Context(), strings.Repeat("o", schedule.MaxName), d) == nil {
			break
		}
	}
	for range 7 {
		f.runNow()
	}
	f.must(f.s.Pause(t.Context(), "s", schedule.By(strings.Repeat("b", 200)),
		schedule.Reason(strings.Repeat("r", schedule.MaxReason))))
	f.runNow()
	f.must(f.s.Resume(t.Context(), "s"))
	f.after(time.Hour)
	f.wantTasks(8)
	if i := f.get("s"); !strings.Contains(i.Problem, "has not ended") {
		t.Errorf("the problem is %q", i.Problem)
	}
}

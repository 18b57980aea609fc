package schedule_test

import (
	"errors"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/schedule"
)

// TestLargestPayloadFires: a schedule that Put accepts fires.
func TestLargestPayloadFires(t *testing.T) {
	f := newFixture(t)
	size := 2900
	for ; ; size-- { // the largest payload that Put accepts
		err := f.s.Put(t.Context(), schedule.Schedule{Name: "s", Every: time.Hour, Queue: "q",
			Task: dbq.NewTask{Payload: make([]byte, size)}})
		if err == nil {
			break
		}
	}
	t.Log("payload", size)
	for range 3 {
		f.db.Advance(time.Hour)
		if err := f.s.Fire(t.Context()); err != nil {
			t.Error(err)
		}
	}
	f.wantTasks(3)
}

// TestNoOverlapOfAnEndedTask: a task that was cancelled, removed or archived does not hold back the next one, whatever
// else waits in a paused queue.
func TestNoOverlapOfAnEndedTask(t *testing.T) {
	for name, end := range map[string]func(f fixture, a *admin.Admin, task dbq.Task) error{
		"cancelled": func(f fixture, a *admin.Admin, task dbq.Task) error {
			return a.Operate(f.Context(), admin.Cancel, task.ID)
		},
		"removed": func(f fixture, a *admin.Admin, task dbq.Task) error {
			return errors.Join(a.Operate(f.Context(), admin.Cancel, task.ID), a.Operate(f.Context(), admin.Purge, task.ID))
		},
		"archived": func(f fixture, a *admin.Admin, task dbq.Task) error {
			err := a.Operate(f.Context(), admin.Cancel, task.ID)
			f.db.Advance(time.Minute)
			done, cleanErr := a.Clean(f.Context(), "q", dbq.Retention{Cancelled: time.Second, Archive: true})
			if done.Tasks != 1 {
				f.Errorf("cleaned %+v", done)
			}
			return errors.Join(err, cleanErr)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			a := admin.New(f.db.Client)
			f.put(schedule.Schedule{Name: "s", Every: time.Hour, NoOverlap: true})
			f.must(a.PauseQueue(t.Context(), "q"))
			f.after(time.Hour)
			f.after(time.Hour)
			f.wantTasks(1)
			first := f.tasks()[0]
			f.must(end(f, a, first))
			f.after(time.Hour)
			if i := f.get("s"); i.LastTaskID == first.ID || i.Problem != "" {
				t.Errorf("the next time has no task: %+v", i)
			}
		})
	}
}

// TestScheduleOfAPausedQueue: the schedule fires and its tasks wait, whatever CatchUp is; with NoOverlap one waits.
func TestScheduleOfAPausedQueue(t *testing.T) {
	for name, d := range map[string]schedule.Schedule{
		"each time waits": {CatchUp: schedule.SkipMissed}, "NoOverlap": {NoOverlap: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			a := admin.New(f.db.Client)
			d.Name, d.Every = "s", time.Hour
			f.put(d)
			f.must(a.PauseQueue(t.Context(), "q"))
			for range 3 {
				f.after(time.Hour)
			}
			want, problem := 3, ""
			if d.NoOverlap {
				want, problem = 1, "the task of an earlier time has not ended"
			}
			f.wantTasks(want)
			if i := f.get("s"); i.Problem != problem || i.Paused || i.Next.Before(f.now()) {
				t.Errorf("the schedule is %+v", i)
			}
			for resumed, want := range []int{0, want} {
				tasks, err := f.db.Queue("q").Checkout(t.Context(), 10, time.Minute)
				f.must(err)
				if len(tasks) != want {
					t.Errorf("%d tasks start, want %d", len(tasks), want)
				}
				if resumed == 0 {
					f.must(a.ResumeQueue(t.Context(), "q"))
				}
			}
		})
	}
}

// TestCatchUpKeepsTheOrder: "at once and in their order".
func TestCatchUpKeepsTheOrder(t *testing.T) {
	f := newFixture(t)
	f.put(schedule.Schedule{Name: "s", Every: time.Hour, CatchUp: 3})
	f.after(3*time.Hour + time.Minute)
	f.wantTasks(3)
	tasks, err := f.db.Queue("q").Checkout(t.Context(), 3, time.Minute)
	f.must(err)
	last := ""
	for _, task := range tasks {
		at := task.Headers[schedule.HeaderTime]
		if at < last {
			t.Errorf("%s is handed out after %s", at, last)
		}
		last = at
	}
}

// TestRunNowHasNoJitter: RunNow enqueues the task at once.
func TestRunNowHasNoJitter(t *testing.T) {
	f := newFixture(t)
	f.put(schedule.Schedule{Name: "s", Every: 48 * time.Hour, Jitter: 24 * time.Hour})
	id, err := f.s.RunNow(t.Context(), "s")
	f.must(err)
	task, err := f.db.Get(t.Context(), id)
	f.must(err)
	if wait := task.Due.Sub(f.now()); wait > time.Minute {
		t.Errorf("the task is due in %s", wait)
	}
}

// TestTakenReferenceBecomesLastTaskID: the reference of a time is taken, as when the database's clock was set back and
// the schedule was deleted and put again: LastTaskID is the task that exists, so that NoOverlap holds.
func TestTakenReferenceBecomesLastTaskID(t *testing.T) {
	f := newFixture(t)
	f.put(schedule.Schedule{Name: "s", Cron: "0 * * * *", NoOverlap: true})
	next := f.get("s").Next
	reference := "schedule:s:" + next.Format(time.RFC3339Nano)
	id, err := f.db.Queue("q").Enqueue(t.Context(), dbq.NewTask{Reference: reference})
	f.must(err)
	f.after(time.Hour)
	if i := f.get("s"); i.LastTaskID != id {
		_, err := f.db.Get(t.Context(), i.LastTaskID)
		t.Errorf("LastTaskID is %s, Get of it: %v; the task of the time is %s", i.LastTaskID, err, id)
	}
	f.after(time.Hour)
	if n := len(f.tasks()); n != 1 {
		t.Errorf("%d tasks: NoOverlap did not see that the first has not ended", n)
	}
}

// TestTimesOfTheLastMinuteAreNotMissed: a time is missed when it is more than a minute ago; others each enqueue one
// task.
func TestTimesOfTheLastMinuteAreNotMissed(t *testing.T) {
	f := newFixture(t)
	f.put(schedule.Schedule{Name: "s", Every: time.Second})
	f.after(5 * time.Second) // a pause of the process, the five seconds of maxPause after another process's Put
	f.wantTasks(5)
}

// TestReconcileOfAPassedTime: a program that declares a single time starts after it passed.
func TestReconcileOfAPassedTime(t *testing.T) {
	f := newFixture(t)
	at := schedule.Schedule{Name: "once", At: f.now().Add(-time.Hour), Queue: "q"}
	z := schedule.Schedule{Name: "z", Every: time.Hour, Queue: "q"}
	if err := f.s.Reconcile(t.Context(), "app", at, z); err != nil {
		t.Error(err)
	}
	f.get("z")
}

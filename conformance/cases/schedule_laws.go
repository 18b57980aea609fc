package cases

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/schedule"
	"github.com/google/uuid"
)

// scheduleLaws are what a schedule does with its times.
func scheduleLaws() []Case {
	return inGroup("Schedules",
		Case{Name: "CatchUp", Once: true, run: scheduleCatchUp,
			Law: "Of the times that were missed, the latest that CatchUp allows are made up for, each with its own " +
				"time; times of the last minute always fire."},
		Case{Name: "NoOverlap", Once: true, run: scheduleNoOverlap,
			Law: "With NoOverlap, a time is skipped, and the reason is stored, while the task of an earlier time " +
				"waits, runs or retries; the next time after its end fires."},
		Case{Name: "NoOverlapOfRuns", Once: true, run: scheduleNoOverlapOfRuns,
			Law: "With NoOverlap, a time is skipped until all tasks of RunNow have ended, though many clients run and " +
				"edit the schedule at once."},
		Case{Name: "PauseAndResume", Once: true, run: schedulePause,
			Law: "A paused schedule does not fire, stays paused when it is put again, and skips the times of the " +
				"pause when it is resumed."},
		Case{Name: "RunNow", Once: true, run: scheduleRunNow,
			Law: "RunNow enqueues the schedule's task with all of its fields and no reference, paused or not, and " +
				"does not change the schedule's times."},
		Case{Name: "SingleTime", Once: true, run: scheduleSingleTime,
			Law: "A schedule for a single time fires once, however many clients run it, also if the time was missed, " +
				"and never again."},
		Case{Name: "Reconcile", Once: true, run: scheduleReconcile,
			Law: "Reconcile makes the given schedules the only ones of an owner. It leaves those of others, pauses " +
				"and next times as they are, and of two owners that declare one name, one gets it."},
		Case{Name: "FireIsCut", Once: true, run: scheduleFireIsCut,
			Law: "Whichever request of a fire is lost, or its answer, each time has one task, and the schedule has " +
				"moved to its next time."},
		Case{Name: "FireOfADeadProcess", Once: true, run: scheduleFireDies,
			Law: "If the process dies at any request of a fire, another one fires, each time has one task, and the " +
				"schedule has moved to its next time."},
	)
}

func scheduleCatchUp(t *test) {
	const missed = 5
	c := t.open()
	s := schedule.New(c)
	wants := map[int]int{schedule.SkipMissed: 0, 0: 1, 1: 1, 3: 3, missed: missed, schedule.MaxCatchUp: missed}
	first := map[string]time.Time{}
	nameOf := func(catchUp int) string { return fmt.Sprint("up to ", catchUp) }
	for catchUp := range wants {
		name := nameOf(catchUp)
		t.putSchedule(s, schedule.Schedule{Name: name, Every: time.Hour, CatchUp: catchUp})
		t.setBack(c, name, missed*time.Hour+30*time.Minute)
		first[name] = t.schedule(s, name).Next
	}
	// Its times are 30 and 5 seconds ago: neither is missed.
	t.putSchedule(s, schedule.Schedule{Name: "late", Every: 25 * time.Second, CatchUp: schedule.SkipMissed})
	t.setBack(c, "late", 55*time.Second)
	late := t.schedule(s, "late").Next
	t.fireDue(c)
	for catchUp, want := range wants {
		name := nameOf(catchUp)
		i := t.schedule(s, name)
		all := hours(first[name], missed)
		t.wantTimes("after five missed times", c, name, all[missed-want:]...)
		if next := all[missed-1].Add(time.Hour); !i.Next.Equal(next) {
			t.Errorf("%s: the next time is %s, want %s", name, i.Next, next)
		}
		if fires := want > 0; fires != i.Last.Equal(all[missed-1]) || fires == i.Last.IsZero() || fires != (i.Problem == "") {
			t.Errorf("%s: the last time is %s, with the problem %q", name, i.Last, i.Problem)
		}
	}
	t.wantTimes("a little late", c, "late", late, late.Add(25*time.Second))
}

func scheduleNoOverlap(t *test) {
	c := t.open()
	s, q := schedule.New(c), c.Queue("s")
	t.putSchedule(s, schedule.Schedule{Name: "s", Every: time.Hour, NoOverlap: true, CatchUp: 3,
		Task: dbq.NewTask{MaxAttempts: 5}})
	t.setBack(c, "s", 3*time.Hour+time.Minute)
	t.fireDue(c)
	fired := t.schedule(s, "s")
	if n := t.count(c, "s"); n != 1 || fired.Problem != "" || fired.LastTask == uuid.Nil {
		t.Fatalf("of three missed times, %d have a task, want the last one: %+v", n, fired)
	}
	skips := func(while string) {
		t.setBack(c, "s", time.Hour+time.Second)
		t.fireDue(c)
		i := t.schedule(s, "s")
		if n := t.count(c, "s"); n != 1 || !strings.Contains(i.Problem, "earlier time") || i.LastTask != fired.LastTask {
			t.Fatalf("while the task %s, the next time has enqueued one: %d tasks, %+v", while, n, i)
		}
	}
	skips("waits")
	task := t.take(q, long)
	skips("runs")
	t.must(q.Settle(t.ctx, task.Lease, dbq.RetryIn(long, errBoom)))
	skips("waits for its retry")
	t.must(admin.New(c).Operate(t.ctx, admin.Reenqueue, task.ID))
	t.must(q.Complete(t.ctx, t.take(q, long).Lease, nil))
	t.setBack(c, "s", time.Hour+time.Second)
	t.fireDue(c)
	i := t.schedule(s, "s")
	if n := t.count(c, "s"); n != 2 || i.Problem != "" || i.LastTask == fired.LastTask {
		t.Errorf("after the task has ended, there are %d tasks, want 2: %+v", n, i)
	}
}

func scheduleNoOverlapOfRuns(t *test) {
	const clients = 4
	c := t.open()
	s := schedule.New(c)
	for round := range 5 {
		name := fmt.Sprint("s", round)
		t.putSchedule(s, schedule.Schedule{Name: name, Every: time.Hour, NoOverlap: true})
		ids := make([]uuid.UUID, clients)
		t.concurrently(clients+1, func(ctx context.Context, k int) {
			var err error
			if k < clients {
				ids[k], err = s.RunNow(ctx, name)
			} else {
				err = s.Put(ctx, schedule.Schedule{Name: name, Queue: name, Every: time.Hour, NoOverlap: true, CatchUp: 2})
			}
			if err != nil {
				t.Errorf("call %d: %v", k, err)
			}
		})
		if got := t.runsOf(c, name); !slices.Equal(got, sortedIDs(ids)) || t.schedule(s, name).CatchUp != 2 {
			t.Fatalf("%q has %v of the tasks %v: %+v", name, got, ids, t.schedule(s, name))
		}
		for k, id := range ids {
			t.setBack(c, name, time.Hour+time.Second)
			t.fireDue(c)
			i := t.schedule(s, name)
			if n := t.count(c, name); n != clients || !strings.Contains(i.Problem, "run by hand") {
				t.Fatalf("before task %d of RunNow has ended, a time has fired: %d tasks, %+v", k, n, i)
			}
			t.must(admin.New(c).Operate(t.ctx, admin.Cancel, id))
		}
		t.setBack(c, name, time.Hour+time.Second)
		t.fireDue(c)
		if n := t.count(c, name); n != clients+1 || t.schedule(s, name).Problem != "" {
			t.Errorf("after all have ended, there are %d tasks, want %d", n, clients+1)
		}
	}
}

func schedulePause(t *test) {
	c := t.open()
	s := schedule.New(c)
	d := schedule.Schedule{Name: "s", Every: time.Hour, CatchUp: 100}
	t.putSchedule(s, d)
	t.must(s.Pause(t.ctx, "s", schedule.By("ann"), schedule.Reason("too loud")))
	t.setBack(c, "s", 10*time.Hour+time.Minute)
	t.fireDue(c)
	d.CatchUp = 99
	t.putSchedule(s, d)
	t.fireDue(c)
	if i := t.schedule(s, "s"); t.count(c, "s") != 0 || !i.Paused || i.By != "ann" || !i.Next.IsZero() || i.CatchUp != 99 {
		t.Errorf("paused, it has %d tasks: %+v", t.count(c, "s"), i)
	}
	t.must(s.Resume(t.ctx, "s"))
	t.fireDue(c)
	i, now := t.schedule(s, "s"), t.now(c)
	if wait := i.Next.Sub(now); t.count(c, "s") != 0 || i.Paused || wait <= 0 || wait > time.Hour {
		t.Errorf("resumed, it has %d tasks, and fires in %s: %+v", t.count(c, "s"), wait, i)
	}
	t.setBack(c, "s", time.Hour+time.Second)
	next := t.schedule(s, "s").Next
	t.fireDue(c)
	t.wantTimes("after the pause", c, "s", next)
}

func scheduleRunNow(t *test) {
	c := t.open()
	s := schedule.New(c)
	d := schedule.Schedule{Name: "s", Every: time.Hour, Jitter: time.Hour, Task: dbq.NewTask{Kind: "k", Key: "ann",
		Payload: []byte("\x00p"), Priority: 3, MaxAttempts: 7, Delay: time.Minute, Headers: map[string]string{"ä": "ö"}}}
	t.putSchedule(s, d)
	for _, paused := range []bool{false, true} {
		if paused {
			t.must(s.Pause(t.ctx, "s"))
		}
		before := t.schedule(s, "s")
		id, err := s.RunNow(t.ctx, "s")
		t.must(err)
		task, i := t.get(c, id), t.schedule(s, "s")
		wait := task.Due.Sub(task.Created)
		if task.Kind != "k" || task.Key != "ann" || string(task.Payload) != "\x00p" || task.Priority != 3 ||
			task.MaxAttempts != 7 || task.Headers["ä"] != "ö" || task.Headers[schedule.HeaderName] != "s" ||
			task.Reference != "" || task.Queue != "s" || wait < time.Minute || wait > time.Minute+10*time.Second {
			t.Errorf("the task, due after %s, is %s", wait, show(task))
		}
		if before.Updated = i.Updated; fmt.Sprintf("%+v", before) != fmt.Sprintf("%+v", i) {
			t.Errorf("RunNow has changed the schedule:\nbefore %+v\nafter  %+v", before, i)
		}
	}
	if n := t.count(c, "s"); n != 2 {
		t.Errorf("there are %d tasks, want 2", n)
	}
	_, err := s.RunNow(t.ctx, "none")
	t.wantErr("RunNow of a schedule that does not exist", err, dbq.ErrNotFound)
}

func scheduleSingleTime(t *test) {
	c := t.open()
	s := schedule.New(c)
	at := t.now(c).Add(1200 * time.Millisecond).Truncate(time.Microsecond)
	t.putSchedule(s, schedule.Schedule{Name: "soon", At: at})
	t.concurrently(3, func(context.Context, int) {
		t.firing(schedule.New(c), func() bool { return t.schedule(s, "soon").Next.IsZero() })
	})
	for name, catchUp := range map[string]int{"missed": 0, "skipped": schedule.SkipMissed} {
		at := t.now(c).Add(time.Hour).Truncate(time.Microsecond)
		t.putSchedule(s, schedule.Schedule{Name: name, At: at, CatchUp: catchUp})
		t.setBack(c, name, 3*time.Hour)
	}
	missed := t.schedule(s, "missed").At
	for range 2 {
		t.fireDue(c)
	}
	t.wantTimes("a time that has come", c, "soon", at)
	t.wantTimes("a time that was missed", c, "missed", missed)
	t.wantTimes("a time that is to be skipped", c, "skipped")
	for name, problem := range map[string]bool{"soon": false, "missed": false, "skipped": true} {
		if i := t.schedule(s, name); !i.Next.IsZero() || (i.Problem != "") != problem {
			t.Errorf("%q fires again at %s, with the problem %q", name, i.Next, i.Problem)
		}
	}
	err := s.Put(t.ctx, schedule.Schedule{Name: "past", Queue: "q", At: t.now(c).Add(-time.Second)})
	t.wantErr("Put of a time that has passed", err, schedule.ErrDefinition)
}

func scheduleReconcile(t *test) {
	c := t.open()
	s := schedule.New(c)
	hourly := func(name string) schedule.Schedule {
		return schedule.Schedule{Name: name, Every: time.Hour, Queue: "q"}
	}
	wantNames := func(want string) {
		all, err := s.List(t.ctx)
		t.must(err)
		var names []string
		for _, i := range all {
			names = append(names, i.Name+" of "+i.Owner)
		}
		if got := strings.Join(names, ", "); got != want {
			t.Errorf("the schedules are %s, want %s", got, want)
		}
	}
	t.must(s.Put(t.ctx, hourly("by hand")))
	t.must(s.Reconcile(t.ctx, "app", hourly("a"), hourly("b"), hourly("c")))
	t.must(s.Reconcile(t.ctx, "other", hourly("o")))
	t.must(s.Pause(t.ctx, "b", schedule.By("ann")))
	b, cc := t.schedule(s, "b"), t.schedule(s, "c")
	changed := hourly("c")
	changed.Task.Kind = "new"
	t.must(s.Reconcile(t.ctx, "app", hourly("b"), changed, hourly("d")))
	wantNames("b of app, by hand of , c of app, d of app, o of other")
	if i := t.schedule(s, "b"); fmt.Sprintf("%+v", i) != fmt.Sprintf("%+v", b) {
		t.Errorf("Reconcile has changed %+v to %+v", b, i)
	}
	if i := t.schedule(s, "c"); i.Task.Kind != "new" || !i.Next.Equal(cc.Next) {
		t.Errorf("Reconcile has made %+v of %+v", i, cc)
	}
	for _, taken := range []string{"by hand", "o"} {
		t.wantErr("Reconcile of "+taken, s.Reconcile(t.ctx, "app", hourly(taken)), schedule.ErrDefinition)
	}
	t.must(s.Reconcile(t.ctx, "app"))
	wantNames("by hand of , o of other")
	for round := range 10 {
		name := fmt.Sprint("s", round)
		var errs [2]error
		t.concurrently(2, func(ctx context.Context, k int) {
			errs[k] = s.Reconcile(ctx, []string{"x", "y"}[k], hourly(name))
		})
		if (errs[0] == nil) == (errs[1] == nil) || !errors.Is(errors.Join(errs[:]...), schedule.ErrDefinition) {
			t.Errorf("the owners got %v and %v; %q belongs to %q", errs[0], errs[1], name, t.schedule(s, name).Owner)
		}
	}
}

package cases

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/conformance/internal/transcript"
	"github.com/dbq-go/dbq/schedule"
)

// scheduleCases are the schedules, which package schedule keeps in key/value records.
func scheduleCases() []Case {
	return inGroup("Schedules",
		Case{Name: "RoundTrip", Once: true, run: scheduleRoundTrip,
			Law: "Get and List return every field of a schedule as it was put, the schedules ordered by their names."},
		Case{Name: "FiresAndAdvancesAtOnce", Once: true, run: scheduleMovesOn,
			Law: "A schedule that fires enqueues its task and moves to its next time in one transaction."},
		Case{Name: "EachTimeOnce", Slow: true, Once: true, Alone: true, run: scheduleEachTimeOnce,
			Law: "Each time of a schedule enqueues one task, and none is missed, however many processes fire it and whenever " +
				"they are killed."},
	)
}

func scheduleRoundTrip(t *test) {
	s := schedule.New(t.open())
	at := time.Date(2099, 3, 29, 1, 59, 59, 123456000, time.UTC)
	want := []schedule.Schedule{
		{Name: "a 'schedule' of \"ours\"", Cron: "30 2 * * 1-5", Zone: "Europe/Berlin", Queue: "q", CatchUp: 7,
			NoOverlap: true, Jitter: time.Minute, Task: dbq.NewTask{Kind: "k", Key: "ö 'k'", Payload: []byte("\x00\xff"),
				Priority: 9, Delay: time.Second, MaxAttempts: 3, Headers: map[string]string{"ä": "ö"}}},
		{Name: "b", Every: time.Hour, Queue: "q", Task: dbq.NewTask{Payload: []byte{}}},
		{Name: "c", At: at, Queue: "q", CatchUp: schedule.SkipMissed},
	}
	for _, d := range slices.Backward(want) {
		t.must(s.Put(t.ctx, d))
	}
	got, err := schedule.New(t.open()).List(t.ctx)
	t.must(err)
	if len(got) != len(want) {
		t.Fatalf("%d schedules, want %d", len(got), len(want))
	}
	for i, d := range want {
		one, err := s.Get(t.ctx, d.Name)
		t.must(err)
		wanted, listed := fmt.Sprintf("%#v", d), fmt.Sprintf("%#v", got[i].Schedule)
		if found := fmt.Sprintf("%#v", one.Schedule); wanted != listed || wanted != found {
			t.Errorf("put  %s\nlist %s\nget  %s", wanted, listed, found)
		}
	}
	if !got[2].Next.Equal(at) {
		t.Errorf("the next time is %s, want %s", got[2].Next, at)
	}
	t.must(s.Pause(t.ctx, "c", schedule.By("ann"), schedule.Reason("why")))
	one, err := s.Get(t.ctx, "c")
	t.must(err)
	if !one.Paused || one.By != "ann" || one.Reason != "why" || !one.At.Equal(at) {
		t.Errorf("the paused schedule is %+v", one)
	}
	t.must(s.Delete(t.ctx, "c"))
	if _, err := s.Get(t.ctx, "c"); !errors.Is(err, dbq.ErrNotFound) {
		t.Errorf("the deleted schedule: %v", err)
	}
}

func scheduleMovesOn(t *test) {
	c := t.open()
	s := schedule.New(c)
	t.must(s.Put(t.ctx, schedule.Schedule{Name: "s", Every: time.Second, Queue: "q"}))
	first, err := s.Get(t.ctx, "s")
	t.must(err)
	ctx, stop := context.WithCancel(t.ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.eventually("the schedule fires", func() bool {
		i, err := s.Get(t.ctx, "s")
		t.must(err)
		return !i.Last.IsZero()
	})
	stop()
	t.must(<-ended)
	i, err := s.Get(t.ctx, "s")
	t.must(err)
	task := t.get(c, i.LastTask)
	if want := "schedule:s:" + i.Last.Format(time.RFC3339Nano); task.Reference != want {
		t.Errorf("the task's reference is %q, want %q", task.Reference, want)
	}
	if (i.Last.Sub(first.Next))%time.Second != 0 || !i.Next.After(i.Last) || (i.Next.Sub(i.Last))%time.Second != 0 {
		t.Errorf("it fired for %s and comes next at %s; the first time was %s", i.Last, i.Next, first.Next)
	}
}

// scheduleEachTimeOnce lets processes fire schedules of three queues each second, which are more than fire in one
// transaction, and kills one process after the other.
func scheduleEachTimeOnce(t *test) {
	const processes, schedules, kills = 5, 70, 12
	c := t.open()
	s := schedule.New(c)
	for k := range schedules {
		t.must(s.Put(t.ctx, schedule.Schedule{
			Name: fmt.Sprint("s", k), Every: time.Second, Queue: fmt.Sprint("q", k%3), CatchUp: schedule.MaxCatchUp}))
	}
	running := make([]*process, processes)
	begin := func(k int) {
		running[k] = t.start(childSpec{Do: "schedules", Name: fmt.Sprint("process ", k), Queue: "q"})
	}
	for k := range running {
		begin(k)
	}
	for k := range kills {
		_ = sleep(t.ctx, 200*time.Millisecond+time.Duration(t.rand.Int64N(int64(400*time.Millisecond))))
		running[k%processes].kill()
		begin(k % processes)
	}
	t.eventually("the schedules have caught up", func() bool {
		all, err := s.List(t.ctx)
		t.must(err)
		now, err := c.Now(t.ctx)
		t.must(err)
		return !slices.ContainsFunc(all, func(i schedule.Info) bool { return !i.Next.After(now) })
	})
	for _, p := range running {
		p.stop()
	}
	times := map[string][]time.Time{}
	var tasks []dbq.Task
	for k := range 3 {
		some, err := admin.New(c).List(t.ctx, admin.Filter{Queue: fmt.Sprint("q", k), Limit: 10_000})
		t.must(err)
		tasks = append(tasks, some...)
	}
	for _, task := range tasks {
		at, err := time.Parse(time.RFC3339Nano, task.Headers[schedule.HeaderTime])
		t.must(err)
		name := task.Headers[schedule.HeaderName]
		times[name] = append(times[name], at)
	}
	for k := range schedules {
		i, err := s.Get(t.ctx, fmt.Sprint("s", k))
		t.must(err)
		got := times[i.Name]
		slices.SortFunc(got, time.Time.Compare)
		if len(got) == 0 || !got[len(got)-1].Equal(i.Last) || !i.Next.Equal(i.Last.Add(time.Second)) {
			t.Errorf("%s stands at %s and has tasks for %v", i.Name, i.Last, got)
		}
		for n := range got[:max(len(got)-1, 0)] {
			if got[n+1].Sub(got[n]) != time.Second {
				t.Errorf("%s has tasks for %s and %s, and none between", i.Name, got[n], got[n+1])
			}
		}
	}
}

// childSchedules fires schedules.
func childSchedules(ctx context.Context, w *transcript.Caller, _ childSpec) error {
	return schedule.New(w.Queue.Client()).Run(ctx)
}

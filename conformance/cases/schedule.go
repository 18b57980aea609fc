package cases

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/conformance/internal/transcript"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/schedule"
	"github.com/google/uuid"
)

// scheduleCases are the schedules, which package schedule keeps in key/value records.
func scheduleCases() []Case {
	return inGroup("Schedules",
		Case{Name: "RoundTrip", Once: true, run: scheduleRoundTrip,
			Law: "Get and List return every field of a schedule as it was put, the schedules ordered by their names."},
		Case{Name: "EachTimeOnce", Slow: true, Once: true, Alone: true, run: scheduleEachTimeOnce,
			Law: "Each time of a schedule enqueues one task, however many processes fire it and whenever they are killed."},
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
	got := must(schedule.New(t.open()).List(t.ctx))
	if len(got) != len(want) {
		t.Fatalf("%d schedules, want %d", len(got), len(want))
	}
	for i, d := range want {
		one := must(s.Get(t.ctx, d.Name))
		wanted, listed := fmt.Sprintf("%#v", d), fmt.Sprintf("%#v", got[i].Schedule)
		if found := fmt.Sprintf("%#v", one.Schedule); wanted != listed || wanted != found {
			t.Errorf("put  %s\nlist %s\nget  %s", wanted, listed, found)
		}
	}
	t.failIf(!got[2].Next.Equal(at), "the next time is %s, want %s", got[2].Next, at)
	t.must(s.Pause(t.ctx, "c", schedule.By("ann"), schedule.Reason("why")))
	one := must(s.Get(t.ctx, "c"))
	t.failIf(!one.Paused || one.By != "ann" || one.Reason != "why" || !one.At.Equal(at),
		"the paused schedule is %+v", one)
	t.must(s.Delete(t.ctx, "c"))
	if _, err := s.Get(t.ctx, "c"); !errors.Is(err, dbq.ErrNotFound) {
		t.Errorf("the deleted schedule: %v", err)
	}
}

// scheduleEachTimeOnce makes processes fire schedules of three queues each second, more than fire in one transaction,
// and kills one process after the other.
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
	killed := must(c.Now(t.ctx)) // with so many schedules, one or another may be due at any time
	t.eventually("the schedules have caught up with the last kill", func() bool {
		return !slices.ContainsFunc(must(s.List(t.ctx)), func(i schedule.Info) bool { return !i.Next.After(killed) })
	})
	for _, p := range running {
		p.stop()
	}
	times := map[string][]time.Time{}
	var tasks []dbq.Task
	for k := range 3 {
		some := must(admin.New(c).List(t.ctx, admin.Filter{Queue: fmt.Sprint("q", k), Limit: 10_000}))
		tasks = append(tasks, some.Tasks...)
	}
	for _, task := range tasks {
		at := must(time.Parse(time.RFC3339Nano, task.Headers[schedule.HeaderTime]))
		name := task.Headers[schedule.HeaderName]
		times[name] = append(times[name], at)
	}
	for k := range schedules {
		i := must(s.Get(t.ctx, fmt.Sprint("s", k)))
		got := times[i.Name]
		slices.SortFunc(got, time.Time.Compare)
		t.failIf(len(got) == 0 || !got[len(got)-1].Equal(i.Last) || !i.Next.Equal(i.Last.Add(time.Second)),
			"%s stands at %s and has tasks for %v", i.Name, i.Last, got)
		for n := range got[:max(len(got)-1, 0)] {
			t.failIf(got[n+1].Sub(got[n]) != time.Second,
				"%s has tasks for %s and %s, and none between", i.Name, got[n], got[n+1])
		}
	}
}

// childSchedules fires schedules.
func childSchedules(ctx context.Context, w *transcript.Caller, _ childSpec) error {
	return schedule.New(w.Queue.Client()).Run(ctx)
}

// scheduleFaults are the calls that change a schedule.
func scheduleFaults() []faultCall {
	return []faultCall{
		{name: "PutSchedule", call: callPutSchedule, did: didPutSchedule(nil)},
		{name: "ReplaceSchedule", prepare: func(t *test, q *dbq.Queue, s *faultRun) {
			t.must(schedule.New(q.Client()).Put(t.ctx, oldSchedule(s.queue)))
		}, call: callPutSchedule, did: didPutSchedule(oldSchedule)},
		{name: "RunSchedule", prepare: func(t *test, q *dbq.Queue, s *faultRun) {
			t.must(schedule.New(q.Client()).Put(t.ctx, oldSchedule(s.queue)))
		}, call: callRunSchedule, did: didRunSchedule, after: func(*test, *dbq.Client, *faultRun) {}, once: true},
	}
}

func oldSchedule(queue string) schedule.Schedule {
	return schedule.Schedule{Name: queue, Queue: queue, Every: time.Hour, NoOverlap: true}
}

func newSchedule(queue string) schedule.Schedule {
	return schedule.Schedule{Name: queue, Queue: queue, Cron: "30 2 * * *", Zone: "Europe/Berlin", CatchUp: 7,
		Task: dbq.NewTask{Kind: "new", Payload: []byte("new")}}
}

func callPutSchedule(ctx context.Context, q *dbq.Queue, s *faultRun) error {
	return schedule.New(q.Client()).Put(ctx, newSchedule(s.queue))
}

// consistent reads the effects of a call until all of them agree, because a request that arrives late can be committed
// between two queries. It returns the difference if that stays so.
func consistent(read func() (did bool, wrong string)) (did bool, wrong string) {
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if did, wrong = read(); wrong == "" || time.Now().After(end) {
			return did, wrong
		}
	}
}

// didPutSchedule checks that the stored schedule is wholly the new or the old one, and that the audit says the same.
func didPutSchedule(old func(queue string) schedule.Schedule) func(in []dbq.Task, s *faultRun) (bool, string) {
	return func(_ []dbq.Task, s *faultRun) (bool, string) {
		return consistent(func() (bool, string) { return s.putSchedule(old) })
	}
}

func (s *faultRun) putSchedule(old func(queue string) schedule.Schedule) (bool, string) {
	t := s.test
	puts, is, before := len(t.audit(s.direct, admin.AuditFilter{Queue: s.queue, Action: "put schedule"})), "", ""
	if old != nil {
		puts, before = puts-1, fmt.Sprintf("%#v", old(s.queue))
	}
	i, err := schedule.New(s.direct).Get(t.ctx, s.queue)
	if err == nil {
		is = fmt.Sprintf("%#v", i.Schedule)
	} else if !errors.Is(err, dbq.ErrNotFound) {
		t.must(err)
	}
	did := is == fmt.Sprintf("%#v", newSchedule(s.queue))
	switch {
	case !did && is != before:
		return did, "the schedule is " + is
	case did && puts != 1 || !did && puts != 0:
		return did, fmt.Sprintf("the audit has %d entries; it was done: %v", puts, did)
	case did && i.Next.UTC().Minute() != 30:
		return did, fmt.Sprintf("the new schedule fires at %s", i.Next)
	}
	return did, ""
}

func callRunSchedule(ctx context.Context, q *dbq.Queue, s *faultRun) error {
	id, err := schedule.New(q.Client()).RunNow(ctx, s.queue)
	s.ids = []uuid.UUID{id}
	return err
}

// didRunSchedule checks that the task is there, remembered by the schedule and in the audit, or nothing of this.
func didRunSchedule(_ []dbq.Task, s *faultRun) (bool, string) {
	return consistent(func() (bool, string) {
		t := s.test
		in := t.list(s.direct, admin.Filter{Queue: s.queue})
		did, wrong := didEnqueue(in, s)
		runs := t.runsOf(s.direct, s.queue)
		entries := t.audit(s.direct, admin.AuditFilter{Queue: s.queue, Action: "run schedule"})
		switch {
		case wrong != "":
		case !slices.Equal(runs, sortedIDs(idsOf(in))) || len(entries) != len(in):
			wrong = fmt.Sprintf("of the tasks %v, the schedule has %v, and the audit has %d entries", idsOf(in), runs,
				len(entries))
		case did && in[0].Headers[schedule.HeaderName] != s.queue:
			wrong = fmt.Sprintf("the task has the headers %v", in[0].Headers)
		}
		return did, wrong
	})
}

// runsOf are the tasks of RunNow that a schedule remembers.
func (t *test) runsOf(c *dbq.Client, name string) []uuid.UUID {
	r, exists, err := access.Of(c).Store.GetKV(t.ctx, "schedule", name)
	t.must(err)
	var v struct {
		Runs []uuid.UUID `json:"runs"`
	}
	if exists {
		t.must(json.Unmarshal([]byte(r.Value), &v))
	}
	return sortedIDs(v.Runs)
}

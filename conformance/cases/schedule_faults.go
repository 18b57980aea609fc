package cases

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/conformance/internal/proxy"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/schedule"
	"github.com/google/uuid"
)

// scheduleFireIsCut cuts each request of a fire in turn: of one that makes up for three times, of two schedules that
// fire together, and of one that first looks whether the last task has ended.
func scheduleFireIsCut(t *test) {
	t.cutFires(schedule.Schedule{CatchUp: 3}, 1, proxy.Rule{}, proxy.Rule{LoseAnswer: true})
	t.cutFires(schedule.Schedule{CatchUp: 3}, 2, proxy.Rule{}, proxy.Rule{LoseAnswer: true})
	t.cutFires(schedule.Schedule{CatchUp: 3, NoOverlap: true}, 1, proxy.Rule{})
}

// scheduleFireDies also cuts each request of a fire in turn. The server stays away, the process dies, and another one
// fires.
func scheduleFireDies(t *test) {
	for n := range 2 {
		t.cutFires(schedule.Schedule{CatchUp: 3}, n+1,
			proxy.Rule{StayDown: true}, proxy.Rule{LoseAnswer: true, StayDown: true})
	}
}

// cutFires cuts each request of a fire of n schedules in turn by each of some rules.
func (t *test) cutFires(d schedule.Schedule, n int, rules ...proxy.Rule) {
	direct := t.open()
	cuts := 0
	for _, r := range rules {
		for r.AtRequest = 1; r.AtRequest <= maxRequests && t.fireUnder(r, direct, d, n); r.AtRequest++ {
			cuts++
		}
	}
	if least := 3 * len(rules); cuts < least {
		t.Errorf("%d requests were cut, want at least %d", cuts, least)
	}
	t.Logf("%d cuts of %d schedules", cuts, n)
}

// fireUnder lets a process fire n schedules under a rule, and reports whether the rule was applied. The process has a
// proxy of its own, because a cut that comes late must not hit the next process.
func (t *test) fireUnder(r proxy.Rule, direct *dbq.Client, d schedule.Schedule, n int) bool {
	p, dsn := t.throughProxy()
	c := t.oneConnection(dsn)
	defer p.Close()
	defer c.Close()
	s, mine := schedule.New(direct), schedule.New(c)
	want := map[string][]time.Time{}
	for range n {
		d.Name, d.Every = fmt.Sprintf("cut %d", subjects.Add(1)), time.Hour
		want[d.Name] = t.putDue(direct, d)
	}
	moved := func() bool {
		for name := range want {
			if !t.moved(direct, name) {
				return false
			}
		}
		return true
	}
	p.Set(r)
	ctx, stop := context.WithCancel(t.ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- mine.Run(ctx) }()
	t.eventually("the connection is cut, or the schedules fire", func() bool { return p.Fired() || moved() })
	time.Sleep(2 * proxy.AnswerPause) // an answer is cut when it has ended
	if r.StayDown && p.Fired() {
		stop()
		t.must(<-ended)
		c.Close()
	}
	fired := p.Heal()
	if fired && r.StayDown {
		for name := range want {
			t.wantWholeFire(fmt.Sprintf("cut at %v, %+v", r, d), direct, name)
		}
		t.firing(s, moved) // in another process
	} else {
		_ = mine.Pause(t.ctx, "none") // a change, even one that fails, wakes Run
		t.eventually("the process fires "+d.Name, moved)
		stop()
		t.must(<-ended)
	}
	what := fmt.Sprintf("cut at %v, %+v", r, d)
	for name, times := range want {
		t.wantTimes(what, direct, name, times...)
		t.wantFired(what, direct, name, times[len(times)-1])
	}
	return fired
}

// putDue puts an hourly schedule that has missed three times, and returns those that are to fire: with NoOverlap, the
// last one. With NoOverlap, it has also been run by hand, and that task has ended.
func (t *test) putDue(c *dbq.Client, d schedule.Schedule) []time.Time {
	s := schedule.New(c)
	t.putSchedule(s, d)
	if d.NoOverlap {
		id, err := s.RunNow(t.ctx, d.Name)
		t.must(err)
		t.must(admin.New(c).Operate(t.ctx, admin.Cancel, id))
	}
	t.setBack(c, d.Name, 3*time.Hour+30*time.Minute)
	times := hours(t.schedule(s, d.Name).Next, 3)
	if d.NoOverlap {
		return times[2:]
	}
	return times
}

// wantWholeFire records a failure if a schedule has moved without a task, or has a task and has not moved.
func (t *test) wantWholeFire(what string, c *dbq.Client, name string) {
	_, wrong := consistent(func() (bool, string) {
		moved, n := t.moved(c, name), len(t.scheduledTimes(c, name))
		if wrong := fmt.Sprintf("the schedule has moved: %v; %d times have a task", moved, n); moved != (n > 0) {
			return moved, wrong
		}
		return moved, ""
	})
	if wrong != "" {
		t.Errorf("%s: half of the fire is done: %s", what, wrong)
	}
}

// wantFired records a failure unless a schedule has fired last at a time, and its record is whole.
func (t *test) wantFired(what string, c *dbq.Client, name string, last time.Time) {
	i := t.schedule(schedule.New(c), name)
	if next := last.Add(time.Hour); !i.Last.Equal(last) || !i.Next.Equal(next) || i.Problem != "" {
		t.Errorf("%s: the schedule stands at %s, comes next at %s, and has the problem %q; want %s and %s", what, i.Last,
			i.Next, i.Problem, last, next)
	}
	if at := t.get(c, i.LastTask).Headers[schedule.HeaderTime]; at != last.Format(time.RFC3339Nano) {
		t.Errorf("%s: the last task is that of %s, want %s", what, at, last)
	}
	r, _, err := access.Of(c).Store.GetKV(t.ctx, "schedule", name)
	t.must(err)
	if r.Expires == nil || time.UnixMicro(*r.Expires).Sub(i.Next).Abs() > time.Minute {
		t.Errorf("%s: the record of a schedule that comes next at %s is found at %v", what, i.Next, r.Expires)
	}
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

// consistent reads what a call did until all of it agrees, because a request that arrives late can be committed between
// two queries. It returns what is wrong if that stays so.
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

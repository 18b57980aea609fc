package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/dbqtest"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/schedule"
)

// A fixture is a database whose clock the test moves, and its schedules.
type fixture struct {
	*testing.T
	db *dbqtest.DB
	s  *schedule.Schedules
}

func newFixture(t *testing.T) fixture {
	t.Parallel()
	db := dbqtest.New(t)
	return fixture{t, db, schedule.New(db.Client)}
}

func (f fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// put puts a schedule of queue q.
func (f fixture) put(d schedule.Schedule) {
	f.Helper()
	d.Queue = "q"
	f.must(f.s.Put(f.Context(), d))
}

// after moves the clock and fires what is due then.
func (f fixture) after(d time.Duration) {
	f.Helper()
	f.db.Advance(d)
	f.must(f.s.Fire(f.Context()))
}

func (f fixture) now() time.Time {
	f.Helper()
	now, err := f.db.Now(f.Context())
	f.must(err)
	return now
}

// tasks are the tasks of the queue, in the order in which they are due.
func (f fixture) tasks() []dbq.Task {
	f.Helper()
	page, err := admin.New(f.db.Client).List(f.Context(), admin.Filter{Queue: "q", Limit: 1000})
	f.must(err)
	tasks := page.Tasks
	slices.SortFunc(tasks, func(a, b dbq.Task) int { return strings.Compare(a.Reference, b.Reference) })
	return tasks
}

// times are the times that the queue's tasks are for.
func (f fixture) times() (out []time.Time) {
	f.Helper()
	for _, t := range f.tasks() {
		at, err := time.Parse(time.RFC3339Nano, t.Headers[schedule.HeaderTime])
		f.must(err)
		out = append(out, at)
	}
	return out
}

func (f fixture) wantTasks(n int) {
	f.Helper()
	if tasks := f.tasks(); len(tasks) != n {
		f.Fatalf("%d tasks, want %d: %v", len(tasks), n, f.times())
	}
}

func (f fixture) get(name string) schedule.Info {
	f.Helper()
	i, err := f.s.Get(f.Context(), name)
	f.must(err)
	return i
}

func TestScheduledTimeEnqueuesTheTask(t *testing.T) {
	f := newFixture(t)
	f.put(schedule.Schedule{Name: "s", Every: time.Hour, Task: dbq.NewTask{
		Kind: "k", Payload: []byte("p"), Priority: 3, MaxAttempts: 7, Headers: map[string]string{"a": "b"}}})
	next := f.get("s").Next
	if wait := next.Sub(f.now()); wait < 59*time.Minute || wait > time.Hour {
		t.Errorf("the first time is in %s", wait)
	}
	f.after(59 * time.Minute)
	f.wantTasks(0)
	f.after(time.Minute)
	f.after(0)
	f.wantTasks(1)
	got, err := f.db.Get(t.Context(), f.tasks()[0].ID)
	f.must(err)
	if got.Kind != "k" || string(got.Payload) != "p" || got.Priority != 3 || got.MaxAttempts != 7 ||
		got.Headers["a"] != "b" || got.Headers[schedule.HeaderName] != "s" || !f.times()[0].Equal(next) {
		t.Errorf("the task is %+v", got)
	}
	i := f.get("s")
	if !i.Last.Equal(next) || i.LastTaskID != got.ID || !i.Next.Equal(next.Add(time.Hour)) || i.Problem != "" {
		t.Errorf("the schedule is %+v", i)
	}
}

func TestSingleTimeFiresOnce(t *testing.T) {
	f := newFixture(t)
	f.put(schedule.Schedule{Name: "s", At: f.now().Add(time.Hour)})
	f.after(2 * time.Hour)
	f.after(2 * time.Hour)
	f.wantTasks(1)
	if i := f.get("s"); !i.Next.IsZero() {
		t.Errorf("it fires again at %s", i.Next)
	}
}

// TestCatchUp: CatchUp determines how many missed times are made up for.
func TestCatchUp(t *testing.T) {
	for catchUp, want := range map[int]int{schedule.SkipMissed: 0, 0: 1, 1: 1, 3: 3, 100: 5} {
		t.Run(fmt.Sprint(catchUp), func(t *testing.T) {
			f := newFixture(t)
			f.put(schedule.Schedule{Name: "s", Every: time.Hour, CatchUp: catchUp})
			first := f.get("s").Next
			f.after(5*time.Hour + 30*time.Minute)
			f.wantTasks(want)
			for i, at := range f.times() {
				if expected := first.Add(time.Duration(5-want+i) * time.Hour); !at.Equal(expected) {
					t.Errorf("task %d is for %s, want %s", i, at, expected)
				}
			}
			if i := f.get("s"); (i.Problem == "") == (want == 0) {
				t.Errorf("the problem is %q", i.Problem)
			}
			f.after(30 * time.Minute)
			f.wantTasks(want + 1)
		})
	}
}

// TestCatchUpAfterLong: the latest times count, however many there were.
func TestCatchUpAfterLong(t *testing.T) {
	f := newFixture(t)
	f.put(schedule.Schedule{Name: "s", Every: time.Second, CatchUp: 3})
	f.put(schedule.Schedule{Name: "t", Cron: "* * * * *", CatchUp: 3})
	f.after(400 * 24 * time.Hour)
	missed := 0
	for _, at := range f.times() {
		age := f.now().Sub(at)
		if age > time.Minute+time.Second {
			missed++
		}
		if age > 5*time.Minute {
			t.Errorf("a time of %s ago was made up for", age)
		}
	}
	if missed < 4 || missed > 6 { // three of each; the second's begin at the bound
		t.Errorf("%d missed times were made up for", missed)
	}
}

func TestNoOverlap(t *testing.T) {
	f := newFixture(t)
	f.put(schedule.Schedule{Name: "s", Every: time.Hour, NoOverlap: true})
	f.after(time.Hour)
	f.after(time.Hour)
	f.wantTasks(1)
	if i := f.get("s"); !strings.Contains(i.Problem, "earlier") {
		t.Errorf("the problem is %q", i.Problem)
	}
	tasks, err := f.db.Queue("q").Checkout(t.Context(), 1, time.Minute)
	f.must(err)
	f.must(f.db.Queue("q").Settle(t.Context(), tasks[0].Lease, dbq.Completed(nil)))
	f.after(time.Hour)
	f.wantTasks(2)
}

func TestPause(t *testing.T) {
	f := newFixture(t)
	f.put(schedule.Schedule{Name: "s", Every: time.Hour, CatchUp: 100})
	f.must(f.s.Pause(t.Context(), "s", schedule.By("ann"), schedule.Reason("too loud")))
	if i := f.get("s"); !i.Paused || i.By != "ann" || i.Reason != "too loud" || !i.Next.IsZero() {
		t.Errorf("paused: %+v", i)
	}
	f.after(10 * time.Hour)
	f.wantTasks(0)
	if _, err := f.s.RunNow(t.Context(), "s"); err != nil {
		t.Error(err)
	}
	f.wantTasks(1)
	f.put(schedule.Schedule{Name: "s", Every: time.Hour, CatchUp: 99}) // stays paused
	f.after(10 * time.Hour)
	f.wantTasks(1)
	f.must(f.s.Resume(t.Context(), "s"))
	f.after(0)
	f.wantTasks(1)
	f.after(time.Hour)
	f.wantTasks(2)
}

// TestPutKeepsTheNextTime: a program that puts the same schedule at each start does not move it.
func TestPutKeepsTheNextTime(t *testing.T) {
	f := newFixture(t)
	f.put(schedule.Schedule{Name: "s", Every: time.Hour})
	next := f.get("s").Next
	f.db.Advance(40 * time.Minute)
	f.put(schedule.Schedule{Name: "s", Every: time.Hour, Task: dbq.NewTask{Kind: "new"}})
	if i := f.get("s"); !i.Next.Equal(next) || i.Task.Kind != "new" {
		t.Errorf("now %+v, want the time %s", i, next)
	}
	f.put(schedule.Schedule{Name: "s", Every: 2 * time.Hour})
	if i := f.get("s"); i.Next.Sub(f.now()) < 119*time.Minute {
		t.Errorf("the new interval begins at %s", i.Next)
	}
}

func TestReconcile(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	hourly := func(name string) schedule.Schedule {
		return schedule.Schedule{Name: name, Every: time.Hour, Queue: "q"}
	}
	f.put(hourly("by hand"))
	f.must(f.s.Reconcile(ctx, "app", hourly("a"), hourly("b")))
	f.must(f.s.Reconcile(ctx, "other app", hourly("c")))
	f.must(f.s.Pause(ctx, "b"))
	updated := f.get("b").Updated
	f.db.Advance(time.Minute)
	f.must(f.s.Reconcile(ctx, "app", hourly("b"), hourly("d")))
	all, err := f.s.List(ctx)
	f.must(err)
	var names []string
	for _, i := range all {
		names = append(names, i.Name)
	}
	if got := strings.Join(names, ", "); got != "b, by hand, c, d" {
		t.Errorf("schedules %s", got)
	}
	if i := f.get("b"); !i.Paused || !i.Updated.Equal(updated) {
		t.Errorf("what did not change was written: %+v", i)
	}
	if err := f.s.Reconcile(ctx, "app", hourly("x"), schedule.Schedule{Name: "y"}); !errors.Is(err, dbq.ErrInvalid) {
		t.Errorf("a bad one: %v", err)
	}
	if _, err := f.s.Get(ctx, "x"); !errors.Is(err, dbq.ErrNotFound) {
		t.Errorf("beside a bad one, a good one was put: %v", err)
	}
}

// TestBadInput: it is refused with the reason, and nothing is stored.
func TestBadInput(t *testing.T) {
	f := newFixture(t)
	hour := func(change func(*schedule.Schedule)) schedule.Schedule {
		d := schedule.Schedule{Name: "s", Queue: "q", Every: time.Hour}
		change(&d)
		return d
	}
	for want, d := range map[string]schedule.Schedule{
		"name is empty":           hour(func(d *schedule.Schedule) { d.Name = "" }),
		"queue name":              hour(func(d *schedule.Schedule) { d.Queue = "" }),
		"one of Cron":             hour(func(d *schedule.Schedule) { d.Cron = "@daily" }),
		"must be 1s to":           hour(func(d *schedule.Schedule) { d.Every = time.Millisecond }),
		"Zone is for":             hour(func(d *schedule.Schedule) { d.Zone = "UTC" }),
		"no such time zone":       hour(func(d *schedule.Schedule) { d.Every, d.Cron, d.Zone = 0, "@daily", "Mars/Olympus" }),
		"no day matches":          hour(func(d *schedule.Schedule) { d.Every, d.Cron = 0, "0 0 31 2 *" }),
		"has passed":              hour(func(d *schedule.Schedule) { d.Every, d.At = 0, time.Unix(1e9, 0) }),
		"Reference":               hour(func(d *schedule.Schedule) { d.Task.Reference = "r" }),
		"SkipMissed or 0 to 1000": hour(func(d *schedule.Schedule) { d.CatchUp = 1001 }),
		"Jitter":                  hour(func(d *schedule.Schedule) { d.Jitter = -1 }),
		"maximum is 3000":         hour(func(d *schedule.Schedule) { d.Task.Payload = make([]byte, 4000) }),
		"priority":                hour(func(d *schedule.Schedule) { d.Task.Priority = 99 }),
		"the maximum is 100":      hour(func(d *schedule.Schedule) { d.Task.Kind = strings.Repeat("k", 200) }),
		"UTF-8":                   hour(func(d *schedule.Schedule) { d.Task.Kind = "a\xff" }),
		"delay":                   hour(func(d *schedule.Schedule) { d.Task.Delay = -time.Hour }),
		"header":                  hour(func(d *schedule.Schedule) { d.Task.Headers = map[string]string{"a": "\xff"} }),
		"attempts":                hour(func(d *schedule.Schedule) { d.Task.MaxAttempts = -1 }),
	} {
		if err := f.s.Put(t.Context(), d); !errors.Is(err, dbq.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if all, err := f.s.List(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("stored: %v, %v", all, err)
	}
	never := hour(func(d *schedule.Schedule) { d.Every, d.Cron = 0, "0 0 31 2 *" })
	if err := never.Check(); !errors.Is(err, schedule.ErrNever) || !errors.Is(err, schedule.ErrDefinition) {
		t.Errorf("a cron that never fires: %v", err)
	}
	for _, err := range []error{
		f.s.Pause(t.Context(), "none"), f.s.Resume(t.Context(), "none"), f.s.Delete(t.Context(), "none"),
	} {
		if !errors.Is(err, dbq.ErrNotFound) {
			t.Errorf("a schedule that does not exist: %v", err)
		}
	}
}

// TestEachTimeFiresOnceAmongManyProcesses: while the clock moves by ten days in steps, clients fire the same
// schedules at the same time, and stop at any moment. Each time is enqueued once, none is missed.
func TestEachTimeFiresOnceAmongManyProcesses(t *testing.T) {
	f := newFixture(t)
	zone, err := time.LoadLocation("Europe/Berlin")
	f.must(err)
	crons := map[string]string{"hourly": "0 * * * *", "nightly": "30 2 * * *", "quarters": "*/15 8-17 * * 1-5"}
	for name, cron := range crons {
		f.put(schedule.Schedule{Name: name, Cron: cron, Zone: zone.String(), CatchUp: 1000})
	}
	start := f.now()
	for step := range 80 {
		f.db.Advance(3 * time.Hour)
		var group sync.WaitGroup
		for k := range 5 {
			group.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+(step*7+k*13)%20)*time.Millisecond)
				defer cancel()
				_ = schedule.New(f.db.Client).Fire(ctx) // it may be cut off at any statement
			})
		}
		group.Wait()
	}
	f.after(0)
	got := map[string][]time.Time{}
	times := f.times()
	for i, task := range f.tasks() {
		name := task.Headers[schedule.HeaderName]
		got[name] = append(got[name], times[i])
	}
	for name, cron := range crons {
		d := schedule.Schedule{Cron: cron, Zone: zone.String()}
		want, err := schedule.Preview(d, start, 2000)
		f.must(err)
		end := slices.IndexFunc(want, func(at time.Time) bool { return at.After(f.now()) })
		if !slices.EqualFunc(got[name], want[:end], time.Time.Equal) {
			t.Errorf("%s: %d times, want %d", name, len(got[name]), end)
		}
	}
}

func TestForSetsTheTaskOfAKind(t *testing.T) {
	t.Parallel()
	db := dbqtest.New(t)
	k := dbq.Kind[map[string]any]{Name: "report", Queue: "reports", Defaults: func(t *dbq.NewTask) { t.Priority = 3 }}
	s := schedule.For(k, map[string]any{"of": "sales"}, schedule.Schedule{Name: "s", Every: time.Hour})
	other := schedule.For(k, nil, schedule.Schedule{Name: "other", Every: time.Hour, Queue: "slow"})
	schedules := schedule.New(db.Client)
	check.OK(t, schedules.Reconcile(t.Context(), "tests", s, other))
	got, err := schedules.Get(t.Context(), "s")
	check.OK(t, err)
	if got.Queue != "reports" || got.Task.Kind != "report" || string(got.Task.Payload) != `{"of":"sales"}` ||
		got.Task.Priority != 3 || other.Queue != "slow" {
		t.Errorf("got %+v in %s, and %s", got.Task, got.Queue, other.Queue)
	}
	broken := schedule.For(k, map[string]any{"of": func() {}}, schedule.Schedule{Name: "broken", Every: time.Hour})
	for name, err := range map[string]error{
		"Check": broken.Check(), "Put": schedules.Put(t.Context(), broken),
		"Reconcile": schedules.Reconcile(t.Context(), "tests", broken),
	} {
		var field *schedule.FieldError
		if !errors.Is(err, dbq.ErrPayload) || !errors.As(err, &field) || field.Field != "Task" {
			t.Errorf("%s of a value that cannot be encoded: %v", name, err)
		}
	}
	if _, err := schedules.Get(t.Context(), "s"); err != nil {
		t.Errorf("a refused Reconcile removed a schedule: %v", err)
	}
}

func TestHookCannotMakeARunUnique(t *testing.T) {
	t.Parallel()
	unique := dbq.WithEnqueueHook(func(_ context.Context, _ string, t *dbq.NewTask) error {
		t.Unique = &dbq.Unique{Key: "k"}
		return nil
	})
	db := dbqtest.New(t, unique)
	s := schedule.New(db.Client)
	check.OK(t, s.Put(t.Context(), schedule.Schedule{Name: "s", Every: time.Hour, Queue: "q", NoOverlap: true}))
	if _, err := s.RunNow(t.Context(), "s"); !errors.Is(err, dbq.ErrUnique) {
		t.Errorf("RunNow of a task that a hook has made unique: %v, want ErrUnique", err)
	}
	db.WantTasks("q", dbq.StateCreated, 0)
}

package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/schedule"
)

// processVariable is the environment variable that makes the test program a process which fires schedules. It has the
// DSN of their database.
const processVariable = "DBQ_SCHEDULE_PROCESS"

func TestMain(m *testing.M) {
	dsn, is := os.LookupEnv(processVariable)
	if !is {
		os.Exit(m.Run())
	}
	if err := fireForever(dsn); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// fireForever fires schedules until standard input ends, as Run does but without its pauses: the test moves the clock.
func fireForever(dsn string) error {
	ctx, stop := context.WithCancel(context.Background())
	go func() { // the test ends it, or dies
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	c, err := dbq.Open(ctx, dsn)
	if err != nil {
		return err
	}
	defer c.Close()
	s := schedule.New(c)
	for ctx.Err() == nil {
		_ = s.FireDue(ctx) // another process may lock the file
		time.Sleep(time.Millisecond)
	}
	return nil
}

// TestEachTimeFiresOnceAmongKilledProcesses: five processes fire the same schedules for ten simulated days, and are
// killed at any moment. Each time is enqueued once, none is missed.
func TestEachTimeFiresOnceAmongKilledProcesses(t *testing.T) {
	const processes, steps = 5, 80
	if testing.Short() {
		t.Skip("it takes several seconds")
	}
	f := newFixture(t)
	crons := map[string]string{"hourly": "0 * * * *", "nightly": "30 2 * * *", "quarters": "*/15 8-17 * * 1-5"}
	const zone = "Europe/Berlin"
	for name, cron := range crons {
		f.put(schedule.Schedule{Name: name, Cron: cron, Zone: zone, CatchUp: schedule.MaxCatchUp})
	}
	start := f.now()
	running := make([]*exec.Cmd, processes)
	for k := range running {
		running[k] = f.startProcess()
	}
	kill := func(p *exec.Cmd) {
		f.must(p.Process.Kill()) // SIGKILL
		_ = p.Wait()
	}
	for step := range steps {
		f.db.Advance(10 * 24 * time.Hour / steps)
		time.Sleep(time.Duration(rand.Int64N(int64(40 * time.Millisecond))))
		if step%2 == 0 {
			k := step / 2 % processes
			kill(running[k])
			running[k] = f.startProcess()
		}
	}
	for begun := time.Now(); f.due(); time.Sleep(10 * time.Millisecond) {
		if time.Since(begun) > time.Minute {
			t.Fatal("the processes do not catch up")
		}
	}
	for _, p := range running {
		kill(p)
	}
	got := map[string][]time.Time{}
	times := f.times()
	for i, task := range f.tasks() {
		name := task.Headers[schedule.HeaderName]
		got[name] = append(got[name], times[i])
	}
	for name, cron := range crons {
		want, err := schedule.Preview(schedule.Schedule{Cron: cron, Zone: zone}, start, 2000)
		f.must(err)
		end := slices.IndexFunc(want, func(at time.Time) bool { return at.After(f.now()) })
		if !slices.EqualFunc(got[name], want[:end], time.Time.Equal) {
			t.Errorf("%s: %d times, want %d", name, len(got[name]), end)
		}
	}
}

// due reports whether a schedule is due.
func (f fixture) due() bool {
	all, err := f.s.List(f.Context())
	f.must(err)
	now := f.now()
	return slices.ContainsFunc(all, func(i schedule.Info) bool { return !i.Next.After(now) })
}

// startProcess starts a process that fires the fixture's schedules.
func (f fixture) startProcess() *exec.Cmd {
	f.Helper()
	program, err := os.Executable()
	f.must(err)
	var file string
	f.must(f.db.DB().QueryRowContext(f.Context(), "SELECT file FROM pragma_database_list WHERE name = 'main'").Scan(&file))
	p := exec.Command(program)
	p.Env = append(os.Environ(), processVariable+"=dbqtest:"+file)
	p.Stderr = os.Stderr
	_, err = p.StdinPipe() // it ends with this process
	f.must(err)
	f.must(p.Start())
	return p
}

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

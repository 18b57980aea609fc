package schedule

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/dbqtest"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/internal/store"
)

// TestRecreatedScheduleIsNotOverwritten: a process that read a schedule before it was deleted and put again does not
// overwrite the new one.
func TestRecreatedScheduleIsNotOverwritten(t *testing.T) {
	t.Parallel()
	db := dbqtest.New(t)
	ctx := t.Context()
	s := New(db.Client)
	old := Schedule{Name: "s", Every: time.Hour, Queue: "q", Task: dbq.NewTask{Kind: "old"}}
	check.OK(t, s.Put(ctx, old))
	db.Advance(time.Hour)
	records, err := s.store.EarliestKV(ctx, namespace, 10) // process A reads, and is stopped for a moment
	if err != nil || len(records) != 1 {
		t.Fatal(err, records)
	}
	if err := s.Delete(ctx, "s"); err != nil { // an operator, or a deploy
		t.Fatal(err)
	}
	again := Schedule{Name: "s", Every: 5 * time.Hour, Queue: "other", Task: dbq.NewTask{Kind: "new"}}
	check.OK(t, s.Put(ctx, again))
	if _, err := s.fireOne(ctx, records[0], time.Now(), patience); !errors.Is(err, errFired) { // A goes on
		t.Fatal(err)
	}
	i, err := s.Get(ctx, "s")
	check.OK(t, err)
	if i.Task.Kind != "new" || i.Queue != "other" || i.Every != 5*time.Hour {
		t.Errorf("the schedule that was put last was replaced by the deleted one: %+v", i.Schedule)
	}
	if n := len(db.Tasks("q")); n != 0 {
		t.Errorf("%d tasks of the deleted schedule", n)
	}
}

// TestBrokenSchedulesStopNoOther: schedules that cannot fire, as of a zone that this build does not know, do not stop
// the others.
func TestBrokenSchedulesStopNoOther(t *testing.T) {
	t.Parallel()
	db := dbqtest.New(t)
	ctx := t.Context()
	s := New(db.Client)
	for i := range oneRound {
		v := valueOf(Schedule{Cron: "@hourly", Zone: "Mars/Olympus", Queue: "q"})
		v.Start = time.Now()
		v.Next = time.Now()
		text, _, _ := v.encode(time.Now())
		check.OK(t, s.store.PutKV(ctx, namespace, fmt.Sprint("bad", i), text, time.Second))
	}
	check.OK(t, s.Put(ctx, Schedule{Name: "good", Every: time.Hour, Queue: "q"}))
	db.Advance(time.Hour)
	for range 3 {
		_, _ = s.fireDue(ctx)
	}
	if n := len(db.Tasks("q")); n != 1 {
		t.Errorf("%d tasks of the good schedule, want 1", n)
	}
}

// TestTimesFarAheadAreCorrected: a schedule whose next time is far ahead, since the database's clock once was, comes
// back when it is put again, and by Run, which logs it. A time that the clock has already shown does not come again.
func TestTimesFarAheadAreCorrected(t *testing.T) {
	t.Parallel()
	now := time.Now()
	first := now.UTC().Truncate(time.Minute).Add(30 * time.Minute) // long after the test
	cron := Schedule{Name: "s", Cron: fmt.Sprint(first.Minute(), " * * * *"), Queue: "q"}
	every := Schedule{Name: "s", Every: time.Hour, Queue: "q"}
	once := Schedule{Name: "s", At: now.AddDate(9, 0, 0).UTC(), Queue: "q"}
	second := first.Add(time.Hour)
	for name, c := range map[string]struct {
		d           Schedule
		start, next time.Time
		want        time.Time // or a minute off
	}{
		"cron":                    {cron, now, now.AddDate(50, 0, 0), first}, // fired when it was 2076
		"interval":                {every, now, now.AddDate(50, 0, 0), now.Add(time.Hour)},
		"interval that was put":   {every, now.AddDate(50, 0, 0), now.AddDate(50, 0, 1), now.Add(time.Hour + time.Minute)},
		"after the one that came": {cron, now, second, second},
		"once":                    {once, now, once.At, once.At},
	} {
		for by, correct := range map[string]func(s *Schedules) error{
			"Put": func(s *Schedules) error { return s.Put(t.Context(), c.d) },
			"Run": func(s *Schedules) error { return s.Fire(t.Context()) },
		} {
			t.Run(name+" by "+by, func(t *testing.T) {
				t.Parallel()
				var log bytes.Buffer
				db := dbqtest.New(t, dbq.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
				s := New(db.Client)
				v := valueOf(c.d)
				v.Start, v.Next = c.start.UTC(), c.next.UTC()
				text, ttl, _ := v.encode(now)
				check.OK(t, s.store.PutKV(t.Context(), namespace, "s", text, ttl))
				check.OK(t, correct(s))
				i, err := s.Get(t.Context(), "s")
				if early := c.want.Sub(i.Next); err != nil || early.Abs() > time.Minute {
					t.Errorf("fires next at %s, %v, want about %s", i.Next, err, c.want)
				}
				if want := by == "Run" && c.want.Before(c.next); strings.Contains(log.String(), "corrected") != want {
					t.Errorf("logged %q, want that it was corrected: %v", log.String(), want)
				}
			})
		}
	}
}

// TestLockedScheduleIsReported: a schedule that cannot fire for longer than a minute, because another transaction has
// locked its record, is an error, which Run logs.
func TestLockedScheduleIsReported(t *testing.T) {
	t.Parallel()
	db := dbqtest.New(t)
	ctx := t.Context()
	s := New(db.Client)
	check.OK(t, s.Put(ctx, Schedule{Name: "s", Every: time.Hour, Queue: "q"}))
	for _, c := range []struct {
		late     time.Duration
		reported bool
	}{{30 * time.Second, false}, {2 * time.Minute, true}} {
		records, err := s.store.EarliestKV(ctx, namespace, 1)
		if err != nil || len(records) != 1 {
			t.Fatal(err, records)
		}
		records[0].Now = *records[0].Expires + c.late.Microseconds()
		tx, err := db.DB().BeginTx(ctx, nil)
		check.OK(t, err)
		pause, err := s.fireEach(ctx, records, true)
		if pause != busyPause || (err != nil) != c.reported {
			t.Errorf("%v late: got error %v, pause %v", c.late, err, pause)
		}
		check.OK(t, tx.Rollback())
	}
}

// TestTogether: schedules of several queues fire in one transaction, or none does, if another process has fired one of
// them. Those that cannot fire at all are left out.
func TestTogether(t *testing.T) {
	t.Parallel()
	db := dbqtest.New(t)
	ctx := t.Context()
	s := New(db.Client)
	var names []string
	for i := range 7 {
		d := Schedule{Name: fmt.Sprint("s", i), Every: time.Hour, Queue: fmt.Sprint("q", i%2), CatchUp: i}
		check.OK(t, s.Put(ctx, d))
		names = append(names, d.Name)
	}
	v := valueOf(Schedule{Cron: "@hourly", Zone: "Mars/Olympus", Queue: "q0"})
	v.Start, v.Next = time.Now(), time.Now()
	text, _, _ := v.encode(time.Now())
	check.OK(t, s.store.PutKV(ctx, namespace, "bad", text, time.Second))
	db.Advance(3 * time.Hour)
	read := func() []store.Record {
		records, err := s.store.EarliestKV(ctx, namespace, 100)
		check.OK(t, err)
		return slices.DeleteFunc(records, func(r store.Record) bool { return !r.Expired() })
	}
	tasks := func() int { return len(db.Tasks("q0")) + len(db.Tasks("q1")) }

	records := read()
	if err := s.Pause(ctx, "s6"); err != nil { // it has changed since it was read
		t.Fatal(err)
	}
	_, rest, err := s.fireTogether(ctx, records, time.Now())
	if !errors.Is(err, errFired) || len(rest) != len(records) || tasks() != 0 {
		t.Errorf("one has changed: %v, %d of %d are left, %d tasks", err, len(rest), len(records), tasks())
	}
	check.OK(t, s.Resume(ctx, "s6"))
	now := nowOf(read()[0])
	_, rest, err = s.fireTogether(ctx, read(), time.Now())
	if err != nil || len(rest) != 1 || rest[0].Name != "bad" {
		t.Errorf("%v, and left are %+v", err, rest)
	}
	want := 2 + 2 + 3*4 // one time of s0 to s5 is due now, and two have been missed; a Resume forgets the times of s6
	if n := tasks(); n != want {
		t.Errorf("%d tasks, want %d", n, want)
	}
	for _, name := range names[:6] {
		i, err := s.Get(ctx, name)
		check.OK(t, err)
		task, err := db.Client.Get(ctx, i.LastTaskID)
		if err != nil || task.Headers[HeaderName] != name || task.Queue != i.Queue ||
			task.Headers[HeaderTime] != i.Last.Format(time.RFC3339Nano) || !i.Next.After(now) || i.Last.After(now) {
			t.Errorf("%s: %+v has the last task %+v, %v", name, i, task, err)
		}
	}
}

// TestTogetherHasABound: a group has at most groupTasks tasks; a schedule beyond fires alone.
func TestTogetherHasABound(t *testing.T) {
	t.Parallel()
	db := dbqtest.New(t)
	ctx := t.Context()
	s := New(db.Client)
	for _, name := range []string{"a", "b", "c"} {
		check.OK(t, s.Put(ctx, Schedule{Name: name, Every: time.Minute, Queue: "q", CatchUp: 300}))
	}
	db.Advance(300*time.Minute + 30*time.Second)
	records, err := s.store.EarliestKV(ctx, namespace, 100)
	check.OK(t, err)
	_, rest, err := s.fireTogether(ctx, records, time.Now())
	if err != nil || len(rest) != 2 || len(db.Tasks("q")) != 300 {
		t.Errorf("%v: %d of 3 are left, %d tasks", err, len(rest), len(db.Tasks("q")))
	}
	if err := s.Fire(ctx); err != nil || len(db.Tasks("q")) != 900 {
		t.Errorf("%v: %d tasks in the end, want 900", err, len(db.Tasks("q")))
	}
}

// TestSlowGroupFiresOneByOne: schedules that cannot fire together within groupWait fire one by one in the same turn.
func TestSlowGroupFiresOneByOne(t *testing.T) {
	t.Parallel()
	db := dbqtest.New(t)
	ctx := t.Context()
	s := New(db.Client)
	for _, name := range []string{"a", "b", "c"} {
		check.OK(t, s.Put(ctx, Schedule{Name: name, Every: time.Hour, Queue: "q"}))
	}
	db.Advance(time.Hour)
	tx, err := db.DB().BeginTx(ctx, nil) // locks every record, until the group has given up
	check.OK(t, err)
	ended := make(chan error, 1)
	time.AfterFunc(groupWait+patience/4, func() { ended <- tx.Rollback() })
	begin := time.Now()
	if err := s.Fire(ctx); err != nil || len(db.Tasks("q")) != 3 || time.Since(begin) < groupWait {
		t.Errorf("%d tasks of 3 schedules after %v, %v", len(db.Tasks("q")), time.Since(begin), err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

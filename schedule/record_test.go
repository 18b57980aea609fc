package schedule

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/dbqtest"
)

// TestRecreatedScheduleIsNotOverwritten: a process that read a schedule before it was deleted and put again does not
// overwrite the new one.
func TestRecreatedScheduleIsNotOverwritten(t *testing.T) {
	t.Parallel()
	db := dbqtest.New(t)
	ctx := t.Context()
	s := New(db.Client)
	old := Schedule{Name: "s", Every: time.Hour, Queue: "q", Task: dbq.NewTask{Kind: "old"}}
	if err := s.Put(ctx, old); err != nil {
		t.Fatal(err)
	}
	db.Advance(time.Hour)
	records, err := s.store.EarliestKV(ctx, namespace, 10) // process A reads, and is stopped for a moment
	if err != nil || len(records) != 1 {
		t.Fatal(err, records)
	}
	if err := s.Delete(ctx, "s"); err != nil { // an operator, or a deploy
		t.Fatal(err)
	}
	again := Schedule{Name: "s", Every: 5 * time.Hour, Queue: "other", Task: dbq.NewTask{Kind: "new"}}
	if err := s.Put(ctx, again); err != nil {
		t.Fatal(err)
	}
	if err := s.fire(ctx, records[0]); !errors.Is(err, errFired) { // A goes on
		t.Fatal(err)
	}
	i, err := s.Get(ctx, "s")
	if err != nil {
		t.Fatal(err)
	}
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
		if err := s.store.PutKV(ctx, namespace, fmt.Sprint("bad", i), text, time.Second); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Put(ctx, Schedule{Name: "good", Every: time.Hour, Queue: "q"}); err != nil {
		t.Fatal(err)
	}
	db.Advance(time.Hour)
	for range 3 {
		_, _ = s.fireDue(ctx)
	}
	if n := len(db.Tasks("q")); n != 1 {
		t.Errorf("%d tasks of the good schedule, want 1", n)
	}
}

// TestPutRepairsATimeFarAhead: a schedule whose next time is far ahead, since the database's clock once was, comes
// back when it is put or reconciled again.
func TestPutRepairsATimeFarAhead(t *testing.T) {
	t.Parallel()
	db := dbqtest.New(t)
	s := New(db.Client)
	d := Schedule{Name: "s", Cron: "@hourly", Queue: "q"}
	v := valueOf(d)
	v.Start = time.Now()
	v.Next = time.Now().AddDate(50, 0, 0) // what fire left while the clock was in 2076
	text, ttl, _ := v.encode(time.Now())
	if err := s.store.PutKV(t.Context(), namespace, "s", text, ttl); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	if i, _ := s.Get(t.Context(), "s"); time.Until(i.Next) > time.Hour {
		t.Errorf("an hourly schedule fires next at %s", i.Next)
	}
}

// TestLockedScheduleIsReported: a schedule that cannot fire for longer than a minute, because another transaction has
// locked its record, is an error, which Run logs.
func TestLockedScheduleIsReported(t *testing.T) {
	t.Parallel()
	db := dbqtest.New(t)
	ctx := t.Context()
	s := New(db.Client)
	if err := s.Put(ctx, Schedule{Name: "s", Every: time.Hour, Queue: "q"}); err != nil {
		t.Fatal(err)
	}
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
		if err != nil {
			t.Fatal(err)
		}
		pause, err := s.fireEach(ctx, records)
		if pause != busyPause || (err != nil) != c.reported {
			t.Errorf("%v late: got error %v, pause %v", c.late, err, pause)
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
	}
}

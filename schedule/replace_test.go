package schedule_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/dbqtest"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/schedule"
)

// TestReplaceRefusesWhatOthersChanged: of several people who edit the same schedule, only the first one saves it.
func TestReplaceRefusesWhatOthersChanged(t *testing.T) {
	t.Parallel()
	db := dbqtest.New(t)
	s, ctx := schedule.New(db.Client), t.Context()
	d := schedule.Schedule{Name: "s", Every: time.Hour, Queue: "q", Task: dbq.NewTask{Payload: []byte("1")}}
	if err := s.Replace(ctx, "never", d); !errors.Is(err, schedule.ErrChanged) {
		t.Errorf("a missing schedule: %v, want ErrChanged", err)
	}
	check.OK(t, s.Replace(ctx, "", d))
	if err := s.Replace(ctx, "", d); !errors.Is(err, schedule.ErrChanged) {
		t.Errorf("an existing schedule as a new one: %v, want ErrChanged", err)
	}
	read, err := s.Get(ctx, "s")
	check.OK(t, err)
	// A fire and a pause change the status, not the definition.
	check.OK(t, s.Pause(ctx, "s"))
	d.Task.Payload = []byte("2")
	var mu sync.Mutex
	var saved, refused int
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			d := d
			d.Jitter = time.Duration(i) * time.Second
			err := s.Replace(ctx, read.Revision, d)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				saved++
			case errors.Is(err, schedule.ErrChanged):
				refused++
			default:
				t.Error(err)
			}
		})
	}
	all.Wait()
	if saved != 1 || refused != 3 {
		t.Errorf("%d edits were saved and %d refused, want 1 and 3", saved, refused)
	}
	now, err := s.Get(ctx, "s")
	if err != nil || !now.Paused || string(now.Task.Payload) != "2" || now.Revision == read.Revision {
		t.Errorf("the schedule is %+v: %v", now, err)
	}
}

func TestErrorsNameTheField(t *testing.T) {
	t.Parallel()
	s := schedule.New(dbqtest.New(t).Client)
	ok := schedule.Schedule{Name: "s", Every: time.Hour, Queue: "q"}
	for field, change := range map[string]func(*schedule.Schedule){
		"Name":             func(d *schedule.Schedule) { d.Name = "" },
		"Queue":            func(d *schedule.Schedule) { d.Queue = "\n" },
		"Cron":             func(d *schedule.Schedule) { d.Every, d.Cron = 0, "* *" },
		"Zone":             func(d *schedule.Schedule) { d.Every, d.Cron, d.Zone = 0, "@daily", "Mars" },
		"Every":            func(d *schedule.Schedule) { d.Every = time.Millisecond },
		"At":               func(d *schedule.Schedule) { d.Every, d.At = 0, time.Unix(1.65e9, 0) },
		"CatchUp":          func(d *schedule.Schedule) { d.CatchUp = 5 * schedule.MaxCatchUp },
		"Jitter":           func(d *schedule.Schedule) { d.Jitter = -1 },
		"Task.Kind":        func(d *schedule.Schedule) { d.Task.Kind = "\n" },
		"Task.Key":         func(d *schedule.Schedule) { d.Task.Key = "\n" },
		"Task.Priority":    func(d *schedule.Schedule) { d.Task.Priority = -1 },
		"Task.MaxAttempts": func(d *schedule.Schedule) { d.Task.MaxAttempts = -1 },
		"Task.Delay":       func(d *schedule.Schedule) { d.Task.Delay = -1 },
		"Task.Headers":     func(d *schedule.Schedule) { d.Task.Headers = map[string]string{"\xff": ""} },
		"Task.Payload":     func(d *schedule.Schedule) { d.Task.Payload = make([]byte, 4000) },
	} {
		d := ok
		change(&d)
		err := s.Put(t.Context(), d)
		var got *schedule.FieldError
		if !errors.As(err, &got) || got.Field != field || !errors.Is(err, dbq.ErrInvalid) {
			t.Errorf("%s: %v names the field %+v", field, err, got)
		}
		if err, later := d.Check(), field == "At" || field == "Task.Payload"; (err == nil) != later {
			t.Errorf("%s: Check returns %v", field, err)
		}
	}
}

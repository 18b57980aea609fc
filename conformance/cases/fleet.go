package cases

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/control"
)

// fleetCases are about the state that workers of one database share: pauses, settings, the registry, and who leads.
func fleetCases() []Case {
	return inGroup("Fleet",
		Case{Name: "PausedHandsOutNothing", run: fleetPaused,
			Law: "A paused queue hands out neither due nor expired tasks, accepts new ones, and lets running ones be " +
				"settled; other queues go on."},
		Case{Name: "PauseUnderLoad", run: fleetPauseUnderLoad,
			Law: "No checkout that begins after a pause returns a task, whatever other clients do at the time."},
		Case{Name: "SettingsRoundTrip", Once: true, run: fleetSettings,
			Law: "Every client reads each field of a queue's settings as it was set, and for that queue only."},
		Case{Name: "ConcurrentConfigure", Once: true, run: fleetConfigureTogether,
			Law: "Concurrent changes to different settings of a queue are all applied."},
		Case{Name: "BadSettingsChangeNothing", Once: true, run: fleetBadSettings,
			Law: "Invalid settings are refused and change nothing."},
		Case{Name: "OneLeads", Once: true, run: fleetOneLeads,
			Law: "Of many candidates exactly one leads, as long as it keeps renewing, and another one soon after its term " +
				"ends, or at once if it resigns. A term that is longer than any member could have set is not believed."},
		Case{Name: "WorkersAreListed", Once: true, run: fleetWorkers,
			Law: "A worker is listed with what it last reported, is alive until its time is over, and disappears " +
				"when it deregisters."},
		Case{Name: "CommandsArriveOnce", Once: true, run: fleetCommands,
			Law: "A command reaches its worker exactly once; a command for a worker that is not alive returns ErrNotFound."},
	)
}

func fleetPaused(t *test) {
	c := t.open()
	q, other := c.Queue("paused"), c.Queue("other")
	working := t.takeNew(q, dbq.NewTask{}, long)
	t.enqueue(q, dbq.NewTask{})
	abandoned := t.abandon(q).ID
	ops := admin.New(c)
	t.must(ops.PauseQueue(t.ctx, q.Name(), admin.Reason("the mail server is down")))
	t.must(ops.PauseQueue(t.ctx, q.Name(), admin.Reason("the mail server is still down")))
	due := t.enqueue(q, dbq.NewTask{})
	t.enqueue(other, dbq.NewTask{})
	for range 3 { // a client does not look for lost leases each time
		t.wantNone("checkout of a paused queue", q)
		t.wantNone("checkout of a paused queue by another client", t.open().Queue("paused"))
	}
	t.take(other, long)
	infos, err := ops.Queues(t.ctx)
	t.must(err)
	if len(infos) != 1 || !infos[0].Paused || infos[0].Queue != "paused" ||
		infos[0].Reason != "the mail server is still down" || infos[0].By != c.Info().Name ||
		infos[0].Since.IsZero() {
		t.Errorf("got %+v, want one queue with its pause", infos)
	}
	renewed, err := q.Extend(t.ctx, working.Lease, long)
	t.must(err)
	t.must(q.Complete(t.ctx, renewed, nil))
	t.wantState(c, due, dbq.StateCreated)
	t.wantState(c, abandoned, dbq.StateProcessing)
	t.must(ops.ResumeQueue(t.ctx, q.Name()))
	t.must(ops.ResumeQueue(t.ctx, q.Name()))
	got := map[string]bool{}
	t.eventually("the tasks of the resumed queue are handed out", func() bool {
		for _, task := range t.checkout(q, 5, long) {
			got[task.ID.String()] = true
		}
		return len(got) == 2
	})
	if infos, err := ops.Queues(t.ctx); err != nil || len(infos) != 0 {
		t.Errorf("got %+v, %v, want no queue that has anything set", infos, err)
	}
}

func fleetPauseUnderLoad(t *test) {
	const workers = 4
	c := t.open()
	const queue = "busy"
	t.enqueueMany(c.Queue(queue), 2000, nil)
	var paused atomic.Int64 // 1 from when Pause has returned
	ctx, cancel := context.WithTimeout(t.ctx, workersLimit)
	defer cancel()
	var all sync.WaitGroup
	for range workers {
		q := t.open().Queue(queue)
		all.Go(func() {
			for after := 0; after < 20 && ctx.Err() == nil; {
				began := paused.Load()
				tasks, err := q.Checkout(ctx, 2, long)
				if err != nil {
					t.Errorf("checkout: %v", err)
					return
				}
				if began == 1 {
					after++
					if len(tasks) > 0 {
						t.Errorf("a checkout that began after the pause returned %d tasks", len(tasks))
						return
					}
				}
			}
		})
	}
	time.Sleep(20 * time.Millisecond)
	t.must(admin.New(c).PauseQueue(t.ctx, queue))
	paused.Store(1)
	all.Wait()
}

func fleetSettings(t *test) {
	c := t.open()
	ops := admin.New(c)
	if s, err := ops.QueueSettings(t.ctx, "q"); err != nil || s != (admin.QueueSettings{}) {
		t.Errorf("got %+v, %v, want none yet", s, err)
	}
	want := admin.QueueSettings{Concurrency: 7, Batch: 70, Poll: 1500 * time.Millisecond, Lease: 90 * time.Second,
		MaxAttempts: 3, History: dbq.HistoryFailures, DeadLetter: "alerts", NoStatistics: true,
		Retention: dbq.Retention{Completed: 24 * time.Hour, Poison: 21 * 24 * time.Hour, Parked: time.Hour,
			Attempts: time.Minute, Archive: true}}
	for i, v := 0, reflect.ValueOf(want); i < v.NumField(); i++ {
		if v.Field(i).IsZero() {
			t.Errorf("this case does not know the field %s", v.Type().Field(i).Name)
		}
	}
	t.must(ops.ConfigureQueue(t.ctx, "q", func(s *admin.QueueSettings) { *s = want }))
	if s, err := admin.New(t.open()).QueueSettings(t.ctx, "q"); err != nil || s != want {
		t.Errorf("got %+v, %v, want %+v", s, err, want)
	}
	if s, err := ops.QueueSettings(t.ctx, "Q"); err != nil || s != (admin.QueueSettings{}) {
		t.Errorf("another queue has %+v, %v", s, err)
	}
}

func fleetConfigureTogether(t *test) {
	changes := []func(s *admin.QueueSettings){
		func(s *admin.QueueSettings) { s.Concurrency = 1 }, func(s *admin.QueueSettings) { s.Batch = 2 },
		func(s *admin.QueueSettings) { s.Poll = 3 * time.Second }, func(s *admin.QueueSettings) { s.MaxAttempts = 4 },
		func(s *admin.QueueSettings) { s.History = dbq.HistoryNone },
		func(s *admin.QueueSettings) { s.Retention.Poison = time.Hour },
	}
	ops := admin.New(t.open())
	t.concurrently(len(changes), func(ctx context.Context, i int) {
		if err := ops.ConfigureQueue(ctx, "q", changes[i]); err != nil {
			t.Errorf("change %d: %v", i, err)
		}
	})
	s, err := ops.QueueSettings(t.ctx, "q")
	if want := (admin.QueueSettings{Concurrency: 1, Batch: 2, Poll: 3 * time.Second, MaxAttempts: 4,
		History:   dbq.HistoryNone,
		Retention: dbq.Retention{Poison: time.Hour}}); err != nil || s != want {
		t.Errorf("got %+v, %v, want %+v", s, err, want)
	}
}

func fleetBadSettings(t *test) {
	ops := admin.New(t.open())
	t.must(ops.ConfigureQueue(t.ctx, "q", func(s *admin.QueueSettings) { s.Batch = 5 }))
	for what, change := range map[string]func(s *admin.QueueSettings){
		"a negative concurrency": func(s *admin.QueueSettings) { s.Concurrency = -1 },
		"a batch over the limit": func(s *admin.QueueSettings) { s.Batch = dbq.MaxCheckout + 1 },
		"a negative poll":        func(s *admin.QueueSettings) { s.Poll = -1 },
		"a lease of a day more":  func(s *admin.QueueSettings) { s.Lease = dbq.MaxLease + 24*time.Hour },
		"too many attempts":      func(s *admin.QueueSettings) { s.MaxAttempts = dbq.MaxMaxAttempts + 1 },
		"an unknown history":     func(s *admin.QueueSettings) { s.History = "some" },
		"a negative retention":   func(s *admin.QueueSettings) { s.Retention.Poison = -time.Second },
	} {
		t.wantErr(what, ops.ConfigureQueue(t.ctx, "q", change), dbq.ErrInvalid)
	}
	for what, name := range map[string]string{"no queue": "", "a queue with a control character": "a\nb"} {
		t.wantErr("pausing "+what, ops.PauseQueue(t.ctx, name), dbq.ErrQueueName)
		t.wantErr("configuring "+what, ops.ConfigureQueue(t.ctx, name, func(*admin.QueueSettings) {}), dbq.ErrQueueName)
	}
	if s, err := ops.QueueSettings(t.ctx, "q"); err != nil || s != (admin.QueueSettings{Batch: 5}) {
		t.Errorf("got %+v, %v, want what was there before", s, err)
	}
}

func fleetOneLeads(t *test) {
	const many, ttl = 5, 2 * time.Second
	c := t.open()
	var leaders sync.Map
	var count atomic.Int64
	t.concurrently(many, func(ctx context.Context, i int) {
		who := fmt.Sprint("worker ", i)
		leads, err := access.Of(c).Control.TryLead(ctx, "election", who, time.Minute) // none comes after its term
		if err != nil {
			t.Errorf("%s: %v", who, err)
		}
		if leads {
			leaders.Store(who, true)
			count.Add(1)
		}
	})
	if count.Load() != 1 {
		t.Fatalf("%d lead, want 1", count.Load())
	}
	var leader string
	leaders.Range(func(k, _ any) bool { leader = k.(string); return false })
	for range 3 {
		if leads, err := access.Of(c).Control.TryLead(t.ctx, "cleaning", leader, ttl); err != nil || !leads {
			t.Errorf("the leader asked again and got %v, %v", leads, err)
		}
		if leads, err := access.Of(c).Control.TryLead(t.ctx, "cleaning", "another member", ttl); err != nil || leads {
			t.Errorf("another member got %v, %v, while the leader's time is not over", leads, err)
		}
	}
	// A statement that began before the leader's may read its end, which is then more than a term ahead.
	if leads, err := access.Of(c).Control.TryLead(t.ctx, "a little ahead", leader, ttl+time.Second); err != nil || !leads {
		t.Errorf("the leader got %v, %v", leads, err)
	}
	if leads, err := access.Of(c).Control.TryLead(t.ctx, "a little ahead", "another member", ttl); err != nil || leads {
		t.Errorf("got %v, %v, although the leader's term may have begun a second after this question", leads, err)
	}
	const ahead = 24 * time.Hour // of a clock that has been set back since
	if leads, err := access.Of(c).Control.TryLead(t.ctx, "set ahead", leader, ahead+ttl); err != nil || !leads {
		t.Errorf("the leader got %v, %v", leads, err)
	}
	if leads, err := access.Of(c).Control.TryLead(t.ctx, "set ahead", "another member", ttl); err != nil || !leads {
		t.Errorf("got %v, %v, although the leader's end is later than any member could have set it now", leads, err)
	}
	if leads, err := access.Of(c).Control.TryLead(t.ctx, "another duty", "another member", ttl); err != nil || !leads {
		t.Errorf("another duty has a leader of its own: got %v, %v", leads, err)
	}
	t.eventually("another member leads when the leader has stopped asking", func() bool {
		leads, err := access.Of(c).Control.TryLead(t.ctx, "cleaning", "another member", ttl)
		t.must(err)
		return leads
	})
	if leads, err := access.Of(c).Control.TryLead(t.ctx, "cleaning", leader, ttl); err != nil || leads {
		t.Errorf("the first leader got %v, %v after its successor", leads, err)
	}
	t.must(access.Of(c).Control.Resign(t.ctx, leader)) // its successor keeps what it was the leader of
	if leads, err := access.Of(c).Control.TryLead(t.ctx, "cleaning", leader, ttl); err != nil || leads {
		t.Errorf("the first leader got %v, %v, although it resigned after its term", leads, err)
	}
	if leads, err := access.Of(c).Control.TryLead(t.ctx, "long duty", leader, time.Hour); err != nil || !leads {
		t.Errorf("the leader got %v, %v", leads, err)
	}
	t.must(access.Of(c).Control.Resign(t.ctx, leader))
	if leads, err := access.Of(c).Control.TryLead(t.ctx, "long duty", "another member", time.Hour); err != nil || !leads {
		t.Errorf("another member got %v, %v after the leader resigned", leads, err)
	}
}

func fleetWorkers(t *test) {
	c := t.open()
	said := control.Worker{ID: "worker ü 1", Queue: "q", Host: "h", PID: 12,
		Started: time.Now().UTC().Truncate(time.Second), State: "running",
		Concurrency: 4, Holding: 2, Done: 10, Failed: 1, Program: "v1"}
	_, err := access.Of(c).Control.Report(t.ctx, said, short)
	t.must(err)
	_, err = access.Of(c).Control.Report(t.ctx, control.Worker{ID: "worker ü 2", State: "running"}, long)
	t.must(err)
	ws, err := admin.New(t.open()).Workers(t.ctx)
	t.must(err)
	if len(ws) != 2 || ws[0].Seen.IsZero() || ws[1].Dead {
		t.Fatalf("got %+v, want two, the second alive", ws)
	}
	first := ws[0]
	first.Seen, first.Dead = time.Time{}, false
	if control.Worker(first) != said {
		t.Errorf("got %+v, want what it said: %+v", first, said)
	}
	t.eventually("the worker whose time is over is not alive", func() bool {
		ws, err := admin.New(c).Workers(t.ctx)
		t.must(err)
		return len(ws) == 2 && ws[0].Dead && !ws[1].Dead
	})
	t.must(access.Of(c).Control.Deregister(t.ctx, said.ID))
	t.must(access.Of(c).Control.Deregister(t.ctx, said.ID))
	if ws, err := admin.New(c).Workers(t.ctx); err != nil || len(ws) != 1 || ws[0].ID != "worker ü 2" {
		t.Errorf("got %+v, %v, want the other one alone", ws, err)
	}
	_, err = access.Of(c).Control.Report(t.ctx, control.Worker{}, long)
	t.wantErr("a worker without an id", err, dbq.ErrOption)
}

func fleetCommands(t *test) {
	c := t.open()
	ops := admin.New(c)
	w := control.Worker{ID: "w", State: "running"}
	report := func() dbq.Command {
		command, err := access.Of(c).Control.Report(t.ctx, w, long)
		t.must(err)
		return dbq.Command(command)
	}
	if got := report(); got != "" {
		t.Errorf("got the command %q, which was not sent", got)
	}
	t.must(ops.CommandWorker(t.ctx, "w", dbq.CommandPause))
	t.must(admin.New(t.open()).CommandWorker(t.ctx, "w", dbq.CommandStop))
	if got := report(); got != dbq.CommandStop {
		t.Errorf("got the command %q, want the later one, %q", got, dbq.CommandStop)
	}
	if got := report(); got != "" {
		t.Errorf("got the command %q once more", got)
	}
	t.wantErr("a command for an unknown worker", ops.CommandWorker(t.ctx, "nobody", dbq.CommandStop), dbq.ErrNotFound)
	t.wantErr("an unknown command", ops.CommandWorker(t.ctx, "w", "dance"), dbq.ErrOption)
}

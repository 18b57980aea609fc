package conformance

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dbq-go/dbq"
)

// fleetCases are what the workers on one database share: pauses, settings, the registry, and who leads.
func fleetCases() []Case {
	return inGroup("Fleet",
		Case{Name: "PausedHandsOutNothing", run: fleetPaused,
			Law: "A paused queue hands out neither due tasks nor those whose lease ran out, takes in new ones, and lets those in work be settled; other queues go on."},
		Case{Name: "PauseUnderLoad", run: fleetPauseUnderLoad,
			Law: "No checkout that begins after a pause returns a task, whatever other clients do at the time."},
		Case{Name: "SettingsRoundTrip", once: true, run: fleetSettings,
			Law: "Every field of a queue's settings comes back as it was set, to every client, and only for that queue."},
		Case{Name: "ConfigureTogether", once: true, run: fleetConfigureTogether,
			Law: "Of several who change different settings of a queue at once all win."},
		Case{Name: "BadSettingsChangeNothing", once: true, run: fleetBadSettings,
			Law: "Settings that make no sense are refused, and change nothing."},
		Case{Name: "OneLeads", once: true, run: fleetOneLeads,
			Law: "Of many who want to lead one does, as long as it keeps asking, and another one soon after its time is over."},
		Case{Name: "WorkersAreListed", once: true, run: fleetWorkers,
			Law: "A worker that announced itself is listed with what it said, is alive until its time is over, and is gone when it withdraws."},
		Case{Name: "OrdersArriveOnce", once: true, run: fleetOrders,
			Law: "An order arrives at its worker once; one for a worker that is not alive is ErrNotFound."},
	)
}

func fleetPaused(t *T) {
	c := t.Open()
	q, other := c.Queue("paused"), c.Queue("other")
	working := t.takeNew(q, dbq.NewTask{}, long)
	t.enqueue(q, dbq.NewTask{})
	abandoned := t.abandon(q).ID
	t.Must(q.Pause(t.ctx, "the mail server is down"))
	t.Must(q.Pause(t.ctx, "the mail server is still down"))
	due := t.enqueue(q, dbq.NewTask{})
	t.enqueue(other, dbq.NewTask{})
	for range 3 { // a client does not look for lost leases each time
		t.wantNone("checkout of a paused queue", q)
		t.wantNone("checkout of a paused queue by another client", t.Open().Queue("paused"))
	}
	t.take(other, long)
	infos, err := c.Queues(t.ctx)
	t.Must(err)
	if len(infos) != 1 || !infos[0].Paused || infos[0].Queue != "paused" || infos[0].Reason != "the mail server is still down" || infos[0].By != c.Name() ||
		infos[0].Since.IsZero() {
		t.Errorf("got %+v, want one queue with its pause", infos)
	}
	renewed, err := q.Extend(t.ctx, working.Lease, long)
	t.Must(err)
	t.Must(q.Complete(t.ctx, renewed, nil))
	t.wantState(c, due, dbq.StateCreated)
	t.wantState(c, abandoned, dbq.StateProcessing)
	t.Must(q.Resume(t.ctx))
	t.Must(q.Resume(t.ctx))
	got := map[string]bool{}
	t.eventually("the tasks of the resumed queue are handed out", func() bool {
		for _, task := range t.checkout(q, 5, long) {
			got[task.ID.String()] = true
		}
		return len(got) == 2
	})
	if infos, err := c.Queues(t.ctx); err != nil || len(infos) != 0 {
		t.Errorf("got %+v, %v, want no queue that has anything set", infos, err)
	}
}

func fleetPauseUnderLoad(t *T) {
	const workers = 4
	c := t.Open()
	const queue = "busy"
	t.enqueueMany(c.Queue(queue), 2000, nil)
	var paused atomic.Int64 // 1 from when Pause has returned
	ctx, cancel := context.WithTimeout(t.ctx, workTime)
	defer cancel()
	var all sync.WaitGroup
	for range workers {
		q := t.Open().Queue(queue)
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
	t.Must(c.Queue(queue).Pause(t.ctx, ""))
	paused.Store(1)
	all.Wait()
}

func fleetSettings(t *T) {
	c := t.Open()
	q := c.Queue("q")
	if s, err := q.Settings(t.ctx); err != nil || s != (dbq.QueueSettings{}) {
		t.Errorf("got %+v, %v, want none yet", s, err)
	}
	want := dbq.QueueSettings{Concurrency: 7, Batch: 70, Poll: 1500 * time.Millisecond, Lease: 90 * time.Second, MaxAttempts: 3, History: dbq.HistoryFailures,
		Retention: dbq.Retention{Completed: 24 * time.Hour, Poison: 21 * 24 * time.Hour, Parked: time.Hour, Attempts: time.Minute, Archive: true}}
	for i, v := 0, reflect.ValueOf(want); i < v.NumField(); i++ {
		if v.Field(i).IsZero() {
			t.Errorf("this case does not know the field %s", v.Type().Field(i).Name)
		}
	}
	t.Must(q.Configure(t.ctx, func(s *dbq.QueueSettings) { *s = want }))
	if s, err := t.Open().Queue("q").Settings(t.ctx); err != nil || s != want {
		t.Errorf("got %+v, %v, want %+v", s, err, want)
	}
	if s, err := c.Queue("Q").Settings(t.ctx); err != nil || s != (dbq.QueueSettings{}) {
		t.Errorf("another queue has %+v, %v", s, err)
	}
}

func fleetConfigureTogether(t *T) {
	changes := []func(s *dbq.QueueSettings){
		func(s *dbq.QueueSettings) { s.Concurrency = 1 }, func(s *dbq.QueueSettings) { s.Batch = 2 },
		func(s *dbq.QueueSettings) { s.Poll = 3 * time.Second }, func(s *dbq.QueueSettings) { s.MaxAttempts = 4 },
		func(s *dbq.QueueSettings) { s.History = dbq.HistoryNone }, func(s *dbq.QueueSettings) { s.Retention.Poison = time.Hour },
	}
	c := t.Open()
	t.together(len(changes), func(ctx context.Context, i int) {
		if err := c.Queue("q").Configure(ctx, changes[i]); err != nil {
			t.Errorf("change %d: %v", i, err)
		}
	})
	s, err := c.Queue("q").Settings(t.ctx)
	if want := (dbq.QueueSettings{Concurrency: 1, Batch: 2, Poll: 3 * time.Second, MaxAttempts: 4, History: dbq.HistoryNone,
		Retention: dbq.Retention{Poison: time.Hour}}); err != nil || s != want {
		t.Errorf("got %+v, %v, want %+v", s, err, want)
	}
}

func fleetBadSettings(t *T) {
	c := t.Open()
	q := c.Queue("q")
	t.Must(q.Configure(t.ctx, func(s *dbq.QueueSettings) { s.Batch = 5 }))
	for what, change := range map[string]func(s *dbq.QueueSettings){
		"a negative concurrency": func(s *dbq.QueueSettings) { s.Concurrency = -1 },
		"a batch over the limit": func(s *dbq.QueueSettings) { s.Batch = dbq.MaxCheckout + 1 },
		"a negative poll":        func(s *dbq.QueueSettings) { s.Poll = -1 },
		"a lease of a day more":  func(s *dbq.QueueSettings) { s.Lease = dbq.MaxLease + 24*time.Hour },
		"too many attempts":      func(s *dbq.QueueSettings) { s.MaxAttempts = dbq.MaxMaxAttempts + 1 },
		"an unknown history":     func(s *dbq.QueueSettings) { s.History = "some" },
		"a negative retention":   func(s *dbq.QueueSettings) { s.Retention.Poison = -time.Second },
	} {
		t.WantErr(what, q.Configure(t.ctx, change), dbq.ErrInvalid)
	}
	for what, name := range map[string]string{"no queue": "", "a queue with a control character": "a\nb"} {
		t.WantErr("pausing "+what, c.Queue(name).Pause(t.ctx, ""), dbq.ErrQueueName)
		t.WantErr("configuring "+what, c.Queue(name).Configure(t.ctx, func(*dbq.QueueSettings) {}), dbq.ErrQueueName)
	}
	if s, err := q.Settings(t.ctx); err != nil || s != (dbq.QueueSettings{Batch: 5}) {
		t.Errorf("got %+v, %v, want what was there before", s, err)
	}
}

func fleetOneLeads(t *T) {
	const many, ttl = 5, 2 * time.Second
	c := t.Open()
	var leaders sync.Map
	var count atomic.Int64
	t.together(many, func(ctx context.Context, i int) {
		who := fmt.Sprint("worker ", i)
		leads, err := c.Lead(ctx, "cleaning", who, ttl)
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
		if leads, err := c.Lead(t.ctx, "cleaning", leader, ttl); err != nil || !leads {
			t.Errorf("the leader asked again and got %v, %v", leads, err)
		}
		if leads, err := c.Lead(t.ctx, "cleaning", "somebody else", ttl); err != nil || leads {
			t.Errorf("somebody else got %v, %v, while the leader's time is not over", leads, err)
		}
	}
	if leads, err := c.Lead(t.ctx, "another duty", "somebody else", ttl); err != nil || !leads {
		t.Errorf("another duty has a leader of its own: got %v, %v", leads, err)
	}
	t.eventually("somebody else leads when the leader has stopped asking", func() bool {
		leads, err := c.Lead(t.ctx, "cleaning", "somebody else", ttl)
		t.Must(err)
		return leads
	})
	if leads, err := c.Lead(t.ctx, "cleaning", leader, ttl); err != nil || leads {
		t.Errorf("the first leader got %v, %v after its successor", leads, err)
	}
}

func fleetWorkers(t *T) {
	c := t.Open()
	said := dbq.WorkerInfo{ID: "worker ü 1", Queue: "q", Host: "h", PID: 12, Started: time.Now().UTC().Truncate(time.Second), State: "running",
		Concurrency: 4, Holding: 2, Done: 10, Failed: 1, Program: "v1"}
	_, err := c.Announce(t.ctx, said, short)
	t.Must(err)
	_, err = c.Announce(t.ctx, dbq.WorkerInfo{ID: "worker ü 2", State: "running"}, long)
	t.Must(err)
	ws, err := t.Open().Workers(t.ctx)
	t.Must(err)
	if len(ws) != 2 || ws[0].Seen.IsZero() || !ws[1].Alive {
		t.Fatalf("got %+v, want two, the second alive", ws)
	}
	first := ws[0]
	first.Seen, first.Alive = time.Time{}, false
	if first != said {
		t.Errorf("got %+v, want what it said: %+v", first, said)
	}
	t.eventually("the worker whose time is over is not alive", func() bool {
		ws, err := c.Workers(t.ctx)
		t.Must(err)
		return len(ws) == 2 && !ws[0].Alive && ws[1].Alive
	})
	t.Must(c.Withdraw(t.ctx, said.ID))
	t.Must(c.Withdraw(t.ctx, said.ID))
	if ws, err := c.Workers(t.ctx); err != nil || len(ws) != 1 || ws[0].ID != "worker ü 2" {
		t.Errorf("got %+v, %v, want the other one alone", ws, err)
	}
	_, err = c.Announce(t.ctx, dbq.WorkerInfo{}, long)
	t.WantErr("a worker without an id", err, dbq.ErrOption)
}

func fleetOrders(t *T) {
	c := t.Open()
	w := dbq.WorkerInfo{ID: "w", State: "running"}
	announce := func() dbq.Order {
		o, err := c.Announce(t.ctx, w, long)
		t.Must(err)
		return o
	}
	if o := announce(); o != "" {
		t.Errorf("got the order %q, which nobody gave", o)
	}
	t.Must(c.OrderWorker(t.ctx, "w", dbq.OrderPause))
	t.Must(t.Open().OrderWorker(t.ctx, "w", dbq.OrderStop))
	if o := announce(); o != dbq.OrderStop {
		t.Errorf("got the order %q, want the later one, %q", o, dbq.OrderStop)
	}
	if o := announce(); o != "" {
		t.Errorf("got the order %q once more", o)
	}
	t.WantErr("an order for nobody", c.OrderWorker(t.ctx, "nobody", dbq.OrderStop), dbq.ErrNotFound)
	t.WantErr("an unknown order", c.OrderWorker(t.ctx, "w", "dance"), dbq.ErrOption)
}

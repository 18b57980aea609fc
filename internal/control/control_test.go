package control_test

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	_ "github.com/dbq-go/dbq/dialect/sqlite"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/internal/control"
	"github.com/google/uuid"
)

// calls are the calls of a Waker.
type calls struct {
	mu  sync.Mutex
	all []string
}

func (c *calls) add(call string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, call)
}

func (c *calls) WakeControl(queue string)      { c.add("control " + queue) }
func (c *calls) WakeTasks(queue string, _ int) { c.add("tasks " + queue) }

// fixture is a Control on a database in memory, whose errors say the operation and the queue.
type fixture struct {
	*control.Control
	*testing.T
	client *dbq.Client
	woken  *calls
}

func open(t *testing.T) fixture {
	t.Helper()
	t.Parallel()
	client, err := dbq.Open(t.Context(), "sqlite::memory:", dbq.WithMigrate())
	check.OK(t, err)
	t.Cleanup(func() { client.Close() })
	f := fixture{T: t, client: client, woken: &calls{}}
	f.Control = f.another()
	return f
}

// another returns a Control as another client of the same tables has it.
func (f fixture) another() *control.Control {
	return control.New(access.Of(f.client).Store, control.Options{
		Waker: f.woken, Logger: slog.New(slog.DiscardHandler),
		Wrap: func(op, queue string, _ uuid.UUID, err error) error {
			if err != nil {
				err = fmt.Errorf("%s %s: %w", op, queue, err)
			}
			return err
		},
	})
}

func (f fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// put writes a record as a person might by hand.
func (f fixture) put(namespace, name, value string) {
	f.Helper()
	f.must(access.Of(f.client).Store.PutKV(f.Context(), namespace, name, value, 0))
}

func TestUnreadablePauseStillPauses(t *testing.T) {
	f := open(t)
	f.put("pause", "q", "by hand")
	queues, err := f.Queues(t.Context())
	if err != nil || len(queues) != 1 || queues[0].Name != "q" || !queues[0].Paused || queues[0].Since.IsZero() {
		t.Errorf("got %+v, %v, want q paused", queues, err)
	}
}

func TestUnreadableSettingsAreNamedAndReplaced(t *testing.T) {
	f := open(t)
	f.put("queue", "q", "{")
	for name, call := range map[string]func() error{
		"settings q": func() error { _, err := f.Settings(t.Context(), "q"); return err },
		"queues q":   func() error { _, err := f.Queues(t.Context()); return err },
	} {
		if err := call(); err == nil || !strings.HasPrefix(err.Error(), name+": ") ||
			!strings.Contains(err.Error(), "set them again") {
			t.Errorf("%s: got %v, want an error that says to set them again", name, err)
		}
	}
	f.must(f.Configure(t.Context(), "q", func(s *control.Settings) { s.MaxCheckout = 7 }))
	if got, err := f.Settings(t.Context(), "q"); err != nil || got != (control.Settings{MaxCheckout: 7}) {
		t.Errorf("got %+v, %v, want a batch of 7 alone", got, err)
	}
}

func TestUnreadableWorkerIsListed(t *testing.T) {
	f := open(t)
	f.put("worker", "w", "by hand")
	ws, err := f.Workers(t.Context())
	if err != nil || len(ws) != 1 || ws[0].ID != "w" || ws[0].State != "unreadable" || ws[0].Dead {
		t.Errorf("got %+v, %v, want w, unreadable", ws, err)
	}
	f.must(f.SendCommand(t.Context(), "w", control.CommandStop)) // its next report finds it, without a wake-up
	if len(f.woken.all) != 0 {
		t.Errorf("woken: %v", f.woken.all)
	}
}

// Two clients that change different fields at the same time both succeed.
func TestConfigureAppliesConcurrentChanges(t *testing.T) {
	f := open(t)
	other := f.another()
	calls := 0
	f.must(f.Configure(t.Context(), "q", func(s *control.Settings) {
		if calls++; calls == 1 { // between the reading and the writing of the first
			f.must(other.Configure(t.Context(), "q", func(s *control.Settings) { s.MaxCheckout = 7 }))
		}
		s.Concurrency = 3
	}))
	got, err := f.Settings(t.Context(), "q")
	if want := (control.Settings{Concurrency: 3, MaxCheckout: 7}); err != nil || got != want || calls != 2 {
		t.Errorf("got %+v, %v after %d calls, want %+v after 2", got, err, calls, want)
	}
}

func TestCallsThatWakeWorkers(t *testing.T) {
	f := open(t)
	f.must(second(f.Report(t.Context(), control.Worker{ID: "w", Queue: "q"}, time.Minute)))
	for _, c := range []struct {
		name string
		call func() error
		want string // "" is nothing
	}{
		{"settings", func() error { return f.Configure(t.Context(), "q", func(*control.Settings) {}) }, "control q"},
		{"a command", func() error { return f.SendCommand(t.Context(), "w", control.CommandPause) }, "control q"},
		{"a pause", func() error { return f.PauseQueue(t.Context(), "q", "ann", "") }, ""},
		{"the end of a pause", func() error { return f.ResumeQueue(t.Context(), "q", "ann", "") }, "tasks q"},
		{"a resumption without a pause", func() error { return f.ResumeQueue(t.Context(), "q", "ann", "") }, "tasks q"},
	} {
		f.woken.all = nil
		f.must(c.call())
		if got := strings.Join(f.woken.all, ", "); got != c.want {
			t.Errorf("%s woke %q, want %q", c.name, got, c.want)
		}
	}
}

func TestRefusedCallsChangeAndWakeNothing(t *testing.T) {
	f := open(t)
	f.must(f.Configure(t.Context(), "q", func(s *control.Settings) { s.MaxCheckout = 7 }))
	f.must(second(f.Report(t.Context(), control.Worker{ID: "dead"}, time.Millisecond)))
	time.Sleep(5 * time.Millisecond)
	f.woken.all = nil
	long := strings.Repeat("x", 201)
	ctx := t.Context()
	beat := func(id string, ttl time.Duration) error {
		return second(f.Report(ctx, control.Worker{ID: id}, ttl))
	}
	lead := func(duty, member string, ttl time.Duration) error { return second(f.TryLead(ctx, duty, member, ttl)) }
	batch := func(queue string, n int) error {
		return f.Configure(ctx, queue, func(s *control.Settings) { s.MaxCheckout = n })
	}
	for _, c := range []struct {
		name      string
		err, want error
	}{
		{"settings out of range", batch("q", -1), dbq.ErrOption},
		{"settings of no queue", batch("", 1), dbq.ErrQueueName},
		{"a pause of no queue", f.PauseQueue(ctx, "", "ann", ""), dbq.ErrQueueName},
		{"another command", f.SendCommand(ctx, "dead", "halt"), dbq.ErrOption},
		{"a command for a dead worker", f.SendCommand(ctx, "dead", control.CommandStop), dbq.ErrNotFound},
		{"a command for no worker", f.SendCommand(ctx, "w", control.CommandStop), dbq.ErrNotFound},
		{"a long id", beat(long, time.Minute), dbq.ErrOption},
		{"a heartbeat for no time", beat("w", 0), dbq.ErrOption},
		{"no duty", lead("", "m", time.Minute), dbq.ErrOption},
		{"a long member", lead("r", long, time.Minute), dbq.ErrOption},
		{"leading for no time", lead("r", "m", 0), dbq.ErrOption},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, c.err, c.want)
		}
	}
	queues, err := f.Queues(ctx)
	if err != nil || len(queues) != 1 || queues[0].Paused || queues[0].Settings != (control.Settings{MaxCheckout: 7}) {
		t.Errorf("queues are %+v, %v", queues, err)
	}
	if len(f.woken.all) != 0 {
		t.Errorf("woken: %v", f.woken.all)
	}
}

// A worker that another client has reported, as after a restart under the same id, goes on being reported.
func TestHeartbeatOfAWorkerThatAnotherClientReported(t *testing.T) {
	f := open(t)
	other := f.another()
	for i, c := range []*control.Control{f.Control, f.Control, other, f.Control, other} {
		_, err := c.Report(t.Context(), control.Worker{ID: "w", Done: int64(i)}, time.Minute)
		f.must(err)
		ws, err := f.Workers(t.Context())
		if err != nil || len(ws) != 1 || ws[0].Done != int64(i) {
			t.Errorf("after report %d: %+v, %v", i, ws, err)
		}
	}
}

func TestLaterCommandReplacesAnEarlierOne(t *testing.T) {
	f := open(t)
	beat := func() string {
		t.Helper()
		command, err := f.Report(t.Context(), control.Worker{ID: "w", Queue: "q"}, time.Minute)
		f.must(err)
		return command
	}
	got := []string{beat()}
	f.must(f.SendCommand(t.Context(), "w", control.CommandPause))
	f.must(f.SendCommand(t.Context(), "w", control.CommandResume))
	got = append(got, beat(), beat())
	f.must(f.SendCommand(t.Context(), "w", control.CommandResume))
	got = append(got, beat())
	f.must(f.SendCommand(t.Context(), "w", control.CommandStop))
	last, err := f.Deregister(t.Context(), "w")
	f.must(err)
	got = append(got, last, beat()) // a new worker of the same id does not get the commands of the old one
	if want := []string{"", "resume", "", "resume", "stop", ""}; !slices.Equal(got, want) {
		t.Errorf("heartbeats returned %q, want %q", got, want)
	}
}

// Each client with a worker removes those that have been dead for a day, once an hour.
func TestWorkersDeadForADayAreRemoved(t *testing.T) {
	f := open(t)
	died := func(name string, ago time.Duration) {
		t.Helper()
		f.put("worker", name, fmt.Sprintf(`{"id":%q}`, name))
		_, err := f.client.DB().ExecContext(t.Context(),
			"UPDATE dbq_kv SET expires = ? WHERE namespace = 'worker' AND name = ?",
			time.Now().Add(-ago).UnixMicro(), name)
		f.must(err)
	}
	listed := func(c *control.Control) string {
		t.Helper()
		f.must(second(c.Report(t.Context(), control.Worker{ID: "w"}, time.Minute)))
		ws, err := c.Workers(t.Context())
		f.must(err)
		var ids []string
		for _, w := range ws {
			ids = append(ids, w.ID)
		}
		return strings.Join(ids, " ")
	}
	died("a day", 25*time.Hour)
	died("an hour", time.Hour)
	if got := listed(f.Control); got != "an hour w" {
		t.Errorf("listed are %q, want %q", got, "an hour w")
	}
	died("a day", 25*time.Hour)
	if got := listed(f.Control); got != "a day an hour w" {
		t.Errorf("after a second heartbeat %q are listed: it is not the time to look again", got)
	}
	if got := listed(f.another()); got != "an hour w" {
		t.Errorf("another client lists %q, want %q", got, "an hour w")
	}
}

func second[T any](_ T, err error) error { return err }

// A worker that has not reported since the database's clock was set back is dead, and not alive until the time that the
// clock showed.
func TestWorkerThatReportedAheadIsDead(t *testing.T) {
	f := open(t)
	_, err := f.Report(t.Context(), control.Worker{ID: "w", State: control.WorkerRunning}, time.Minute)
	f.must(err)
	for ahead, dead := range map[time.Duration]bool{0: false, 30 * time.Second: false, time.Hour: true} {
		_, err := f.client.DB().ExecContext(t.Context(), fmt.Sprintf("UPDATE dbq_kv SET updated = %d, expires = %d",
			time.Now().Add(ahead).UnixMicro(), time.Now().Add(ahead+time.Minute).UnixMicro()))
		f.must(err)
		workers, err := f.Workers(t.Context())
		if err != nil || len(workers) != 1 || workers[0].Dead != dead {
			t.Errorf("%v ahead: %+v, %v, want dead: %v", ahead, workers, err, dead)
		}
		if err := f.SendCommand(t.Context(), "w", control.CommandPause); errors.Is(err, dbq.ErrNotFound) != dead {
			t.Errorf("%v ahead: a command got %v", ahead, err)
		}
	}
}

// A record has little space: the tasks that a worker runs are left out before its report fails.
func TestLongReportLeavesOutTheTasks(t *testing.T) {
	f := open(t)
	w := control.Worker{ID: "w", Queue: "q", State: control.WorkerRunning}
	for range control.MaxHeld {
		w.Held = append(w.Held, dbq.NewID())
	}
	check.OK(t, f.Announce(t.Context(), w, time.Minute))
	if ws, err := f.Workers(t.Context()); err != nil || len(ws) != 1 || !slices.Equal(ws[0].Held, w.Held) {
		t.Errorf("the registry has %+v, want the tasks %v: %v", ws, w.Held, err)
	}
	for range 17 {
		w.NoHandler = append(w.NoHandler, strings.Repeat("k", 200))
	}
	check.OK(t, f.Announce(t.Context(), w, time.Minute))
	if ws, err := f.Workers(t.Context()); err != nil || len(ws) != 1 || ws[0].Held != nil || len(ws[0].NoHandler) != 17 {
		t.Errorf("the registry has %+v, want no tasks and 17 kinds: %v", ws, err)
	}
}

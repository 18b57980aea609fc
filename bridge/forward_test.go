package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/bridge"
	"github.com/dbq-go/dbq/dbqtest"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/worker"
)

func newForwarder(t testing.TB, cfg bridge.ForwarderConfig) *bridge.Forwarder {
	t.Helper()
	cfg.Logger = slog.New(slog.DiscardHandler)
	f, err := bridge.NewForwarder(cfg)
	check.OK(t, err)
	return f
}

// unreliable does everything twice, and loses every second response.
type unreliable struct {
	bridge.Enqueuer
	calls atomic.Int64
}

func (u *unreliable) Enqueue(ctx context.Context, ts []dbq.NewTask) ([]dbq.Enqueued, error) {
	if out, err := u.Enqueuer.Enqueue(ctx, ts); err != nil || u.calls.Add(1)%2 == 0 {
		return out, err
	}
	return nil, dbq.ErrMayHaveHappened
}

// The far side has the task, its response is lost, and a unique enqueue replaces the payload before the repetition.
func TestForwardKeepsAReplacedPayload(t *testing.T) {
	t.Parallel()
	near, far := dbqtest.New(t), dbqtest.New(t)
	f := newForwarder(t, bridge.ForwarderConfig{To: &unreliable{Enqueuer: bridge.ToQueue(far.Queue("in"))}})
	for _, payload := range []string{"old", "new"} {
		_, err := near.Queue("out").EnqueueMany(t.Context(), []dbq.NewTask{{Payload: []byte(payload),
			Unique: &dbq.Unique{Key: "k", OnConflict: dbq.UniqueReplace}}})
		check.OK(t, err)
		near.Run(f.Worker(near.Queue("out")))
		near.Advance(time.Minute)
	}
	near.Run(f.Worker(near.Queue("out")))
	near.WantTasks("out", dbq.StateCompleted, 1)
	tasks, err := far.Queue("in").Checkout(t.Context(), 10, time.Minute)
	check.OK(t, err)
	var got []string
	for _, task := range tasks {
		got = append(got, string(task.Payload))
	}
	if len(got) != 2 || got[0] != "old" || got[1] != "new" {
		t.Errorf("the far side has %q, want old and new", got)
	}
}

// farSides returns ways to a queue.
func farSides(t *testing.T, q *dbq.Queue) map[string]bridge.Enqueuer {
	secret := bridge.NewSecret()
	s := serve(t, newReceiver(t, bridge.ReceiverConfig{Queue: q, Secrets: []bridge.Secret{secret}, Tasks: true}).ServeHTTP)
	to, err := bridge.ToURL(local(s.URL, secret))
	check.OK(t, err)
	return map[string]bridge.Enqueuer{"direct": bridge.ToQueue(q), "HTTP": to}
}

func TestForwardKeepsTheTask(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"direct", "HTTP"} {
		near, far := dbqtest.New(t), dbqtest.New(t)
		sent := dbq.NewTask{
			Kind: "k", Payload: []byte("\x00\xff"), Reference: "r", Key: "c", Priority: 3, MaxAttempts: 7,
			Headers: map[string]string{"h": "v"},
		}
		_, err := near.Queue("out").EnqueueMany(t.Context(), []dbq.NewTask{sent, {Payload: []byte{}}, {}, {Delay: time.Hour}})
		check.OK(t, err)
		f := newForwarder(t, bridge.ForwarderConfig{To: farSides(t, far.Queue("in"))[way]})
		near.Run(f.Worker(near.Queue("out")))
		near.WantTasks("out", dbq.StateCompleted, 3)
		got := far.Tasks("in", dbq.StateCreated)
		if len(got) != 3 {
			t.Fatalf("%s: %d tasks were forwarded, want those that are due", way, len(got))
		}
		for _, task := range got {
			switch {
			case task.Kind == "k":
				back := dbq.NewTask{
					Kind: task.Kind, Payload: task.Payload, Reference: task.Reference, Key: task.Key, Priority: task.Priority,
					MaxAttempts: task.MaxAttempts, Headers: task.Headers,
				}
				if back.Headers[bridge.HopsHeader] != "1" {
					t.Errorf("%s: the headers are %v", way, back.Headers)
				}
				delete(back.Headers, bridge.HopsHeader)
				if fmt.Sprintf("%+v", back) != fmt.Sprintf("%+v", sent) {
					t.Errorf("%s: got %+v, want %+v", way, back, sent)
				}
			case len(task.Payload) != 0:
				t.Errorf("%s: the payload is %q", way, task.Payload)
			}
		}
	}
}

func TestForwardedOnceDespiteLostAnswers(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"direct", "HTTP"} {
		near, far := dbqtest.New(t), dbqtest.New(t)
		to := &unreliable{Enqueuer: farSides(t, far.Queue("in"))[way]}
		f := newForwarder(t, bridge.ForwarderConfig{To: to, MaxFailures: 1000})
		const n = 10
		_, err := near.Queue("out").EnqueueMany(t.Context(), make([]dbq.NewTask, n))
		check.OK(t, err)
		w := f.Worker(near.Queue("out"))
		w.BatchSize = 1
		near.Run(w)
		for { // the far tasks complete and are removed before the repetition
			tasks, err := far.Queue("in").Checkout(t.Context(), n, time.Minute)
			check.OK(t, err)
			if len(tasks) == 0 {
				break
			}
			for _, task := range tasks {
				check.OK(t, far.Queue("in").Settle(t.Context(), task.Lease, dbq.Deleted()))
			}
		}
		for range 20 {
			near.Advance(time.Minute)
			near.Run(w)
		}
		near.WantTasks("out", dbq.StateCompleted, n)
		if left := far.Tasks("in"); len(left) != 0 {
			t.Errorf("%s: %d tasks were forwarded twice", way, len(left))
		}
		for _, task := range near.Tasks("out") {
			if task.Attempt != 1 || !strings.Contains(string(task.Result), `"duplicate":`) {
				t.Errorf("%s: attempt %d, result %s", way, task.Attempt, task.Result)
			}
		}
	}
}

// TestForwardThroughOneDatabase forwards tasks between queues of one database, and back to the first one.
func TestForwardThroughOneDatabase(t *testing.T) {
	t.Parallel()
	db := dbqtest.New(t)
	id, err := db.Queue("a").Enqueue(t.Context(), dbq.NewTask{Reference: "r"})
	check.OK(t, err)
	for _, hop := range [][2]string{{"a", "b"}, {"b", "c"}} {
		f := newForwarder(t, bridge.ForwarderConfig{To: bridge.ToQueue(db.Queue(hop[1]))})
		db.Run(f.Worker(db.Queue(hop[0])))
		db.WantTasks(hop[0], dbq.StateCompleted, 1)
		db.WantTasks(hop[1], dbq.StateCreated, 1)
	}
	if c := db.Tasks("c")[0]; c.ID == id || c.Reference != "r" {
		t.Errorf("got %+v", c)
	}
}

// TestForwardRefused parks or poisons the tasks that the far side never accepts, and no other.
func TestForwardRefused(t *testing.T) {
	t.Parallel()
	for action, refused := range map[bridge.Action]dbq.State{"": dbq.StateError, bridge.Poison: dbq.StatePoison} {
		for _, way := range []string{"direct", "HTTP"} {
			near, far := dbqtest.New(t), dbqtest.New(t, dbq.WithMaxPayload(100))
			_, err := far.Queue("in").Enqueue(t.Context(), dbq.NewTask{Reference: "taken"})
			check.OK(t, err)
			_, err = near.Queue("out").EnqueueMany(t.Context(), []dbq.NewTask{
				{Reference: "large", Payload: make([]byte, 101)}, {Reference: "taken"}, {Reference: "good"},
			})
			check.OK(t, err)
			f := newForwarder(t, bridge.ForwarderConfig{To: farSides(t, far.Queue("in"))[way], Rejected: action})
			near.Run(f.Worker(near.Queue("out")))
			for _, task := range near.Tasks("out") {
				want, reason := refused, ""
				switch task.Reference {
				case "good":
					want = dbq.StateCompleted
				case "large":
					reason = dbq.ErrPayloadSize.Error()
				case "taken":
					reason = "another task with the reference"
				}
				if task.State != want || task.Parked() != (want == dbq.StateError) || task.Attempt != 1 ||
					!strings.Contains(string(task.Result), reason) {
					t.Errorf("%s: %q is %v after %d attempts: %s", way, task.Reference, task.State, task.Attempt, task.Result)
				}
			}
			far.WantTasks("in", dbq.StateCreated, 2)
		}
	}
}

// forwarded steps the worker of the queue out until it has forwarded n tasks: the circuit breaker may still be open.
func forwarded(near *dbqtest.DB, w worker.Worker, n int) {
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		near.Advance(time.Minute)
		if near.Step(w); len(near.Tasks("out", dbq.StateCompleted)) == n {
			break
		}
	}
	near.WantTasks("out", dbq.StateCompleted, n)
}

// TestOutageUsesNoAttempts takes the far side away for many calls.
func TestOutageUsesNoAttempts(t *testing.T) {
	t.Parallel()
	near, far := dbqtest.New(t), dbqtest.New(t)
	var down atomic.Bool
	down.Store(true)
	secret := bridge.NewSecret()
	r := newReceiver(t, bridge.ReceiverConfig{Queue: far.Queue("in"), Secrets: []bridge.Secret{secret}, Tasks: true})
	s := serve(t, func(w http.ResponseWriter, req *http.Request) {
		if down.Load() {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		r.ServeHTTP(w, req)
	})
	to, err := bridge.ToURL(local(s.URL, secret))
	check.OK(t, err)
	_, err = near.Queue("out").Enqueue(t.Context(), dbq.NewTask{MaxAttempts: 1})
	check.OK(t, err)
	f := newForwarder(t, bridge.ForwarderConfig{To: to, Pause: time.Millisecond})
	w := f.Worker(near.Queue("out"))
	for range 10 { // not Run, which would not end where a step takes longer than the pause
		near.Step(w)
		near.Advance(time.Second)
	}
	near.WantTasks("out", dbq.StateCreated, 1)
	down.Store(false)
	forwarded(near, w, 1)
	far.WantTasks("in", dbq.StateCreated, 1)
}

// TestTooLateForTheWindow parks a task that the far side may not recognize any more, until an operator decides.
func TestTooLateForTheWindow(t *testing.T) {
	t.Parallel()
	near, far := dbqtest.New(t), dbqtest.New(t)
	to := &unreliable{Enqueuer: bridge.ToQueue(far.Queue("in"))}
	f := newForwarder(t, bridge.ForwarderConfig{To: to, Window: time.Hour, MaxFailures: 1000})
	clock := bridge.SetClock(f)
	id, err := near.Queue("out").Enqueue(t.Context(), dbq.NewTask{Delay: 48 * time.Hour})
	check.OK(t, err)
	w := f.Worker(near.Queue("out"))
	step := func(d time.Duration) dbq.Task {
		t.Helper()
		near.Advance(d)
		clock.Add(int64(d))
		near.Run(w)
		task, err := near.Get(t.Context(), id)
		check.OK(t, err)
		return task
	}
	if task := step(48 * time.Hour); task.State != dbq.StateCreated {
		t.Fatalf("after the lost response it is %v: %s", task.State, task.Result)
	}
	task := step(55 * time.Minute)
	if !task.Parked() || !strings.Contains(string(task.Result), "longer ago than the window") {
		t.Fatalf("it is %v: %s", task.State, task.Result)
	}
	far.WantTasks("in", dbq.StateCreated, 1)
	check.OK(t, admin.New(near.Client).Operate(t.Context(), admin.Reenqueue, id))
	if task := step(time.Minute); task.State != dbq.StateCompleted {
		t.Errorf("after an operator's decision it is %v: %s", task.State, task.Result)
	}
}

// away is a far side that cannot be reached.
type away struct {
	bridge.Enqueuer
	here atomic.Bool
}

func (a *away) Enqueue(ctx context.Context, ts []dbq.NewTask) ([]dbq.Enqueued, error) {
	if !a.here.Load() {
		return nil, dbq.ErrUnavailable
	}
	return a.Enqueuer.Enqueue(ctx, ts)
}

// TestOutageOfTheFarSideUsesNoWindow forwards tasks after an outage that is longer than the window: the ones that were
// tried and failed, and the ones that the circuit breaker kept back.
func TestOutageOfTheFarSideUsesNoWindow(t *testing.T) {
	t.Parallel()
	for _, failures := range []int{1, 1000} {
		near, far := dbqtest.New(t), dbqtest.New(t)
		to := &away{Enqueuer: bridge.ToQueue(far.Queue("in"))}
		f := newForwarder(t, bridge.ForwarderConfig{
			To: to, Window: time.Hour, MaxFailures: failures, Pause: 50 * time.Millisecond,
		})
		ahead := bridge.SetClock(f)
		_, err := near.Queue("out").EnqueueMany(t.Context(), make([]dbq.NewTask, 3))
		check.OK(t, err)
		w := f.Worker(near.Queue("out"))
		w.BatchSize = 1
		for range 3 {
			for range 3 {
				near.Step(w)
			}
			near.Advance(30 * time.Minute)
			ahead.Add(int64(30 * time.Minute))
		}
		to.here.Store(true)
		forwarded(near, w, 3)
		far.WantTasks("in", dbq.StateCreated, 3)
	}
}

func TestForwardedMessagesAreChecked(t *testing.T) {
	t.Parallel()
	db := dbqtest.New(t)
	secret := bridge.NewSecret()
	r := newReceiver(t, bridge.ReceiverConfig{
		Queue: db.Queue("in"), Secrets: []bridge.Secret{secret}, Tasks: true, Window: time.Hour,
	})
	s := httptest.NewServer(r)
	defer s.Close()
	task := `{"id":"0198c1f2-7a3b-7c4d-8e5f-0123456789ab","payload":null%s}`
	message := func(window, more string) string {
		return `{"window":"` + window + `","tasks":[` + fmt.Sprintf(task, more) + `]}`
	}
	for body, want := range map[string]int{
		``: 400, `planted`: 400, `{}`: 400, `{"window":"1h","tasks":[]}`: 400, `{"window":"1h","tasks":[{}]}`: 400,
		message("1h", `,"planted":1`): 400, message("1h", ``) + "x": 400, message("", ``): 400, message("2h", ``): 409,
		message("-1h", ``): 400, message("1h", `,"priority":99`): 422, message("1h", `,"payload":"planted!"`): 400,
		`{"window":"1h","tasks":[` + strings.Repeat(fmt.Sprintf(task, ``)+",", 100) + fmt.Sprintf(task, ``) + `]}`: 400,
		strings.Replace(message("1h", ``), "-7c4d-", "-4c4d-", 1):                                                  422,
	} {
		if got := do(t, signed(t, s.URL, dbq.NewID().String(), time.Now(), body, secret)); got.Status != want ||
			strings.Contains(got.Detail, "planted") {
			t.Errorf("%.60s: %+v, want %d", body, got, want)
		}
	}
	db.WantTasks("in", dbq.StateCreated, 0)
	if got := do(t, signed(t, s.URL, "m", time.Now(), message("1h", ``), secret)); got.Status != 202 {
		t.Errorf("got %+v", got)
	}
	db.WantTasks("in", dbq.StateCreated, 1)
}

// failing refuses a task for a reason that it cannot name.
type failing struct{ bridge.Enqueuer }

func (f failing) Enqueue(ctx context.Context, ts []dbq.NewTask) ([]dbq.Enqueued, error) {
	for _, t := range ts {
		if t.Kind == "bad" {
			return nil, errors.New("a trigger failed")
		}
	}
	return f.Enqueuer.Enqueue(ctx, ts)
}

// TestBadTaskDelaysNoOther forwards the tasks beside one that the far side never accepts, which goes to POISON.
func TestBadTaskDelaysNoOther(t *testing.T) {
	t.Parallel()
	near, far := dbqtest.New(t), dbqtest.New(t)
	_, err := near.Queue("out").EnqueueMany(t.Context(), []dbq.NewTask{{}, {Kind: "bad", MaxAttempts: 2}, {}, {}})
	check.OK(t, err)
	w := newForwarder(t, bridge.ForwarderConfig{To: failing{bridge.ToQueue(far.Queue("in"))}}).Worker(near.Queue("out"))
	near.Run(w)
	near.WantTasks("out", dbq.StateCompleted, 3)
	near.Advance(time.Minute)
	near.Run(w)
	near.WantTasks("out", dbq.StatePoison, 1)
	far.WantTasks("in", dbq.StateCreated, 3)
}

func TestForwarderConfig(t *testing.T) {
	t.Parallel()
	to := bridge.ToQueue(dbqtest.New(t).Queue("in"))
	for name, cfg := range map[string]bridge.ForwarderConfig{
		"no far side": {}, "window": {To: to, Window: time.Second}, "rejected": {To: to, Rejected: bridge.Retry},
		"pause": {To: to, Pause: -1},
	} {
		if _, err := bridge.NewForwarder(cfg); !errors.Is(err, bridge.ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

package bridge_test

import (
	"context"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/bridge"
	"github.com/dbq-go/dbq/dbqtest"
	"github.com/dbq-go/dbq/internal/check"
)

// TestForwardingLoopsEnd forwards from A to B and back, directly and over HTTP.
func TestForwardingLoopsEnd(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"direct", "HTTP"} {
		for _, rejected := range []bridge.Action{bridge.Park, bridge.Poison} {
			a, b := dbqtest.New(t), dbqtest.New(t)
			there := newForwarder(t, bridge.ForwarderConfig{To: farSides(t, b.Queue("q"))[way], Rejected: rejected})
			back := newForwarder(t, bridge.ForwarderConfig{To: farSides(t, a.Queue("q"))[way], Rejected: rejected})
			_, err := a.Queue("q").EnqueueMany(t.Context(), []dbq.NewTask{
				{Kind: "k"}, {Headers: map[string]string{"h": "v", bridge.HopsHeader: "-9"}},
			})
			check.OK(t, err)
			for range 2 * bridge.MaxHops {
				a.Run(there.Worker(a.Queue("q")))
				b.Run(back.Worker(b.Queue("q")))
			}
			all := append(a.Tasks("q"), b.Tasks("q")...)
			ended := 0
			for _, task := range all {
				switch {
				case task.State == dbq.StateCompleted:
				case !strings.Contains(string(task.Result), "in a loop"):
					t.Errorf("%s: a task is %v: %s", way, task.State, task.Result)
				case rejected == bridge.Park && !task.Parked(), rejected == bridge.Poison && task.State != dbq.StatePoison:
					t.Errorf("%s: with Rejected %s a task is %v", way, rejected, task.State)
				default:
					ended++
				}
			}
			if ended != 2 || len(all) != 2*(bridge.MaxHops+1) {
				t.Errorf("%s: %d tasks, of which %d were refused; want %d and 2", way, len(all), ended, 2*(bridge.MaxHops+1))
			}
		}
	}
}

// TestFullHeadersAreForwarded forwards headers at their limit: without the count if there is no space for it.
func TestFullHeadersAreForwarded(t *testing.T) {
	t.Parallel()
	count := len(`,"` + bridge.HopsHeader + `":"1"`)
	value := func(left int) string { return strings.Repeat("x", dbq.MaxHeaders-len(`{"h":""}`)-left) }
	want := map[string]map[string]string{
		"full":      {"h": value(0)},
		"too short": {"h": value(count - 1)},
		"space":     {"h": value(count), bridge.HopsHeader: "1"},
	}
	for _, way := range []string{"direct", "HTTP"} {
		near, far := dbqtest.New(t), dbqtest.New(t)
		for name, headers := range want {
			_, err := near.Queue("out").Enqueue(t.Context(), dbq.NewTask{
				Reference: name, Headers: map[string]string{"h": headers["h"]},
			})
			check.OK(t, err)
		}
		f := newForwarder(t, bridge.ForwarderConfig{To: farSides(t, far.Queue("in"))[way]})
		near.Run(f.Worker(near.Queue("out")))
		near.WantTasks("out", dbq.StateCompleted, len(want))
		far.WantTasks("in", dbq.StateCreated, len(want))
		for _, task := range far.Tasks("in") {
			if !maps.Equal(task.Headers, want[task.Reference]) {
				t.Errorf("%s, %s: the headers arrive with the count %q, and %d bytes beside it",
					way, task.Reference, task.Headers[bridge.HopsHeader], len(task.Headers["h"]))
			}
		}
	}
}

// TestForwarderObeysLimits sets limits of the near queue: how many of its tasks are leased, and at which rate they
// start.
func TestForwarderObeysLimits(t *testing.T) {
	t.Parallel()
	near, far := dbqtest.New(t), dbqtest.New(t)
	check.OK(t, admin.New(near.Client).ConfigureLimits(t.Context(), "out", func(l *admin.QueueLimits) {
		l.Concurrency = 3
		l.Rate = admin.Rate{Starts: 5, Per: time.Hour, Burst: 5}
	}))
	_, err := near.Queue("out").EnqueueMany(t.Context(), make([]dbq.NewTask, 12))
	check.OK(t, err)
	to := &largest{Enqueuer: bridge.ToQueue(far.Queue("in"))}
	w := newForwarder(t, bridge.ForwarderConfig{To: to}).Worker(near.Queue("out"))
	near.Run(w)
	far.WantTasks("in", dbq.StateCreated, 5)
	near.WantTasks("out", dbq.StateCreated, 7)
	if to.most > 3 {
		t.Errorf("%d tasks were forwarded in one call, although only 3 may be leased", to.most)
	}
	near.Advance(time.Hour)
	near.Run(w)
	far.WantTasks("in", dbq.StateCreated, 10)
}

// largest keeps the largest number of tasks of a call.
type largest struct {
	bridge.Enqueuer
	mu   sync.Mutex
	most int
}

func (l *largest) Enqueue(ctx context.Context, ts []dbq.NewTask) ([]dbq.Enqueued, error) {
	l.mu.Lock()
	l.most = max(l.most, len(ts))
	l.mu.Unlock()
	return l.Enqueuer.Enqueue(ctx, ts)
}

package bridge_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/bridge"
	"github.com/dbq-go/dbq/dbqtest"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/worker"
)

// arrivals notes in which order the tasks of each key arrive, each once, and loses every second response.
type arrivals struct {
	unreliable
	mu    sync.Mutex
	seen  map[string]bool
	order map[string][]string // references by key
}

func (a *arrivals) Enqueue(ctx context.Context, ts []dbq.NewTask) ([]dbq.Enqueued, error) {
	a.mu.Lock()
	for _, t := range ts {
		if !a.seen[t.Reference] {
			a.seen[t.Reference] = true
			a.order[t.Key] = append(a.order[t.Key], t.Reference)
		}
	}
	a.mu.Unlock()
	return a.unreliable.Enqueue(ctx, ts)
}

// TestForwardKeepsTheOrderOfKeys forwards by several goroutines a queue whose keys have an order.
func TestForwardKeepsTheOrderOfKeys(t *testing.T) {
	t.Parallel()
	const tasks, keys = 60, 4
	near, far := dbqtest.New(t), dbqtest.New(t)
	for _, q := range []*dbq.Queue{near.Queue("out"), far.Queue("in")} {
		check.OK(t, admin.New(q.Client()).ConfigureLimits(t.Context(), q.Name(), func(l *admin.QueueLimits) {
			l.Order = admin.OrderBlock
		}))
	}
	want := map[string][]string{}
	ts := make([]dbq.NewTask, tasks)
	for i := range ts {
		ts[i] = dbq.NewTask{Key: fmt.Sprint("customer ", i%keys), Reference: strconv.Itoa(i), MaxAttempts: 1}
		want[ts[i].Key] = append(want[ts[i].Key], ts[i].Reference)
	}
	_, err := near.Queue("out").EnqueueMany(t.Context(), ts)
	check.OK(t, err)

	to := &arrivals{seen: map[string]bool{}, order: map[string][]string{}}
	to.Enqueuer = bridge.ToQueue(far.Queue("in"))
	f := newForwarder(t, bridge.ForwarderConfig{To: to, MaxFailures: 1000, Pause: time.Millisecond})
	w := f.Worker(near.Queue("out"))
	w.PollMax, w.Logger = 20*time.Millisecond, slog.New(slog.DiscardHandler)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if len(near.Tasks("out", dbq.StateCompleted)) == tasks {
			break
		}
	}
	stop()
	check.OK(t, <-ended)
	near.WantTasks("out", dbq.StateCompleted, tasks)
	far.WantTasks("in", dbq.StateCreated, tasks)

	handled, done := map[string][]string{}, worker.Func(func(context.Context, dbq.Task) error { return nil })
	for i := range tasks {
		task, found := far.Step(worker.Worker{Queue: far.Queue("in"), Handler: done})
		if !found {
			t.Fatalf("the far queue hands out %d tasks, want %d", i, tasks)
		}
		handled[task.Key] = append(handled[task.Key], task.Reference)
	}
	for key, references := range want {
		if !slices.Equal(to.order[key], references) {
			t.Errorf("the tasks of %s arrive as %v, want %v", key, to.order[key], references)
		}
		if !slices.Equal(handled[key], references) {
			t.Errorf("the tasks of %s are handed out as %v, want %v", key, handled[key], references)
		}
	}
}

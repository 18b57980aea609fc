//go:build unix

package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/bridge"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/worker"
)

// flights counts the deliveries that are under way, and those that failed.
type flights struct {
	bridge.Enqueuer
	begun, failed atomic.Int64
	kill          chan struct{} // gets a value at every twentieth delivery
}

func (f *flights) Enqueue(ctx context.Context, ts []dbq.NewTask) ([]dbq.Enqueued, error) {
	if f.begun.Add(1)%20 == 0 {
		f.kill <- struct{}{}
	}
	out, err := f.Enqueuer.Enqueue(ctx, ts)
	if err != nil {
		f.failed.Add(1)
	}
	return out, err
}

// handled keeps the references of the tasks of each key in the order in which they were handled.
type handled struct {
	mu    sync.Mutex
	total int
	byKey map[string][]string
}

func (h *handled) add(_ context.Context, task dbq.Task) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.total++
	h.byKey[task.Key] = append(h.byKey[task.Key], task.Reference)
	return nil
}

func (h *handled) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.total
}

// opened opens a database of a test, in which a queue keeps the order of its keys.
func (u *user) opened(file, queue string) *dbq.Client {
	u.t.Helper()
	silent := dbq.WithLogger(slog.New(slog.DiscardHandler))
	c, err := dbq.Open(u.t.Context(), "sqlite:"+u.file(file), dbq.WithMigrate(), silent)
	if err == nil {
		u.t.Cleanup(func() { c.Close() })
		err = admin.New(c).ConfigureLimits(u.t.Context(), queue, func(l *admin.QueueLimits) { l.Order = admin.OrderBlock })
	}
	if err != nil {
		u.t.Fatal(err)
	}
	return c
}

// TestForwardThroughKillsOfTheFarSide kills only the server that receives tasks, each time while deliveries are under
// way. A worker behind it handles each task once, and the tasks of a key in their order.
func TestForwardThroughKillsOfTheFarSide(t *testing.T) {
	u := newUser(t)
	if testing.Short() {
		t.Skip("-short: it takes several seconds")
	}
	const tasks, keys, kills = 1000, 40, 4
	near, far := u.opened("near.db", "out"), u.opened("far.db", "in")
	secret := bridge.NewSecret()
	u.write("secret", secret.Reveal())
	u.write("far.yaml", "databases: {far: {dsn: far.db}}\n"+
		"receivers: [{path: /hooks/tasks, database: far, queue: in, tasks: true, secret_files: [secret]}]\n")
	server := u.serveProcess("--config", "far.yaml")
	to, err := bridge.ToURL(bridge.Endpoint{
		URL: server.url + "/hooks/tasks", Secrets: []bridge.Secret{secret}, PlainHTTP: true,
		Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
	})
	check.OK(t, err)
	deliveries := &flights{Enqueuer: to, kill: make(chan struct{}, 1000)}
	silent := slog.New(slog.DiscardHandler)
	forwarder, err := bridge.NewForwarder(bridge.ForwarderConfig{
		To: deliveries, Pause: 50 * time.Millisecond, Logger: silent,
	})
	check.OK(t, err)

	batch, want := make([]dbq.NewTask, tasks), map[string][]string{}
	for i := range batch {
		batch[i] = dbq.NewTask{Key: fmt.Sprint("customer ", i%keys), Reference: strconv.Itoa(i), MaxAttempts: 1}
		want[batch[i].Key] = append(want[batch[i].Key], batch[i].Reference)
	}
	if _, err := near.Queue("out").EnqueueMany(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 2*patience)
	defer stop()
	got := &handled{byKey: map[string][]string{}}
	sends := forwarder.Worker(near.Queue("out"))
	sends.BatchSize = 10
	handles := worker.Worker{Queue: far.Queue("in"), Handler: worker.Func(got.add), Concurrency: 8}
	var running sync.WaitGroup
	for _, w := range []worker.Worker{sends, handles} {
		w.PollMax, w.Logger = 20*time.Millisecond, silent
		running.Go(func() {
			if err := w.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	for range kills { // of a hundred deliveries or more
		select {
		case <-deliveries.kill:
		case <-ctx.Done():
			t.Fatal("the deliveries take too long")
		}
		server.kill()
		server = u.serveProcess("--config", "far.yaml", "--listen", strings.TrimPrefix(server.url, "http://"))
	}
	check.Eventually(t, "all tasks are handled", func() bool { return got.count() >= tasks })
	// The last near tasks are completed after the far side has them.
	check.Eventually(t, "all near tasks are completed", func() bool {
		stats, err := admin.New(near).Stats(ctx, admin.CountAll())
		return err == nil && len(stats) == 1 && stats[0].Count[dbq.StateCompleted] == tasks
	})
	time.Sleep(500 * time.Millisecond) // a task that was added twice would be handled now
	stop()
	running.Wait()
	if deliveries.failed.Load() == 0 {
		t.Error("no delivery failed: the kills came at no delivery")
	}
	for key, references := range want {
		if !slices.Equal(got.byKey[key], references) {
			t.Errorf("%s: %d tasks were handled as %v, want %v", key, len(got.byKey[key]), got.byKey[key], references)
		}
	}
	t.Logf("%d deliveries failed by %d kills", deliveries.failed.Load(), kills)
}

package engines

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/internal/check"
	"github.com/dbq-go/dbq/worker"
)

// TestRestart has workers drain a queue, and one with limits by key, while their server is restarted, as often as there
// are commands:
//
//	DBQ_TEST_RESTART_DSN=postgres://...
//	DBQ_TEST_RESTART='ci/engines/native.sh restart postgres15; ci/engines/native.sh kill postgres15 && ...'
//
// Commands are separated by semicolons and run by sh in the repository's root. Use a server that has no other users.
func TestRestart(t *testing.T) {
	dsn, commands := os.Getenv("DBQ_TEST_RESTART_DSN"), os.Getenv("DBQ_TEST_RESTART")
	if dsn == "" || commands == "" {
		t.Skip("set DBQ_TEST_RESTART_DSN and DBQ_TEST_RESTART, the commands that restart this server")
	}
	prefix := fmt.Sprintf("restart%d_", os.Getpid())
	c, err := dbq.Open(t.Context(), dsn, dbq.WithPrefix(prefix), dbq.WithMigrate())
	check.OK(t, err)
	t.Cleanup(func() {
		c.Close()
		if err := dbq.DropTables(context.WithoutCancel(t.Context()), dsn, dbq.WithPrefix(prefix)); err != nil {
			t.Errorf("cleaning up: %v", err)
		}
	})
	queues := []*dbq.Queue{c.Queue("plain"), c.Queue("limited")}
	limit := func(l *admin.QueueLimits) { l.KeyConcurrency = 1 }
	check.OK(t, admin.New(c).ConfigureLimits(t.Context(), "limited", limit))
	var mu sync.Mutex
	leases := map[string]int{} // each is handed to one handler; a lease that lapsed has another one of the same attempt
	w := worker.Worker{Concurrency: 8, MaxCheckout: 20, Lease: 5 * time.Second, Logger: slog.New(slog.DiscardHandler),
		UntilEmpty: false,
		Backoff:    func(int) time.Duration { return time.Millisecond },
		Handler: worker.Func(func(_ context.Context, task dbq.Task) error {
			mu.Lock()
			defer mu.Unlock()
			leases[fmt.Sprintf("attempt %d of %s, after %d lapses,", task.Attempt, task.ID, task.Lapses)]++
			return nil
		})}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, len(queues))
	producing, produced := context.WithCancel(t.Context())
	var producers sync.WaitGroup
	var acknowledged atomic.Int64
	for _, q := range queues {
		of := w
		of.Queue = q
		go func() { done <- of.Run(ctx) }()
		producers.Go(func() { acknowledged.Add(produceUntil(t.Context(), producing, q)) })
	}
	for command := range strings.SplitSeq(commands, ";") {
		time.Sleep(time.Second)
		cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
		cmd.Dir = "../.."
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out) // without a server the producer would wait for ever
		}
	}
	time.Sleep(time.Second)
	produced()
	producers.Wait()
	completed := completedOf(t.Context(), c, acknowledged.Load())
	stop()
	for range queues {
		if err := <-done; err != nil {
			t.Errorf("a worker ended with %v", err)
		}
	}
	if want := acknowledged.Load(); completed != want || want == 0 {
		t.Errorf("%d tasks were acknowledged, %d completed", want, completed)
	}
	for which, n := range leases {
		if n != 1 {
			t.Errorf("%s was handed out %d times", which, n)
		}
	}
	t.Logf("%d tasks, %d leases", acknowledged.Load(), len(leases))
}

// produceUntil enqueues one task after the other until the context producing ends, and returns how many were
// acknowledged. It repeats an enqueue that may not have happened, with the same id.
func produceUntil(ctx, producing context.Context, q *dbq.Queue) (acknowledged int64) {
	for producing.Err() == nil {
		nt := dbq.NewTask{ID: dbq.NewID(), MaxAttempts: 1000, Key: fmt.Sprint(acknowledged % 100)}
		for {
			out, err := q.EnqueueMany(ctx, []dbq.NewTask{nt})
			if err == nil && len(out) == 1 { // a duplicate is this very task, of a try that did happen
				break
			}
			if ctx.Err() != nil {
				return acknowledged
			}
			time.Sleep(10 * time.Millisecond)
		}
		acknowledged++
		time.Sleep(time.Millisecond)
	}
	return acknowledged
}

// completedOf waits until want tasks are completed, for a minute at most, and returns how many are.
func completedOf(ctx context.Context, c *dbq.Client, want int64) (completed int64) {
	for end := time.Now().Add(time.Minute); completed < want && time.Now().Before(end); {
		if stats, err := admin.New(c).Stats(ctx); err == nil {
			completed = 0
			for _, s := range stats {
				completed += s.Count[dbq.StateCompleted]
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	return completed
}

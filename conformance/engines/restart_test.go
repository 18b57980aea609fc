package engines

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/worker"
)

// TestRestart has workers drain a queue while their server is restarted, as often as there are commands:
//
//	DBQ_TEST_RESTART_DSN=postgres://...
//	DBQ_TEST_RESTART='ci/engines/native.sh restart postgres15; ci/engines/native.sh kill postgres15 && ci/engines/native.sh start postgres15'
//
// Commands are separated by semicolons and run by sh in the repository's root. Use a server that is nobody else's.
func TestRestart(t *testing.T) {
	dsn, commands := os.Getenv("DBQ_TEST_RESTART_DSN"), os.Getenv("DBQ_TEST_RESTART")
	if dsn == "" || commands == "" {
		t.Skip("set DBQ_TEST_RESTART_DSN and DBQ_TEST_RESTART, the commands that restart this server")
	}
	prefix := fmt.Sprintf("restart%d_", os.Getpid())
	c, err := dbq.Open(t.Context(), dsn, dbq.WithPrefix(prefix), dbq.WithMigrate())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		if err := dbq.DropTables(context.WithoutCancel(t.Context()), dsn, dbq.WithPrefix(prefix)); err != nil {
			t.Errorf("cleaning up: %v", err)
		}
	})
	q := c.Queue("q")
	var mu sync.Mutex
	attempts := map[string]int{} // by task and attempt: each is handed to one handler
	w := worker.Worker{Queue: q, Concurrency: 8, Batch: 20, Lease: 5 * time.Second, Logger: slog.New(slog.DiscardHandler), UntilEmpty: false,
		Backoff: func(int) time.Duration { return time.Millisecond },
		Handler: worker.HandlerFunc(func(_ context.Context, task dbq.Task) ([]byte, error) {
			mu.Lock()
			defer mu.Unlock()
			attempts[fmt.Sprint(task.ID, task.Attempt)]++
			return nil, nil
		})}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()

	// A producer that repeats what it does not know to have happened, under the same id.
	feeding, fed := context.WithCancel(t.Context())
	var producer sync.WaitGroup
	acknowledged := 0
	producer.Go(func() {
		for feeding.Err() == nil {
			nt := dbq.NewTask{ID: dbq.NewID(), MaxAttempts: 1000}
			for {
				out, err := q.EnqueueMany(t.Context(), []dbq.NewTask{nt})
				if err == nil && len(out) == 1 { // a duplicate is this very task, of a try that did happen
					break
				}
				if t.Context().Err() != nil {
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
			acknowledged++
			time.Sleep(time.Millisecond)
		}
	})
	for command := range strings.SplitSeq(commands, ";") {
		time.Sleep(time.Second)
		cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
		cmd.Dir = "../.."
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", command, err, out)
		}
	}
	time.Sleep(time.Second)
	fed()
	producer.Wait()
	completed := int64(0)
	for end := time.Now().Add(time.Minute); completed < int64(acknowledged) && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if stats, err := c.Stats(t.Context()); err == nil && len(stats) == 1 {
			completed = stats[0].Count[dbq.StateCompleted]
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Errorf("the worker ended with %v", err)
	}
	if completed != int64(acknowledged) || acknowledged == 0 {
		t.Errorf("%d tasks were acknowledged, %d completed", acknowledged, completed)
	}
	for which, n := range attempts {
		if n != 1 {
			t.Errorf("attempt %s was handed out %d times", which, n)
		}
	}
	t.Logf("%d tasks, %d attempts", acknowledged, len(attempts))
}

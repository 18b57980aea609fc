package bridge_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dbq-go/dbq"
	"github.com/dbq-go/dbq/admin"
	"github.com/dbq-go/dbq/bridge"
	_ "github.com/dbq-go/dbq/dialect/mysql"
	_ "github.com/dbq-go/dbq/dialect/postgres"
	"github.com/dbq-go/dbq/internal/access"
	"github.com/dbq-go/dbq/internal/check"
)

const (
	chainVariable = "DBQ_BRIDGE_TEST_CHAIN" // for a child process: the prefix of the tables, and the DSNs
	chainQueue    = "chain"
)

func TestMain(m *testing.M) {
	if chain := os.Getenv(chainVariable); chain != "" {
		if err := forwardChain(strings.Fields(chain)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func openChain(ctx context.Context, dsn, prefix string) (*dbq.Client, error) {
	return dbq.Open(ctx, dsn, dbq.WithPrefix(prefix), dbq.WithMigrate(),
		dbq.WithLogger(slog.New(slog.DiscardHandler)))
}

// forwardChain forwards from each database to the next one, directly and over HTTP in turn, until it is killed or its
// parent ends.
func forwardChain(chain []string) error {
	ctx := context.Background()
	var queues []*dbq.Queue
	for _, dsn := range chain[1:] {
		c, err := openChain(ctx, dsn, chain[0])
		if err != nil {
			return err
		}
		queues = append(queues, c.Queue(chainQueue))
	}
	for i, near := range queues[:len(queues)-1] {
		far := bridge.ToQueue(queues[i+1])
		if i%2 == 1 {
			secrets := []bridge.Secret{bridge.NewSecret()}
			r, err := bridge.NewReceiver(bridge.ReceiverConfig{Queue: queues[i+1], Secrets: secrets, Tasks: true})
			if err != nil {
				return err
			}
			if far, err = bridge.ToURL(local(httptest.NewServer(r).URL, secrets...)); err != nil {
				return err
			}
		}
		f, err := bridge.NewForwarder(bridge.ForwarderConfig{To: far, Pause: 100 * time.Millisecond})
		if err != nil {
			return err
		}
		w := f.Worker(near)
		w.Lease, w.BatchSize, w.PollMax = time.Second, 20, 100*time.Millisecond
		go func() {
			fmt.Fprintln(os.Stderr, w.Run(ctx))
			os.Exit(1)
		}()
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	return nil
}

// TestEachTaskOnceThroughKills forwards tasks through a chain of databases: SQLite, then PostgreSQL, MariaDB and MySQL
// if the servers of the suite run, otherwise more files of SQLite. The forwarding process is killed at random moments.
func TestEachTaskOnceThroughKills(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: it takes several seconds")
	}
	tasks, kills := 2000, 8
	prefix := fmt.Sprintf("chain%d_", time.Now().UnixNano()%1e12)
	chain := []string{"sqlite:" + filepath.Join(t.TempDir(), "0.db") + "?synchronous=normal"}
	for _, name := range []string{"DBQ_TEST_POSTGRES18_DSN", "DBQ_TEST_MARIADB118_DSN", "DBQ_TEST_MYSQL97_DSN"} {
		dsn := os.Getenv(name)
		if dsn == "" {
			dsn = "sqlite:" + filepath.Join(t.TempDir(), "next.db") + "?synchronous=normal"
		}
		chain = append(chain, dsn)
	}
	clients := make([]*dbq.Client, len(chain))
	for i, dsn := range chain {
		c, err := openChain(t.Context(), dsn, prefix)
		check.OK(t, err)
		clients[i] = c
		t.Cleanup(func() {
			if err := access.Of(c).Store.DropTables(context.WithoutCancel(t.Context())); err != nil {
				t.Errorf("drop the tables: %v", err)
			}
			c.Close()
		})
	}
	child := func() (kill func()) {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), chainVariable+"="+prefix+" "+strings.Join(chain, " "))
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		check.OK(t, err)
		check.OK(t, cmd.Start())
		return func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			in.Close()
		}
	}
	last := clients[len(clients)-1]
	for k := range kills {
		batch := make([]dbq.NewTask, tasks/kills)
		for i := range batch {
			batch[i] = dbq.NewTask{Kind: fmt.Sprint(k*len(batch) + i), Key: fmt.Sprint(i % 7)}
		}
		_, err := clients[0].Queue(chainQueue).EnqueueMany(t.Context(), batch)
		check.OK(t, err)
		kill := child()
		time.Sleep(300*time.Millisecond + rand.N(700*time.Millisecond))
		kill()
	}
	kill := child()
	defer kill()
	for deadline := time.Now().Add(3 * time.Minute); len(chainTasks(t, last, dbq.StateCreated)) < tasks; {
		if time.Now().After(deadline) {
			break
		}
		time.Sleep(200 * time.Millisecond)
	}
	// What a killed process held is forwarded again after its lease.
	for _, c := range clients[:len(clients)-1] {
		completed := 0
		for deadline := time.Now().Add(30 * time.Second); completed != tasks && time.Now().Before(deadline); {
			completed = len(chainTasks(t, c, dbq.StateCompleted))
			time.Sleep(200 * time.Millisecond)
		}
		if n := len(chainTasks(t, c)); completed != tasks || n != tasks {
			t.Errorf("%s: %d tasks are COMPLETED, want %d, of %d", c, completed, tasks, n)
		}
	}
	seen := map[string]int{}
	for _, task := range chainTasks(t, last) {
		seen[task.Kind]++
	}
	for i := range tasks {
		if n := seen[fmt.Sprint(i)]; n != 1 {
			t.Errorf("task %d arrived %d times", i, n)
		}
	}
}

// chainTasks lists the tasks of a database of the chain.
func chainTasks(t *testing.T, c *dbq.Client, states ...dbq.State) []dbq.Task {
	t.Helper()
	page, err := admin.New(c).List(t.Context(), admin.Filter{Queue: chainQueue, States: states, Limit: 10_000})
	check.OK(t, err)
	return page.Tasks
}
